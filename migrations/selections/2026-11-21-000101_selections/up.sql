-- How much an owner has. Its row is what requests of one owner queue on, so that the limits hold
-- whatever races (INV-SEL-007, and 200 favorites).
create table owner (
    user_id uuid primary key,
    selections_count integer not null default 0 check (selections_count between 0 and 100),
    favorites_count integer not null default 0 check (favorites_count between 0 and 200)
) with (fillfactor = 80);

-- A selection is read whole far more often than it is changed, so its items are a document of the row.
create table selection (
    id uuid primary key,
    owner_user_id uuid not null,
    -- Unique among the deleted ones too: a code is never used again (INV-SEL-005).
    public_code text collate "C" not null unique check (public_code ~ '^[0-9A-Za-z]{12}$'),
    title text not null check (char_length(title) between 1 and 200),
    description text check (char_length(description) <= 2000),
    items json not null,
    -- INV-SEL-004
    items_count integer not null generated always as (json_array_length(items)) stored check (items_count <= 200),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1)
);
create index selection_owner on selection (owner_user_id, created_at desc, id) where deleted_at is null;

create table favorite (
    owner_user_id uuid not null,
    property_object_id uuid not null,
    added_at timestamptz not null,
    primary key (owner_user_id, property_object_id)
);
create index favorite_order on favorite (owner_user_id, added_at, property_object_id);

-- What chessboard's property objects show, to be frozen into snapshots.
create table property_object (
    id uuid primary key,
    version bigint not null,
    shown json not null
);

-- An immutable copy of a selection, taken for a post; never deleted (INV-SNP-006).
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
-- One active snapshot of a source in a post, whatever races.
create unique index snapshot_active on snapshot (post_id, source_selection_id) where detached_at is null;

-- INV-SNP-004, INV-SNP-005, INV-SNP-006: only detaching changes a snapshot, once, and nothing removes it.
create function snapshot_is_immutable() returns trigger language plpgsql as $$
declare
    detached record := old;
begin
    if tg_op = 'UPDATE' and old.detached_at is null then
        detached.detached_at := new.detached_at;
        detached.detach_reason := new.detach_reason;
        -- All columns byte by byte, since `json` has no equality and need not be taken apart.
        if new *= detached then
            return new;
        end if;
    end if;
    raise exception 'a snapshot is immutable' using errcode = 'restrict_violation';
end
$$;
create trigger snapshot_is_immutable before update or delete on snapshot
    for each row execute function snapshot_is_immutable();
