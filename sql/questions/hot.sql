-- In which functions the CPUs were when they were sampled, without idle ones.
-- @event *: kinds of samples, by a pattern of their events' names
-- @thread *: threads, by a pattern of their names
select trace, event, coalesce(function, 'unknown') as function, count(*) as samples,
       100.0 * count(*) / sum(count(*)) over (partition by trace, event) as percent
from samples
where mode <> 'idle' and glob(event, $event) and ($thread = '*' or glob(thread, $thread))
group by trace, event, coalesce(function, 'unknown')
order by samples desc, trace, event, function
