-- Registry of identity's companies.

create table company (
    id uuid primary key,
    type text collate "C" not null check (type in ('Developer', 'Agency', 'Partner', 'Platform')),
    status text collate "C" not null check (status in ('Active', 'Suspended', 'Archived')),
    name text not null,
    legal_name text,
    version bigint not null
);

-- Developers: profiles, their logs, and external profiles that wait.

-- The id of a developer is the id of its company and the tenant of its projects.
create table developer (
    id uuid primary key,
    name text not null check (char_length(name) between 1 and 256),
    legal_name text check (char_length(legal_name) <= 512),
    description text check (char_length(description) <= 4000),
    logo_file_id uuid,
    website text check (char_length(website) <= 256),
    contact_phone text collate "C" check (char_length(contact_phone) <= 32),
    contact_email text check (char_length(contact_email) <= 256),
    founded_year integer check (founded_year between 1900 and 2100),
    highlights json not null,
    status text collate "C" not null check (status in ('Draft', 'Published', 'Hidden')),
    -- True if the identity cascade hid the profile last and may publish it again.
    hidden_by_identity boolean not null default false,
    sync_source text collate "C" not null check (sync_source in ('Platform', 'ExternalChessboard')),
    -- INV-DEV-2: unique among deleted profiles, too.
    external_chessboard_developer_id uuid unique,
    replica_version bigint,
    last_synced_at timestamptz,
    projects_published_count integer not null default 0 check (projects_published_count >= 0),
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    deleted_at timestamptz,
    deleted_by_user_id uuid,
    version bigint not null check (version >= 1),
    -- Folded by the service, because the case mapping of the database depends on its locale.
    folded_name text collate "C" not null,
    search_text text collate "C" not null,
    check (not hidden_by_identity or status = 'Hidden'),
    check ((sync_source = 'ExternalChessboard') = (external_chessboard_developer_id is not null)),
    check ((external_chessboard_developer_id is null) = (replica_version is null)),
    check ((deleted_at is null) = (deleted_by_user_id is null)),
    check (deleted_at is null or status <> 'Published')
) with (fillfactor = 85);
create index developer_published on developer (folded_name, id) where status = 'Published';
create index developer_projects on developer (projects_published_count, id) where status = 'Published';
-- Lists of administrators, which contain all developers.
create index developer_name on developer (folded_name, id);
create index developer_created on developer (created_at, id);
create index developer_updated on developer (updated_at, id);
create index developer_trigrams on developer using gin (trigrams(search_text)) with (fastupdate = off);

-- The versions under which the command `restored` has published lost profiles as Hidden. A profile
-- that is created again continues above its version here, since consumers ignore lower versions.
create table lost_developer (
    id uuid primary key,
    version bigint not null
);

-- INV-LOG-1: names of fields, never values.
create table developer_log (
    id uuid primary key,
    developer_id uuid not null references developer (id),
    kind text collate "C" not null
        check (kind in ('Created', 'StatusChanged', 'FieldsChanged', 'Deleted', 'Restored')),
    from_status text collate "C",
    to_status text collate "C",
    changed_fields text[] not null,
    sync_source text collate "C",
    actor_kind text collate "C" not null check (actor_kind in ('User', 'Identity', 'ExternalChessboard')),
    actor_user_id uuid not null,
    version bigint not null,
    occurred_at timestamptz not null
);
create index developer_log_newest on developer_log (developer_id, version desc, id desc);

create function developer_log_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'developer_log is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger developer_log_append_only before update or delete or truncate on developer_log
    for each statement execute function developer_log_append_only();

-- Profiles of the external chessboard system that cannot be applied yet. Each external id has only
-- its newest profile here.
create table external_profile (
    external_id uuid primary key,
    company_id uuid not null,
    version bigint not null,
    name text not null,
    legal_name text,
    logo_file_id uuid,
    founded_year integer,
    -- If several profiles wait for one company, the one that arrived first is applied.
    arrival_order bigint not null generated always as identity
);
create index external_profile_company on external_profile (company_id, arrival_order);

