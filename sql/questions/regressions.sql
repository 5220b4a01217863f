-- What takes longer or shorter in one build than in another, by the boots of a store.
-- Each boot counts once, with its own median and 99th percentile. Their ranks are compared (the
-- test of Mann and Whitney), and q is the false discovery rate (Benjamini and Hochberg). No verdict
-- is given where so few boots could not have one.
-- @@store
-- @before BUILD: the build before
-- @after BUILD: the build after
with spans as (
    select 'system call' as kind, coalesce(name, cast(number as varchar)) as name, build, trace,
           duration_ns
    from syscalls
    union all
    select case when soft = 1 then 'soft interrupt' else 'interrupt' end,
           coalesce(name, cast(number as varchar)), build, trace, duration_ns
    from interrupts
    union all
    select 'lock wait', coalesce(name, cast(number as varchar)), build, trace, duration_ns
    from lock_waits
    union all
    select 'wake-up', coalesce(thread, cast(tid as varchar)), build, trace, duration_ns
    from wakeups
),
boots as (
    select kind, name, build = $after as is_after, trace,
           percentile(duration_ns, 0.5) as p50, percentile(duration_ns, 0.99) as p99
    from spans
    where build in ($before, $after)
    group by kind, name, build, trace
),
measured as (
    select kind, name, is_after, 'p50' as measure, cast(p50 as double) as value from boots
    union all
    select kind, name, is_after, 'p99', cast(p99 as double) from boots
),
ranked as (
    select kind, name, measure, is_after, value, tied, rank + (tied - 1) / 2.0 as rank
    from (
        select *, rank() over (partition by kind, name, measure order by value) as rank,
               count(*) over (partition by kind, name, measure, value) as tied
        from measured
    )
),
summed as (
    select kind, name, measure,
           cast(count(*) filter (where not is_after) as double) as before,
           cast(count(*) filter (where is_after) as double) as after,
           percentile(value, 0.5) filter (where not is_after) as before_ns,
           percentile(value, 0.5) filter (where is_after) as after_ns,
           sum(rank) filter (where is_after) as ranks,
           sum(tied * tied - 1) as ties
    from ranked
    group by kind, name, measure
),
compared as (
    select *, (ranks - after * (after + 1) / 2) / nullif(before * after, 0) as greater,
           sqrt(before * after / 12 * (before + after + 1
                - ties / ((before + after) * (before + after - 1)))) as deviation,
           -- If all of one build were below all of the other.
           p_value((before * after / 2 - 0.5)
                / sqrt(before * after / 12 * (before + after + 1))) as least_p
    from summed
),
tested as (
    select *, case
        when least(before, after) < 4 then null
        when deviation > 0 then p_value(
            greatest(before * after * abs(greater - 0.5) - 0.5, 0) / deviation)
        else 1
    end as p
    from compared
),
numbered as (
    select *, row_number() over (order by p nulls last) as place, count(p) over () as tests
    from tested
),
judged as (
    select *, min(case when p is not null then least(p * tests / place, 1) end) over (
        order by place desc rows between unbounded preceding and current row) as rate
    from numbered
)
select kind, name, measure, cast(before as bigint) as before_boots,
       cast(after as bigint) as after_boots, round(before_ns) as before_ns,
       round(after_ns) as after_ns,
       round(100 * (after_ns / nullif(before_ns, 0) - 1), 1) as change_percent,
       round(greater, 4) as greater, round(p, 6) as p, round(rate, 6) as q, case
           when p is null then 'too few boots'
           when rate > 0.05 and least_p * tests > 0.05 then 'too few boots'
           when rate > 0.05 then 'within noise'
           when greater > 0.5 then 'slower'
           else 'faster'
       end as verdict
from judged
order by rate nulls last, abs(ln(nullif(after_ns, 0) / nullif(before_ns, 0))) desc nulls last, kind,
         name, measure
