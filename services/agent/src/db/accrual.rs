//! Writes of accruals. Only [`crate::ops::Books`] uses this module.

use ::db::{Prepared, Tx};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::rows::execute_for_rows;
use crate::domain::Accrual;

pub async fn insert(tx: &Tx, accruals: &[&Accrual]) -> Result<(), ::db::Error> {
    if accruals.is_empty() {
        return Ok(());
    }
    let insert = |columns, relation| format!("insert into accrual ({columns}) select * from {relation}");
    execute_for_rows!(tx, accruals, insert, {
        id: SqlUuid,
        agent_user_id: SqlUuid,
        deal_id: SqlUuid,
        sale_row_version: BigInt,
        property_object_id: SqlUuid,
        developer_company_id: SqlUuid,
        kind: Text,
        base_amount: BigInt,
        rate_bps: Integer,
        amount: BigInt,
        currency: Text,
        status: Text,
        payout_id: Nullable<SqlUuid>,
        reverses_accrual_id: Nullable<SqlUuid>,
        adjusts_accrual_id: Nullable<SqlUuid>,
        earned_at: Timestamptz,
        approved_at: Nullable<Timestamptz>,
        paid_at: Nullable<Timestamptz>,
        created_at: Timestamptz,
        updated_at: Timestamptz,
        is_self_rated: Bool,
        awaits_release: Bool,
        released_by_user_id: Nullable<SqlUuid>,
        decided_by_user_id: Nullable<SqlUuid>,
        decision_comment: Nullable<Text>,
        version: BigInt,
    })?;
    Ok(())
}

/// Updates the mutable columns of accruals that have the given versions. Returns false if one
/// accrual has another version.
pub async fn update(tx: &Tx, accruals: &[(i64, &Accrual)]) -> Result<bool, ::db::Error> {
    if accruals.is_empty() {
        return Ok(true);
    }
    let each = accruals.iter().map(|(_, accrual)| *accrual);
    let update = diesel::sql_query(
        "update accrual set status = new.status, payout_id = new.payout, approved_at = new.approved_at, \
         paid_at = new.paid_at, updated_at = new.updated_at, awaits_release = new.awaits_release, \
         released_by_user_id = new.released_by, decided_by_user_id = new.decided_by, \
         decision_comment = new.comment, version = new.version \
         from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
         as new (id, status, payout, approved_at, paid_at, updated_at, awaits_release, released_by, \
            decided_by, comment, version, stored_version) \
         where accrual.id = new.id and accrual.version = new.stored_version",
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
    .bind::<Array<BigInt>, _>(each.map(|accrual| accrual.version).collect::<Vec<_>>())
    .bind::<Array<BigInt>, _>(accruals.iter().map(|(stored_version, _)| *stored_version).collect::<Vec<_>>());
    Ok(Prepared(update).execute(&mut tx.pipeline()).await? == accruals.len())
}
