//! The query of a user's employment and last departure, for claims and for the actor check. The
//! last revocation of a machine account's tokens counts as its departure.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::QueryResult;
use diesel::QueryableByName;
use diesel::sql_types::{Array, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{EmployeeStatus, EmploymentRecord, EmploymentState, TenantStatus};

/// The time of the database, and the columns of an `EmploymentRecord`.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Timestamptz)]
    now: OffsetDateTime,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    company_id: Option<CompanyId>,
    #[diesel(sql_type = Nullable<Text>)]
    company_status: Option<TenantStatus>,
    #[diesel(sql_type = Nullable<Text>)]
    status: Option<EmployeeStatus>,
    #[diesel(sql_type = Array<Text>)]
    permissions: Vec<String>,
    #[diesel(sql_type = Bool)]
    is_machine: bool,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    left_at: Option<OffsetDateTime>,
}

const SELECT_RECORD: &str = "\
    select clock_timestamp() as now, tenant.id as company_id, tenant.status as company_status, \
        case machine_account.status when 'Active' then 'Active' when 'Revoked' then 'Suspended' \
            else employee.status end as status, \
        machine_account.id is not null as is_machine, \
        array(select unnest(role.permissions) from role \
            where role.id = any(machine_account.role_ids) or role.id in \
                (select role_id from employee_role where user_id = wanted.id)) as permissions, \
        coalesce((select not_before from access_revocation where subject_id = machine_account.id), \
            (select max(left_at) from former_employee where user_id = wanted.id)) as left_at \
    from (values ($1)) as wanted (id) \
        left join employee on employee.id = wanted.id \
        left join machine_account on machine_account.id = wanted.id \
        left join tenant on tenant.id = coalesce(employee.company_id, machine_account.company_id)";

/// Returns the time of the database and the employment record of `user`. A machine account counts
/// as an employee of its company, and as a Suspended one after its revocation.
///
/// While the transaction holds a lock on the row of the user's company, nothing in the record can
/// change except `left_at` of a machine account.
pub async fn find_record(mut conn: &Conn, user: UserId) -> QueryResult<(OffsetDateTime, EmploymentRecord)> {
    let statement = Prepared(diesel::sql_query(SELECT_RECORD).bind::<SqlUuid, _>(user));
    let Row { now, company_id, company_status, status, permissions, is_machine, left_at } =
        statement.get_result(&mut conn).await?;
    let stored = company_id.zip(company_status).zip(status);
    let employment = stored.map(|((company_id, company_status), status)| EmploymentState {
        company_id,
        company_status,
        status,
        permissions,
        is_machine,
    });
    Ok((now, EmploymentRecord { employment, left_at }))
}
