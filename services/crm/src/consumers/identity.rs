//! The consumer of companies and employments from identity.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;
use crate::domain::{Company, CompanyKind, CompanyStatus};

const COMPANY: &str = "platform.identity.company-upserted.v1";
const EMPLOYMENT: &str = "platform.identity.employee-status-changed.v1";

pub struct Identity;

/// The type of a company. The consumer reads it before the other fields, since a company of another
/// type may have a status that this service does not know.
#[derive(Deserialize)]
struct CompanyType {
    #[serde(rename = "Type")]
    company_type: String,
}

/// The fields of a company event that this service uses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyEvent {
    company_id: CompanyId,
    status: CompanyStatus,
    version: Whole<0, { i64::MAX }>,
}

/// The fields of an employment event that this service uses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EmploymentEvent {
    user_id: UserId,
    company_id: CompanyId,
    /// `None` if the user has left the company.
    to: Option<String>,
}

impl Handler for Identity {
    const GROUP: &'static str = "crm.identity";
    const TOPICS: &'static [&'static str] = &[COMPANY, EMPLOYMENT];
    const STATE_TOPICS: &'static [&'static str] = &[COMPANY];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.topic == EMPLOYMENT {
            let EmploymentEvent { user_id, company_id, to } = message.decode()?;
            let company = (to.as_deref() == Some("Active")).then_some(company_id);
            db::active_employee::set_company(tx, user_id, company).await?;
            return Ok(());
        }
        let Ok(kind) = message.decode::<CompanyType>()?.company_type.parse::<CompanyKind>() else {
            return Ok(());
        };
        let CompanyEvent { company_id: id, status, version } = message.decode()?;
        db::company::upsert(tx, &Company { id, kind, status, version: version.get() }).await?;
        Ok(())
    }
}
