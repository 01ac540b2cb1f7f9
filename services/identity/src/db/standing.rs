//! What an employee is at this moment: the one statement behind tokens and behind each change.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::QueryResult;
use diesel::QueryableByName;
use diesel::sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{EmployeeStatus, Standing, TenantStatus};

/// The database's clock, and what is kept of a person, if anything.
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

const STANDING: &str = "\
    select clock_timestamp() as now, employee.company_id, tenant.status as company_status, employee.status, \
        array(select unnest(role.permissions) \
            from employee_role join role on role.id = employee_role.role_id \
            where employee_role.user_id = asked.id) as permissions \
    from (values ($1)) as asked (id) \
        left join employee on employee.id = asked.id \
        left join tenant on tenant.id = employee.company_id";

/// What is kept of `user`, and when: under the lock of their company nothing of it changes.
pub async fn find(mut conn: &Conn, user: UserId) -> QueryResult<(OffsetDateTime, Option<Standing>)> {
    let statement = Prepared(diesel::sql_query(STANDING).bind::<SqlUuid, _>(user));
    let row: Row = statement.get_result(&mut conn).await?;
    let kept = row.company_id.zip(row.company_status).zip(row.status);
    let permissions = row.permissions;
    let standing = kept.map(|((company_id, company_status), status)| Standing {
        company_id,
        company_status,
        status,
        permissions,
    });
    Ok((row.now, standing))
}
