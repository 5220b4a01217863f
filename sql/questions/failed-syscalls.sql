-- Which system calls failed: by call and thread.
-- @call *: system calls, by a pattern of their names
select trace, number, name, tid, max(thread) as thread, sum(failed) as failed, count(*) as calls
from syscalls
where $call = '*' or glob(name, $call)
group by trace, number, name, tid
having sum(failed) > 0
order by failed desc, trace, number, tid
