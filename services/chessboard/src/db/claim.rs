//! What deals claim of objects.

use std::collections::HashMap;

use ::db::{Cached, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::deal_claim;
use crate::domain::{Claim, Hold, PropertyObjectId};

/// Takes a deal's claim in the place of its older one, while this transaction has the deal's messages to itself. Answers
/// which objects may be held otherwise now; `None` where what is kept is not older.
pub async fn supersede(tx: &mut Tx, new: &Claim) -> Result<Option<Vec<PropertyObjectId>>, ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let old = deal_claim::table.find(new.deal_id).select(deal_claim::property_object_id);
    let old: Option<PropertyObjectId> = old.first(tx.conn()).await.optional()?;
    // Of one version the kind that ends more, which is also the one that comes later in the alphabet.
    let kept = diesel::insert_into(deal_claim::table)
        .values(new)
        .on_conflict(deal_claim::deal_id)
        .do_update()
        .set((
            deal_claim::property_object_id.eq(excluded(deal_claim::property_object_id)),
            deal_claim::claim.eq(excluded(deal_claim::claim)),
            deal_claim::row_version.eq(excluded(deal_claim::row_version)),
            deal_claim::claimed_at.eq(excluded(deal_claim::claimed_at)),
        ))
        .filter(
            deal_claim::row_version.lt(excluded(deal_claim::row_version)).or(deal_claim::row_version
                .eq(excluded(deal_claim::row_version))
                .and(deal_claim::claim.lt(excluded(deal_claim::claim)))),
        );
    if Cached(kept).execute(tx.conn()).await? == 0 {
        return Ok(None);
    }
    let old = old.filter(|old| *old != new.property_object_id);
    Ok(Some(old.into_iter().chain([new.property_object_id]).collect()))
}

/// What holds each of these, where something does.
pub async fn holds(
    tx: &mut Tx,
    objects: &[PropertyObjectId],
) -> Result<HashMap<PropertyObjectId, Hold>, ::db::Error> {
    let claims = deal_claim::table.filter(deal_claim::property_object_id.eq_any(objects));
    let claims: Vec<Claim> = claims.select(Claim::as_select()).load(tx.conn()).await?;
    let mut of_object: HashMap<_, Vec<_>> = HashMap::new();
    for claim in &claims {
        of_object.entry(claim.property_object_id).or_default().push(claim);
    }
    let holds = of_object.into_iter().filter_map(|(object, claims)| Some((object, Hold::of(claims)?)));
    Ok(holds.collect())
}
