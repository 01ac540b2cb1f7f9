//! The consumer of identity's employments, whose end removes users from the chats of the company.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::domain::EMPLOYMENT_CONSUMER_GROUP;
use crate::ops;
use crate::ops::employment::Employment;

/// The only status of an employment that permits work.
const ACTIVE: &str = "Active";

pub struct Employees;

/// The fields of `employee-status-changed` that this service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EmployeeStatusChanged {
    user_id: UserId,
    company_id: CompanyId,
    /// Null after a removal. An unknown status counts as the end of the employment.
    to: Option<String>,
}

impl Handler for Employees {
    const GROUP: &'static str = EMPLOYMENT_CONSUMER_GROUP;
    const TOPICS: &'static [&'static str] = &["platform.identity.employee-status-changed.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        // The inbox drops a message that a later one of the same user has overtaken.
        let EmployeeStatusChanged { user_id, company_id, to } = message.decode()?;
        let employment = Employment { user_id, company_id };
        Ok(ops::employment::apply_status(tx, employment, to.as_deref() == Some(ACTIVE)).await?)
    }
}
