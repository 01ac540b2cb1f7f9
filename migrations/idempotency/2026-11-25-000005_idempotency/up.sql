-- First responses to requests with Idempotency-Key. Applied to the schema of every service and
-- owned by libs/service.

-- A row is written in the transaction of the request's change.
create table idempotent_response (
    actor text collate "C" not null,
    key text collate "C" not null check (length(key) between 1 and 255),
    -- Distinguishes the request from another one of the actor under the same key.
    fingerprint bytea not null check (length(fingerprint) = 16),
    status smallint not null check (status between 200 and 299),
    location text,
    body text not null,
    -- The entity in the body, if its erasure has to erase the body, too.
    entity_id uuid,
    created_at timestamptz not null default clock_timestamp(),
    primary key (actor, key)
);
-- Finds the oldest responses, which a job deletes.
create index idempotent_response_created_at on idempotent_response (created_at);
-- Finds the responses to erase.
create index idempotent_response_entity on idempotent_response (entity_id) where entity_id is not null;
