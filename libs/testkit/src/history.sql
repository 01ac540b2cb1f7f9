create table {schema}.history_appended (
    sequence bigint not null,
    topic text not null,
    key text not null,
    primary key (topic, key, sequence)
);

create table {schema}.history_received (
    id bigint generated always as identity primary key,
    consumer text not null,
    topic text not null,
    key text not null,
    sequence bigint not null
);

-- The acquisitions and the renewals of the relay's lease.
create table {schema}.history_lease (
    at timestamptz not null default clock_timestamp(),
    epoch bigint not null
);

-- An event without the header `ce_sequence` has the id of its row as its sequence.
-- `security definer`: the role of the service needs no access to the history tables.
-- `on conflict do nothing`: a released event is inserted into the outbox again. The copy of a dead
-- letter has the sequence of its original.
create function {schema}.history_append() returns trigger language plpgsql security definer as $$ begin
    insert into {schema}.history_appended values (coalesce((new.headers ->> 'ce_sequence')::bigint, new.id), new.topic, new.key) on conflict do nothing;
    return null;
end $$;

-- After a failover the relay gives new ids to events that it has not sent.
create function {schema}.history_renumber() returns trigger language plpgsql security definer as $$ begin
    update {schema}.history_appended set sequence = new.id
    where topic = old.topic and key = old.key and sequence = old.id;
    return null;
end $$;

create function {schema}.history_receive() returns trigger language plpgsql security definer as $$ begin
    insert into {schema}.history_received (consumer, topic, key, sequence)
    values (new.consumer, new.topic, new.key, new.sequence);
    return null;
end $$;

create function {schema}.history_extend_lease() returns trigger language plpgsql security definer as $$ begin
    insert into {schema}.history_lease (epoch) values (new.epoch);
    return null;
end $$;

create trigger history after insert on {schema}.outbox
for each row execute function {schema}.history_append();

create trigger history_renumber after update of id on {schema}.outbox
for each row when (old.headers ->> 'ce_sequence' is null) execute function {schema}.history_renumber();

-- The inbox stores 0 for events without a sequence.
create trigger history after insert or update of sequence on {schema}.inbox
for each row when (new.sequence > 0) execute function {schema}.history_receive();

-- A release of the lease moves its end into the past.
create trigger history after update on {schema}.outbox_lease
for each row when (new.expires_at > old.expires_at) execute function {schema}.history_extend_lease();
