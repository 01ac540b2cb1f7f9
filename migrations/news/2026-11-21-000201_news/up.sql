-- Posts

-- The ids of authors for readers. They are stable and do not reveal the users.
create table author (
    user_id uuid primary key,
    id uuid not null unique,
    -- The stored size of the blocks of all posts of the author. Deleted posts count, since they
    -- stay stored.
    content_bytes bigint not null default 0,
    -- The size of the revisions of these posts.
    revision_bytes bigint not null default 0
);
-- Finds the authors above the limit.
create index author_stored on author ((content_bytes + revision_bytes)) where revision_bytes > 0;

create table post (
    id uuid primary key,
    author_id uuid not null references author (id),
    author_user_id uuid not null,
    -- The company of the post, which is also its tenant. Null for a personal post.
    author_company_id uuid,
    title text not null check (char_length(title) between 1 and 256),
    summary text check (char_length(summary) <= 1000),
    cover_file_id uuid,
    tags json not null check (json_array_length(tags) <= 20),
    -- The tags as search compares them.
    tag_keys text[] collate "C" not null default '{}',
    -- Title, summary and tags, by which editors find posts in every status.
    label_words tsvector not null default '',
    status text not null check (status in ('Draft', 'Published', 'Unpublished', 'Archived')),
    blocks json not null,
    -- A reader reserves this size before it reads the blocks.
    blocks_bytes integer not null generated always as (octet_length(blocks::text)) stored,
    -- A copy of the embeds, so that edits, deletions and detachments need not read the texts.
    embeds json not null default '[]',
    blocks_count integer not null generated always as (json_array_length(blocks)) stored check (blocks_count <= 200),
    -- The text of the text blocks. Each change of the blocks writes it again (INV-NWS-008).
    search_text text not null,
    published_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    deleted_at timestamptz,
    -- True if a moderator has deleted the post. Then only a moderator brings it back.
    deleted_by_moderator boolean not null default false check (deleted_at is not null or not deleted_by_moderator),
    -- The times of the next moves, the user who has set them, and the issue time of this user's
    -- token. The job `post-schedule` makes the moves and clears the times.
    publish_at timestamptz,
    unpublish_at timestamptz check (unpublish_at > publish_at),
    scheduled_by_user_id uuid,
    schedule_token_issued_at timestamptz,
    -- The last move that failed, until the next schedule or publication.
    schedule_failure json,
    version bigint not null check (version >= 1),
    check ((publish_at is null and unpublish_at is null) or (scheduled_by_user_id is not null and schedule_token_issued_at is not null))
);
create index post_author on post (author_user_id, created_at desc, id) where deleted_at is null;
-- The lists of editors: of a company, and of all companies. No index of this table has a column
-- that an edit of the blocks changes, so such an edit writes no index.
create index post_company_created on post (author_company_id, created_at desc, id) where deleted_at is null;
create index post_company_published on post (author_company_id, published_at desc, id) where deleted_at is null;
create index post_created on post (created_at desc, id) where deleted_at is null;
create index post_published on post (published_at desc, id) where deleted_at is null;
create index post_status on post (status, created_at desc, id) where deleted_at is null;
create index post_tags on post using gin (tag_keys) where deleted_at is null;
create index post_labels on post using gin (label_words) where deleted_at is null;
-- The count of an author's drafts.
create index post_draft on post (author_user_id) where status = 'Draft' and deleted_at is null;

-- The log of a post. It has the domain event of each change of the content.
create table post_log (
    post_id uuid not null references post (id),
    version bigint not null,
    kind text collate "C" not null check (kind in ('PostContentChangedEvent')),
    actor_user_id uuid not null,
    blocks_count integer not null,
    occurred_at timestamptz not null,
    primary key (post_id, version)
);

create function post_log_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'post_log is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger post_log_append_only before update or delete or truncate on post_log
    for each statement execute function post_log_append_only();

-- Earlier contents of a post. A job deletes them 90 days after their replacement, and earlier if the
-- author stores too much.
create table post_revision (
    post_id uuid not null references post (id),
    version bigint not null,
    author_id uuid not null references author (id),
    blocks json not null,
    blocks_bytes integer not null,
    -- Time of the replacement.
    created_at timestamptz not null,
    primary key (post_id, version)
);
create index post_revision_created on post_revision (created_at);
create index post_revision_author on post_revision (author_id, created_at);

-- An edit of a draft is one statement, so a trigger writes the entry and the revision. It stores the
-- replaced content, with the version of the previous entry, in three cases: another user made that
-- entry, the edit removes blocks or more than half of the size, or no revision of the post is newer
-- than 5 minutes. A post keeps its newest 49 revisions, of at most 64 MiB together. The row of the
-- author is locked last. The job `post-revisions` locks in the same order.
create function log_content_change() returns trigger language plpgsql set search_path from current as $$
declare
    last record;
    change bigint := 0;
