//! What is said and done in chats has to add up, whatever broke: by messenger's own tables, and CRM's.

use crate::postgres::Connection;

/// What there is, so that one sees that there was something to add up.
const FIGURES: [(&str, &str); 2] = [
    ("messages and cards in chats", "select count(*) from messenger.message"),
    ("calls", "select count(*) from messenger.conference"),
];

/// What there must be none of, as it is told, and how many there are.
const RULES: [(&str, &str); 4] = [
    (
        "chats whose messages are not 1, 2, 3 …",
        "select count(*) from messenger.chat where last_sequence <> \
         (select count(*) filter (where sequence between 1 and last_sequence) from messenger.message \
         where message.chat_id = chat.id)",
    ),
    (
        "chats with two live calls",
        "select count(*) from (select from messenger.conference where status <> 'Ended' \
         group by chat_id having count(*) > 1) as live",
    ),
    (
        "calls whose end is not told once in their chat",
        "select count(*) from messenger.conference where (status = 'Ended')::int <> \
         (select count(*) from messenger.message where message.chat_id = conference.chat_id \
         and card ->> 'Type' = 'ConferenceEnded' and card ->> 'ConferenceId' = conference.id::text)",
    ),
    (
        "deals whose changes of status are not told once each in their chat",
        "select count(*) from crm.deal left join messenger.chat on chat.deal_id = deal.id \
         where (select count(*) from (select status, lag(status) over (order by row_version) as before \
         from crm.stage where stage.deal_id = deal.id) as stage where before <> status) \
         <> (select count(*) from messenger.message where message.chat_id = chat.id \
         and card ->> 'Type' = 'DealStatusChanged') or chat.id is null",
    ),
];

/// How much was said and done.
pub(super) async fn figures(server: &Connection) -> anyhow::Result<Vec<(&'static str, usize)>> {
    count(server, &FIGURES).await
}

/// How much of it does not add up.
pub(super) async fn faults(server: &Connection) -> anyhow::Result<Vec<(&'static str, usize)>> {
    count(server, &RULES).await
}

async fn count(
    server: &Connection,
    counts: &[(&'static str, &str)],
) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let mut counted = Vec::new();
    for (name, count) in counts {
        let count: i64 = server.client.query_one(*count, &[]).await?.get(0);
        counted.push((*name, usize::try_from(count)?));
    }
    Ok(counted)
}
