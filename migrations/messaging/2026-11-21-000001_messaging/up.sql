-- Tables of libs/messaging, in the schema of every service. Only libs/messaging accesses them.

-- Events of committed changes that the broker has not acknowledged yet. The transaction that
-- appends an event locks the row of its aggregate, so that the ids of one key follow the order of
-- commits.
create table outbox (
    id bigint generated always as identity, -- also ce_sequence
    event_id uuid not null,
    topic text not null,
    key text not null,
    type text not null,
    payload bytea, -- null: a tombstone
    headers json not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (topic, id) -- each topic is read apart from the others
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The topics of the outbox. No row of a topic has an id up to the floor, and none can appear there.
-- Reads begin above the floor, so they skip the rows that a long snapshot keeps after their
-- deletion.
create table outbox_lane (
    topic text primary key,
    floor bigint not null default 0
);

-- The lease of the relay. The epoch increases with each change of owner. A late delete of the
-- previous owner therefore has no effect.
create table outbox_lease (
    only_one boolean primary key default true check (only_one),
    owner uuid not null,
    epoch bigint not null,
    expires_at timestamptz not null
);

-- Events that the broker rejects. Later events of the same topic and key wait in the outbox.
create table outbox_parked (
    id bigint primary key,
    event_id uuid not null,
    topic text not null,
    key text not null,
    type text not null,
    payload bytea,
    headers json not null,
    created_at timestamptz not null,
    error text not null,
    parked_at timestamptz not null default clock_timestamp()
);
create index outbox_parked_key on outbox_parked (topic, key);

-- The next rows to send, in the order of their ids: not in flight, not of a held topic, not of a
-- held key, and not behind a parked event. The last row may exceed `max_bytes`.
--
-- Statistics cannot follow an outbox that grows from nothing to a backlog within seconds. For an
-- unknown size PostgreSQL would sort the whole backlog for each batch, so the settings leave it only
-- the order of the indexes.
create function outbox_next(
    in_flight bigint[], held_topics text[], key_topics text[], held_keys text[], max_rows integer, max_bytes bigint
) returns setof outbox
language sql stable
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
    select id, event_id, topic, key, type, payload, headers, created_at
    from (
        select lowest.*, sum(octet_length(payload)) over (
            order by id rows between unbounded preceding and 1 preceding
        ) as bytes_before
        from (
            select pending.*
            from outbox_lane as lane
            cross join lateral (
                select *
                from outbox
                where outbox.topic = lane.topic and id > lane.floor
                  and id <> all (in_flight)
                  and (outbox.topic, key) not in (select * from unnest(key_topics, held_keys))
                  and not exists (
                      select from outbox_parked
                      where outbox_parked.topic = outbox.topic and outbox_parked.key = outbox.key
                  )
                order by id
                limit max_rows
            ) as pending
            where lane.topic <> all (held_topics)
            order by id
            limit max_rows
        ) as lowest
    ) as next
    where bytes_before is null or bytes_before < max_bytes
    order by id
$$;

-- Deletes acknowledged rows if the lease is still held, and returns their number. Each row is found by
-- one look into the index. A join would scan a backlog that the statistics take for an empty outbox.
create function outbox_delete(topics text[], ids bigint[], of_owner uuid, of_epoch bigint) returns bigint
language sql volatile
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
    with deleted as (
        delete from outbox
        where ctid = any(array(
                select pending.row
                from unnest(topics, ids) as acknowledged (topic, id)
                cross join lateral (
                    select outbox.ctid as row
                    from outbox
                    where outbox.topic = acknowledged.topic and outbox.id = acknowledged.id
                    limit 1
                ) as pending
            ))
          and exists (
              select from outbox_lease
              where owner = of_owner and epoch = of_epoch and expires_at > clock_timestamp()
          )
        returning outbox.id
    )
    select count(*) from deleted
$$;

-- The progress of each running republish command.
create table outbox_republish (
    aggregate text primary key,
    last_key uuid, -- null: no key has been republished yet
    republished bigint not null default 0 -- number of keys
);

-- The last sequence that each consumer has applied, for each key of a topic.
create table inbox (
    consumer text not null,
    topic text not null,
    key text not null,
    sequence bigint not null,
    -- True if a message of the key is a dead letter. Later messages then become dead letters, too.
    blocked boolean not null default false,
    -- The day of the last message. A time would change the indexed value with each message.
    seen_on date not null default (clock_timestamp() at time zone 'UTC')::date,
    primary key (consumer, topic, key)
) with (fillfactor = 80);
create index inbox_seen_on on inbox (topic, seen_on);

-- The applied events of producers that set no sequence. Rows are kept longer than Kafka keeps
-- messages.
create table inbox_event (
    consumer text not null,
    event_id text not null,
    seen_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
);
create index inbox_event_seen_at on inbox_event (seen_at);

-- Messages that a consumer cannot apply, with the reason.
create table dead_letter (
    id bigint generated always as identity primary key,
    consumer text not null,
    topic text not null,
    partition integer not null,
    "offset" bigint not null,
    published_at timestamptz,
    key text not null,
    headers json not null,
    payload bytea, -- null: a tombstone
    error text not null,
    dead_at timestamptz not null default clock_timestamp()
);
create index dead_letter_key on dead_letter (consumer, topic, key, id);

-- The highest version that a consumer has applied, for each field of an entity. Among equal
-- versions, the higher tie-breaker counts.
create table applied_version (
    consumer text not null,
    entity text not null,
    field text not null,
    version bigint not null,
    tie_breaker smallint not null,
    primary key (consumer, entity, field)
) with (fillfactor = 80);

-- Messages that a consumer stores until their entity exists.
create table deferred_message (
    id bigint generated always as identity primary key,
    consumer text not null,
    entity text not null,
    version bigint not null,
    topic text not null,
    partition integer not null,
    "offset" bigint not null,
    published_at timestamptz,
    key text not null,
    headers json not null,
    payload bytea,
    deferred_at timestamptz not null default clock_timestamp()
);
create index deferred_message_entity on deferred_message (consumer, entity);
-- Finds messages that have exceeded their retention.
create index deferred_message_deferred_at on deferred_message (consumer, deferred_at);
