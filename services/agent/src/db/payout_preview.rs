//! Previews of payout runs.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use values::{BasisPoints, Currency, Money};

use crate::domain::{PayoutPreview, deviation_percent};

/// The content of a cursor: the last account of a page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PreviewKey {
    agent_user_id: UserId,
    currency: Currency,
}

/// The run to preview.
#[derive(Debug)]
pub struct PreviewFilter {
    /// All agents if absent.
    pub agent_user_ids: Option<Vec<UserId>>,
    /// Exclusive end of the approvals.
    pub approved_before: OffsetDateTime,
    pub withholding: BasisPoints,
    pub max_lines: i64,
}

#[derive(QueryableByName)]
struct PreviewRow {
    #[diesel(sql_type = SqlUuid)]
    agent_user_id: UserId,
    #[diesel(sql_type = Text)]
    currency: Currency,
    #[diesel(sql_type = BigInt)]
    count: i64,
    #[diesel(sql_type = BigInt)]
    gross: i64,
    #[diesel(sql_type = Bool)]
    is_first_payment: bool,
    #[diesel(sql_type = BigInt)]
    paid_count: i64,
    #[diesel(sql_type = Text)]
    paid_sum: String,
}

impl PreviewRow {
    fn view(&self, withholding: BasisPoints) -> PayoutPreview {
        let money = |amount_minor| Money { amount_minor, currency: self.currency };
        let gross = money(self.gross);
        // A share of an amount above 0 fits into 64 bits.
        let withheld = gross.share(withholding).unwrap_or(money(0));
        let paid_sum = self.paid_sum.parse().unwrap_or_default();
        PayoutPreview {
            agent_user_id: self.agent_user_id,
            gross,
            withheld,
            net: money(self.gross - withheld.amount_minor),
            accruals_count: self.count,
            is_first_payment: self.is_first_payment,
            deviation_percent: deviation_percent(self.gross, self.paid_count, paid_sum),
        }
    }
}

/// Returns one page of the payouts that a run would create now, by agent and currency.
///
/// The accruals and their order are those of [`super::payout::list_payable`]. `fits` is false from
/// the first accrual at which the running sum exceeds 64 bits. [`crate::domain::Payout::create`]
/// stops there, too.
pub async fn list(
    mut conn: &Conn,
    filter: &PreviewFilter,
    paging: &CursorPaging<PreviewKey>,
) -> QueryResult<CursorPage<PayoutPreview>> {
    let preview = diesel::sql_query(
        "select account.agent_user_id, account.currency, owed.count, owed.gross::bigint as gross, \
            not exists (select from payout where payout.agent_user_id = account.agent_user_id \
                and payout.status = 'Paid') as is_first_payment, \
            paid.count as paid_count, paid.sum as paid_sum \
         from account cross join lateral ( \
            select count(*) as count, sum(amount) as gross from ( \
                select amount, bool_and(running between -9223372036854775808 and 9223372036854775807) \
                    over (order by ordinal rows unbounded preceding) as fits \
                from ( \
                    select amount, row_number() over by_order as ordinal, sum(amount) over by_order as running \
                    from ( \
                        select amount, approved_at, accrual.id from accrual cross join lateral ( \
                            select from deal where deal.id = accrual.deal_id and held_since is null offset 0 \
                        ) as free \
                        where accrual.agent_user_id = account.agent_user_id \
                            and accrual.currency = account.currency and status = 'Approved' \
                            and payout_id is null and approved_at < $4 \
                        order by (amount >= 0), approved_at, accrual.id limit $5 \
                    ) as payable \
                    window by_order as (order by (amount >= 0), approved_at, id rows unbounded preceding) \
                ) as summed \
            ) as fitting where fits \
         ) as owed cross join lateral ( \
            select count(*) as count, coalesce(sum(gross), 0)::text as sum from payout \
            where payout.agent_user_id = account.agent_user_id and payout.currency = account.currency \
                and payout.status = 'Paid' \
         ) as paid \
         where ($1::uuid is null or (account.agent_user_id, account.currency) > ($1, $2)) \
            and ($3::uuid[] is null or account.agent_user_id = any($3)) and owed.gross > 0 \
         order by account.agent_user_id, account.currency limit $6",
    );
    // Not cached: the plan depends on the values, because a run pays all agents or a few.
    let preview = preview
        .bind::<Nullable<SqlUuid>, _>(paging.after.map(|after| after.agent_user_id))
        .bind::<Nullable<Text>, _>(paging.after.map(|after| after.currency))
        .bind::<Nullable<Array<SqlUuid>>, _>(filter.agent_user_ids.as_ref())
        .bind::<Timestamptz, _>(filter.approved_before)
        .bind::<BigInt, _>(filter.max_lines)
        .bind::<BigInt, _>(paging.limit());
    let found: Vec<PreviewRow> = preview.load(&mut conn).await?;
    let key = |last: &PreviewRow| PreviewKey { agent_user_id: last.agent_user_id, currency: last.currency };
    let CursorPage { items, next_cursor } = paging.page(found, key);
    Ok(CursorPage { items: items.iter().map(|row| row.view(filter.withholding)).collect(), next_cursor })
}
