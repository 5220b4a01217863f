-- The twenty longest times off CPU.
-- @thread *: threads, by a pattern of their names
select trace, tid, thread, duration_ns, begin_ns, end_ns, cpu
from off_cpu
where $thread = '*' or glob(thread, $thread)
order by duration_ns desc, begin_ns, trace, tid
limit 20