begin
    select version, actor_user_id into last from post_log where post_id = new.id order by version desc limit 1;
    insert into post_log (post_id, version, kind, actor_user_id, blocks_count, occurred_at)
    values (new.id, new.version, 'PostContentChangedEvent', new.updated_by_user_id, new.blocks_count, new.updated_at);
    if last.version is not null and (
        last.actor_user_id <> new.updated_by_user_id
        or new.blocks_count < old.blocks_count
        or new.blocks_bytes < old.blocks_bytes / 2
        or not exists (
            select from post_revision where post_id = new.id and created_at > new.updated_at - interval '5 minutes'
        )
    ) then
        with counted as (
            select version, row_number() over newest as number, sum(blocks_bytes) over newest as bytes
            from post_revision where post_id = new.id window newest as (order by version desc)
        ), locked as (
            select version from post_revision
            where post_id = new.id and version in (
                select version from counted where number >= 49 or bytes + old.blocks_bytes > 64 * 1024 * 1024
            )
            order by version for update
        ), surplus as (
            delete from post_revision using locked
            where post_revision.post_id = new.id and post_revision.version = locked.version
            returning post_revision.blocks_bytes
        )
        select old.blocks_bytes - coalesce(sum(blocks_bytes), 0) from surplus into change;
        insert into post_revision (post_id, version, author_id, blocks, blocks_bytes, created_at)
        values (new.id, last.version, new.author_id, old.blocks, old.blocks_bytes, new.updated_at);
    end if;
    -- A new post has no blocks, so only edits change the size of the content.
    if change <> 0 or new.blocks_bytes <> old.blocks_bytes then
        update author set
            content_bytes = content_bytes + new.blocks_bytes - old.blocks_bytes,
            revision_bytes = revision_bytes + change
        where id = new.author_id;
    end if;
    return null;
end
$$;
create trigger log_content_change after update of blocks on post
    for each row when (new.version > old.version) execute function log_content_change();

-- The contents that a post can show: its revisions, and the present content under the version of
-- its newest entry.
create view kept_revision as
select content.post_id, content.version, entry.actor_user_id, entry.blocks_count, entry.occurred_at,
    content.blocks, content.blocks_bytes
from (
    select post_id, version, blocks, blocks_bytes from post_revision
    union all
    select post.id, newest.version, post.blocks, post.blocks_bytes
    from post cross join lateral (
        select version from post_log where post_id = post.id order by version desc limit 1
    ) as newest
) as content
join post_log as entry on entry.post_id = content.post_id and entry.version = content.version;

-- Compression takes much of PostgreSQL's time for an edit, and lz4 is faster than the default
-- method. Not every server is built with lz4.
do $$
begin
    alter table post
        alter column blocks set compression lz4,
        alter column embeds set compression lz4,
        alter column search_text set compression lz4;
    alter table post_revision alter column blocks set compression lz4;
exception when feature_not_supported then
    raise notice 'this server is built without lz4: texts of posts keep the default compression';
end
$$;

-- Feed and search

-- The search projection, with one row for each published post.
create table post_search (
    post_id uuid primary key references post (id),
    published_at timestamptz not null,
    created_at timestamptz not null,
    -- The time of the last change that readers see, for the Atom feed. A new schedule does not
    -- change it.
    updated_at timestamptz not null,
    author_company_id uuid,
    tag_keys text[] collate "C" not null default '{}',
    words tsvector not null,
    -- The words that `Relevance` ranks: those of the title, the labels and the beginning of the text.
    -- A rank reads all of them, for up to 10,000 posts, and `words` may have 1 MB.
    ranked_words tsvector not null default ''
);
create index post_search_published on post_search (published_at desc, post_id);
create index post_search_created on post_search (created_at desc, post_id);
create index post_search_updated on post_search (updated_at desc, post_id);
create index post_search_company_published on post_search (author_company_id, published_at desc, post_id);
create index post_search_company_updated on post_search (author_company_id, updated_at desc, post_id);
create index post_search_tags on post_search using gin (tag_keys);
create index post_search_words on post_search using gin (words);

-- The number of published posts. Each page of the feed returns it, and counting a million rows
-- takes longer than the rest of the page.
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

-- PostgreSQL's Russian configuration stems Latin words as English. A tsvector has at most 1 MB.
-- A text with more distinct words is halved until it fits. `labels` are the summary and the tags.
create function search_words(title text, labels text, body text) returns tsvector language plpgsql immutable as $$
begin
    loop
        begin
            return setweight(to_tsvector('russian', title), 'A') || setweight(to_tsvector('russian', labels), 'B')
                || to_tsvector('russian', body);
        exception when program_limit_exceeded then
            body := left(body, char_length(body) / 2);
        end;
    end loop;
end
$$;

-- Snapshots

-- A claim: an edit is about to take a snapshot. The edit writes it before the call, so that the
-- snapshot is found if the edit fails. A successful edit deletes its claims.
create table snapshot_claim (
    edit_id uuid not null,
    source_selection_id uuid not null,
    post_id uuid not null,
    actor_user_id uuid not null,
    -- Null if the edit takes no snapshot of a selection of the author.
    author_user_id uuid,
    -- The time from which the job settles the claim. The calls of the edit have ended by then.
    due_at timestamptz not null,
    primary key (edit_id, source_selection_id)
);
create index snapshot_claim_due on snapshot_claim (due_at);

-- A detachment: a snapshot left its post, and news must detach it in selections.
create table snapshot_detach (
    snapshot_id uuid primary key,
    post_id uuid not null,
    reason text not null check (reason in ('BlockReplaced', 'PostDeleted')),
    -- An edit cannot cancel a started detachment.
    started boolean not null default false,
    -- The time of the detachment. The row stays 10 minutes longer, since an edit that read the
    -- snapshot before must still find it.
    detached_at timestamptz
);
create index snapshot_detach_done on snapshot_detach (detached_at) where detached_at is not null;
