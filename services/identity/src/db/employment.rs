//! The query of a user's present employment, for claims and for the actor check of each change.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::QueryResult;
use diesel::QueryableByName;
use diesel::sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{EmployeeStatus, EmploymentState, TenantStatus};

/// The database's clock and the employment of a user, if there is one.
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
}

const SELECT_STATE: &str = "\
    select clock_timestamp() as now, employee.company_id, tenant.status as company_status, employee.status, \
        array(select unnest(role.permissions) \
            from employee_role join role on role.id = employee_role.role_id \
            where employee_role.user_id = wanted.id) as permissions \
    from (values ($1)) as wanted (id) \
        left join employee on employee.id = wanted.id \
        left join tenant on tenant.id = employee.company_id";

/// Returns the time of the database and the employment of `user`.
///
/// The employment cannot change while the transaction holds a lock on the company's row.
pub async fn find_state(
    mut conn: &Conn,
    user: UserId,
) -> QueryResult<(OffsetDateTime, Option<EmploymentState>)> {
    let statement = Prepared(diesel::sql_query(SELECT_STATE).bind::<SqlUuid, _>(user));
    let row: Row = statement.get_result(&mut conn).await?;
    let stored = row.company_id.zip(row.company_status).zip(row.status);
    let permissions = row.permissions;
    let employment = stored.map(|((company_id, company_status), status)| EmploymentState {
        company_id,
        company_status,
        status,
        permissions,
    });
    Ok((row.now, employment))
}
