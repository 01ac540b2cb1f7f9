-- Copies of entities of other services. `version` is the highest version applied.

-- Companies whose type is Developer or Agency, from identity.
create table company (
    id uuid primary key,
    kind text collate "C" not null check (kind in ('Developer', 'Agency')),
    status text collate "C" not null check (status in ('Active', 'Suspended', 'Archived')),
    version bigint not null
);

-- Users with an active employment, from identity. A user has at most one employment.
create table active_employee (
    user_id uuid primary key,
    company_id uuid not null
);

-- Developers, from chessboard. The first event of a developer creates its pipeline.
create table developer (
    id uuid primary key,
    name text not null,
    version bigint not null,
    -- Rises by one with each change of the steps. A replacement fails if another one has raised it
    -- since the read of the steps.
    pipeline_version bigint not null default 1 check (pipeline_version >= 1),
    -- Null while the pipeline is the default one.
    pipeline_updated_at timestamptz,
    pipeline_updated_by_user_id uuid,
    check ((pipeline_updated_at is null) = (pipeline_updated_by_user_id is null))
) with (fillfactor = 85);

-- Property objects, from chessboard.
create table property_object (
    id uuid primary key,
    tenant_id uuid not null,
    project_name text not null,
    building_name text not null,
    number text not null,
    price bigint not null, -- in minor units
    currency text collate "C" not null,
    status text collate "C" not null,
    version bigint not null,
    -- The forms of the names that searches compare.
    folded_project_name text collate "C" not null,
    folded_number text collate "C" not null
) with (fillfactor = 85);
create index property_object_number on property_object (folded_number);
create index property_object_project on property_object using gin (trigrams(folded_project_name))
    with (fastupdate = off);

-- Pipelines: the steps of each developer.

create table step (
    id uuid primary key,
    tenant_id uuid not null references developer (id),
    "group" text collate "C" not null
        check ("group" in ('Application', 'Booking', 'Contract', 'Completed', 'Cancelled')),
    name text not null check (char_length(name) between 1 and 100),
    sort_order smallint not null check (sort_order >= 0),
    is_default boolean not null,
    archived_at timestamptz,
    -- The target of the foreign key of deals (INV-DEAL-2). The group of a step never changes.
    unique (id, tenant_id, "group")
) with (fillfactor = 85);
create index step_live on step (tenant_id, sort_order) where archived_at is null;
create index step_archived on step (tenant_id, archived_at desc, id desc) where archived_at is not null;
-- INV-STP-1: at most one default step in each group.
create unique index step_default on step (tenant_id, "group") where is_default and archived_at is null;

-- The changes of pipelines. Version 1 has no entry, since no user made it.
create table pipeline_log (
    tenant_id uuid not null references developer (id),
    version bigint not null, -- version of the pipeline after the change
    actor_user_id uuid not null,
    actor_role text collate "C" not null check (actor_role in ('PlatformManager', 'DeveloperManager')),
    changed_at timestamptz not null,
    changes json not null, -- new and changed steps, and the ids of archived steps
    primary key (tenant_id, version)
);

-- Deals.

