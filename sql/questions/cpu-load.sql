-- How busy the CPUs were: the time that threads ran, without the idle ones.
select trace, cpu, sum((1 - idle) * duration_ns) as busy_ns, sum(idle * duration_ns) as idle_ns,
       100.0 * sum((1 - idle) * duration_ns) / sum(duration_ns) as busy_percent
from thread_states
where state = 'running'
group by trace, cpu
order by trace, cpu
