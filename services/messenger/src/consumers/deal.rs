//! CRM's deals, which have a chat each.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{Failure, Handler, Message, Thing};
use serde::{Deserialize, Deserializer};
use time::{OffsetDateTime, UtcOffset};
use values::Whole;

use crate::domain::{Deal, DealId, DealStatus, PropertyObjectId, StatusCard};
use crate::ops;
use crate::ops::deal::DealChange;

const CREATED: &str = "platform.crm.deal-created.v1";

type RowVersion = Whole<0, { u32::MAX as i64 }>;

pub struct Deals;

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DealCreated {
    deal_id: DealId,
    tenant_id: CompanyId,
    property_object_id: PropertyObjectId,
    client_user_id: UserId,
    agent_user_id: Option<UserId>,
    created_by_user_id: UserId,
    row_version: RowVersion,
}

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DealStageChanged {
    deal_id: DealId,
    from_status: DealStatus,
    to_status: DealStatus,
    changed_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
    #[serde(default, deserialize_with = "said")]
    #[expect(clippy::option_option, reason = "that there is no agent any more is said by null")]
    agent_user_id: Option<Option<UserId>>,
    row_version: RowVersion,
}

/// What is there, be it null.
#[expect(clippy::option_option, reason = "the outer one is whether it is there")]
fn said<'de, D: Deserializer<'de>>(agent: D) -> Result<Option<Option<UserId>>, D::Error> {
    Option::deserialize(agent).map(Some)
}

impl From<DealStageChanged> for DealChange {
    fn from(told: DealStageChanged) -> Self {
        let DealStageChanged { from_status, to_status, changed_by_user_id, changed_at, .. } = told;
        let changed_at =
            changed_at.checked_to_offset(UtcOffset::UTC).unwrap_or(changed_at).truncate_to_microsecond();
        Self {
            deal_id: told.deal_id,
            row_version: told.row_version.get(),
            status: StatusCard { from_status, to_status, changed_by_user_id, changed_at },
            agent_user_id: told.agent_user_id,
        }
    }
}

impl Handler for Deals {
    const GROUP: &'static str = "messenger.crm";
    const TOPICS: &'static [&'static str] = &[CREATED, "platform.crm.deal-stage-changed.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.topic == CREATED {
            let told: DealCreated = message.decode()?;
            let deal = Deal {
                id: told.deal_id,
                tenant_id: told.tenant_id,
                property_object_id: told.property_object_id,
                client_user_id: told.client_user_id,
                agent_user_id: told.agent_user_id,
                created_by_user_id: told.created_by_user_id,
                row_version: told.row_version.get(),
            };
            let thing = Thing::lock(tx, Self::GROUP, deal.id).await?;
            if ops::deal::is_known(tx, deal.id).await? {
                return Ok(());
            }
            let kept = thing.take(tx).await?;
            let changes = kept.iter().map(|kept| kept.decode::<DealStageChanged>().map(Into::into));
            let changes = changes.collect::<Result<Vec<DealChange>, _>>()?;
            ops::deal::open(tx, deal, &changes).await?;
        } else {
            let change = DealChange::from(message.decode::<DealStageChanged>()?);
            let thing = Thing::lock(tx, Self::GROUP, change.deal_id).await?;
            if ops::deal::is_known(tx, change.deal_id).await? {
                ops::deal::follow(tx, &change).await?;
            } else {
                thing.keep(tx, message, change.row_version).await?;
            }
        }
        Ok(())
    }
}
