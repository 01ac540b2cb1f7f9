-- Chats and their members.

-- The lock of a chat's row serializes all changes of the chat.
create table chat (
    id uuid primary key,
    kind text collate "C" not null check (kind in ('Deal', 'Direct')),
    -- INV-MSG-1: one chat for each deal.
    deal_id uuid unique,
    tenant_id uuid,
    property_object_id uuid,
    -- INV-MSG-1: one Direct chat for each pair of users, the lower id first.
    direct_low uuid,
    direct_high uuid check (direct_high > direct_low),
    -- The users of a Direct chat who block the other one. A block outlives the membership.
    blocked_by uuid[] not null default '{}',
    -- Time when a moderator closed a Direct chat.
    closed_at timestamptz,
    -- The deal's agent by the highest applied version. This user need not be a member, as after
    -- a removal by a supervisor.
    agent_user_id uuid,
    -- The highest applied version of the deal.
    row_version bigint,
    -- The status of the deal after the newest change. Null before the first change.
    deal_status text,
    -- INV-MSG-2: the sequence of the newest message.
    last_sequence bigint not null default 0 check (last_sequence >= 0),
    created_at timestamptz not null,
    last_activity_at timestamptz not null,
    check ((kind = 'Deal') = (deal_id is not null and tenant_id is not null and property_object_id is not null)),
    check ((kind = 'Deal') = (row_version is not null)),
    check ((kind = 'Direct') = (direct_low is not null and direct_high is not null)),
    check (kind = 'Direct' or (blocked_by = '{}' and closed_at is null)),
    constraint chat_direct unique (direct_low, direct_high)
) with (fillfactor = 80);
-- Lists of a company's supervisors.
create index chat_tenant_activity on chat (tenant_id, last_activity_at desc, id) where kind = 'Deal';
create index chat_tenant_created on chat (tenant_id, created_at desc, id) where kind = 'Deal';
-- Lists of supervisors of all companies.
create index chat_activity on chat (last_activity_at desc, id) where kind = 'Deal';
create index chat_created on chat (created_at desc, id) where kind = 'Deal';

-- INV-MSG-6: each member once.
create table member (
    user_id uuid not null,
    chat_id uuid not null references chat (id),
    role text collate "C" not null check (role in ('Client', 'Agent', 'Manager', 'Member')),
    -- The role that an Agent returns to when the deal has another agent. Null for an agent who then
    -- leaves the chat.
    fallback_role text collate "C" check (fallback_role in ('Manager', 'Member')),
    joined_at timestamptz not null,
    -- INV-MSG-5: the read marker.
    read_sequence bigint not null check (read_sequence >= 0),
    primary key (user_id, chat_id),
    check (fallback_role is null or role = 'Agent')
) with (fillfactor = 80);
create index member_chat on member (chat_id, joined_at, user_id);

-- Employment.

-- Companies of identity.
create table company (
    id uuid primary key,
    -- Time when this service stored the suspension or the archiving. Null for an active company.
    ended_at timestamptz
);

-- Employments of identity. Each user has at most one that has not ended.
create table employment (
    user_id uuid not null,
    company_id uuid not null references company (id),
    -- Time of the end or the suspension, plus two minutes for a slow clock of identity, but never
    -- in the future. Null while the employment is active.
    ended_at timestamptz,
    -- Time of the newest change.
    changed_at timestamptz not null,
    primary key (user_id, company_id)
);
-- Employees of a suspended company.
create index employment_company on employment (company_id) where ended_at is null;

-- Users who left a deal's chat because their employment ended, and former employees whom a deal
-- named but did not bring in. A row is deleted when a supervisor hands the chat over, or when the
-- user is added.
create table departure (
    user_id uuid not null,
    chat_id uuid not null references chat (id),
    -- Role that the deal gave to a former employee, and time when the deal was applied. Null for
    -- a user who left.
    barred_role text collate "C" check (barred_role in ('Agent', 'Manager')),
    barred_at timestamptz,
    primary key (user_id, chat_id),
    check ((barred_role is null) = (barred_at is null))
);

-- Messages.

