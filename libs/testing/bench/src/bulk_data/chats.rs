//! Messenger's chats of the deals that [`deals`](super::deals) creates, which are functions of
//! their numbers and so the same on every machine.
//!
//! The first chat is long. A manager is in two thousand chats, the first one in 1,999.

use anyhow::Context;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{drop_indexes, share};
use devkit::progress::Step;

/// Approximate number of messages of a batch.
const BATCH: u64 = 100_000;

const TABLES: [&str; 3] = ["chat", "member", "message"];

/// The first four bytes of the ids of chats and of their managers.
const CHAT: u128 = 0x5eed_0030;
const MANAGER: u128 = 0x5eed_0029;

/// Chats of one manager. The first manager has one less, since chats are numbered from 1.
const OF_MANAGER: u64 = 2_000;

/// Target numbers of chats and messages.
pub(crate) struct Counts {
    pub(crate) chats: u64,
    /// Messages in each chat but the first.
    pub(crate) messages: u64,
    /// Messages in the first chat.
    pub(crate) longest: u64,
}

/// SQL functions: the id of a number in a table, and the send time of a message.
const FUNCTIONS: &str = "\
    create or replace function pg_temp.seeded(kind text, number bigint) returns uuid language sql immutable as \
    $$ select ('5eed' || kind || '-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$; \
    create or replace function pg_temp.sent_at(chat bigint, sequence bigint) returns timestamptz language sql immutable as \
    $$ select '2026-01-01T00:00:00Z'::timestamptz + (chat + sequence) * interval '1 second' $$";

/// Inserts the chats with their target number of messages, unless they have more.
const CHATS: &str = "\
    insert into chat (id, kind, deal_id, tenant_id, property_object_id, agent_user_id, row_version, last_sequence, created_at, \
        last_activity_at) \
    select pg_temp.seeded('0030', n), 'Deal', pg_temp.seeded('0023', n), \
        pg_temp.seeded('0020', case when n <= 100000 then 1 else 2 + (n - 100001) / 1000 end), pg_temp.seeded('0022', n), \
        pg_temp.seeded('0025', n % 2000), 1, $3::bigint, pg_temp.sent_at(n, 0), pg_temp.sent_at(n, $3) \
    from generate_series($1::bigint, $2::bigint) as n \
    on conflict (id) do update set last_sequence = greatest(chat.last_sequence, excluded.last_sequence), \
        last_activity_at = greatest(chat.last_activity_at, excluded.last_activity_at)";

/// Inserts the members. The manager has read all but up to three messages, the agent a tenth.
const MEMBERS: &str = "\
    insert into member (user_id, chat_id, role, joined_at, read_sequence) \
    select user_id, pg_temp.seeded('0030', n), role, pg_temp.sent_at(n, 0), read \
    from generate_series($1::bigint, $2::bigint) as n, lateral (values \
        (pg_temp.seeded('0024', n / 3), 'Client', $3::bigint), \
        (pg_temp.seeded('0029', n / 2000), 'Manager', greatest($3 - n % 4, 0)), \
        (pg_temp.seeded('0025', n % 2000), 'Agent', $3 / 10)) as of_deal (user_id, role, read) \
    on conflict (user_id, chat_id) do update set read_sequence = greatest(member.read_sequence, excluded.read_sequence)";

/// Inserts the missing messages. Their ids have 2^24 numbers for each chat, more than the longest
/// chat has messages.
const MESSAGES: &str = "\
    insert into message (id, chat_id, sequence, kind, sender_user_id, client_message_id, text, created_at, version) \
    select pg_temp.seeded('0031', n * 16777216 + s), pg_temp.seeded('0030', n), s, 'Text', \
        case s % 3 when 0 then pg_temp.seeded('0024', n / 3) when 1 then pg_temp.seeded('0029', n / 2000) \
            else pg_temp.seeded('0025', n % 2000) end, \
        pg_temp.seeded('0032', n * 16777216 + s), 'Message ' || s || ' of those that people send each other about a flat', \
        pg_temp.sent_at(n, s), 1 \
    from generate_series($1::bigint, $2::bigint) as n, lateral generate_series((select coalesce(max(sequence), 0) + 1 \
        from message where chat_id = pg_temp.seeded('0030', n)), $3::bigint) as s";

/// Returns the id of a chat by its number from 1.
pub(crate) fn chat_id(number: u64) -> Uuid {
    id(CHAT, number)
}

/// Returns the manager of a chat by the chat's number.
pub(crate) fn manager_id(chat: u64) -> Uuid {
    id(MANAGER, chat / OF_MANAGER)
}

fn id(kind: u128, number: u64) -> Uuid {
    Uuid::from_u128(kind << 96 | 0x4000_8000_0000_0000_0000 | u128::from(number))
}

/// Adds the missing rows in one transaction. `client` sees the tables of messenger.
pub(crate) async fn fill(client: &Client, counts: &Counts, step: &Step) -> anyhow::Result<()> {
    let begin = "begin; set local maintenance_work_mem = '512MB'; set local statement_timeout = 0;";
    client.batch_execute(begin).await?;
    let filled = fill_within(client, counts, step).await;
    client.batch_execute(if filled.is_ok() { "commit" } else { "rollback" }).await?;
    filled?;
    step.note("vacuuming");
    client.batch_execute(&format!("vacuum analyze {}", TABLES.join(", "))).await?;
    Ok(())
}

async fn fill_within(client: &Client, counts: &Counts, step: &Step) -> anyhow::Result<()> {
    client.batch_execute(FUNCTIONS).await?;
    let indexes = drop_indexes(client, &TABLES).await?;
    let batch = (BATCH / counts.messages.max(1)).max(1);
    make(client, 1, 1, counts.longest).await?;
    let mut first = 2;
    while first <= counts.chats {
        step.note(format!("chats: {}", share(first, counts.chats)));
        let last = (first + batch - 1).min(counts.chats);
        make(client, first, last, counts.messages).await?;
        first = last + 1;
    }
    for (number, definition) in indexes.iter().enumerate() {
        step.note(format!("index {} of {}", number + 1, indexes.len()));
        client.batch_execute(definition).await?;
    }
    Ok(())
}

async fn make(client: &Client, first: u64, last: u64, messages: u64) -> anyhow::Result<()> {
    let [first, last, messages] = [first, last, messages].map(i64::try_from);
    let (first, last, messages) = (first?, last?, messages?);
    for statement in [CHATS, MEMBERS, MESSAGES] {
        client.execute(statement, &[&first, &last, &messages]).await.context("chats")?;
    }
    Ok(())
}
