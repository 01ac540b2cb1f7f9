//! The tables of `migrations/messenger`.

diesel::table! {
    chat (id) {
        id -> Uuid,
        kind -> Text,
        deal_id -> Nullable<Uuid>,
        tenant_id -> Nullable<Uuid>,
        property_object_id -> Nullable<Uuid>,
        direct_low -> Nullable<Uuid>,
        direct_high -> Nullable<Uuid>,
        blocked_by -> Array<Uuid>,
        closed_at -> Nullable<Timestamptz>,
        agent_user_id -> Nullable<Uuid>,
        row_version -> Nullable<BigInt>,
        deal_status -> Nullable<Text>,
        last_sequence -> BigInt,
        created_at -> Timestamptz,
        last_activity_at -> Timestamptz,
    }
}

diesel::table! {
    member (user_id, chat_id) {
        user_id -> Uuid,
        chat_id -> Uuid,
        role -> Text,
        fallback_role -> Nullable<Text>,
        joined_at -> Timestamptz,
        read_sequence -> BigInt,
    }
}

diesel::table! {
    company (id) {
        id -> Uuid,
        ended_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    employment (user_id, company_id) {
        user_id -> Uuid,
        company_id -> Uuid,
        ended_at -> Nullable<Timestamptz>,
        changed_at -> Timestamptz,
    }
}

diesel::table! {
    departure (user_id, chat_id) {
        user_id -> Uuid,
        chat_id -> Uuid,
        barred_role -> Nullable<Text>,
        barred_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    report (id) {
        id -> Uuid,
        chat_id -> Uuid,
        reporter_user_id -> Uuid,
        reported_user_id -> Uuid,
        reason -> Text,
        comment -> Nullable<Text>,
        status -> Text,
        created_at -> Timestamptz,
        decided_at -> Nullable<Timestamptz>,
        decided_by_user_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    report_reading (id) {
        id -> BigInt,
        report_id -> Uuid,
        chat_id -> Uuid,
        moderator_user_id -> Uuid,
        read_at -> Timestamptz,
    }
}

diesel::table! {
    message (id) {
        id -> Uuid,
        chat_id -> Uuid,
        sequence -> BigInt,
        kind -> Text,
        sender_user_id -> Nullable<Uuid>,
        client_message_id -> Nullable<Uuid>,
        text -> Nullable<Text>,
        card -> Nullable<Json>,
        created_at -> Timestamptz,
        edited_at -> Nullable<Timestamptz>,
        deleted_at -> Nullable<Timestamptz>,
        version -> BigInt,
    }
}

diesel::table! {
    conference (id) {
        id -> Uuid,
        chat_id -> Uuid,
        deal_id -> Uuid,
        tenant_id -> Uuid,
        status -> Text,
        media -> Text,
        started_by_user_id -> Uuid,
        created_at -> Timestamptz,
        active_at -> Nullable<Timestamptz>,
        ended_at -> Nullable<Timestamptz>,
        end_reason -> Nullable<Text>,
        ended_by_user_id -> Nullable<Uuid>,
        participants -> Json,
        has_lobby -> Bool,
        knocks -> Json,
        empty_since -> Nullable<Timestamptz>,
        version -> BigInt,
    }
}

diesel::table! {
    conference_log (id) {
        id -> BigInt,
        conference_id -> Uuid,
        kind -> Text,
        user_id -> Uuid,
        by_user_id -> Uuid,
        at -> Timestamptz,
    }
}

diesel::table! {
    webhook (id) {
        id -> Binary,
        received_at -> Timestamptz,
    }
}

diesel::table! {
    stream (user_id) {
        user_id -> Uuid,
        last_event -> BigInt,
    }
}

diesel::table! {
    stream_event (user_id, event) {
        user_id -> Uuid,
        event -> BigInt,
        kind -> Text,
        chat_id -> Uuid,
        subject_id -> Nullable<Uuid>,
        at -> Timestamptz,
    }
}

diesel::joinable!(member -> chat (chat_id));
diesel::joinable!(employment -> company (company_id));
diesel::joinable!(message -> chat (chat_id));
diesel::joinable!(conference -> chat (chat_id));

diesel::allow_tables_to_appear_in_same_query!(company, employment);
diesel::allow_tables_to_appear_in_same_query!(chat, member, message, conference, stream, stream_event);
