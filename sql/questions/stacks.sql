-- How often each call stack was sampled, without idle CPUs: the outermost function first.
-- @event *: kinds of samples, by a pattern of their events' names
-- @thread *: threads, by a pattern of their names
select trace, event, coalesce(stack, 'unknown') as stack, count(*) as samples
from samples
where mode <> 'idle' and glob(event, $event) and ($thread = '*' or glob(thread, $thread))
group by trace, event, coalesce(stack, 'unknown')
order by trace, event, stack
