-- Which processes used the CPUs: time on CPU, slices and threads.
-- @process *: processes, by a pattern of their names
select trace, pid, max(process) as process, count(distinct tid) as threads, count(*) as slices,
       sum(duration_ns) as on_cpu_ns
from slices
where $process = '*' or glob(process, $process)
group by trace, pid
order by on_cpu_ns desc, trace, pid