-- Projects.

create table project (
    id uuid primary key,
    tenant_id uuid not null references developer (id),
    external_id text collate "C" check (char_length(external_id) between 1 and 128),
    name text not null check (char_length(name) between 1 and 256),
    description text check (char_length(description) <= 4000),
    class text collate "C" not null check (class in ('Economy', 'Comfort', 'Business', 'Elite')),
    city text not null check (char_length(city) between 1 and 128),
    address text not null check (char_length(address) between 1 and 512),
    latitude double precision check (latitude between -90 and 90),
    longitude double precision check (longitude between -180 and 180),
    cover_file_id uuid,
    status text collate "C" not null check (status in ('Draft', 'Published', 'Hidden')),
    published_at timestamptz, -- time of the first publication
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    folded_name text collate "C" not null,
    folded_city text collate "C" not null,
    check ((latitude is null) = (longitude is null)),
    check (status = 'Draft' or published_at is not null)
) with (fillfactor = 85);
create index project_tenant on project (tenant_id, created_at, id) where deleted_at is null;
-- A deleted project frees its external id.
create unique index project_external_id on project (tenant_id, external_id)
    where external_id is not null and deleted_at is null;
create index project_published on project (published_at, id) where deleted_at is null and status = 'Published';
create index project_name on project (folded_name, id) where deleted_at is null and status = 'Published';
create index project_city on project (folded_city, published_at, id) where deleted_at is null and status = 'Published';
create index project_location on project (latitude, longitude) where deleted_at is null and status = 'Published';
create index project_trigrams on project using gin (trigrams(folded_name)) with (fastupdate = off);

-- Buildings.

create table building (
    id uuid primary key,
    project_id uuid not null references project (id),
    tenant_id uuid not null,
    external_id text collate "C" check (char_length(external_id) between 1 and 128),
    name text not null check (char_length(name) between 1 and 128),
    sections_count smallint not null check (sections_count between 1 and 100),
    floors_total smallint not null check (floors_total between 1 and 200),
    state text collate "C" not null check (state in ('Planned', 'UnderConstruction', 'Commissioned')),
    ready_year smallint check (ready_year between 1900 and 2100),
    ready_quarter smallint check (ready_quarter between 1 and 4),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    -- The last day of the quarter or the year. A commissioned building was always ready.
    ready_on date generated always as (
        case
            when state = 'Commissioned' then '-infinity'::date
            when ready_year is not null
                then (make_date(ready_year, coalesce(ready_quarter, 4) * 3, 1) + interval '1 month')::date - 1
        end
    ) stored,
    check (ready_quarter is null or ready_year is not null)
) with (fillfactor = 85);
create index building_project on building (project_id, name, id) where deleted_at is null;
-- A deleted building frees its external id.
create unique index building_external_id on building (tenant_id, external_id)
    where external_id is not null and deleted_at is null;

-- Property objects and their prices.

