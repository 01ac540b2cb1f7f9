//! CRM's deals, which are functions of their numbers and so the same on every machine.
//!
//! The first developer has a hundred thousand deals in fifty steps, half of them in the first step.
//! Every other developer has a thousand in seven steps.

use anyhow::Context;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{drop_indexes, share};
use devkit::progress::Step;

/// Deals of the first developer.
const FIRST: u64 = 100_000;
/// Deals of every other developer.
const OTHER: u64 = 1_000;
/// Deals of a batch.
const BATCH: u64 = 50_000;

const TABLES: [&str; 7] = ["developer", "step", "property_object", "deal", "booking", "stage", "timeline"];

/// The first four bytes of a developer's id.
const DEVELOPER: u128 = 0x5eed_0020;

/// SQL functions: the id of a number in a table, the developer of a deal, and the position of its
/// step.
const FUNCTIONS: &str = "\
    create or replace function pg_temp.seeded(kind text, number bigint) returns uuid language sql immutable as \
    $$ select ('5eed' || kind || '-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$; \
    create or replace function pg_temp.developer_of(deal bigint) returns bigint language sql immutable as \
    $$ select case when deal <= 100000 then 1 else 2 + (deal - 100001) / 1000 end $$; \
    create or replace function pg_temp.place_of(deal bigint) returns bigint language sql immutable as \
    $$ select case when deal > 100000 then deal % 7 when deal % 2 = 0 then 0 else 1 + deal / 2 % 49 end $$; \
    create or replace function pg_temp.group_of(developer bigint, place bigint) returns text language sql immutable as \
    $$ select (array['Application', 'Application', 'Booking', 'Contract', 'Contract', 'Completed', 'Cancelled']) \
        [1 + case when developer = 1 then place * 7 / 50 else place end] $$";

const DEVELOPERS: &str = "\
    insert into developer (id, name, version) select pg_temp.seeded('0020', d), 'Developer ' || d, 1 \
    from generate_series(1, pg_temp.developer_of($1::bigint)) as d on conflict do nothing";

const STEPS: &str = "\
    insert into step (id, tenant_id, \"group\", name, sort_order, is_default) \
    select pg_temp.seeded('0021', d * 100 + place), pg_temp.seeded('0020', d), pg_temp.group_of(d, place), \
        'Step ' || place, place, place = first_value(place) over (partition by d, pg_temp.group_of(d, place) order by place) \
    from generate_series(1, pg_temp.developer_of($1::bigint)) as d, \
        generate_series(0, case when d = 1 then 49 else 6 end) as place on conflict do nothing";

const OBJECTS: &str = "\
    insert into property_object (id, tenant_id, project_name, building_name, number, price, currency, status, version, \
        folded_project_name, folded_number) \
    select pg_temp.seeded('0022', n), pg_temp.seeded('0020', pg_temp.developer_of(n)), 'Project ' || n % 50, \
        'Building ' || n % 7, n::text, 500000000 + n % 1000 * 1000000, 'RUB', 'Available', 1, 'project ' || n % 50, n::text \
    from generate_series($1::bigint, $2::bigint) as n";

/// Inserts the deals, each with its own object. 2,000 agents share them; each client has three.
const DEALS: &str = "\
    insert into deal (id, tenant_id, property_object_id, client_user_id, agent_user_id, amount, currency, status, step_id, \
        step_group, step_entered_at, contract_type, payment_method, cancelled_at, cancel_reason, completed_at, created_at, \
        created_by_user_id, updated_at, updated_by_user_id, row_version) \
    select pg_temp.seeded('0023', n), pg_temp.seeded('0020', d), pg_temp.seeded('0022', n), pg_temp.seeded('0024', n / 3), \
        pg_temp.seeded('0025', n % 2000), 500000000 + n % 1000 * 1000000, (array['RUB', 'RUB', 'RUB', 'USD'])[1 + n % 4], \
        case of when 'Contract' then 'Sale' else of end, pg_temp.seeded('0021', d * 100 + place), of, entered, \
        case when of in ('Contract', 'Completed') then 'Ddu' end, case when of in ('Contract', 'Completed') then 'Mortgage' end, \
        case of when 'Cancelled' then entered end, case of when 'Cancelled' then 'Changed their mind' end, \
        case of when 'Completed' then entered end, made, pg_temp.seeded('0026', 1), entered, pg_temp.seeded('0026', 1), 1 \
    from generate_series($1::bigint, $2::bigint) as n, \
        lateral (select pg_temp.developer_of(n) as d, pg_temp.place_of(n) as place) as whose, \
        lateral (select pg_temp.group_of(d, place) as of, '2026-01-01'::timestamptz + n * interval '1 second' as made, \
            '2026-06-01'::timestamptz + n * 7919 % 10000019 * interval '1 second' as entered) as drawn";

