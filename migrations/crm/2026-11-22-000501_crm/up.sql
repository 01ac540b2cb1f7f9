-- Companies of Type Developer, as identity tells of them: who is Active.
create table company (
    id uuid primary key,
    status text collate "C" not null check (status in ('Active', 'Suspended', 'Archived')),
    version bigint not null
);

-- Developers as chessboard tells of them, and the pipeline that each has from its first event on.
create table developer (
    id uuid primary key,
    name text not null,
    version bigint not null,
    -- Rises with each real change of the steps, and is what those who change them compare.
    pipeline_version bigint not null default 1 check (pipeline_version >= 1)
) with (fillfactor = 85);

-- Property objects as chessboard tells of them.
create table property_object (
    id uuid primary key,
    tenant_id uuid not null,
    project_name text not null,
    building_name text not null,
    number text not null,
    price bigint not null, -- minor units
    currency text collate "C" not null,
    status text collate "C" not null,
    version bigint not null
) with (fillfactor = 85);

create table step (
    id uuid primary key,
    tenant_id uuid not null references developer (id),
    "group" text collate "C" not null
        check ("group" in ('Application', 'Booking', 'Contract', 'Completed', 'Cancelled')),
    name text not null check (char_length(name) between 1 and 100),
    sort_order smallint not null check (sort_order >= 0),
    is_default boolean not null,
    archived_at timestamptz,
    -- So that a deal's step is of its tenant and its group (INV-DEAL-2); a step's group never changes.
    unique (id, tenant_id, "group")
) with (fillfactor = 85);
create index step_live on step (tenant_id, sort_order) where archived_at is null;
create index step_archived on step (tenant_id, archived_at desc, id desc) where archived_at is not null;
-- INV-STP-1
create unique index step_default on step (tenant_id, "group") where is_default and archived_at is null;

create table deal (
    id uuid primary key,
    tenant_id uuid not null,
    property_object_id uuid not null,
    client_user_id uuid not null,
    agent_user_id uuid,
    selection_id uuid,
    amount bigint not null check (amount between 1 and 1000000000000000), -- minor units
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    status text collate "C" not null,
    step_id uuid not null,
    step_group text collate "C" not null,
    step_entered_at timestamptz not null,
    contract_type text collate "C" check (contract_type in ('Ddu', 'Dkp', 'Assignment')),
    payment_method text collate "C" check (payment_method in ('Cash', 'Mortgage', 'Installment')),
    escrow_account_number text collate "C" check (escrow_account_number ~ '^[0-9]{20}$'),
    fixation_data text check (char_length(fixation_data) between 1 and 4000),
    cancelled_at timestamptz,
    cancel_reason text check (char_length(cancel_reason) between 1 and 2000),
    completed_at timestamptz,
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid,
    row_version bigint not null check (row_version between 1 and 4294967295),
    -- What the creation was called by its caller, in one of the two families of routes.
    request_id uuid,
    request_family text collate "C" check (request_family in ('Platform', 'Developer')),
    -- INV-DEAL-2
    foreign key (step_id, tenant_id, step_group) references step (id, tenant_id, "group"),
    constraint deal_status_follows_group check (
        status = case step_group when 'Contract' then 'Sale' else step_group end
    ),
    -- INV-DEAL-4
    check ((status = 'Cancelled') = (cancelled_at is not null)),
    check ((status = 'Cancelled') = (cancel_reason is not null)),
    check ((status = 'Completed') = (completed_at is not null)),
    -- INV-DEAL-6
    check (status <> 'Sale' or (contract_type is not null and payment_method is not null)),
    check ((request_id is null) = (request_family is null))
    -- Totals are read in an index alone, as far as vacuum has been there.
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
-- A developer's people see what their company's name is on, and no other: there a person may use an id in each company.
create unique index deal_platform_request on deal (created_by_user_id, request_id) where request_family = 'Platform';
create unique index deal_developer_request on deal (created_by_user_id, request_id, tenant_id)
    where request_family = 'Developer';
-- INV-DEAL-10
create unique index deal_completed on deal (property_object_id) where status = 'Completed';
create index deal_column on deal (tenant_id, step_id, step_entered_at desc, id desc);
create index deal_totals on deal (tenant_id, step_id, currency) include (amount);
create index deal_created on deal (created_at, id);
create index deal_updated on deal (updated_at, id);
create index deal_tenant_created on deal (tenant_id, created_at, id);
create index deal_tenant_updated on deal (tenant_id, updated_at, id);
-- Filters that few deals pass, or half of them.
create index deal_status on deal (status, created_at, id);
create index deal_tenant_status on deal (tenant_id, status, created_at, id);
create index deal_step_created on deal (step_id, created_at, id);
create index deal_step_updated on deal (step_id, updated_at, id);
create index deal_object on deal (property_object_id, created_at, id);
create index deal_client on deal (client_user_id, created_at, id);
create index deal_agent on deal (agent_user_id, created_at, id) where agent_user_id is not null;

create table booking (
    id uuid primary key,
    deal_id uuid not null references deal (id),
    property_object_id uuid not null,
    status text collate "C" not null check (status in ('Active', 'Cancelled', 'Completed', 'Expired')),
    expires_at timestamptz not null,
    created_at timestamptz not null,
    ended_at timestamptz,
    row_version bigint not null, -- the deal's, with which it was made
    -- INV-BKG-4: its deal is in Contract, so it does not expire.
    is_kept boolean not null,
    check ((status = 'Active') = (ended_at is null))
) with (fillfactor = 85);
-- INV-BKG-1
create unique index booking_active_object on booking (property_object_id) where status = 'Active';
create unique index booking_active_deal on booking (deal_id) where status = 'Active';
create index booking_overdue on booking (expires_at, id) where status = 'Active' and not is_kept;

-- How long a deal was in each step: one row is open, and closes at the moment in which the next opens.
create table stage (
    deal_id uuid not null references deal (id),
    row_version bigint not null, -- the deal's, with which it came into the step
    step_id uuid not null,
    status text collate "C" not null,
    entered_at timestamptz not null,
    left_at timestamptz check (left_at >= entered_at),
    primary key (deal_id, row_version)
) with (fillfactor = 85);
create unique index stage_current on stage (deal_id) where left_at is null;

-- What happened to a deal. Positions follow the order of changes, since who writes one has the deal locked.
create table timeline (
    position bigint not null generated always as identity,
    id uuid primary key,
    deal_id uuid not null references deal (id),
    kind text collate "C" not null,
    payload json not null,
    actor_user_id uuid,
    actor_role text collate "C" not null
        check (actor_role in ('PlatformManager', 'CareService', 'DeveloperManager', 'System')),
    created_at timestamptz not null,
    row_version bigint not null,
    -- The deal's after the change: what was told of it is told anew with these.
    agent_user_id uuid,
    amount bigint not null,
    currency text collate "C" not null,
    check ((actor_user_id is null) = (actor_role = 'System'))
);
create unique index timeline_newest on timeline (deal_id, position desc);

-- INV-TLE-1
create function timeline_is_for_good() returns trigger language plpgsql as $$
begin
    raise exception 'rows of the timeline are only added' using errcode = 'restrict_violation';
end
$$;
create trigger timeline_is_for_good before update or delete or truncate on timeline
    for each statement execute function timeline_is_for_good();