create table deal (
    id uuid primary key,
    tenant_id uuid not null,
    property_object_id uuid not null,
    client_user_id uuid not null,
    agent_user_id uuid,
    selection_id uuid,
    amount bigint not null check (amount between 1 and 1000000000000000), -- in minor units
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    status text collate "C" not null,
    step_id uuid not null,
    step_group text collate "C" not null,
    step_entered_at timestamptz not null,
    contract_type text collate "C" check (contract_type in ('Ddu', 'Dkp', 'Assignment')),
    payment_method text collate "C" check (payment_method in ('Cash', 'Mortgage', 'Installment')),
    contract_number text check (char_length(contract_number) between 1 and 64),
    -- The form of the contract number that searches compare.
    folded_contract_number text collate "C",
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
    -- The `RowVersion` of the last event `deal-stage-changed`; 0 before the first one.
    stage_change_version bigint not null default 0,
    -- The id that the caller chose for the creation, and the route family of the request.
    request_id uuid,
    request_family text collate "C" check (request_family in ('Platform', 'Developer')),
    -- INV-DEAL-2: the step belongs to the developer and has the group.
    foreign key (step_id, tenant_id, step_group) references step (id, tenant_id, "group"),
    constraint deal_status_follows_group check (
        status = case step_group when 'Contract' then 'Sale' else step_group end
    ),
    -- INV-DEAL-4: the columns of a cancellation are set exactly in Cancelled, and the time of a
    -- completion exactly in Completed.
    check ((status = 'Cancelled') = (cancelled_at is not null)),
    check ((status = 'Cancelled') = (cancel_reason is not null)),
    check ((status = 'Completed') = (completed_at is not null)),
    -- INV-DEAL-6: a deal in Sale has contract type and payment method.
    check (status <> 'Sale' or (contract_type is not null and payment_method is not null)),
    check ((contract_number is null) = (folded_contract_number is null)),
    check ((request_id is null) = (request_family is null))
    -- Frequent vacuums keep the visibility map current, which index-only scans need.
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
-- A request id is unique for its user, and on company routes for its user and company. So an
-- employee of two companies may use one id in both.
create unique index deal_platform_request on deal (created_by_user_id, request_id) where request_family = 'Platform';
create unique index deal_developer_request on deal (created_by_user_id, request_id, tenant_id)
    where request_family = 'Developer';
-- INV-DEAL-10: at most one Completed deal of an object.
create unique index deal_completed on deal (property_object_id) where status = 'Completed';
-- The board and its columns.
create index deal_column on deal (tenant_id, step_id, step_entered_at desc, id desc);
-- Lists by time, of all developers and of one.
create index deal_created on deal (created_at, id);
create index deal_updated on deal (updated_at, id);
create index deal_tenant_created on deal (tenant_id, created_at, id);
create index deal_tenant_updated on deal (tenant_id, updated_at, id);
-- Lists with a filter.
create index deal_status on deal (status, created_at, id);
create index deal_tenant_status on deal (tenant_id, status, created_at, id);
create index deal_step_created on deal (step_id, created_at, id);
create index deal_step_updated on deal (step_id, updated_at, id);
create index deal_object on deal (property_object_id, created_at, id);
create index deal_client on deal (client_user_id, created_at, id);
create index deal_agent on deal (agent_user_id, created_at, id) where agent_user_id is not null;
create index deal_without_agent on deal (tenant_id, created_at, id) where agent_user_id is null;
create index deal_amount on deal (amount, created_at, id);
create index deal_tenant_amount on deal (tenant_id, amount, created_at, id);
create index deal_currency on deal (currency, created_at, id);
create index deal_tenant_currency on deal (tenant_id, currency, created_at, id);
create index deal_contract_number on deal (folded_contract_number, created_at, id)
    where folded_contract_number is not null;

-- Bookings of objects by deals.

create table booking (
    id uuid primary key,
    deal_id uuid not null references deal (id),
    property_object_id uuid not null,
    status text collate "C" not null check (status in ('Active', 'Cancelled', 'Completed', 'Expired')),
    expires_at timestamptz not null,
    created_at timestamptz not null,
    ended_at timestamptz,
    row_version bigint not null, -- version of the deal under which the booking was published last
    -- INV-BKG-4: the deal is in Contract, so the booking does not expire.
    is_expiry_suspended boolean not null,
    check ((status = 'Active') = (ended_at is null))
) with (fillfactor = 85);
-- INV-BKG-1: at most one Active booking of an object and one of a deal.
create unique index booking_active_object on booking (property_object_id) where status = 'Active';
create unique index booking_active_deal on booking (deal_id) where status = 'Active';
-- Lists by the expiry of the Active booking.
create index booking_active_expiry on booking (expires_at) include (deal_id) where status = 'Active';
-- The job booking-expiry.
create index booking_overdue on booking (expires_at, id) where status = 'Active' and not is_expiry_suspended;

-- Stages: the periods of a deal in its steps. The last stage is open until the next one opens.

create table stage (
    deal_id uuid not null references deal (id),
    row_version bigint not null, -- version with which the deal entered the step
    step_id uuid not null,
    status text collate "C" not null,
    entered_at timestamptz not null,
    left_at timestamptz check (left_at >= entered_at),
    primary key (deal_id, row_version)
) with (fillfactor = 85);
create unique index stage_current on stage (deal_id) where left_at is null;

-- The timeline of deals. Every writer locks the deal, so positions follow the order of changes.

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
    row_version bigint not null, -- version of the deal after the change
    -- Agent and amount after the change. A republish needs both.
    agent_user_id uuid,
    amount bigint not null,
    currency text collate "C" not null,
    -- Platform: the deal's company reads neither the note nor the reason of this row.
    audience text collate "C" not null default 'Everyone' check (audience in ('Everyone', 'Platform')),
    check ((actor_user_id is null) = (actor_role = 'System')),
    constraint hidden_text_is_of_the_platform
        check (audience = 'Everyone' or actor_role in ('PlatformManager', 'CareService')),
    -- INV-TLE-5: only platform managers and the care service write manual notes.
    constraint manual_note_is_of_the_platform
        check (kind <> 'ManualNote' or actor_role in ('PlatformManager', 'CareService'))
);
create unique index timeline_newest on timeline (deal_id, position desc);

