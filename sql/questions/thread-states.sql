-- Where threads spent their time: by thread and state.
-- @thread *: threads, by a pattern of their names
select trace, tid, max(thread) as thread, state, count(*) as times,
       sum(duration_ns) as total_ns, max(duration_ns) as longest_ns
from thread_states
where $thread = '*' or glob(thread, $thread)
group by trace, tid, state
order by total_ns desc, trace, tid, state
