-- Who made others wait for locks: by the thread that held the lock when they began to wait.
-- @lock *: locks, by a pattern of their names
select trace, owner_tid, max(owner) as owner, count(*) as waits, sum(duration_ns) as waited_ns,
       max(duration_ns) as longest_ns
from lock_waits
where $lock = '*' or glob(name, $lock)
group by trace, owner_tid
order by waited_ns desc, trace, owner_tid
