-- Tenants

-- A company. Changes of the company, of its employees and of their roles lock this row.
create table tenant (
    id uuid primary key,
    name text not null check (char_length(name) between 1 and 256),
    legal_name text check (char_length(legal_name) between 1 and 512),
    type text collate "C" not null check (type in ('Developer', 'Agency', 'Partner', 'Platform')),
    status text collate "C" not null check (status in ('Active', 'Suspended', 'Archived')),
    tax_number text collate "C" check (tax_number ~ '^([0-9]{10}|[0-9]{12})$'),
    -- Number of rows in `employee` (INV-IDN-011).
    employees_count integer not null default 0 check (employees_count >= 0),
    suspended_at timestamptz,
    suspension_reason text check (char_length(suspension_reason) between 1 and 1000),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version bigint not null check (version >= 1),
    -- Computed by the service, since letter case follows Unicode and not the database's locale.
    lower_name text collate "C" not null,
    -- The folded name for searches, null where it equals lower_name.
    folded_name text collate "C",
    search_text text collate "C" not null,
    check ((suspended_at is not null) = (status = 'Suspended')),
    check (suspension_reason is null or status = 'Suspended')
) with (fillfactor = 85);
-- A tax number is unique among tenants that are not Archived (INV-IDN-002).
create unique index tenant_tax_number on tenant (tax_number) where status <> 'Archived';
create index tenant_tax_prefix on tenant (tax_number);
create index tenant_name on tenant (lower_name, id);
create index tenant_folded_name on tenant (folded_name) where folded_name is not null;
create index tenant_type_name on tenant (type, lower_name, id);
create index tenant_status_name on tenant (status, lower_name, id);
create index tenant_created on tenant (created_at, id);
create index tenant_type_created on tenant (type, created_at, id);
create index tenant_status_created on tenant (status, created_at, id);
-- With fast updates, each search would scan the pending list.
create index tenant_trigrams on tenant using gin (trigrams(search_text)) with (fastupdate = off);
-- The planner learns which types and statuses seldom occur together, and uses an index for them.
create statistics tenant_type_status (mcv) on type, status from tenant;

-- Keeps id and type, and rejects removal (INV-IDN-001).
create function tenant_is_permanent() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' and new.id = old.id and new.type = old.type then
        return new;
    end if;
    raise exception 'id and type of a tenant are immutable, and a tenant is never removed' using errcode = 'restrict_violation';
end
$$;
create trigger tenant_is_permanent before update or delete on tenant
    for each row execute function tenant_is_permanent();
create trigger tenant_is_not_truncated before truncate on tenant
    for each statement execute function tenant_is_permanent();

-- Employees

-- A user works for at most one company (INV-IDN-004). The id is `sub` in the user's tokens.
create table employee (
    id uuid primary key,
    company_id uuid not null references tenant (id),
    name text not null check (char_length(name) between 1 and 256),
    email text not null check (char_length(email) between 1 and 256),
    status text collate "C" not null check (status in ('Active', 'Suspended')),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version bigint not null check (version >= 1),
    lower_name text collate "C" not null,
    lower_email text collate "C" not null,
    search_text text collate "C" not null,
    -- An e-mail address is unique in a company, in any letter case (INV-IDN-005).
    constraint employee_email unique (company_id, lower_email)
) with (fillfactor = 85);
create index employee_name on employee (company_id, lower_name, id);
create index employee_created on employee (company_id, created_at, id);

-- Users who left a company, with the time of the last departure. Tokens that were issued earlier
-- grant nothing in identity. The company can employ the user again under the old id.
create table former_employee (
    user_id uuid not null,
    company_id uuid not null references tenant (id),
    left_at timestamptz not null,
    primary key (user_id, company_id)
);

-- Roles

-- This migration writes all roles. Their ids are equal in every installation.
create table role (
    id uuid primary key,
    code text collate "C" not null unique,
    assignable_to text[] not null,
    permissions text[] not null,
    -- True for a role whose permissions no administrator role includes. An administrator can assign
    -- it only to other employees (INV-IDN-012).
    is_kept_apart boolean not null
);

create table employee_role (
    user_id uuid not null references employee (id),
    role_id uuid not null references role (id),
    -- Copied from the employee, because lists select the holders of a role by company.
    company_id uuid not null,
    assigned_at timestamptz not null,
    assigned_by_user_id uuid not null,
    primary key (user_id, role_id)
);
create index employee_role_company on employee_role (company_id, role_id, user_id);

create view employee_with_roles as
    select employee.*, array(
        select role.code from employee_role join role on role.id = employee_role.role_id
        where employee_role.user_id = employee.id order by role.code
    ) as role_codes
    from employee;

-- Machine accounts

