//! The rows of identity, which are functions of their numbers and so the same on every machine.

use std::ops::Add;

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::Table;

pub(super) const TENANTS: Table = Table {
    into: "tenant (id, name, legal_name, type, status, tax_number, employees_count, suspended_at, created_at, \
        updated_at, version, lower_name, search_text)",
    name: "tenant",
    ids: 0x5eed_0000,
    row: tenant,
};

pub(super) const EMPLOYEES: Table = Table {
    into: "employee (id, company_id, name, email, status, created_at, updated_at, version, lower_name, lower_email, \
        search_text)",
    name: "employee",
    ids: 0x5eed_0001,
    row: employee,
};

pub(super) const ROLES: Table = Table {
    into: "employee_role (user_id, role_id, company_id, assigned_at, assigned_by_user_id)",
    name: "employee_role",
    ids: 0x5eed_0001,
    row: role,
};

pub(super) const ENTRIES: Table = Table {
    into: "audit_entry (id, at, action, tenant_id, subject_id, actor_user_id, role_id, role_code, changed_fields)",
    name: "audit_entry",
    ids: 0x5eed_0002,
    row: entry,
};

/// Words of company names in two scripts.
const FIRST: [&str; 8] = ["Северный", "River", "Новый", "Granite", "Тихий", "Harbour", "Солнечный", "Maple"];
const SECOND: [&str; 8] = ["Берег", "Homes", "Квартал", "Estates", "Двор", "Living", "Город", "Land"];
const PEOPLE: [&str; 8] = ["Анна", "Boris", "Вера", "Dmitri", "Елена", "Igor", "Мария", "Pavel"];

/// Returns the id of a row by its number from 1.
pub(super) fn id(table: u32, number: u64) -> Uuid {
    Uuid::from_u128(u128::from(table) << 96 | 0x4000_8000_0000_0000_0000 | u128::from(number))
}

pub(crate) fn tenant_id(number: u64) -> Uuid {
    id(TENANTS.ids, number)
}

/// Returns the creation time of a row. Rows are six seconds apart, from the year 2020.
fn time(number: u64) -> String {
    let start = OffsetDateTime::from_unix_timestamp(1_577_836_800).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let time = start.add(Duration::seconds(i64::try_from(number).unwrap_or_default() * 6));
    time.format(&Rfc3339).unwrap_or_default()
}

/// Returns a pseudo-random number for each number, as a multiplicative hash.
fn mixed(number: u64) -> usize {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    usize::try_from(mixed).unwrap_or_default()
}

/// Returns a line for `copy`. No column may contain a tab, a backslash or a line break.
fn line<const N: usize>(columns: [&str; N]) -> String {
    columns.join("\t") + "\n"
}

fn tenant(number: u64, _: u64) -> String {
    let mixed = mixed(number);
    let rare = if number.is_multiple_of(10_000) { "Zephyr " } else { "" };
    let form = if mixed.is_multiple_of(2) { "Group" } else { "Ltd" };
    let name = format!("{rare}{} {} {form} {number}", FIRST[mixed / 2 % 8], SECOND[mixed / 16 % 8]);
    let tax_number = format!("9{number:09}");
    let legal_name = format!("{name} LLC");
    // The first company has the employees.
    let kind = if number == 1 { "Developer" } else { ["Developer", "Agency", "Partner"][mixed / 128 % 3] };
    let status = match mixed / 512 % 20 {
        0 if number > 1 => "Suspended",
        1 if number > 1 => "Archived",
        _ => "Active",
    };
    let time = time(number);
    let suspended_at = if status == "Suspended" { time.as_str() } else { "\\N" };
    let words = [name.as_str(), legal_name.as_str(), tax_number.as_str()].map(str::to_lowercase);
    line([
        &tenant_id(number).to_string(),
        &name,
        &legal_name,
        kind,
        status,
        &tax_number,
        "0",
        suspended_at,
        &time,
        &time,
        "1",
        &name.to_lowercase(),
        &words.join("\\n"),
    ])
}

fn employee(number: u64, _: u64) -> String {
    let name = format!("{} Petrov {number}", PEOPLE[mixed(number) % 8]);
    let email = format!("person{number}@example.com");
    let lower = name.to_lowercase();
    let time = time(number);
    let status = if (mixed(number) / 8).is_multiple_of(20) { "Suspended" } else { "Active" };
    line([
        &id(EMPLOYEES.ids, number).to_string(),
        &tenant_id(1).to_string(),
        &name,
        &email,
        status,
        &time,
        &time,
        "1",
        &lower,
        &email,
        &format!("{lower}\\n{email}"),
    ])
}

/// Returns a role: one in a hundred employees is an administrator, the others sell.
fn role(number: u64, _: u64) -> String {
    let role = if number % 100 == 1 { "01" } else { "03" };
    let employee = id(EMPLOYEES.ids, number).to_string();
    let role = format!("0198f000-0000-7000-8000-0000000000{role}");
    line([&employee, &role, &tenant_id(1).to_string(), &time(number), &employee])
}

fn entry(number: u64, tenants: u64) -> String {
    let mixed = mixed(number);
    let other = u64::try_from(mixed).unwrap_or_default() % tenants + 1;
    let tenant = tenant_id(if number.is_multiple_of(2) { 1 } else { other }).to_string();
    let (action, fields) = match mixed % 4 {
        0 => ("TenantUpdated", "{Name}"),
        1 => ("RoleAssigned", "{}"),
        2 => ("RoleRemoved", "{}"),
        _ => ("EmployeeUpdated", "{Email,Name}"),
    };
    let subject = match action {
        "TenantUpdated" => tenant.clone(),
        _ => id(EMPLOYEES.ids, number % 50_000 + 1).to_string(),
    };
    let actor = id(0x5eed_0003, number % 1_000 + 1).to_string();
    let (role, code) = match action {
        "RoleAssigned" | "RoleRemoved" => ("0198f000-0000-7000-8000-000000000003", "sales-manager"),
        _ => ("\\N", "\\N"),
    };
    let entry = id(ENTRIES.ids, number).to_string();
    line([&entry, &time(number), action, &tenant, &subject, &actor, role, code, fields])
}
