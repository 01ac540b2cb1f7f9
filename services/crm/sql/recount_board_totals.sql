-- Recounts the stored totals of all steps. Run it in one transaction, with the search path of the
-- service.
--
-- The lock blocks only the job board-totals, whose sums would otherwise be lost. Changes of deals
-- continue: the statement reads deals and recorded changes from one snapshot, and the triggers
-- record later changes. The total of a step is the stored total plus the recorded changes.
-- Therefore the statement subtracts the recorded changes from the counted deals.
lock table step_total in share row exclusive mode;
delete from step_total;
insert into step_total (step_id, currency, count, sum)
select step_id, currency, sum(count), sum(sum) from (
    select step_id, currency, count(*), sum(amount) from deal group by step_id, currency
    union all
    select step_id, currency, -count, -sum from step_total_change
) as known (step_id, currency, count, sum)
group by step_id, currency having sum(count) <> 0 or sum(sum) <> 0;
