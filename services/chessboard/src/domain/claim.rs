//! What deals claim of objects.

use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::{DealId, ObjectStatus, PropertyObjectId};
use crate::db::schema::deal_claim;

values::text_enum! {
    /// What a deal's newest event says, by rank: of events of one version the later kind decides.
    pub enum ClaimKind {
        Claims,
        GaveUp,
        Sells,
    }
}

/// What a deal has to do with an object, by its newest event: each deal has one claim, on the object that it names.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable)]
#[diesel(table_name = deal_claim, check_for_backend(Pg))]
pub struct Claim {
    pub deal_id: DealId,
    pub property_object_id: PropertyObjectId,
    pub claim: ClaimKind,
    pub row_version: i64,
    /// Of a claim that was given up: nothing.
    pub claimed_at: Option<OffsetDateTime>,
}

/// A deal that holds an object, and what the object's status is by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub deal_id: DealId,
    pub status: ObjectStatus,
}

impl Hold {
    /// Which of the claims on one object holds it: one that sells, else the latest that claims; of such that came
    /// together the deal with the higher id.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<Self> {
        let standing = claims.into_iter().filter(|claim| claim.claim != ClaimKind::GaveUp);
        let holder = standing.max_by_key(|claim| (claim.claim, claim.claimed_at, claim.deal_id))?;
        let status = match holder.claim {
            ClaimKind::Sells => ObjectStatus::Sold,
            ClaimKind::Claims | ClaimKind::GaveUp => ObjectStatus::Booked,
        };
        Some(Self { deal_id: holder.deal_id, status })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Duration, OffsetDateTime};

    use super::{Claim, ClaimKind, Hold};
    use crate::domain::{DealId, ObjectStatus, PropertyObjectId};

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let kind = prop_oneof![Just(ClaimKind::Claims), Just(ClaimKind::GaveUp), Just(ClaimKind::Sells)];
        let object = PropertyObjectId::generate();
        let claim = (kind, 0_i64..4).prop_map(move |(claim, hour)| Claim {
            deal_id: DealId::generate(),
            property_object_id: object,
            claim,
            row_version: 1,
            claimed_at: (claim != ClaimKind::GaveUp)
                .then(|| OffsetDateTime::UNIX_EPOCH + Duration::hours(hour)),
        });
        prop::collection::vec(claim, 0..6)
    }

    proptest! {
        /// The object follows from its claims, whatever came first.
        #[test]
        fn who_holds_does_not_depend_on_the_order(claims in claims().prop_shuffle()) {
            let held = Hold::of(&claims);
            let mut reversed = claims.clone();
            reversed.reverse();
            prop_assert_eq!(held, Hold::of(&reversed));
            let some = |kind| claims.iter().any(|claim| claim.claim == kind);
            let expected = if some(ClaimKind::Sells) {
                Some(ObjectStatus::Sold)
            } else {
                some(ClaimKind::Claims).then_some(ObjectStatus::Booked)
            };
            prop_assert_eq!(held.map(|hold| hold.status), expected);
        }

        /// Of those that claim the latest holds.
        #[test]
        fn the_latest_claim_holds(claims in claims()) {
            let Some(hold) = Hold::of(&claims) else { return Ok(()) };
            let holder = claims.iter().find(|claim| claim.deal_id == hold.deal_id).unwrap();
            for other in claims.iter().filter(|claim| claim.claim == holder.claim) {
                prop_assert!(other.claimed_at <= holder.claimed_at);
            }
        }
    }
}
