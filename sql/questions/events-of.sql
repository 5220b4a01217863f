-- What a thread recorded: its events, in order of time.
-- @thread *: threads, by a pattern of their names
-- The engine keeps the rows of the table that is named first: the threads, which are few.
select events.ns, events.cpu, threads.thread, events.name, events.fields
from threads join events on events.trace = threads.trace and events.tid = threads.tid
where ($thread = '*' or glob(threads.thread, $thread))
  and (threads.tid != 0 or threads.cpu = events.cpu)
order by events.ns, events.stream
