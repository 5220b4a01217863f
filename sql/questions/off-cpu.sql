-- Which threads were off CPU, and for how long.
-- @thread *: threads, by a pattern of their names
select trace, tid, max(thread) as thread, count(*) as times,
       sum(duration_ns) as off_cpu_ns, max(duration_ns) as longest_ns
from off_cpu
where $thread = '*' or glob(thread, $thread)
group by trace, tid
order by off_cpu_ns desc, trace, tid
