//! The consumer of CRM's deals, which creates and changes their chats.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::{EntityLock, Failure, Handler, Message};
use serde::Deserialize;
use values::{Moment, Whole};

use crate::domain::{Deal, DealId, DealStatus, PropertyObjectId, StatusCard};
use crate::ops;
use crate::ops::deal::DealChange;

const DEAL_CREATED: &str = "platform.crm.deal-created.v1";
const DEAL_STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";

type RowVersion = Whole<0, { u32::MAX as i64 }>;

pub struct Deals;

/// The fields of `deal-created` that this service reads.
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

/// The fields of `deal-stage-changed` that this service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DealStageChanged {
    deal_id: DealId,
    from_status: DealStatus,
    to_status: DealStatus,
    changed_by_user_id: UserId,
    changed_at: Moment,
    #[serde(default, deserialize_with = "values::read_present")]
    #[expect(clippy::option_option, reason = "null removes the agent, an absent field keeps it")]
    agent_user_id: Option<Option<UserId>>,
    row_version: RowVersion,
}

impl From<DealStageChanged> for DealChange {
    fn from(event: DealStageChanged) -> Self {
        let DealStageChanged { from_status, to_status, changed_by_user_id, .. } = event;
        let Moment(changed_at) = event.changed_at;
        Self {
            deal_id: event.deal_id,
            row_version: event.row_version.get(),
            status: StatusCard { from_status, to_status, changed_by_user_id, changed_at },
            agent_user_id: event.agent_user_id,
        }
    }
}

impl Handler for Deals {
    const GROUP: &'static str = "messenger.crm";
    const TOPICS: &'static [&'static str] = &[DEAL_CREATED, DEAL_STAGE_CHANGED];
    // Messages of different deals lock the stream of the same user, so two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.topic == DEAL_CREATED {
            let event: DealCreated = message.decode()?;
            let deal = Deal {
                id: event.deal_id,
                tenant_id: event.tenant_id,
                property_object_id: event.property_object_id,
                client_user_id: event.client_user_id,
                agent_user_id: event.agent_user_id,
                created_by_user_id: event.created_by_user_id,
                row_version: event.row_version.get(),
            };
            let lock = EntityLock::acquire(tx, Self::GROUP, deal.id).await?;
            if ops::deal::is_known(tx, deal.id).await? {
                return Ok(());
            }
            let deferred = lock.drain_deferred(tx).await?;
            let changes = deferred.iter().map(|message| message.decode::<DealStageChanged>().map(Into::into));
            let changes = changes.collect::<Result<Vec<DealChange>, _>>()?;
            ops::deal::open_chat(tx, deal, &changes).await?;
        } else {
            let change = DealChange::from(message.decode::<DealStageChanged>()?);
            let lock = EntityLock::acquire(tx, Self::GROUP, change.deal_id).await?;
            if ops::deal::is_known(tx, change.deal_id).await? {
                ops::deal::apply_change(tx, &change).await?;
            } else {
                lock.defer(tx, message, change.row_version).await?;
            }
        }
        Ok(())
    }
}
