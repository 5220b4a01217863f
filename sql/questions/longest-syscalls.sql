-- The twenty longest system calls.
-- @call *: system calls, by a pattern of their names
-- @thread *: threads, by a pattern of their names
select trace, number, name, tid, thread, duration_ns, begin_ns, cpu, failed
from syscalls
where ($call = '*' or glob(name, $call)) and ($thread = '*' or glob(thread, $thread))
order by duration_ns desc, begin_ns, trace, tid
limit 20
