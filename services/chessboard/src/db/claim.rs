//! Claims of deals on property objects.

use std::collections::HashMap;

use ::db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::domain::{Claim, Hold, PropertyObjectId};
use crate::schema::deal_claim;

/// Replaces the claim of a deal if the new one is newer.
///
/// Returns the objects whose hold may have changed, or `None` if the stored claim is not older.
/// The caller holds the lock of the deal.
pub async fn replace_older(tx: &mut Tx, new: &Claim) -> Result<Option<Vec<PropertyObjectId>>, ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let old = deal_claim::table.find(new.deal_id).select(deal_claim::property_object_id);
    let old: Option<PropertyObjectId> = old.first(tx.conn()).await.optional()?;
    // If two claims have the same version, a release wins over a booking, and a sale over both. The
    // names of the kinds sort alphabetically in this order: Booked, Released, Sold.
    let upsert = diesel::insert_into(deal_claim::table)
        .values(new)
        .on_conflict(deal_claim::deal_id)
        .do_update()
        .set((
            deal_claim::property_object_id.eq(excluded(deal_claim::property_object_id)),
            deal_claim::kind.eq(excluded(deal_claim::kind)),
            deal_claim::row_version.eq(excluded(deal_claim::row_version)),
            deal_claim::claimed_at.eq(excluded(deal_claim::claimed_at)),
        ))
        .filter(
            deal_claim::row_version.lt(excluded(deal_claim::row_version)).or(deal_claim::row_version
                .eq(excluded(deal_claim::row_version))
                .and(deal_claim::kind.lt(excluded(deal_claim::kind)))),
        );
    if Prepared(upsert).execute(tx.conn()).await? == 0 {
        return Ok(None);
    }
    let old = old.filter(|old| *old != new.property_object_id);
    Ok(Some(old.into_iter().chain([new.property_object_id]).collect()))
}

/// Returns the hold of each object that is held.
pub async fn find_holds(
    tx: &mut Tx,
    objects: &[PropertyObjectId],
) -> Result<HashMap<PropertyObjectId, Hold>, ::db::Error> {
    let claims = deal_claim::table.filter(deal_claim::property_object_id.eq_any(objects));
    let claims: Vec<Claim> = claims.select(Claim::as_select()).load(tx.conn()).await?;
    let mut by_object: HashMap<_, Vec<_>> = HashMap::new();
    for claim in &claims {
        by_object.entry(claim.property_object_id).or_default().push(claim);
    }
    let holds =
        by_object.into_iter().filter_map(|(object, claims)| Some((object, Hold::from_claims(claims)?)));
    Ok(holds.collect())
}
