//! Writes of accruals. Only [`crate::ops::Books`] uses this module.

use ::db::{Prepared, Tx};
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::schema::accrual;
use crate::domain::Accrual;

/// The greatest number of rows per insert. PostgreSQL accepts 65,535 parameters.
const INSERT_BATCH_SIZE: usize = 2_000;

pub async fn insert(tx: &Tx, accruals: &[Accrual]) -> Result<(), ::db::Error> {
    let mut conn = tx.pipeline();
    if let [accrual] = accruals {
        Prepared(diesel::insert_into(accrual::table).values(accrual)).execute(&mut conn).await?;
        return Ok(());
    }
    for batch in accruals.chunks(INSERT_BATCH_SIZE) {
        diesel::insert_into(accrual::table).values(batch).execute(&mut conn).await?;
    }
    Ok(())
}

/// Updates the mutable columns by compare and swap. Returns false if one accrual has changed.
pub async fn update(tx: &mut Tx, accruals: &[&Accrual]) -> Result<bool, ::db::Error> {
    if accruals.is_empty() {
        return Ok(true);
    }
    let each = accruals.iter();
    let update = diesel::sql_query(
        "update accrual set status = new.status, payout_id = new.payout, approved_at = new.approved_at, \
         paid_at = new.paid_at, updated_at = new.updated_at, awaits_release = new.awaits_release, \
         released_by_user_id = new.released_by, decided_by_user_id = new.decided_by, \
         decision_comment = new.comment, version = new.version \
         from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
         as new (id, status, payout, approved_at, paid_at, updated_at, awaits_release, released_by, \
            decided_by, comment, version) \
         where accrual.id = new.id and accrual.version = new.version - 1",
    )
    .bind::<Array<SqlUuid>, _>(each.clone().map(|accrual| accrual.id).collect::<Vec<_>>())
    .bind::<Array<Text>, _>(each.clone().map(|accrual| accrual.status).collect::<Vec<_>>())
    .bind::<Array<Nullable<SqlUuid>>, _>(each.clone().map(|accrual| accrual.payout_id).collect::<Vec<_>>())
    .bind::<Array<Nullable<Timestamptz>>, _>(
        each.clone().map(|accrual| accrual.approved_at).collect::<Vec<_>>(),
    )
    .bind::<Array<Nullable<Timestamptz>>, _>(each.clone().map(|accrual| accrual.paid_at).collect::<Vec<_>>())
    .bind::<Array<Timestamptz>, _>(each.clone().map(|accrual| accrual.updated_at).collect::<Vec<_>>())
    .bind::<Array<Bool>, _>(each.clone().map(|accrual| accrual.awaits_release).collect::<Vec<_>>())
    .bind::<Array<Nullable<SqlUuid>>, _>(
        each.clone().map(|accrual| accrual.released_by_user_id).collect::<Vec<_>>(),
    )
    .bind::<Array<Nullable<SqlUuid>>, _>(
        each.clone().map(|accrual| accrual.decided_by_user_id).collect::<Vec<_>>(),
    )
    .bind::<Array<Nullable<Text>>, _>(
        each.clone().map(|accrual| accrual.decision_comment.as_deref()).collect::<Vec<_>>(),
    )
    .bind::<Array<BigInt>, _>(each.map(|accrual| accrual.version).collect::<Vec<_>>());
    Ok(Prepared(update).execute(tx.conn()).await? == accruals.len())
}
