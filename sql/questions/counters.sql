-- What counters had: how often they changed, their least, greatest and last value.
-- @name *: counters, by a pattern of their names
select trace, name, count(*) as changes, min(value) as least, max(value) as greatest,
       last_value(value order by ns) as last
from counters
where glob(name, $name)
group by trace, name
order by trace, name
