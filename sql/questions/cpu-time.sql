-- Which threads used the CPUs: time on CPU, number of slices, and the longest.
-- @thread *: threads, by a pattern of their names
select trace, tid, max(thread) as thread, count(*) as slices,
       sum(duration_ns) as on_cpu_ns, max(duration_ns) as longest_ns
from slices
where $thread = '*' or glob(thread, $thread)
group by trace, tid
order by on_cpu_ns desc, trace, tid
