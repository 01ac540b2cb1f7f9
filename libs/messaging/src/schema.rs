//! The tables of this crate, as `migrations/messaging` makes them.

diesel::table! {
    outbox (id) {
        id -> BigInt,
        event_id -> Uuid,
        topic -> Text,
        key -> Text,
        #[sql_name = "type"]
        event_type -> Text,
        payload -> Binary,
        headers -> Jsonb,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    outbox_parked (id) {
        id -> BigInt,
        key -> Text,
    }
}

diesel::table! {
    dead_letter (id) {
        id -> BigInt,
        consumer -> Text,
        topic -> Text,
        partition -> Integer,
        offset -> BigInt,
        key -> Text,
        headers -> Jsonb,
        payload -> Binary,
        error -> Text,
    }
}

diesel::table! {
    inbox_event (consumer, event_id) {
        consumer -> Text,
        event_id -> Uuid,
    }
}

diesel::allow_tables_to_appear_in_same_query!(outbox, outbox_parked);