create table property_object (
    id uuid primary key,
    building_id uuid not null references building (id),
    project_id uuid not null,
    tenant_id uuid not null,
    external_id text collate "C" check (char_length(external_id) between 1 and 128),
    number text collate "C" not null check (char_length(number) between 1 and 32),
    kind text collate "C" not null check (kind in ('Flat', 'Apartment', 'Parking', 'Storage', 'Commercial')),
    section smallint not null check (section >= 1),
    floor smallint not null check (floor >= -10),
    position_on_floor smallint not null check (position_on_floor between 1 and 1000),
    rooms smallint check (rooms between 1 and 20),
    is_studio boolean not null,
    -- Areas in hundredths of a square metre.
    area_total integer not null check (area_total between 1 and 100000000),
    area_living integer check (area_living between 1 and area_total),
    area_kitchen integer check (area_kitchen between 1 and area_total),
    finishing text collate "C" not null check (finishing in ('None', 'PreFinish', 'Finished', 'Furnished')),
    price bigint not null check (price between 1 and 1000000000000000), -- minor units
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    layout_file_id uuid,
    status text collate "C" not null check (status in ('Available', 'Reserved', 'Booked', 'Sold', 'Unavailable')),
    -- The status that a user set last. A released object returns to it.
    own_status text collate "C" not null check (own_status in ('Available', 'Reserved', 'Sold', 'Unavailable')),
    hold_deal_id uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid, -- null after a change by a deal
    removed_at timestamptz,
    version bigint not null check (version >= 1),
    -- The state of the ancestors in the last published event. The next change compares with it.
    published_project_name text not null,
    published_building_name text not null,
    published_is_live boolean not null,
    published_is_public boolean not null,
    -- The key of filters and figures: 0 for studios, -1 without a number of rooms.
    room_category smallint not null
        generated always as (case when is_studio then 0 else coalesce(rooms, -1) end) stored,
    -- INV-OBJ-1: an object keeps its id through removal and return.
    constraint property_object_number unique (building_id, number),
    check (not is_studio or kind in ('Flat', 'Apartment')),
    check (hold_deal_id is null or (status in ('Booked', 'Sold') and removed_at is null)),
    check (hold_deal_id is not null or status = own_status),
    check (external_id is null or removed_at is null)
) with (fillfactor = 80);
-- An object below a deleted building keeps its external id until another object takes it.
create unique index property_object_external_id on property_object (tenant_id, external_id)
    where external_id is not null;
create index property_object_project on property_object (project_id, id) where removed_at is null;
create index property_object_project_price on property_object (project_id, price, id) where removed_at is null;
create index property_object_project_area on property_object (project_id, area_total, id) where removed_at is null;
create index property_object_tenant on property_object (tenant_id, id) where removed_at is null;
create index property_object_tenant_price on property_object (tenant_id, price, id) where removed_at is null;
create index property_object_tenant_area on property_object (tenant_id, area_total, id) where removed_at is null;
create index property_object_homes on property_object (project_id, room_category, price)
    include (building_id) where removed_at is null and status = 'Available' and kind in ('Flat', 'Apartment');

-- INV-OBJ-3: a row for the first price and for each change.
create table price_history (
    property_object_id uuid not null references property_object (id),
    version bigint not null, -- version of the object with this price
    price bigint not null,
    currency text collate "C" not null,
    changed_at timestamptz not null,
    changed_by_user_id uuid, -- null for a deal
    primary key (property_object_id, version)
);

-- INV-OBJ-4: a row for the first status and for each change. A null status means outside the grid.
create table status_history (
    property_object_id uuid not null references property_object (id),
    version bigint not null, -- version of the object with this status
    from_status text collate "C",
    to_status text collate "C",
    changed_at timestamptz not null,
    changed_by_user_id uuid, -- null for a deal
    primary key (property_object_id, version),
    check (from_status is distinct from to_status)
);

create function object_history_append_only() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;
create trigger price_history_append_only before update or delete or truncate on price_history
    for each statement execute function object_history_append_only();
create trigger status_history_append_only before update or delete or truncate on status_history
    for each statement execute function object_history_append_only();

-- Figures of the catalog: counts and prices of Available objects.
--
-- Columns that begin with `offer_` or `price_` describe homes only: Available flats and apartments.
-- Prices are stored as steps from 2^21 to 30 * 2^32 minor units, with 16 steps for each doubling.
-- The first step has no lower bound and the last step no upper bound.

create function price_steps() returns bigint[] language sql immutable parallel safe as $$
    select array_agg((16 + n % 16)::bigint << (n / 16 + 17) order by n) from generate_series(0, 254) as n
$$;

-- Returns the step of a price, 0 to 255.
create function price_step(price bigint) returns integer language sql immutable parallel safe as $$
    select width_bucket(price, price_steps())
$$;

-- Returns the bits of the steps from `first` to `last`, both included.
create function price_step_bits(first integer, last integer) returns bit(256) language sql immutable parallel safe as $$
    select (repeat('0', first) || repeat('1', last - first + 1))::bit(256)
$$;

