//! The tables of this crate, as `migrations/messaging` creates them.

diesel::table! {
    outbox (topic, id) {
        id -> BigInt,
        event_id -> Uuid,
        topic -> Text,
        key -> Text,
        #[sql_name = "type"]
        event_type -> Text,
        payload -> Nullable<Binary>,
        headers -> Json,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    outbox_parked (id) {
        id -> BigInt,
        event_id -> Uuid,
        topic -> Text,
        key -> Text,
        #[sql_name = "type"]
        event_type -> Text,
        payload -> Nullable<Binary>,
        headers -> Json,
        created_at -> Timestamptz,
        error -> Text,
        parked_at -> Timestamptz,
    }
}

diesel::table! {
    inbox (consumer, topic, key) {
        consumer -> Text,
        topic -> Text,
        key -> Text,
        sequence -> BigInt,
        event_time -> Nullable<Timestamptz>,
        event_hash -> Nullable<BigInt>,
        offset -> BigInt,
        partition -> Integer,
        went_back -> Bool,
        blocked -> Bool,
        seen_on -> Date,
    }
}

diesel::table! {
    inbox_event (consumer, event_id) {
        consumer -> Text,
        event_id -> Text,
        seen_at -> Timestamptz,
    }
}

diesel::table! {
    dead_letter (id) {
        id -> BigInt,
        consumer -> Text,
        topic -> Text,
        partition -> Integer,
        offset -> BigInt,
        published_at -> Nullable<Timestamptz>,
        key -> Text,
        headers -> Json,
        payload -> Nullable<Binary>,
        version -> Nullable<BigInt>,
        error -> Text,
        dead_at -> Timestamptz,
        superseded_by -> Nullable<BigInt>,
    }
}

diesel::table! {
    deferred_message (id) {
        id -> BigInt,
        consumer -> Text,
        entity -> Text,
        version -> BigInt,
        topic -> Text,
        partition -> Integer,
        offset -> BigInt,
        published_at -> Nullable<Timestamptz>,
        key -> Text,
        headers -> Json,
        payload -> Nullable<Binary>,
    }
}
