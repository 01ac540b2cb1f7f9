\set number random(1, :deals)
begin;
select * from deal left join booking on booking.deal_id = deal.id and booking.status = 'Active'
left join company on company.id = deal.tenant_id and company.kind = 'Developer'
left join property_object on property_object.id = deal.property_object_id
where deal.id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
select id, "group", name, sort_order, is_default, archived_at from step
where tenant_id = (select tenant_id from deal where id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid)
and archived_at is null order by sort_order;
select id from step where id = :step and archived_at is null for share;
update deal set agent_user_id = null, amount = 700000000, currency = 'RUB', status = 'Booking', step_id = :step,
step_group = 'Booking', step_entered_at = clock_timestamp(), contract_type = null, payment_method = null,
contract_number = null, folded_contract_number = null, escrow_account_number = null, fixation_data = null, cancelled_at = null, cancel_reason = null, completed_at = null,
updated_at = clock_timestamp(), updated_by_user_id = id, row_version = row_version + 1,
stage_change_version = row_version + 1
where id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
update stage set left_at = clock_timestamp()
where deal_id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid and left_at is null;
insert into timeline (id, deal_id, kind, payload, actor_user_id, actor_role, created_at, row_version, amount, currency)
select gen_random_uuid(), deal.id, row.kind, row.payload, deal.id, 'PlatformManager', deal.updated_at, deal.row_version,
deal.amount, deal.currency from deal, (values
('StatusChanged', '{"FromStatus":"Application","ToStatus":"Booking","Reason":"Both sides have agreed"}'::json),
('ManualNote', '{"Text":"Both sides have agreed"}'::json)) as row (kind, payload)
where deal.id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
insert into stage (deal_id, row_version, step_id, status, entered_at)
select id, row_version, step_id, status, step_entered_at from deal
where id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
insert into status_override (id, deal_id, tenant_id, actor_user_id, from_status, to_status, comment, created_at, row_version)
select gen_random_uuid(), id, tenant_id, id, 'Application', 'Booking', 'Both sides have agreed', updated_at, row_version from deal
where id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid;
insert into outbox (event_id, topic, key, type, payload, headers)
select gen_random_uuid(), 'platform.crm.deal-stage-changed.v1', id::text, 'platform.crm.deal-stage-changed.v1',
convert_to(repeat('{"FromStepId":"5eed0007-0000-4000-8000-000000000000"}', 12), 'UTF8'), '{"contractversion":"1"}'
from (select id from deal where id = ('5eed0007-0000-4000-8000-' || lpad((:number)::text, 12, '0'))::uuid
for no key update) as held;
commit;
