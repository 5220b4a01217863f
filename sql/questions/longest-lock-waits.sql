-- The twenty longest waits for locks.
-- @lock *: locks, by a pattern of their names
select trace, number, name, tid, thread, owner_tid, owner, duration_ns, begin_ns
from lock_waits
where $lock = '*' or glob(name, $lock)
order by duration_ns desc, begin_ns, trace, tid
limit 20
