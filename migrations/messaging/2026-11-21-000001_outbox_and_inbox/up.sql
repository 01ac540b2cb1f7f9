-- Applied to the schema of every service. Owned by libs/messaging; nobody else reads or writes these.

-- Events of committed changes that have not reached the broker yet. Who appends one has the row locked
-- that it tells of, so that ids follow the order of commits per key.
create table outbox (
    id bigint generated always as identity primary key, -- also ce_sequence
    event_id uuid not null,
    topic text not null,
    key text not null,
    type text not null,
    payload bytea, -- null: nothing is left of the key
    headers json not null,
    created_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who relays. The epoch grows with every change of owner and fences the late deletes of the last one.
create table outbox_lease (
    only_one boolean primary key default true check (only_one),
    owner uuid not null,
    epoch bigint not null,
    expires_at timestamptz not null
);

-- Events that can never be sent; the later ones of their topic and key wait in the outbox behind them.
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

-- How far telling anew has come, of each kind of thing of which that is under way.
create table outbox_republish (
    aggregate text primary key,
    told_to uuid, -- null: nothing yet
    told bigint not null default 0
);

-- How far each consumer has come with each key.
create table inbox (
    consumer text not null,
    topic text not null,
    key text not null,
    sequence bigint not null,
    -- A message of this key was dead-lettered; those behind it follow until it is replayed or discarded.
    blocked boolean not null default false,
    -- A day, so that the index on it leaves most updates in their place.
    seen_on date not null default (clock_timestamp() at time zone 'UTC')::date,
    primary key (consumer, topic, key)
) with (fillfactor = 80);
create index inbox_seen_on on inbox (topic, seen_on);

-- The same for producers that give their events no sequence; kept longer than Kafka keeps messages.
create table inbox_event (
    consumer text not null,
    event_id text not null,
    seen_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
);
create index inbox_event_seen_at on inbox_event (seen_at);

-- Messages that a consumer could not take, whole, with the reason.
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

-- The highest version, and of equal ones the highest rank, that a consumer has heard of each fact of a thing.
create table thing_fact (
    consumer text not null,
    thing text not null,
    fact text not null,
    version bigint not null,
    rank smallint not null,
    primary key (consumer, thing, fact)
) with (fillfactor = 80);

-- Messages about things that their consumer does not know yet.
create table thing_waiting (
    id bigint generated always as identity primary key,
    consumer text not null,
    thing text not null,
    version bigint not null,
    topic text not null,
    partition integer not null,
    "offset" bigint not null,
    published_at timestamptz,
    key text not null,
    headers json not null,
    payload bytea,
    kept_at timestamptz not null default clock_timestamp()
);
create index thing_waiting_thing on thing_waiting (consumer, thing);
