-- Which system calls took how long: time off CPU included.
-- @call *: system calls, by a pattern of their names
-- @thread *: threads, by a pattern of their names
select trace, number, name, count(*) as calls, sum(failed) as failed,
       sum(duration_ns) as total_ns, percentile(duration_ns, 0.99) as p99_ns,
       max(duration_ns) as longest_ns
from syscalls
where ($call = '*' or glob(name, $call)) and ($thread = '*' or glob(thread, $thread))
group by trace, number, name
order by total_ns desc, trace, number, name
