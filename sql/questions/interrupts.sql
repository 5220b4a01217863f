-- How long interrupts took: by line, nested handlers included. Linux numbers soft ones apart.
select trace, number, soft, max(name) as name, count(*) as interrupts,
       sum(duration_ns) as total_ns, percentile(duration_ns, 0.99) as p99_ns,
       max(duration_ns) as longest_ns
from interrupts
group by trace, number, soft
order by total_ns desc, trace, number, soft
