-- Who woke threads: how often, and how long the woken waited for a CPU.
-- @thread *: woken threads, by a pattern of their names
select w.trace, w.waker, w.waker_tid, max(t.thread) as waker_name, count(*) as wakes,
       sum(w.duration_ns) as latency_ns, max(w.duration_ns) as longest_ns
from wakeups w left join (
    select trace, tid, max(thread) as thread from threads where tid <> 0 group by trace, tid
) t on w.trace = t.trace and w.waker_tid = t.tid
where $thread = '*' or glob(w.thread, $thread)
group by w.trace, w.waker, w.waker_tid
order by wakes desc, w.trace, w.waker, w.waker_tid
