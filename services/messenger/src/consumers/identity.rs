//! The consumer of identity's employments and companies, whose ends remove users from deal chats.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Moment;

use crate::db::employment::CONSUMER_GROUP;
use crate::ops;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const EMPLOYEE_STATUS_CHANGED: &str = "platform.identity.employee-status-changed.v1";

/// The only status of an employment and of a company that permits work. An unknown status counts as
/// the end.
const ACTIVE: &str = "Active";

pub struct Identity;

/// The fields of `company-upserted` that this service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyUpserted {
    company_id: CompanyId,
    status: String,
}

/// The fields of `employee-status-changed` that this service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EmployeeStatusChanged {
    user_id: UserId,
    company_id: CompanyId,
    /// Null after a removal.
    to: Option<String>,
    at: Moment,
}

impl Handler for Identity {
    const GROUP: &'static str = CONSUMER_GROUP;
    const TOPICS: &'static [&'static str] = &[COMPANY_UPSERTED, EMPLOYEE_STATUS_CHANGED];
    const STATE_TOPICS: &'static [&'static str] = &[COMPANY_UPSERTED];
    // Messages about a company and its employees lock the same jobs, so two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        // The inbox drops a message that a later one of the same user or company has overtaken.
        if message.topic == COMPANY_UPSERTED {
            let CompanyUpserted { company_id, status } = message.decode()?;
            ops::employment::apply_company_status(tx, company_id, status == ACTIVE).await?;
        } else {
            let EmployeeStatusChanged { user_id, company_id, to, at: Moment(at) } = message.decode()?;
            let is_active = to.as_deref() == Some(ACTIVE);
            ops::employment::apply_status(tx, user_id, company_id, is_active, at).await?;
        }
        Ok(())
    }
}
