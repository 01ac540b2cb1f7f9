//! Past changes of deals, for the commands `republish` and `restored`.

use ::db::{Conn, Prepared, Tx};
use auth::UserId;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::{Amount, Booking, Deal, DealId, DealStatus, StepId};
use crate::schema::{booking, deal};

/// A creation or a change of step, status or agent, with the agent and amount after it.
#[derive(QueryableByName)]
pub struct PastChange {
    #[diesel(sql_type = SqlUuid)]
    pub deal_id: DealId,
    #[diesel(sql_type = BigInt)]
    pub row_version: i64,
    /// `None` for the creation.
    #[diesel(sql_type = Nullable<SqlUuid>)]
    pub from_step_id: Option<StepId>,
    #[diesel(sql_type = Nullable<Text>)]
    pub from_status: Option<DealStatus>,
    #[diesel(sql_type = SqlUuid)]
    pub to_step_id: StepId,
    #[diesel(sql_type = Text)]
    pub to_status: DealStatus,
    #[diesel(sql_type = SqlUuid)]
    pub by_user_id: UserId,
    #[diesel(sql_type = Timestamptz)]
    pub at: OffsetDateTime,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    pub agent_user_id: Option<UserId>,
    #[diesel(embed)]
    pub amount: Amount,
}

/// Reads the past changes of deals, sorted by deal and version.
pub async fn past_changes(conn: &mut Conn, keys: &[Uuid]) -> Result<Vec<PastChange>, ::db::Error> {
    let past = diesel::sql_query(
        "select change.*, earlier.step_id as from_step_id, earlier.status as from_status, \
         later.step_id as to_step_id, later.status as to_status \
         from (select distinct on (deal_id, row_version) deal_id, row_version, actor_user_id as by_user_id, \
         created_at as at, agent_user_id, amount, currency from timeline where deal_id = any($1) and kind in \
         ('DealCreated', 'StepMoved', 'AgentChanged', 'StatusChanged', 'DealCancelled', 'DealCompleted') \
         order by deal_id, row_version) as change \
         cross join lateral (select step_id, status from stage where stage.deal_id = change.deal_id \
         and stage.row_version <= change.row_version order by row_version desc limit 1) as later \
         left join lateral (select step_id, status from stage where stage.deal_id = change.deal_id \
         and stage.row_version < change.row_version order by row_version desc limit 1) as earlier on true \
         order by change.deal_id, change.row_version",
    );
    Ok(Prepared(past.bind::<Array<SqlUuid>, _>(keys)).load(conn).await?)
}

/// Reads deals as they are now, with their Active bookings.
pub async fn current_deals(
    conn: &mut Conn,
    keys: &[Uuid],
) -> Result<Vec<(Deal, Option<Booking>)>, ::db::Error> {
    let active = booking::deal_id.eq(deal::id).and(sql::<Bool>("booking.status = 'Active'"));
    let deals = deal::table
        .left_join(booking::table.on(active))
        .filter(deal::id.eq_any(keys))
        .order(deal::id)
        .select((Deal::as_select(), Option::<Booking>::as_select()));
    Ok(deals.load(conn).await?)
}

/// Stores the raised versions of locked deals. The last stage change and the Active booking of a
/// deal get its raised version, too, because they are published again with it.
pub async fn raise_versions(tx: &mut Tx, raised: impl Iterator<Item = &Deal>) -> Result<(), ::db::Error> {
    let (keys, versions): (Vec<_>, Vec<_>) = raised.map(|deal| (deal.id, deal.row_version)).unzip();
    let raise = diesel::sql_query(
        "with raised as ( \
             update deal set row_version = version, stage_change_version = version \
             from unnest($1, $2) as raised (id, version) where deal.id = raised.id returning deal.id, version) \
         update booking set row_version = version from raised \
         where booking.deal_id = raised.id and booking.status = 'Active'",
    );
    raise.bind::<Array<SqlUuid>, _>(keys).bind::<Array<BigInt>, _>(versions).execute(tx.conn()).await?;
    Ok(())
}
