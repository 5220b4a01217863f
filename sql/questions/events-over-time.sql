-- How many events were recorded over time: by steps of a length.
-- @step 1ms: length of a step
-- @name *: events, by a pattern of their names
select trace, ns / ns($step) * ns($step) as from_ns, count(*) as events
from events
where ns is not null and glob(name, $name)
group by trace, ns / ns($step)
order by trace, from_ns