-- A program that acts for a company. The id is the client id at the issuer, and `sub` in tokens.
-- The issuer alone stores the secret. A revoked account stays, since audit entries name it.
create table machine_account (
    id uuid primary key,
    company_id uuid not null references tenant (id),
    name text not null check (char_length(name) between 1 and 256),
    status text collate "C" not null check (status in ('Active', 'Revoked')),
    role_ids uuid[] not null,
    -- Time of the last request for a secret.
    secret_requested_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version bigint not null check (version >= 1),
    lower_name text collate "C" not null,
    -- True if the issuer may still grant rights that the account has lost. The job
    -- machine-client-confirmation resets it.
    is_outdated_at_issuer boolean not null default false
) with (fillfactor = 85);
create index machine_account_name on machine_account (company_id, lower_name, id);
create index machine_account_created on machine_account (company_id, created_at, id);
create index machine_account_active on machine_account (company_id) where status = 'Active';

-- Audit log

-- Entries are append-only (INV-IDN-010).
create table audit_entry (
    id uuid primary key,
    at timestamptz not null,
    action text collate "C" not null,
    tenant_id uuid not null,
    subject_id uuid not null,
    actor_user_id uuid not null,
    actor_company_id uuid,
    role_id uuid,
    role_code text collate "C",
    from_status text collate "C",
    to_status text collate "C",
    changed_fields text[] not null,
    reason text check (char_length(reason) between 1 and 1000),
    machine_account_name text,
    trace_id text collate "C",
    -- The transaction of the entry. A walk of the log leaves out entries that are committed after
    -- the walk began. `at` cannot decide this, because it precedes the commit.
    added_in bigint not null default pg_current_xact_id()::text::bigint
);
create index audit_entry_at on audit_entry (at, id);
create index audit_entry_tenant on audit_entry (tenant_id, at, id);
create index audit_entry_actor on audit_entry (actor_user_id, at, id);
create index audit_entry_subject on audit_entry (subject_id, at, id);

create function audit_entry_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger audit_entry_is_append_only before update or delete or truncate on audit_entry
    for each statement execute function audit_entry_is_append_only();

-- Data of the roles

insert into role (id, code, assignable_to, permissions, is_kept_apart)
select ('0198f000-0000-7000-8000-0000000000' || number)::uuid, code, assignable_to, permissions,
    code in ('payout-manager', 'chat-moderator')
from (values
    ('01', 'developer-admin', array['Developer'], array[
        'chessboard.developers.manage', 'crm.deals.manage-own', 'crm.deals.read-own', 'crm.pipeline.manage-own',
        'identity.employee-roles.manage', 'messenger.chats.manage', 'messenger.conferences.moderate',
        'news.posts.create-company', 'news.posts.manage-own'
    ]),
    ('02', 'developer-manager', array['Developer'], array['chessboard.developers.manage']),
    ('03', 'sales-manager', array['Developer'], array['crm.deals.manage-own']),
    ('04', 'sales-observer', array['Developer'], array['crm.deals.read-own']),
    ('05', 'sales-head', array['Developer'], array[
        'crm.deals.manage-own', 'crm.pipeline.manage-own', 'messenger.chats.manage', 'messenger.conferences.moderate'
    ]),
    ('06', 'agency-admin', array['Agency'], array[
        'agent.cabinet.use', 'identity.employee-roles.manage', 'news.posts.create-company', 'news.posts.manage-own'
    ]),
    ('07', 'agent', array['Agency'], array['agent.cabinet.use']),
    ('08', 'partner-admin', array['Partner'], array[
        'identity.employee-roles.manage', 'news.posts.create-company', 'news.posts.manage-own'
    ]),
    ('09', 'content-editor', array['Developer', 'Agency', 'Partner'], array[
        'news.posts.create-company', 'news.posts.manage-own'
    ]),
    ('10', 'platform-admin', array['Platform'], array[
        'agent.cabinet.use@platform', 'agent.commissions.manage@platform', 'chessboard.developers.manage@platform',
        'crm.deals.care@platform', 'crm.deals.manage-own@platform', 'crm.deals.manage@platform',
        'crm.deals.read-own@platform', 'crm.pipeline.manage-own@platform',
        'identity.employee-roles.manage@platform', 'identity.tenants.manage@platform',
        'identity.tenants.read@platform', 'messenger.chats.manage@platform',
        'messenger.conferences.moderate@platform', 'news.posts.create-company@platform',
        'news.posts.manage-own@platform', 'news.posts.manage@platform'
    ]),
    ('11', 'deal-arbiter', array['Platform'], array[
        'crm.deals.manage@platform', 'messenger.chats.manage@platform', 'messenger.conferences.moderate@platform'
    ]),
    ('12', 'care-service', array['Platform'], array['crm.deals.care@platform', 'identity.tenants.read@platform']),
    ('13', 'catalog-manager', array['Platform'], array['chessboard.developers.manage@platform']),
    ('14', 'news-moderator', array['Platform'], array['news.posts.manage@platform']),
    ('15', 'commission-manager', array['Platform'], array['agent.commissions.manage@platform']),
    ('16', 'payout-manager', array['Platform'], array['agent.payouts.manage@platform']),
    ('17', 'chat-moderator', array['Platform'], array['messenger.direct-chats.moderate@platform'])
) as seed (number, code, assignable_to, permissions);
