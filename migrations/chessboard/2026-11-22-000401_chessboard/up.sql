-- Companies as identity tells of them.
create table company (
    id uuid primary key,
    type text collate "C" not null check (type in ('Developer', 'Agency', 'Partner', 'Platform')),
    status text collate "C" not null check (status in ('Active', 'Suspended', 'Archived')),
    name text not null,
    legal_name text,
    version bigint not null
);

-- What an outside system tells of a profile that cannot take it yet: the newest of each outside id.
create table outside_profile (
    outside_id uuid primary key,
    company_id uuid not null,
    version bigint not null,
    name text not null,
    legal_name text,
    logo_file_id uuid,
    founded_year integer,
    -- Of several that wait for one company the first that came is applied.
    came bigint not null generated always as identity
);
create index outside_profile_company on outside_profile (company_id, came);

-- A developer's profile: its company's id, and the tenant of all that is below.
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
    -- Hidden by identity's cascade and by nobody else since: what identity may publish again.
    hidden_by_identity boolean not null default false,
    sync_source text collate "C" not null check (sync_source in ('Platform', 'ExternalChessboard')),
    -- INV-DEV-2, among the deleted ones too.
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
    -- What the service makes of the words, so that letter case is told by Unicode and not by the database's locale.
    lower_name text collate "C" not null,
    search_text text collate "C" not null,
    check (not hidden_by_identity or status = 'Hidden'),
    check ((sync_source = 'ExternalChessboard') = (external_chessboard_developer_id is not null)),
    check ((external_chessboard_developer_id is null) = (replica_version is null)),
    check ((deleted_at is null) = (deleted_by_user_id is null)),
    check (deleted_at is null or status <> 'Published')
) with (fillfactor = 85);
create index developer_published on developer (lower_name, id) where status = 'Published';
create index developer_projects on developer (projects_published_count, id) where status = 'Published';
-- For the platform, which lists all.
create index developer_name on developer (lower_name, id);
create index developer_created on developer (created_at, id);
create index developer_updated on developer (updated_at, id);
create index developer_trigrams on developer using gin (trigrams(search_text)) with (fastupdate = off);

-- INV-LOG-1: names of fields, never values. Entries are only ever added.
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

create function developer_log_is_for_good() returns trigger language plpgsql as $$
begin
    raise exception 'entries of the log are only added' using errcode = 'restrict_violation';
end
$$;
create trigger developer_log_is_for_good before update or delete or truncate on developer_log
    for each statement execute function developer_log_is_for_good();

create table project (
    id uuid primary key,
    tenant_id uuid not null references developer (id),
    name text not null check (char_length(name) between 1 and 256),
    description text check (char_length(description) <= 4000),
    class text collate "C" not null check (class in ('Economy', 'Comfort', 'Business', 'Elite')),
    city text not null check (char_length(city) between 1 and 128),
    address text not null check (char_length(address) between 1 and 512),
    latitude double precision check (latitude between -90 and 90),
    longitude double precision check (longitude between -180 and 180),
    cover_file_id uuid,
    status text collate "C" not null check (status in ('Draft', 'Published', 'Hidden')),
    published_at timestamptz, -- the first time
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    lower_name text collate "C" not null,
    lower_city text collate "C" not null,
    check ((latitude is null) = (longitude is null)),
    check (status = 'Draft' or published_at is not null)
) with (fillfactor = 85);
create index project_tenant on project (tenant_id, created_at, id) where deleted_at is null;
create index project_published on project (published_at, id) where deleted_at is null and status = 'Published';
create index project_name on project (lower_name, id) where deleted_at is null and status = 'Published';
create index project_city on project (lower_city, published_at, id) where deleted_at is null and status = 'Published';
create index project_place on project (latitude, longitude) where deleted_at is null and status = 'Published';
create index project_trigrams on project using gin (trigrams(lower_name)) with (fastupdate = off);

