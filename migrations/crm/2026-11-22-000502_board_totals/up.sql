-- What the deals of a step come to, so that nobody counts them to show a board: as they were, and what has changed since. A sum alone would have
-- everybody who moves a deal of one developer wait for each other.
create table step_total (
    step_id uuid not null,
    currency text collate "C" not null,
    count bigint not null,
    sum numeric not null, -- minor units; of many deals it may be more than 64 bits hold
    primary key (step_id, currency)
) with (fillfactor = 70);
create table step_total_change (
    id bigint primary key generated always as identity,
    step_id uuid not null,
    currency text collate "C" not null,
    count bigint not null,
    sum numeric not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index step_total_change_step on step_total_change (step_id);

insert into step_total (step_id, currency, count, sum)
select step_id, currency, count(*), sum(amount) from deal group by step_id, currency;

create function count_new_deals() returns trigger language plpgsql as $$
begin
    insert into step_total_change (step_id, currency, count, sum)
    select step_id, currency, count(*), sum(amount) from added group by step_id, currency;
    return null;
end
$$;
create trigger count_new_deals after insert on deal referencing new table as added
    for each statement execute function count_new_deals();

create function count_changed_deals() returns trigger language plpgsql as $$
begin
    insert into step_total_change (step_id, currency, count, sum)
    select step_id, currency, sum(count), sum(sum) from (
        select step_id, currency, count(*), sum(amount) from added group by step_id, currency
        union all
        select step_id, currency, -count(*), -sum(amount) from gone group by step_id, currency
    ) as changed (step_id, currency, count, sum)
    group by step_id, currency having sum(count) <> 0 or sum(sum) <> 0;
    return null;
end
$$;
create trigger count_changed_deals after update on deal referencing old table as gone new table as added
    for each statement execute function count_changed_deals();
