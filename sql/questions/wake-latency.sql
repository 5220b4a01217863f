-- How long woken threads waited for a CPU: by thread.
-- @thread *: threads, by a pattern of their names
select trace, tid, max(thread) as thread, count(*) as wakes,
       percentile(duration_ns, 0.5) as p50_ns, percentile(duration_ns, 0.99) as p99_ns,
       max(duration_ns) as longest_ns
from wakeups
where $thread = '*' or glob(thread, $thread)
group by trace, tid
order by longest_ns desc, trace, tid
