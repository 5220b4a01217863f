-- How many events there are of each name.
-- @name *: events, by a pattern of their names
select name, count(*) as events
from events
where glob(name, $name)
group by name
order by events desc, name
