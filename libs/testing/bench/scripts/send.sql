\set number random(1, :chats)
begin;
select id, kind, deal_id, tenant_id, property_object_id, agent_user_id, row_version, last_sequence, created_at, last_activity_at
from chat where id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid for no key update;
select chat_id, user_id, role, fallback_role, joined_at, read_sequence from member
where chat_id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid order by joined_at, user_id;
insert into sender (user_id, hour_began_at, messages)
values (('5eed0043-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid, clock_timestamp(), 1)
on conflict (user_id) do update set messages = sender.messages + 1;
with said as (
insert into message (id, chat_id, sequence, kind, sender_user_id, text, created_at, version)
select gen_random_uuid(), id, last_sequence + 1, 'Text', ('5eed0043-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid,
'When can you come and look at it once more?', clock_timestamp(), 1
from chat where id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid
), moved as (
update chat set last_sequence = last_sequence + 1, last_activity_at = clock_timestamp()
where id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid)
update member set read_sequence = chat.last_sequence + 1 from chat
where chat.id = member.chat_id and chat_id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid
and user_id = ('5eed0043-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
insert into outbox (event_id, topic, key, type, payload, headers)
select gen_random_uuid(), 'platform.messenger.message-sent.v1', id::text, 'platform.messenger.message-sent.v1',
convert_to(repeat('{"ChatId":"5eed0042-0000-4000-8000-000000000000"}', 9), 'UTF8'), '{"contractversion":"1"}'
from chat where id = ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
with last_events as (
insert into stream (user_id, last_event)
select distinct user_id, 1 from unnest(array[
('5eed0043-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid,
('5eed0044-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid,
('5eed0045-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid]) as people (user_id) order by user_id
on conflict (user_id) do update set last_event = stream.last_event + 1
returning user_id, last_event
), forgotten as (
delete from stream_event using last_events
where stream_event.user_id = last_events.user_id and stream_event.event = last_events.last_event - 1000)
insert into stream_event (user_id, event, kind, chat_id, subject_id, at)
select user_id, last_event, 'message', ('5eed0042-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid,
gen_random_uuid(), clock_timestamp() from last_events;
commit;
