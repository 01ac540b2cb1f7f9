//! Accounts by agent and currency.

use ::db::{Conn, Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::domain::{Account, AccountKey};
use crate::schema::account;

/// Locks accounts in the given order, and creates missing ones.
///
/// Every caller sorts the keys, so that concurrent transactions do not deadlock.
pub async fn lock(tx: &Tx, keys: &[AccountKey]) -> Result<Vec<Account>, ::db::Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let (agents, currencies): (Vec<_>, Vec<_>) = keys.iter().copied().unzip();
    // The update changes nothing. It locks an account that exists, and returns it.
    let lock = diesel::sql_query(
        "insert into account (agent_user_id, currency) \
         select agent, code from unnest($1, $2) with ordinality as key (agent, code, ordinal) order by ordinal \
         on conflict (agent_user_id, currency) do update set pending = account.pending \
         returning agent_user_id, currency, entries, pending, approved, in_payout, paid",
    );
    let lock = lock.bind::<Array<SqlUuid>, _>(agents).bind::<Array<Text>, _>(currencies);
    Ok(Prepared(lock).load(&mut tx.pipeline()).await?)
}

/// Updates accounts that the transaction has locked.
pub async fn save(tx: &Tx, accounts: impl Iterator<Item = &Account>) -> Result<(), ::db::Error> {
    let (mut agents, mut currencies, mut sums) = (Vec::new(), Vec::new(), [const { Vec::new() }; 5]);
    for account in accounts {
        agents.push(account.agent_user_id);
        currencies.push(account.currency);
        let [entries, pending, approved, in_payout, paid] = &mut sums;
        entries.push(account.entries);
        pending.push(account.pending);
        approved.push(account.approved);
        in_payout.push(account.in_payout);
        paid.push(account.paid);
    }
    let [entries, pending, approved, in_payout, paid] = sums;
    let save = diesel::sql_query(
        "update account set entries = new.entries, pending = new.pending, approved = new.approved, \
            in_payout = new.in_payout, paid = new.paid \
         from unnest($1, $2, $3, $4, $5, $6, $7) as new (agent, code, entries, pending, approved, in_payout, paid) \
         where agent_user_id = agent and currency = code",
    )
    .bind::<Array<SqlUuid>, _>(agents)
    .bind::<Array<Text>, _>(currencies)
    .bind::<Array<BigInt>, _>(entries)
    .bind::<Array<BigInt>, _>(pending)
    .bind::<Array<BigInt>, _>(approved)
    .bind::<Array<BigInt>, _>(in_payout)
    .bind::<Array<BigInt>, _>(paid);
    Prepared(save).execute(&mut tx.pipeline()).await?;
    Ok(())
}

/// Returns the accounts of an agent that have accruals, sorted by currency.
pub async fn look_up(mut conn: &Conn, agent: UserId) -> QueryResult<Vec<Account>> {
    let accounts = account::table.filter(account::agent_user_id.eq(agent)).filter(account::entries.gt(0));
    accounts.select(Account::as_select()).order(account::currency).load(&mut conn).await
}

/// Returns true if an agent has an account whose sum of Pending accruals, of Approved accruals, or
/// of accruals in a payout is above 0.
pub async fn is_owed(mut conn: &Conn, agent: UserId) -> QueryResult<bool> {
    let unpaid = account::pending.gt(0).or(account::approved.gt(0)).or(account::in_payout.gt(0));
    let owed = account::table.filter(account::agent_user_id.eq(agent)).filter(unpaid);
    diesel::select(diesel::dsl::exists(owed)).get_result(&mut conn).await
}