create table building (
    id uuid primary key,
    project_id uuid not null references project (id),
    tenant_id uuid not null,
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
    -- The last day of the quarter, or of the year; what is commissioned always was ready.
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

create table property_object (
    id uuid primary key,
    building_id uuid not null references building (id),
    project_id uuid not null,
    tenant_id uuid not null,
    number text collate "C" not null check (char_length(number) between 1 and 32),
    kind text collate "C" not null check (kind in ('Flat', 'Apartment', 'Parking', 'Storage', 'Commercial')),
    section smallint not null check (section >= 1),
    floor smallint not null check (floor >= -10),
    position_on_floor smallint not null check (position_on_floor between 1 and 1000),
    rooms smallint check (rooms between 1 and 20),
    is_studio boolean not null,
    -- Areas are in hundredths of a square metre.
    area_total integer not null check (area_total between 1 and 100000000),
    area_living integer check (area_living between 1 and area_total),
    area_kitchen integer check (area_kitchen between 1 and area_total),
    finishing text collate "C" not null check (finishing in ('None', 'PreFinish', 'Finished', 'Furnished')),
    price bigint not null check (price between 1 and 1000000000000000), -- minor units
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    layout_file_id uuid,
    status text collate "C" not null check (status in ('Available', 'Reserved', 'Booked', 'Sold', 'Unavailable')),
    -- What a person gave last: what it returns to when nothing holds it any more.
    own_status text collate "C" not null check (own_status in ('Available', 'Reserved', 'Sold', 'Unavailable')),
    hold_deal_id uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    removed_at timestamptz,
    version bigint not null check (version >= 1),
    -- What was told last of what is above it, and whether it was there: what tells of it compares.
    told_project_name text not null,
    told_building_name text not null,
    told_is_live boolean not null,
    told_is_public boolean not null,
    -- As the filters and figures have it: 0 for studios, -1 where none are given.
    rooms_asked smallint not null generated always as (case when is_studio then 0 else coalesce(rooms, -1) end) stored,
    -- INV-OBJ-1
    constraint property_object_number unique (building_id, number),
    check (not is_studio or kind in ('Flat', 'Apartment')),
    check (hold_deal_id is null or (status in ('Booked', 'Sold') and removed_at is null)),
    check (hold_deal_id is not null or status = own_status)
) with (fillfactor = 80);
create index property_object_project on property_object (project_id, id) where removed_at is null;
create index property_object_project_price on property_object (project_id, price, id) where removed_at is null;
create index property_object_project_area on property_object (project_id, area_total, id) where removed_at is null;
create index property_object_tenant on property_object (tenant_id, id) where removed_at is null;
create index property_object_tenant_price on property_object (tenant_id, price, id) where removed_at is null;
create index property_object_tenant_area on property_object (tenant_id, area_total, id) where removed_at is null;
create index property_object_homes on property_object (project_id, rooms_asked, price)
    include (building_id) where removed_at is null and status = 'Available' and kind in ('Flat', 'Apartment');

-- INV-OBJ-3: a row for the first price and for each change of it, never changed.
create table price_history (
    property_object_id uuid not null references property_object (id),
    version bigint not null, -- the object's, with this price
    price bigint not null,
    currency text collate "C" not null,
    changed_at timestamptz not null,
    primary key (property_object_id, version)
);

create function price_history_is_for_good() returns trigger language plpgsql as $$
begin
    raise exception 'prices of the past stay as they were' using errcode = 'restrict_violation';
end
$$;
create trigger price_history_is_for_good before update or delete or truncate on price_history
    for each statement execute function price_history_is_for_good();

-- What a building shows of the counts and prices of its Available objects.
create table building_figures (
    building_id uuid primary key references building (id),
    free_flat integer not null default 0,
    free_apartment integer not null default 0,
    free_parking integer not null default 0,
    free_storage integer not null default 0,
    free_commercial integer not null default 0,
    -- Of flats and apartments.
    price_from bigint,
    price_to bigint,
    -- The same by rooms, side by side: `rooms_asked`, how many, and the lowest price.
    offer_rooms smallint[] not null default '{}',
    offer_free integer[] not null default '{}',
    offer_price_from bigint[] not null default '{}',
    -- The rooms once more, a bit for each: 0 for studios, n for n, 21 where none are given.
    offer_bits integer not null default 0
) with (fillfactor = 80);

-- Renews a building's figures. Whoever changes objects calls it in the same transaction, after they are written: it waits
-- for whoever else does, and then sees what they have committed.
create function renew_building_figures(renewed uuid) returns void language plpgsql as $$
begin
    insert into building_figures (building_id) values (renewed) on conflict do nothing;
    perform from building_figures where building_id = renewed for no key update;
    update building_figures set
        (free_flat, free_apartment, free_parking, free_storage, free_commercial, price_from, price_to) = (
            select count(*) filter (where kind = 'Flat'), count(*) filter (where kind = 'Apartment'),
                count(*) filter (where kind = 'Parking'), count(*) filter (where kind = 'Storage'),
                count(*) filter (where kind = 'Commercial'),
                min(price) filter (where kind in ('Flat', 'Apartment')),
                max(price) filter (where kind in ('Flat', 'Apartment'))
            from property_object
            where building_id = renewed and removed_at is null and status = 'Available'
        ),
        (offer_rooms, offer_free, offer_price_from, offer_bits) = (
            select coalesce(array_agg(rooms), '{}'), coalesce(array_agg(free), '{}'),
                coalesce(array_agg(price_from), '{}'), coalesce(bit_or(1 << (rooms + 22) % 22), 0)
            from (
                select rooms_asked as rooms, count(*)::integer as free, min(price) as price_from
                from property_object
                where building_id = renewed and removed_at is null and status = 'Available'
                    and kind in ('Flat', 'Apartment')
                group by rooms_asked
            ) as offer
        )
    where building_id = renewed;
end
$$;

-- A deal's claim on an object, by its newest event. Also of objects that are not known (yet).
create table deal_claim (
    deal_id uuid primary key,
    property_object_id uuid not null,
    claim text collate "C" not null check (claim in ('Claims', 'GaveUp', 'Sells')),
    row_version bigint not null,
    claimed_at timestamptz -- the booking's CreatedAt, or the completion's CompletedAt
) with (fillfactor = 80);
create index deal_claim_object on deal_claim (property_object_id);

-- What has changed above objects and is to be told of each of them, by a job.
create table propagation (
    scope text collate "C" not null check (scope in ('Developer', 'Project', 'Building')),
    scope_id uuid not null,
    tenant_id uuid not null,
    -- What hides goes before names.
    hides boolean not null,
    -- How often it was asked for: who has told of all since finds it unchanged, or begins again.
    asked bigint not null default 1,
    told_to uuid, -- null: nothing yet
    turn bigint not null generated always as identity, -- developers take turns
    primary key (scope, scope_id)
) with (fillfactor = 80);
create index propagation_turn on propagation (hides desc, turn);
