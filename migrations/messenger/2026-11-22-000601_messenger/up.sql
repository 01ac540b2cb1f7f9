-- A chat. Its row is what all that is said and done in it queues on.
create table chat (
    id uuid primary key,
    kind text collate "C" not null check (kind in ('Deal', 'Direct')),
    -- INV-MSG-1
    deal_id uuid unique,
    tenant_id uuid,
    property_object_id uuid,
    -- INV-MSG-1: the two of a Direct chat, the lower id first.
    direct_low uuid,
    direct_high uuid check (direct_high > direct_low),
    -- Who the deal's agent is, also where a supervisor has removed them, by the newest of its versions.
    agent_user_id uuid,
    row_version bigint,
    -- INV-MSG-2
    last_sequence bigint not null default 0 check (last_sequence >= 0),
    created_at timestamptz not null,
    last_activity_at timestamptz not null,
    check ((kind = 'Deal') = (deal_id is not null and tenant_id is not null and property_object_id is not null)),
    check ((kind = 'Deal') = (row_version is not null)),
    check ((kind = 'Direct') = (direct_low is not null and direct_high is not null)),
    constraint chat_direct unique (direct_low, direct_high)
) with (fillfactor = 80);
create index chat_tenant_activity on chat (tenant_id, last_activity_at desc, id) where kind = 'Deal';
create index chat_tenant_created on chat (tenant_id, created_at desc, id) where kind = 'Deal';
-- For the platform, which supervises all of them.
create index chat_activity on chat (last_activity_at desc, id) where kind = 'Deal';
create index chat_created on chat (created_at desc, id) where kind = 'Deal';

-- INV-MSG-6: each once.
create table member (
    user_id uuid not null,
    chat_id uuid not null references chat (id),
    role text collate "C" not null check (role in ('Client', 'Agent', 'Manager', 'Member')),
    -- What an Agent is when the deal has another one; null: nobody of this chat.
    role_beneath text collate "C" check (role_beneath in ('Manager', 'Member')),
    joined_at timestamptz not null,
    -- INV-MSG-5
    read_sequence bigint not null check (read_sequence >= 0),
    primary key (user_id, chat_id),
    check (role_beneath is null or role = 'Agent')
) with (fillfactor = 80);
create index member_chat on member (chat_id, joined_at, user_id);

create table message (
    id uuid primary key,
    chat_id uuid not null references chat (id),
    sequence bigint not null check (sequence >= 1),
    kind text collate "C" not null check (kind in ('Text', 'System')),
    sender_user_id uuid,
    client_message_id uuid,
    text text check (char_length(text) between 1 and 4000),
    card json,
    created_at timestamptz not null,
    edited_at timestamptz,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    -- INV-MSG-2
    constraint message_sequence unique (chat_id, sequence),
    -- INV-MSG-4
    constraint message_client_message_id unique (chat_id, sender_user_id, client_message_id),
    check ((kind = 'System') = (card is not null)),
    check ((kind = 'Text') = (sender_user_id is not null)),
    check ((kind = 'Text' and deleted_at is null) = (text is not null))
) with (fillfactor = 90);

create table conference (
    id uuid primary key,
    chat_id uuid not null references chat (id),
    deal_id uuid not null,
    tenant_id uuid not null,
    status text collate "C" not null check (status in ('Ringing', 'Active', 'Ended')),
    media text collate "C" not null check (media in ('Audio', 'Video')),
    started_by_user_id uuid not null,
    created_at timestamptz not null,
    active_at timestamptz,
    ended_at timestamptz,
    end_reason text collate "C"
        check (end_reason in ('EndedByHost', 'AllLeft', 'NoAnswer', 'AllDeclined', 'MaxDuration')),
    ended_by_user_id uuid,
    -- A document: who is in it is only ever read and written with it.
    participants json not null,
    -- While it is Active: since when nobody is Joined.
    empty_since timestamptz,
    version bigint not null check (version >= 1),
    -- INV-CNF-4
    check ((status = 'Ended') = (ended_at is not null)),
    check ((status = 'Ended') = (end_reason is not null)),
    check (status <> 'Ringing' or active_at is null),
    check (status <> 'Active' or active_at is not null),
    check (status = 'Active' or empty_since is null)
) with (fillfactor = 80);
-- INV-CNF-1. Its deadline is the time of its job.
create unique index conference_live on conference (chat_id) where status <> 'Ended';
create index conference_chat on conference (chat_id, created_at, id);

-- What LiveKit has told: each id counts once. As SHA-256, since anything may stand there.
create table webhook (
    id bytea primary key,
    heard_at timestamptz not null
);
create index webhook_heard on webhook (heard_at);

-- How far each person's stream has come. Its row is what those who write to it queue on.
create table stream (
    user_id uuid primary key,
    last_event bigint not null
) with (fillfactor = 80);

-- What each person is to be told: references, never texts.
create table stream_event (
    user_id uuid not null,
    event bigint not null,
    kind text collate "C" not null check (kind in ('chat', 'chat-removed', 'message', 'read', 'conference')),
    chat_id uuid not null,
    -- The message, the reader, or the conference.
    subject_id uuid,
    at timestamptz not null,
    primary key (user_id, event)
);
create index stream_event_at on stream_event (at);
