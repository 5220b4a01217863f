-- What was lost: by trace, CPU and kind.
select trace, cpu, kind, count(*) as losses, sum(count) as lost
from losses
group by trace, cpu, kind
order by trace, cpu, kind
