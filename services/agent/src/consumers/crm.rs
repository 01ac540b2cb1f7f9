//! Consumer of CRM's deals.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{BatchHandler, Failure, Handler, Message, TracedMessage};
use runtime::clock;
use serde::Deserialize;
use values::{Currency, Moment, Money, Whole};

use crate::domain::{ApprovalLimit, DealEvent, DealId, DealStatus, DealTopic, PropertyObjectId};
use crate::ops;

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";

pub struct Deals;

/// The members that every topic has.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CommonPayload {
    deal_id: DealId,
    tenant_id: CompanyId,
    property_object_id: PropertyObjectId,
    row_version: Whole<0, { u32::MAX as i64 }>,
}

/// The amount of a deal. It is never negative.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AmountPayload {
    amount_minor: Whole<0, { i64::MAX }>,
    currency: Currency,
}

impl From<AmountPayload> for Money {
    fn from(amount: AmountPayload) -> Self {
        Self { amount_minor: amount.amount_minor.get(), currency: amount.currency }
    }
}

/// The members that every topic but `deal-cancelled` has.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TermsPayload {
    #[serde(default, deserialize_with = "values::read_present")]
    #[expect(clippy::option_option, reason = "an absent member and null differ")]
    agent_user_id: Option<Option<UserId>>,
    amount: AmountPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreatedPayload {
    created_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StageChangedPayload {
    to_status: String,
    changed_at: Moment,
    changed_by_user_id: Option<UserId>,
    previous_row_version: Option<Whole<0, { u32::MAX as i64 }>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CancelledPayload {
    cancelled_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompletedPayload {
    completed_at: Moment,
}

fn decode(message: &Message) -> Result<DealEvent, Failure> {
    let CommonPayload { deal_id, tenant_id, property_object_id, row_version } = message.decode()?;
    let (mut by, mut previous) = (None, 0);
    let (topic, status, Moment(at)) = match &*message.topic {
        CREATED => {
            (DealTopic::Created, DealStatus::Application, message.decode::<CreatedPayload>()?.created_at)
        }
        STAGE_CHANGED => {
            let StageChangedPayload { to_status, changed_at, changed_by_user_id, previous_row_version } =
                message.decode()?;
            (by, previous) = (changed_by_user_id, previous_row_version.map_or(0, Whole::get));
            // A status that CRM adds later becomes `Other`.
            (DealTopic::StageChanged, to_status.parse().unwrap_or(DealStatus::Other), changed_at)
        }
        CANCELLED => {
            (DealTopic::Cancelled, DealStatus::Cancelled, message.decode::<CancelledPayload>()?.cancelled_at)
        }
        _ => {
            (DealTopic::Completed, DealStatus::Completed, message.decode::<CompletedPayload>()?.completed_at)
        }
    };
    let terms = match topic {
        DealTopic::Cancelled => None,
        _ => Some(message.decode::<TermsPayload>()?),
    };
    Ok(DealEvent {
        topic,
        deal_id,
        developer_company_id: tenant_id,
        property_object_id,
        row_version: row_version.get(),
        status,
        at,
        by,
        agent_user_id: terms.as_ref().and_then(|terms| terms.agent_user_id),
        amount: terms.map(|terms| terms.amount.into()),
        previous_row_version: previous,
    })
}

impl Handler for Deals {
    const GROUP: &'static str = "agent.crm";
    const TOPICS: &'static [&'static str] = &[CREATED, STAGE_CHANGED, CANCELLED, COMPLETED];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        Self::handle_all(tx, &[TracedMessage::in_current_span(message)]).await
    }
}

impl BatchHandler for Deals {
    async fn handle_all(tx: &mut Tx, messages: &[TracedMessage<'_>]) -> Result<(), Failure> {
        let limit = tx.shared::<ApprovalLimit>().copied();
        let limit = limit.ok_or_else(|| Failure::Transient("the approval limit is unknown".to_owned()))?;
        let events = messages.iter().map(|traced| Ok((traced, decode(traced.message)?)));
        let events: Vec<_> = events.collect::<Result<_, Failure>>()?;
        ops::deal::handle_all(tx, &events, limit, clock::now()).await
    }
}
