-- How long locks were held: by lock.
select trace, number, max(name) as name, count(*) as holds,
       sum(duration_ns) as held_ns, max(duration_ns) as longest_ns
from lock_holds
group by trace, number
order by held_ns desc, trace, number
