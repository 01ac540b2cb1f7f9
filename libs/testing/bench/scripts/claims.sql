\set employee random(1, :employees)
select clock_timestamp() as now, employee.company_id, tenant.status as company_status, employee.status,
array(select unnest(role.permissions) from employee_role join role on role.id = employee_role.role_id
where employee_role.user_id = asked.id) as permissions
from (values (('5eed0001-0000-4000-8000-' || lpad(to_hex(:employee::bigint), 12, '0'))::uuid)) as asked (id)
left join employee on employee.id = asked.id left join tenant on tenant.id = employee.company_id;
