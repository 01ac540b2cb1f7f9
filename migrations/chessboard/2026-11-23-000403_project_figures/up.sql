-- What a project offers at which prices, of all its live buildings, as it was, and of which projects something has changed since: so nobody who changes a
-- building waits for who changes another one. What has changed is added up from buildings by who asks, until a job has done so.
create table project_figures (
    project_id uuid primary key,
    price_from bigint,
    price_to bigint,
    offer_bits integer,
    offer_prices bit(5632)
) with (fillfactor = 50);
create table project_figures_change (
    id bigint primary key generated always as identity,
    project_id uuid not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index project_figures_change_project on project_figures_change (project_id);

create function building_comes_or_goes() returns trigger language plpgsql as $$
begin
    insert into project_figures_change (project_id) values (new.project_id);
    return null;
end
$$;
create trigger building_comes_or_goes after update of deleted_at on building
    for each row when (old.deleted_at is distinct from new.deleted_at) execute function building_comes_or_goes();
