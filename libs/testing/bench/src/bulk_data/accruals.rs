//! Agent's deals and accruals, which are functions of their numbers and so the same on every
//! machine.
//!
//! Seven of every ten deals were sold. Three of the seven have two accruals, the others one, so
//! there are as many accruals as deals. A tenth of the first million deals belongs to the first
//! agent. Every other agent has ninety, or a hundred beyond the first million.

use anyhow::Context;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{drop_indexes, share};
use devkit::progress::Step;

/// Deals of a batch.
const BATCH: u64 = 50_000;

/// The tables in the order in which the service locks their rows.
const TABLES: [&str; 4] = ["developer", "deal", "account", "accrual"];

/// The first four bytes of an agent's id.
const AGENT: u128 = 0x5eed_0050;

/// SQL functions: the id of a number in a table, and the deals of a range of numbers, in ten kinds:
///
/// | `n % 10` | status | accruals |
/// |---|---|---|
/// | 0, 1 | Application, Booking | |
/// | 2, 3 | Sale | a Base, Pending |
/// | 4 | Cancelled after a sale | a Base, Reversed |
/// | 5, 6, 7 | Completed at a higher amount | a Base and a Correction, Approved |
/// | 8 | Completed | a Base, Approved |
/// | 9 | Cancelled before any sale | |
const FUNCTIONS: &str = "\
    create or replace function pg_temp.seeded(kind text, number bigint) returns uuid language sql immutable as \
    $$ select ('5eed' || kind || '-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$; \
    create or replace function pg_temp.drawn(first bigint, last bigint) returns table (\
        n bigint, kind bigint, deal uuid, developer uuid, object uuid, agent uuid, status text, version bigint, \
        currency text, amount bigint, final bigint, made timestamptz, sold timestamptz, done timestamptz) \
    language sql stable as $$ \
        select n, n % 10, pg_temp.seeded('0051', n), pg_temp.seeded('0054', n % 61 + 1), pg_temp.seeded('0053', n), \
            pg_temp.seeded('0050', case when n <= 1000000 and (n - 1) / 10 % 10 = 0 then 1 else 2 + (n - 1) / 100 end), \
            (array['Application', 'Booking', 'Sale', 'Sale', 'Cancelled', 'Completed', 'Completed', 'Completed', \
                'Completed', 'Cancelled'])[n % 10 + 1], \
            (array[1, 2, 3, 3, 4, 4, 4, 4, 4, 2])[n % 10 + 1]::bigint, \
            case when n <= 1000000 and (n - 1) / 10 % 10 = 0 and (n - 1) / 100 % 4 = 3 then 'USD' else 'RUB' end, \
            amount, amount + case when n % 10 in (5, 6, 7) then 10000000 else 0 end, made, sold, \
            sold + interval '30 days' + n * 15485863 % 2592000 * interval '1 second' \
        from generate_series(first, last) as n, \
            lateral (select 500000000 + n % 1000 * 1000000 as amount, \
                '2025-11-01T00:00:00Z'::timestamptz + n * 7919 % 20000000 * interval '1 second' as made) as begun, \
            lateral (select made + interval '10 days' + n * 104729 % 3456000 * interval '1 second' as sold) as ended $$";

const DEVELOPERS: &str = "\
    insert into developer (id, name, version) select pg_temp.seeded('0054', d), 'Developer ' || d, 1 \
    from generate_series(1, 61) as d on conflict do nothing";

/// Inserts the deals. The sale columns of a deal that is not sold are null.
const DEALS: &str = "\
    insert into deal (id, developer_company_id, property_object_id, created_at, status, status_row_version, agent_user_id, \
        agent_row_version, amount, currency, amount_row_version, cancelled_at, known_row_version, applied_row_version, \
        sale_row_version, sold_at, sale_agent_user_id, sale_amount, sale_currency, completed_at, completed_amount) \
    select deal, developer, object, made, status, version, agent, version, final, currency, version, \
        case when status = 'Cancelled' then done end, version, case when kind > 0 then version else 0 end, \
        case when is_sold then 3 end, case when is_sold then sold end, case when is_sold then agent end, \
        case when is_sold then amount end, case when is_sold then currency end, \
        case when status = 'Completed' then done end, case when status = 'Completed' then final end \
    from pg_temp.drawn($1::bigint, $2::bigint), lateral (select status in ('Sale', 'Completed') as is_sold) as now";

