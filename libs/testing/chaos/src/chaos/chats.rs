//! Checks of chats and calls in the tables of messenger and CRM.

use super::Count;

/// Numbers that show how much was checked.
pub(super) const FIGURES: &[Count] = &[
    ("messages and cards in chats", "select count(*) from messenger.message"),
    ("calls", "select count(*) from messenger.conference"),
];

/// Violations that must not exist, with the queries that count them.
pub(super) const RULES: &[Count] = &[
    (
        "chats with gaps in their sequence",
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
        "ended calls without exactly one card, or open calls with a card",
        "select count(*) from messenger.conference where (status = 'Ended')::int <> \
         (select count(*) from messenger.message where message.chat_id = conference.chat_id \
         and card ->> 'Type' = 'ConferenceEnded' and card ->> 'ConferenceId' = conference.id::text)",
    ),
    // A deal has lost changes if its timeline lacks versions. Its chat keeps the cards of the lost
    // changes, so only the last card is compared, with the present status.
    (
        "deals without exactly one card for each change of status",
        "select count(*) from crm.deal left join messenger.chat on chat.deal_id = deal.id \
         cross join lateral (select count(*) as count from ( \
            select status, lag(status) over (order by row_version) as before from crm.stage \
            where stage.deal_id = deal.id) as stage where before <> status) as change \
         cross join lateral (select count(*) as count, \
                (array_agg(card ->> 'ToStatus' order by sequence desc))[1] as last_status \
            from messenger.message where message.chat_id = chat.id and card ->> 'Type' = 'DealStatusChanged') as card \
         where chat.id is null or case \
            when deal.row_version = (select count(distinct row_version) from crm.timeline where deal_id = deal.id) \
                then card.count <> change.count \
            else coalesce(card.last_status, 'Application') <> deal.status end",
    ),
];
