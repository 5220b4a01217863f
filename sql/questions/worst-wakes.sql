-- The five longest times from a wake-up until the thread ran.
select trace, tid, thread, duration_ns as latency_ns, begin_ns as woken_ns, end_ns as ran_ns,
       cpu, waker_tid
from wakeups
order by latency_ns desc, woken_ns, trace, tid
limit 5
