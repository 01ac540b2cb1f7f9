//! The consumer of crm's deal events. A deal holds its object and releases it.

use ::db::Tx;
use messaging::{EntityLock, Failure, Handler, Message};
use runtime::clock;
use serde::Deserialize;
use values::{Moment, Whole};

use crate::domain::{Claim, ClaimKind, DealId, PropertyObjectId};
use crate::ops;

const BOOKED: &str = "platform.crm.booking-created.v1";
const EXPIRED: &str = "platform.crm.booking-expired.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";

pub struct Deals;

/// The fields that the events of all topics have.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DealEvent {
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    row_version: Whole<0, { u32::MAX as i64 }>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BookingCreated {
    created_at: Moment,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DealCompleted {
    completed_at: Moment,
}

impl Handler for Deals {
    const GROUP: &'static str = "chessboard.crm";
    const TOPICS: &'static [&'static str] = &[BOOKED, EXPIRED, CANCELLED, COMPLETED];
    // Messages of different deals lock the same building, so two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let DealEvent { deal_id, property_object_id, row_version } = message.decode()?;
        let (kind, claimed_at) = match &*message.topic {
            BOOKED => (ClaimKind::Booked, Some(message.decode::<BookingCreated>()?.created_at.0)),
            COMPLETED => (ClaimKind::Sold, Some(message.decode::<DealCompleted>()?.completed_at.0)),
            _ => (ClaimKind::Released, None),
        };
        let row_version = row_version.get();
        let claim = Claim { deal_id, property_object_id, kind, row_version, claimed_at };
        EntityLock::acquire(tx, Self::GROUP, deal_id).await?;
        ops::claim::apply_claim(tx, &claim, clock::now()).await?;
        Ok(())
    }
}
