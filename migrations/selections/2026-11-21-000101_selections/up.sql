-- Owners

-- Counters of an owner. Each request that adds or removes an entry locks this row, so that the
-- limits hold under concurrent requests (INV-SEL-007, RULE-SEL-025).
create table owner (
    user_id uuid primary key,
    selections_count integer not null default 0 check (selections_count between 0 and 100),
    favorites_count integer not null default 0 check (favorites_count between 0 and 200),
    -- The items that the user has added to selections in the present hour, which begins with the
    -- first item after the previous hour.
    added_items_count integer not null default 0,
    added_items_since timestamptz
) with (fillfactor = 80);

-- Selections

-- A whole selection is read far more often than changed, so its items are one JSON column.
create table selection (
    id uuid primary key,
    owner_user_id uuid not null,
    -- Unique among deleted selections too, since a code is never used again (INV-SEL-005).
    public_code text collate "C" not null unique check (public_code ~ '^[0-9A-Za-z]{12}$'),
    title text not null check (char_length(title) between 1 and 200),
    description text check (char_length(description) <= 2000),
    items json not null,
    -- At most 200 items (INV-SEL-004).
    items_count integer not null generated always as (json_array_length(items)) stored check (items_count <= 200),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    updated_by_user_id uuid not null,
    -- The code opens the selection while its link is enabled and has not expired.
    link_enabled boolean not null default true,
    link_expires_at timestamptz,
    -- True from the first collaborator on. Collaborators know the id, also after their removal.
    was_shared boolean not null default false
);
create index selection_owner on selection (owner_user_id, created_at desc, id) where deleted_at is null;

-- A shared link must never open another selection (INV-SEL-005).
create function public_code_is_immutable() returns trigger language plpgsql as $$
begin
    raise exception 'a public code is immutable' using errcode = 'restrict_violation';
end
$$;
create trigger public_code_is_immutable before update of public_code on selection
    for each row when (new.public_code <> old.public_code) execute function public_code_is_immutable();

-- The data of an object when it was added to a selection, to find what has changed since.
create table added_object (
    selection_id uuid not null references selection (id),
    property_object_id uuid not null,
    status text,
    amount_minor bigint,
    currency text,
    primary key (selection_id, property_object_id)
);

-- How often a selection was opened by its code, without personal data. Its own table, so that a
-- read conflicts with no change of the selection.
create table opening (
    selection_id uuid primary key references selection (id),
    openings_count bigint not null,
    last_opened_at timestamptz not null
) with (fillfactor = 80);

-- People whom the owner lets edit a selection.
create table collaborator (
    selection_id uuid not null references selection (id),
    user_id uuid not null,
    added_at timestamptz not null,
    -- The time at which the person has left. The row stays, so that the owner cannot add the person
    -- again.
    left_at timestamptz,
    primary key (selection_id, user_id)
);
create index collaborator_user on collaborator (user_id, selection_id);

-- Favorites

create table favorite (
    owner_user_id uuid not null,
    property_object_id uuid not null,
    added_at timestamptz not null,
    primary key (owner_user_id, property_object_id)
);
create index favorite_order on favorite (owner_user_id, added_at, property_object_id);

-- Copy of chessboard

-- The data of property objects that open selections show and that snapshots copy while an object is
-- public. Reads withhold the data of the others (INV-DEV-6).
create table property_object (
    id uuid primary key,
    version bigint not null,
    is_public boolean not null,
    shown json not null
);

-- Snapshots

-- An immutable copy of a selection for a post. It is never deleted (INV-SNP-006).
create table snapshot (
    id uuid primary key,
    post_id uuid not null,
    source_selection_id uuid not null references selection (id),
    public_code text collate "C" not null,
    title text not null,
    description text,
    items json not null check (json_array_length(items) between 1 and 200),
    created_at timestamptz not null,
    detach_reason text check (detach_reason in ('BlockReplaced', 'PostDeleted')),
    detached_at timestamptz,
    check ((detach_reason is null) = (detached_at is null))
);
-- A post has at most one active snapshot of a source (RULE-SEL-019).
create unique index snapshot_active on snapshot (post_id, source_selection_id) where detached_at is null;

-- Allows only the detachment of a snapshot. Rejects every other change and every deletion
-- (INV-SNP-004 to INV-SNP-006).
create function snapshot_is_immutable() returns trigger language plpgsql as $$
declare
    detached record := old;
begin
    if tg_op = 'UPDATE' and old.detached_at is null then
        detached.detached_at := new.detached_at;
        detached.detach_reason := new.detach_reason;
        -- Compares all columns byte by byte, since `json` has no equality operator.
        if new *= detached then
            return new;
        end if;
    end if;
    raise exception 'a snapshot is immutable' using errcode = 'restrict_violation';
end
$$;
create trigger snapshot_is_immutable before update or delete on snapshot
    for each row execute function snapshot_is_immutable();
