-- The twenty longest interrupts.
-- @interrupt *: lines, by a pattern of their names
select trace, number, soft, name, cpu, duration_ns, begin_ns
from interrupts
where $interrupt = '*' or glob(name, $interrupt)
order by duration_ns desc, begin_ns, trace, cpu
limit 20