/// Inserts the bookings of deals in Booking, which do not expire.
const BOOKINGS: &str = "\
    insert into booking (id, deal_id, property_object_id, status, expires_at, created_at, row_version, is_expiry_suspended) \
    select pg_temp.seeded('0027', n), pg_temp.seeded('0023', n), pg_temp.seeded('0022', n), 'Active', '2099-01-01', \
        '2026-01-01', 1, false \
    from generate_series($1::bigint, $2::bigint) as n \
    where pg_temp.group_of(pg_temp.developer_of(n), pg_temp.place_of(n)) = 'Booking'";

const STAGES: &str = "\
    insert into stage (deal_id, row_version, step_id, status, entered_at) \
    select id, row_version, step_id, status, step_entered_at from deal \
    where id between pg_temp.seeded('0023', $1::bigint) and pg_temp.seeded('0023', $2::bigint)";

const TIMELINES: &str = "\
    insert into timeline (id, deal_id, kind, payload, actor_user_id, actor_role, created_at, row_version, agent_user_id, \
        amount, currency) \
    select pg_temp.seeded('0028', n), pg_temp.seeded('0023', n), 'DealCreated', '{}', pg_temp.seeded('0026', 1), \
        'PlatformManager', '2026-01-01'::timestamptz + n * interval '1 second', 1, pg_temp.seeded('0025', n % 2000), \
        500000000 + n % 1000 * 1000000, 'RUB' \
    from generate_series($1::bigint, $2::bigint) as n";

/// Returns the id of a developer by its number.
pub(crate) fn developer_id(number: u32) -> Uuid {
    Uuid::from_u128(DEVELOPER << 96 | 0x4000_8000_0000_0000_0000 | u128::from(number))
}

/// Returns the number of developers of `deals` deals.
pub(crate) fn developers(deals: u64) -> u64 {
    1 + deals.saturating_sub(FIRST).div_ceil(OTHER)
}

/// Adds the missing rows in one transaction. `client` sees the tables of CRM.
pub(crate) async fn fill(client: &Client, deals: u64, step: &Step) -> anyhow::Result<()> {
    let begin = "begin; set local maintenance_work_mem = '512MB'; set local statement_timeout = 0;";
    client.batch_execute(begin).await?;
    let filled = fill_within(client, deals, step).await;
    client.batch_execute(if filled.is_ok() { "commit" } else { "rollback" }).await?;
    filled?;
    step.note("vacuuming");
    client.batch_execute(&format!("vacuum analyze {}", TABLES.join(", "))).await?;
    Ok(())
}

async fn fill_within(client: &Client, deals: u64, step: &Step) -> anyhow::Result<()> {
    client.batch_execute(FUNCTIONS).await?;
    let existing = "select count(*) from deal where id between pg_temp.seeded('0023', 0) and pg_temp.seeded('0023', $1::bigint)";
    let existing: i64 = client.query_one(existing, &[&((1_i64 << 47) - 1)]).await?.get(0);
    let mut first = u64::try_from(existing)? + 1;
    let indexes = drop_indexes(client, &TABLES).await?;
    let all = i64::try_from(deals)?;
    for statement in [DEVELOPERS, STEPS] {
        client.execute(statement, &[&all]).await?;
    }
    while first <= deals {
        step.note(format!("deals: {}", share(first, deals)));
        let last = (first + BATCH - 1).min(deals);
        let (from, to) = (i64::try_from(first)?, i64::try_from(last)?);
        for statement in [OBJECTS, DEALS, BOOKINGS, STAGES, TIMELINES] {
            client.execute(statement, &[&from, &to]).await.context("deals")?;
        }
        first = last + 1;
    }
    for (number, definition) in indexes.iter().enumerate() {
        step.note(format!("index {} of {}", number + 1, indexes.len()));
        client.batch_execute(definition).await?;
    }
    Ok(())
}