/// Inserts the Base accruals of 3 %.
const BASES: &str = "\
    insert into accrual (id, agent_user_id, deal_id, sale_row_version, property_object_id, developer_company_id, kind, \
        base_amount, rate_bps, amount, currency, status, earned_at, approved_at, created_at, updated_at, version) \
    select pg_temp.seeded('0052', n * 2), agent, deal, 3, object, developer, 'Base', amount, 300, amount / 100 * 3, currency, \
        case status when 'Sale' then 'Pending' when 'Completed' then 'Approved' else 'Reversed' end, sold, \
        case when status = 'Completed' then done end, sold, case when status = 'Sale' then sold else done end, \
        case when status = 'Sale' then 1 else 2 end \
    from pg_temp.drawn($1::bigint, $2::bigint) where kind between 2 and 8";

const CORRECTIONS: &str = "\
    insert into accrual (id, agent_user_id, deal_id, sale_row_version, property_object_id, developer_company_id, kind, \
        base_amount, rate_bps, amount, currency, status, adjusts_accrual_id, earned_at, approved_at, created_at, updated_at, \
        version) \
    select pg_temp.seeded('0052', n * 2 + 1), agent, deal, 3, object, developer, 'Correction', amount, 300, \
        (final - amount) / 100 * 3, currency, 'Approved', pg_temp.seeded('0052', n * 2), done, done, done, done, 1 \
    from pg_temp.drawn($1::bigint, $2::bigint) where kind between 5 and 7";

/// Computes the accounts of the created agents from all their accruals.
const ACCOUNTS: &str = "\
    insert into account (agent_user_id, currency, entries, pending, approved, in_payout, paid) \
    select agent_user_id, currency, count(*), coalesce(sum(amount) filter (where status = 'Pending'), 0), \
        coalesce(sum(amount) filter (where status = 'Approved' and payout_id is null), 0), \
        coalesce(sum(amount) filter (where status = 'Approved' and payout_id is not null), 0), \
        coalesce(sum(amount) filter (where status = 'Paid'), 0) \
    from accrual where agent_user_id between pg_temp.seeded('0050', 0) and pg_temp.seeded('0050', $1::bigint) \
    group by agent_user_id, currency \
    on conflict (agent_user_id, currency) do update set entries = excluded.entries, pending = excluded.pending, \
        approved = excluded.approved, in_payout = excluded.in_payout, paid = excluded.paid";

/// A number above the numbers of all deals.
const LAST: i64 = 1 << 47;

/// Returns the id of an agent by its number.
pub(crate) fn agent_id(number: u32) -> Uuid {
    Uuid::from_u128(AGENT << 96 | 0x4000_8000_0000_0000_0000 | u128::from(number))
}

/// Returns the number of the first agent's deals.
pub(crate) fn deals_of_first_agent(accruals: u64) -> u64 {
    let deals = accruals.next_multiple_of(10).min(1_000_000);
    deals / 100 * 10 + (deals % 100).min(10)
}

/// Adds the missing rows in one transaction, up to a multiple of ten accruals. `client` sees the
/// tables of agent.
pub(crate) async fn fill(client: &Client, accruals: u64, step: &Step) -> anyhow::Result<()> {
    let begin = "begin; set local maintenance_work_mem = '512MB'; set local statement_timeout = 0;";
    client.batch_execute(begin).await?;
    let filled = fill_within(client, accruals.next_multiple_of(10), step).await;
    client.batch_execute(if filled.is_ok() { "commit" } else { "rollback" }).await?;
    filled?;
    step.note("vacuuming");
    client.batch_execute(&format!("vacuum analyze {}", TABLES.join(", "))).await?;
    Ok(())
}

async fn fill_within(client: &Client, deals: u64, step: &Step) -> anyhow::Result<()> {
    client.batch_execute(FUNCTIONS).await?;
    // Locks the tables, since an account must not change while it is summed.
    client.batch_execute(&format!("lock table {}", TABLES.join(", "))).await?;
    let existing = "select count(*) from deal where id between pg_temp.seeded('0051', 0) and pg_temp.seeded('0051', $1::bigint)";
    let existing: i64 = client.query_one(existing, &[&LAST]).await?.get(0);
    let mut first = u64::try_from(existing)? + 1;
    let indexes = drop_indexes(client, &TABLES).await?;
    client.execute(DEVELOPERS, &[]).await?;
    while first <= deals {
        step.note(format!("accruals: {}", share(first, deals)));
        let last = (first + BATCH - 1).min(deals);
        let (from, to) = (i64::try_from(first)?, i64::try_from(last)?);
        for statement in [DEALS, BASES, CORRECTIONS] {
            client.execute(statement, &[&from, &to]).await.context("accruals")?;
        }
        first = last + 1;
    }
    step.note("summing accounts");
    client.execute(ACCOUNTS, &[&LAST]).await.context("accounts")?;
    for (number, definition) in indexes.iter().enumerate() {
        step.note(format!("index {} of {}", number + 1, indexes.len()));
        client.batch_execute(definition).await?;
    }
    Ok(())
}