-- Returns the position of a room category in `offer_prices`, which has 256 bits for each one.
create function offer_offset(rooms integer) returns integer language sql immutable parallel safe as $$
    select (rooms + 22) % 22 * 256
$$;

create function offer_price_bit(rooms integer, step integer) returns bit(5632) language sql immutable parallel safe as $$
    select set_bit(repeat('0', 5632)::bit(5632), offer_offset(rooms) + step, 1)
$$;

create table building_figures (
    building_id uuid primary key references building (id),
    -- Number of transactions that have written objects of the building.
    object_changes bigint not null default 0,
    free_flat integer not null default 0,
    free_apartment integer not null default 0,
    free_parking integer not null default 0,
    free_storage integer not null default 0,
    free_commercial integer not null default 0,
    -- Lowest and highest price of the homes.
    price_from bigint,
    price_to bigint,
    -- Offers as parallel arrays: room category, number of homes, lowest price.
    offer_rooms smallint[] not null default '{}',
    offer_free integer[] not null default '{}',
    offer_price_from bigint[] not null default '{}',
    -- A bit for each offered room category: n for n rooms, 0 for studios, 21 without a number.
    offer_bits integer not null default 0,
    -- A bit for each room category and price step of a home.
    offer_prices bit(5632) not null default repeat('0', 5632)::bit(5632)
) with (fillfactor = 80);

-- The sum of a project's live buildings. It may be outdated for projects in project_figures_change.
create table project_figures (
    project_id uuid primary key,
    price_from bigint,
    price_to bigint,
    offer_bits integer,
    offer_prices bit(5632),
    renewed_in xid8 -- the transaction that added up the figures last
) with (fillfactor = 50);
create index project_figures_renewed on project_figures (renewed_in) include (project_id);

