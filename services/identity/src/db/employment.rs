//! The query of a user's employment and last departure, for claims and for the actor check.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::QueryResult;
use diesel::QueryableByName;
use diesel::sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid};
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
    #[diesel(sql_type = Nullable<Timestamptz>)]
    left_at: Option<OffsetDateTime>,
}

const SELECT_RECORD: &str = "\
    select clock_timestamp() as now, employee.company_id, tenant.status as company_status, employee.status, \
        array(select unnest(role.permissions) \
            from employee_role join role on role.id = employee_role.role_id \
            where employee_role.user_id = wanted.id) as permissions, \
        (select max(left_at) from former_employee where user_id = wanted.id) as left_at \
    from (values ($1)) as wanted (id) \
        left join employee on employee.id = wanted.id \
        left join tenant on tenant.id = employee.company_id";

/// Returns the time of the database and the employment record of `user`.
///
/// The record cannot change while the transaction holds a lock on the row of the user's company.
pub async fn find_record(mut conn: &Conn, user: UserId) -> QueryResult<(OffsetDateTime, EmploymentRecord)> {
    let statement = Prepared(diesel::sql_query(SELECT_RECORD).bind::<SqlUuid, _>(user));
    let Row { now, company_id, company_status, status, permissions, left_at } =
        statement.get_result(&mut conn).await?;
    let stored = company_id.zip(company_status).zip(status);
    let employment = stored.map(|((company_id, company_status), status)| EmploymentState {
        company_id,
        company_status,
        status,
        permissions,
    });
    Ok((now, EmploymentRecord { employment, left_at }))
}
