//! CRM's deals, which earn something.

use ::db::Tx;
use ::web::Moment;
use auth::{CompanyId, UserId};
use messaging::{Failure, Handler, Message};
use runtime::clock;
use serde::{Deserialize, Deserializer};
use values::{Currency, Money, Whole};

use crate::domain::{DealId, DealStatus, DealTold, DealTopic, PropertyObjectId};
use crate::ops;

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";

pub struct Deals;

/// The fields that all of them have.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AnyTold {
    deal_id: DealId,
    tenant_id: CompanyId,
    property_object_id: PropertyObjectId,
    row_version: Whole<0, { u32::MAX as i64 }>,
}

/// What a deal comes to is never negative.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AmountTold {
    amount_minor: Whole<0, { i64::MAX }>,
    currency: Currency,
}

impl From<AmountTold> for Money {
    fn from(told: AmountTold) -> Self {
        Self { amount_minor: told.amount_minor.get(), currency: told.currency }
    }
}

/// The fields that all of them have but `deal-cancelled`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TermsTold {
    #[serde(default, deserialize_with = "said")]
    #[expect(clippy::option_option, reason = "that there is no agent any more is said by null")]
    agent_user_id: Option<Option<UserId>>,
    amount: AmountTold,
}

/// What is there, be it null.
#[expect(clippy::option_option, reason = "the outer one is whether it is there")]
fn said<'de, D: Deserializer<'de>>(agent: D) -> Result<Option<Option<UserId>>, D::Error> {
    Option::deserialize(agent).map(Some)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreatedTold {
    created_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StageChangedTold {
    to_status: String,
    changed_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CancelledTold {
    cancelled_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompletedTold {
    completed_at: Moment,
}

fn told(message: &Message) -> Result<DealTold, Failure> {
    let AnyTold { deal_id, tenant_id, property_object_id, row_version } = message.decode()?;
    let (topic, status, Moment(at)) = match &*message.topic {
        CREATED => (DealTopic::Created, DealStatus::Application, message.decode::<CreatedTold>()?.created_at),
        STAGE_CHANGED => {
            let StageChangedTold { to_status, changed_at } = message.decode()?;
            // There may be more of them one day.
            (DealTopic::StageChanged, to_status.parse().unwrap_or(DealStatus::Other), changed_at)
        }
        CANCELLED => {
            (DealTopic::Cancelled, DealStatus::Cancelled, message.decode::<CancelledTold>()?.cancelled_at)
        }
        _ => (DealTopic::Completed, DealStatus::Completed, message.decode::<CompletedTold>()?.completed_at),
    };
    let terms = match topic {
        DealTopic::Cancelled => None,
        _ => Some(message.decode::<TermsTold>()?),
    };
    Ok(DealTold {
        topic,
        deal_id,
        developer_company_id: tenant_id,
        property_object_id,
        row_version: row_version.get(),
        status,
        at,
        agent_user_id: terms.as_ref().and_then(|terms| terms.agent_user_id),
        amount: terms.map(|terms| terms.amount.into()),
    })
}

impl Handler for Deals {
    const GROUP: &'static str = "agent.crm";
    const TOPICS: &'static [&'static str] = &[CREATED, STAGE_CHANGED, CANCELLED, COMPLETED];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        ops::deal::hear(tx, &told(message)?, clock::now()).await
    }
}
