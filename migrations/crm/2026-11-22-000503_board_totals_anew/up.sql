-- What was written while 000502 counted was not counted: its triggers came after its sums. Counted anew beside them: deals and changes are seen as of one moment,
-- and who writes deals waits for nobody. Only the job that adds up changes does, whose sums would come between.
lock table step_total in share row exclusive mode;
delete from step_total;
insert into step_total (step_id, currency, count, sum)
select step_id, currency, sum(count), sum(sum) from (
    select step_id, currency, count(*), sum(amount) from deal group by step_id, currency
    union all
    select step_id, currency, -count, -sum from step_total_change
) as known (step_id, currency, count, sum)
group by step_id, currency having sum(count) <> 0 or sum(sum) <> 0;