create table message (
    id uuid primary key,
    chat_id uuid not null references chat (id),
    sequence bigint not null check (sequence >= 1),
    kind text collate "C" not null check (kind in ('Text', 'System')),
    sender_user_id uuid,
    client_message_id uuid,
    -- Null after the deletion of the message.
    text text check (char_length(text) between 1 and 4000),
    card json,
    created_at timestamptz not null,
    edited_at timestamptz,
    deleted_at timestamptz,
    version bigint not null check (version >= 1),
    -- INV-MSG-2: sequences of a chat are unique.
    constraint message_sequence unique (chat_id, sequence),
    -- INV-MSG-4: one message for each client id of a sender in a chat.
    constraint message_client_message_id unique (chat_id, sender_user_id, client_message_id),
    check ((kind = 'System') = (card is not null)),
    check ((kind = 'Text') = (sender_user_id is not null)),
    check ((kind = 'Text' and deleted_at is null) = (text is not null))
) with (fillfactor = 90);

-- The number of messages of each sender in the present hour, for the limit of messages in an hour.
-- An hour begins with the first message after the previous hour.
create table sender (
    user_id uuid primary key,
    hour_began_at timestamptz not null,
    messages integer not null
) with (fillfactor = 80);

-- Reports of Direct chats.

create table report (
    id uuid primary key,
    chat_id uuid not null references chat (id),
    reporter_user_id uuid not null,
    reported_user_id uuid not null,
    reason text collate "C" not null check (reason in ('Spam', 'Harassment', 'Fraud', 'Other')),
    comment text check (char_length(comment) between 1 and 1000),
    status text collate "C" not null check (status in ('Open', 'ChatClosed', 'Dismissed')),
    created_at timestamptz not null,
    decided_at timestamptz,
    decided_by_user_id uuid,
    check ((status = 'Open') = (decided_at is null)),
    check ((status = 'Open') = (decided_by_user_id is null))
);
-- One open report for each reporter of a chat.
create unique index report_open on report (chat_id, reporter_user_id) where status = 'Open';
create index report_created on report (created_at, id);
create index report_status_created on report (status, created_at, id);

-- Every reading of a reported chat by a moderator.
create table report_reading (
    id bigint generated always as identity primary key,
    report_id uuid not null references report (id),
    chat_id uuid not null,
    moderator_user_id uuid not null,
    read_at timestamptz not null default clock_timestamp()
);

create function report_reading_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the log of readings is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger report_reading_is_append_only before update or delete or truncate on report_reading
    for each statement execute function report_reading_is_append_only();

-- Conferences.

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
    -- A document, because participants are only read and written together with the conference.
    participants json not null,
    -- True if members without an invitation have to knock. `knocks` has their knocks.
    has_lobby boolean not null,
    knocks json not null,
    -- Time since which no participant of an Active conference is Joined.
    empty_since timestamptz,
    version bigint not null check (version >= 1),
    -- INV-CNF-4: the times and the reason follow the status.
    check ((status = 'Ended') = (ended_at is not null)),
    check ((status = 'Ended') = (end_reason is not null)),
    check (status <> 'Ringing' or active_at is null),
    check (status <> 'Active' or active_at is not null),
    check (status = 'Active' or empty_since is null)
) with (fillfactor = 80);
-- INV-CNF-1: one live conference for each chat.
create unique index conference_live on conference (chat_id) where status <> 'Ended';
create index conference_chat on conference (chat_id, created_at, id);

-- Admissions and denials of users who knocked, and changes of hosts.
create table conference_log (
    id bigint generated always as identity primary key,
    conference_id uuid not null references conference (id),
    kind text collate "C" not null check (kind in ('Admitted', 'Denied', 'HostChanged')),
    -- The admitted or denied user, or the new host.
    user_id uuid not null,
    -- The user who admitted or denied, or the former host. An invitation by any participant admits
    -- a waiting user.
    by_user_id uuid not null,
    at timestamptz not null
);
create index conference_log_conference on conference_log (conference_id, id);

create function conference_log_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the log of conferences is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger conference_log_is_append_only before update or delete or truncate on conference_log
    for each statement execute function conference_log_is_append_only();

-- Ids of LiveKit's webhooks, each of which counts once. The id is a SHA-256, because LiveKit's own
-- id may be any text.
create table webhook (
    id bytea primary key,
    received_at timestamptz not null
);
create index webhook_received on webhook (received_at);

-- Streams.

-- The newest event of each user's stream. Transactions that append events lock these rows in the
-- order of user ids.
create table stream (
    user_id uuid primary key,
    last_event bigint not null
) with (fillfactor = 80);

-- Events of the streams, as references without content.
create table stream_event (
    user_id uuid not null,
    event bigint not null,
    kind text collate "C" not null check (kind in ('chat', 'chat-removed', 'message', 'read', 'conference')),
    chat_id uuid not null,
    -- The message, the reader or the conference.
    subject_id uuid,
    at timestamptz not null,
    primary key (user_id, event)
);
create index stream_event_at on stream_event (at);