-- Projects with changes since project_figures was written. Writers of different buildings insert
-- their own rows here, so that they do not wait for each other. A job adds up the changes.
--
-- A change is any change of what the project search reads: of the project, the visibility of its
-- developer, its buildings or its homes. The catalog index of each process reads the projects whose
-- changed_in or renewed_in is a transaction that its last snapshot does not show.
create table project_figures_change (
    id bigint primary key generated always as identity,
    project_id uuid not null,
    changed_in xid8 not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index project_figures_change_project on project_figures_change (project_id);
create index project_figures_change_changed on project_figures_change (changed_in) include (project_id);

-- The present life of the database server, as a random id. A crash empties the table, since it is
-- unlogged, and the numbers of lost transactions are used again. A process whose index was loaded in
-- another life loads the index again.
create unlogged table catalog_index_life (
    only_one boolean primary key default true check (only_one),
    id uuid not null default gen_random_uuid()
);

-- Recomputes the figures of a building, at the end of a transaction that has written objects. The
-- function waits for concurrent writers of the building and then reads their changes.
create function renew_building_figures(renewed uuid) returns void language plpgsql as $$
begin
    insert into building_figures (building_id) values (renewed) on conflict do nothing;
    perform from building_figures where building_id = renewed for no key update;
    update building_figures set
        object_changes = object_changes + 1,
        (free_flat, free_apartment, free_parking, free_storage, free_commercial, price_from, price_to) = (
            select count(*) filter (where kind = 'Flat'), count(*) filter (where kind = 'Apartment'),
                count(*) filter (where kind = 'Parking'), count(*) filter (where kind = 'Storage'),
                count(*) filter (where kind = 'Commercial'),
                min(price) filter (where kind in ('Flat', 'Apartment')),
                max(price) filter (where kind in ('Flat', 'Apartment'))
            from property_object
            where building_id = renewed and removed_at is null and status = 'Available'
        ),
        (offer_rooms, offer_free, offer_price_from, offer_bits, offer_prices) = (
            select coalesce(array_agg(rooms), '{}'), coalesce(array_agg(free), '{}'),
                coalesce(array_agg(price_from), '{}'), coalesce(bit_or(1 << (rooms + 22) % 22), 0),
                coalesce(bit_or(prices), repeat('0', 5632)::bit(5632))
            from (
                select rooms, sum(free)::integer as free, min(price_from) as price_from,
                    bit_or(offer_price_bit(rooms, step)) as prices
                from (
                    select room_category as rooms, price_step(price) as step, count(*) as free, min(price) as price_from
                    from property_object
                    where building_id = renewed and removed_at is null and status = 'Available'
                        and kind in ('Flat', 'Apartment')
                    group by room_category, price_step(price)
                ) as priced
                group by rooms
            ) as offer
        )
    where building_id = renewed;
    insert into project_figures_change (project_id) select project_id from building where id = renewed;
end
$$;

create function mark_project_of_building() returns trigger language plpgsql as $$
begin
    insert into project_figures_change (project_id) values (new.project_id);
    return null;
end
$$;
create trigger mark_project_of_new_building after insert on building
    for each row execute function mark_project_of_building();
create trigger mark_project_of_changed_building after update on building
    for each row when ((old.deleted_at, old.ready_on) is distinct from (new.deleted_at, new.ready_on))
    execute function mark_project_of_building();

create function mark_project() returns trigger language plpgsql as $$
begin
    insert into project_figures_change (project_id) values (coalesce(new.id, old.id));
    return null;
end
$$;
create trigger mark_new_project after insert on project
    for each row when (new.status = 'Published') execute function mark_project();
create trigger mark_removed_project after delete on project
    for each row execute function mark_project();
create trigger mark_changed_project after update on project
    for each row when (
        (old.class, old.city, old.folded_city, old.folded_name, old.latitude, old.longitude, old.status,
            old.published_at, old.deleted_at)
        is distinct from (new.class, new.city, new.folded_city, new.folded_name, new.latitude, new.longitude,
            new.status, new.published_at, new.deleted_at))
    execute function mark_project();

-- Drafts are marked, too: a concurrent transaction may be about to publish one.
create function mark_projects_of_developer() returns trigger language plpgsql as $$
begin
    insert into project_figures_change (project_id)
    select id from project where tenant_id = new.id and deleted_at is null;
    return null;
end
$$;
create trigger mark_projects_of_developer after update on developer
    for each row when ((old.status, old.deleted_at) is distinct from (new.status, new.deleted_at))
    execute function mark_projects_of_developer();

-- Adds up the figures of up to `max_projects` changed projects and returns their number.
create function renew_project_figures(max_projects bigint) returns bigint language plpgsql as $$
declare
    renewed uuid;
    count bigint := 0;
begin
    for renewed in select distinct project_id from project_figures_change order by project_id limit max_projects loop
        insert into project_figures (project_id) values (renewed) on conflict do nothing;
        perform from project_figures where project_id = renewed for no key update;
        -- The mark is deleted before the sum is read. A change that commits in between is part of
        -- the sum, and its mark remains. In the other order the change could lose its mark and be
        -- missing from the sum.
        delete from project_figures_change where project_id = renewed;
        update project_figures set (price_from, price_to, offer_bits, offer_prices, renewed_in) = (
            select min(price_from), max(price_to), bit_or(offer_bits), bit_or(offer_prices), pg_current_xact_id()
            from building join building_figures as figures on figures.building_id = building.id
            where building.project_id = renewed and building.deleted_at is null
        )
        where project_id = renewed;
        count := count + 1;
    end loop;
    return count;
end
$$;

-- Claims of deals, by the newest event of each deal. The object may be unknown yet.
create table deal_claim (
    deal_id uuid primary key,
    property_object_id uuid not null,
    kind text collate "C" not null check (kind in ('Booked', 'Released', 'Sold')),
    row_version bigint not null,
    claimed_at timestamptz -- CreatedAt of the booking, or CompletedAt of the completion
) with (fillfactor = 80);
create index deal_claim_object on deal_claim (property_object_id);

-- Changed developers, projects and buildings whose objects a job must publish.
create table propagation (
    scope text collate "C" not null check (scope in ('Developer', 'Project', 'Building')),
    scope_id uuid not null,
    tenant_id uuid not null,
    -- Hiding precedes changes of names.
    hides boolean not null,
    -- Number of requests. If it grows during a batch, the propagation starts from the beginning.
    requests bigint not null default 1,
    published_to uuid, -- id of the last published object; null at the beginning
    turn bigint not null generated always as identity,
    -- Each round has one change of each developer, so developers are served round-robin.
    round bigint not null default 0,
    primary key (scope, scope_id)
) with (fillfactor = 80);
create index propagation_turn on propagation (hides desc, round, turn);
create index propagation_tenant on propagation (tenant_id, hides, round);

-- Imports of feeds.

create table feed_import (
    id uuid primary key,
    tenant_id uuid not null references developer (id),
    building_id uuid references building (id), -- the building of all offers, if a manager has chosen one
    state text collate "C" not null check (state in (
        'Created', 'Uploading', 'Uploaded', 'Validating', 'Validated', 'Applying', 'Applied', 'Failed')),
    upload_id uuid, -- the upload whose chunks count
    file_bytes bigint not null,
    refusal_code text collate "C",
    refusal_line bigint,
    offers_count integer not null,
    rejected_count integer not null,
    ignored json not null default '[]', -- names and numbers of the elements that are not understood
    skip_rejected boolean not null,
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    updated_at timestamptz not null,
    applied_by_user_id uuid,
    version bigint not null check (version >= 1),
    deleted_at timestamptz,
    check ((state = 'Failed') = (refusal_code is not null))
);
-- A developer has one import in progress.
create unique index feed_import_in_progress on feed_import (tenant_id)
    where deleted_at is null and state not in ('Applied', 'Failed');
create index feed_import_tenant on feed_import (tenant_id, id desc) where deleted_at is null;
create index feed_import_updated on feed_import (updated_at) where deleted_at is null;
create index feed_import_deleted on feed_import (deleted_at) where deleted_at is not null;

-- The number of uploads of each developer in the present hour, which begins with the first upload
-- after the previous hour.
create table feed_upload_count (
    tenant_id uuid primary key references developer (id),
    hour_began_at timestamptz not null,
    uploads integer not null
) with (fillfactor = 80);

-- The file of an import, until its validation.
create table feed_chunk (
    import_id uuid not null references feed_import (id),
    upload_id uuid not null,
    position integer not null,
    content bytea not null,
    primary key (import_id, upload_id, position)
);

-- Accepted offers by building.
create table feed_offer (
    import_id uuid not null references feed_import (id),
    building_id uuid not null,
    position integer not null, -- position in the file
    line bigint not null,
    external_id text collate "C" not null,
    offer json not null,
    primary key (import_id, building_id, position)
);

create table feed_problem (
    import_id uuid not null references feed_import (id),
    id bigint not null generated always as identity,
    building_id uuid,
    offer_position bigint not null, -- position in the file
    line bigint not null,
    internal_id text,
    element text collate "C" not null,
    code text collate "C" not null,
    value text,
    primary key (import_id, id)
);
create index feed_problem_line on feed_problem (import_id, line, id);
create index feed_problem_building on feed_problem (import_id, building_id, offer_position) where building_id is not null;

create table feed_building (
    import_id uuid not null references feed_import (id),
    building_id uuid not null,
    building_version bigint not null, -- the version that the validation has compared with
    state text collate "C" not null check (state in ('Unchanged', 'Ready', 'Blocked', 'Applied', 'Outdated')),
    offers_count integer not null,
    rejected_count integer not null,
    created_count integer not null,
    updated_count integer not null,
    unchanged_count integer not null,
    kept_count integer not null,
    missing_count integer not null,
    primary key (import_id, building_id)
);

-- The preview of an import.
create table feed_change (
    import_id uuid not null references feed_import (id),
    building_id uuid not null,
    position integer not null,
    kind text collate "C" not null check (kind in ('Created', 'Updated', 'Kept', 'Missing')),
    property_object_id uuid not null,
    number text not null,
    external_id text collate "C",
    fields json not null, -- changed fields with their old and new values
    primary key (import_id, building_id, position)
);
