//! Claims of deals on property objects.

use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::{DealId, ObjectStatus, PropertyObjectId};
use crate::schema::deal_claim;

values::text_enum! {
    /// The effect of a deal's newest event. If two events have the same version, the kind that is
    /// listed later here wins.
    pub enum ClaimKind {
        /// The deal booked the object.
        Booked,
        /// The deal was cancelled, or its booking expired.
        Released,
        /// The deal was completed.
        Sold,
    }
}

/// The claim of a deal on the object that its newest event names. Each deal has at most one claim.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable)]
#[diesel(table_name = deal_claim, check_for_backend(Pg))]
pub struct Claim {
    pub deal_id: DealId,
    pub property_object_id: PropertyObjectId,
    pub kind: ClaimKind,
    pub row_version: i64,
    /// Time of the booking or the completion. `None` for a released object.
    pub claimed_at: Option<OffsetDateTime>,
}

/// The deal that holds an object, with the resulting status of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub deal_id: DealId,
    pub status: ObjectStatus,
}

impl Hold {
    /// Returns the hold that follows from the claims on one object.
    ///
    /// A sale wins over a booking. Of several claims of one kind, the latest one wins. If their
    /// times are equal, the deal with the highest id wins.
    pub fn from_claims<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<Self> {
        let active = claims.into_iter().filter(|claim| claim.kind != ClaimKind::Released);
        let holder = active.max_by_key(|claim| (claim.kind, claim.claimed_at, claim.deal_id))?;
        let is_sale = holder.kind == ClaimKind::Sold;
        let status = if is_sale { ObjectStatus::Sold } else { ObjectStatus::Booked };
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
        let kind = prop_oneof![Just(ClaimKind::Booked), Just(ClaimKind::Released), Just(ClaimKind::Sold)];
        let object = PropertyObjectId::generate();
        let claim = (kind, 0_i64..4).prop_map(move |(kind, hour)| Claim {
            deal_id: DealId::generate(),
            property_object_id: object,
            kind,
            row_version: 1,
            claimed_at: (kind != ClaimKind::Released)
                .then(|| OffsetDateTime::UNIX_EPOCH + Duration::hours(hour)),
        });
        prop::collection::vec(claim, 0..6)
    }

    proptest! {
        /// INV-OBJ-2, RULE-EVT-024: the hold does not depend on the order of the claims.
        #[test]
        fn hold_is_independent_of_claim_order(claims in claims().prop_shuffle()) {
            let hold = Hold::from_claims(&claims);
            let mut reversed = claims.clone();
            reversed.reverse();
            prop_assert_eq!(hold, Hold::from_claims(&reversed));
            let has = |kind| claims.iter().any(|claim| claim.kind == kind);
            let expected = if has(ClaimKind::Sold) {
                Some(ObjectStatus::Sold)
            } else {
                has(ClaimKind::Booked).then_some(ObjectStatus::Booked)
            };
            prop_assert_eq!(hold.map(|hold| hold.status), expected);
        }

        /// INV-OBJ-2: the latest claim of one kind holds the object.
        #[test]
        fn latest_claim_holds_the_object(claims in claims()) {
            let Some(hold) = Hold::from_claims(&claims) else { return Ok(()) };
            let holder = claims.iter().find(|claim| claim.deal_id == hold.deal_id).unwrap();
            for other in claims.iter().filter(|claim| claim.kind == holder.kind) {
                prop_assert!(other.claimed_at <= holder.claimed_at);
            }
        }
    }
}
