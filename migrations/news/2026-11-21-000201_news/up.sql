create table post (
    id uuid primary key,
    author_user_id uuid not null,
    -- Also the tenant; null for posts of investors and employees.
    author_company_id uuid,
    title text not null check (char_length(title) between 1 and 256),
    summary text check (char_length(summary) <= 1000),
    cover_file_id uuid,
    tags json not null check (json_array_length(tags) <= 20),
    status text not null check (status in ('Draft', 'Published', 'Unpublished', 'Archived')),
    blocks json not null,
    -- Who is going to read the blocks makes room first.
    blocks_bytes integer not null generated always as (octet_length(blocks::text)) stored,
    -- The embeds among the blocks once more: who edits, deletes or detaches need not read the words.
    embeds json not null default '[]',
    blocks_count integer not null generated always as (json_array_length(blocks)) stored check (blocks_count <= 200),
    -- INV-NWS-008: computed from the text blocks with every change of theirs.
    search_text text not null,
    published_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    deleted_at timestamptz,
    version bigint not null check (version >= 1)
);
create index post_author on post (author_user_id, created_at desc, id) where deleted_at is null;

-- The search projection: what the public can find. A row for each published post.
create table post_search (
    post_id uuid primary key references post (id),
    published_at timestamptz not null,
    created_at timestamptz not null,
    words tsvector not null
);
create index post_search_published on post_search (published_at desc, post_id);
create index post_search_created on post_search (created_at desc, post_id);
create index post_search_words on post_search using gin (words);

-- How many there are, since each page of the feed tells: counting a million takes longer than all the rest.
create table post_search_count (
    only_one bool primary key default true check (only_one),
    posts bigint not null
);
insert into post_search_count (posts) values (0);
create function count_post_search() returns trigger language plpgsql set search_path from current as $$
declare
    change bigint := (select count(*) from changed) * case tg_op when 'INSERT' then 1 else -1 end;
begin
    if change <> 0 then
        update post_search_count set posts = posts + change;
    end if;
    return null;
end
$$;
create trigger count_inserted after insert on post_search referencing new table as changed
    for each statement execute function count_post_search();
create trigger count_deleted after delete on post_search referencing old table as changed
    for each statement execute function count_post_search();

-- PostgreSQL's Russian configuration stems Latin words as English. A tsvector holds 1 MB: of a text
-- with more distinct words than that, a first part is kept that fits: half of it, a quarter, and so on.
create function search_words(title text, body text) returns tsvector language plpgsql immutable as $$
begin
    loop
        begin
            return setweight(to_tsvector('russian', title), 'A') || to_tsvector('russian', body);
        exception when program_limit_exceeded then
            body := left(body, char_length(body) / 2);
        end;
    end loop;
end
$$;

-- A snapshot that an edit is about to take, written before the call, so that whatever becomes of the
-- edit somebody knows of it. An edit that succeeds removes its own.
create table snapshot_claim (
    edit_id uuid not null,
    source_selection_id uuid not null,
    post_id uuid not null,
    actor_user_id uuid not null,
    author_user_id uuid not null,
    -- From then on the edit is over, one way or another.
    due_at timestamptz not null,
    primary key (edit_id, source_selection_id)
);
create index snapshot_claim_due on snapshot_claim (due_at);

-- A snapshot that is no longer in its post and is to be detached in selections.
create table snapshot_detach (
    snapshot_id uuid primary key,
    post_id uuid not null,
    reason text not null check (reason in ('BlockReplaced', 'PostDeleted')),
    -- Once it has started, no edit can put the snapshot back.
    started boolean not null default false,
    -- The row stays for a while after: an edit may have been told of the snapshot before.
    detached_at timestamptz
);
create index snapshot_detach_done on snapshot_detach (detached_at) where detached_at is not null;