-- The register of status overrides. Each override also has rows in the timeline.

create table status_override (
    id uuid primary key,
    deal_id uuid not null references deal (id),
    tenant_id uuid not null,
    actor_user_id uuid not null,
    from_status text collate "C" not null,
    to_status text collate "C" not null,
    comment text not null check (char_length(comment) between 1 and 2000),
    created_at timestamptz not null,
    row_version bigint not null, -- version of the deal after the override
    unique (deal_id, row_version)
);
create index status_override_newest on status_override (created_at desc, id desc);
create index status_override_actor on status_override (actor_user_id, created_at desc, id desc);
create index status_override_tenant on status_override (tenant_id, created_at desc, id desc);
create index status_override_deal on status_override (deal_id, created_at desc, id desc);

-- INV-TLE-1, INV-STP-2, INV-OVR-1: the timeline, the log of pipelines and the register of overrides
-- are append-only.
create function reject_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;
create trigger timeline_append_only before update or delete or truncate on timeline
    for each statement execute function reject_change();
create trigger status_override_append_only before update or delete or truncate on status_override
    for each statement execute function reject_change();
create trigger pipeline_log_append_only before update or delete or truncate on pipeline_log
    for each statement execute function reject_change();

-- Totals of the deals of each step: stored totals, and changes that the job board-totals has not
-- folded in yet. The exact total is the sum of both. A stored total alone would serialize all moves
-- of deals of one developer.

create table step_total (
    step_id uuid not null,
    currency text collate "C" not null,
    count bigint not null,
    sum numeric not null, -- in minor units; it may exceed 64 bits
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

create function count_new_deals() returns trigger language plpgsql as $$
begin
    insert into step_total_change (step_id, currency, count, sum)
    select step_id, currency, count(*), sum(amount) from added group by step_id, currency;
    return null;
end
$$;
create trigger count_new_deals after insert on deal referencing new table as added
    for each statement execute function count_new_deals();

-- A row trigger, since each change updates one deal. The transition tables of a statement trigger
-- would cost each update more.
create function count_changed_deal() returns trigger language plpgsql as $$
begin
    insert into step_total_change (step_id, currency, count, sum)
    values (old.step_id, old.currency, -1, -old.amount), (new.step_id, new.currency, 1, new.amount);
    return null;
end
$$;
create trigger count_changed_deal after update of step_id, amount, currency on deal for each row
    when ((old.step_id, old.amount, old.currency) is distinct from (new.step_id, new.amount, new.currency))
    execute function count_changed_deal();

-- The deals and notes that each user has added to the deals of a developer in the present period,
-- for the limits of additions. A period begins with the first addition after the previous one.
create table addition (
    user_id uuid not null,
    tenant_id uuid not null,
    kind text collate "C" not null check (kind in ('DealCreated', 'DealReceived', 'NoteWritten')),
    period_began_at timestamptz not null,
    count integer not null,
    primary key (user_id, tenant_id, kind)
) with (fillfactor = 80);

-- Saved views: named queries of lists of deals.

create table saved_view (
    id uuid primary key,
    owner_user_id uuid not null,
    -- Null for a view of the platform's lists, else the company whose deals it lists.
    company_id uuid,
    name text not null check (char_length(name) between 1 and 100),
    query text not null check (char_length(query) <= 2000),
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index saved_view_owner on saved_view (owner_user_id, company_id, created_at, id);
