-- Which locks threads waited for, and how long.
-- @lock *: locks, by a pattern of their names
select trace, number, max(name) as name, count(*) as waits,
       sum(duration_ns) as waited_ns, max(duration_ns) as longest_ns
from lock_waits
where $lock = '*' or glob(name, $lock)
group by trace, number
order by waited_ns desc, trace, number
