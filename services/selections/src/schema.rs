//! Tables of `migrations/selections`.

diesel::table! {
    selection (id) {
        id -> Uuid,
        owner_user_id -> Uuid,
        public_code -> Text,
        title -> Text,
        description -> Nullable<Text>,
        items -> Json,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        deleted_at -> Nullable<Timestamptz>,
        version -> BigInt,
        updated_by_user_id -> Uuid,
        link_enabled -> Bool,
        link_expires_at -> Nullable<Timestamptz>,
        was_shared -> Bool,
        items_count -> Integer,
    }
}

diesel::table! {
    added_object (selection_id, property_object_id) {
        selection_id -> Uuid,
        property_object_id -> Uuid,
        status -> Nullable<Text>,
        amount_minor -> Nullable<BigInt>,
        currency -> Nullable<Text>,
    }
}

diesel::table! {
    opening (selection_id) {
        selection_id -> Uuid,
        openings_count -> BigInt,
        last_opened_at -> Timestamptz,
    }
}

diesel::table! {
    collaborator (selection_id, user_id) {
        selection_id -> Uuid,
        user_id -> Uuid,
        added_at -> Timestamptz,
        left_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    owner (user_id) {
        user_id -> Uuid,
        selections_count -> Integer,
        favorites_count -> Integer,
        added_items_count -> Integer,
        added_items_since -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    favorite (owner_user_id, property_object_id) {
        owner_user_id -> Uuid,
        property_object_id -> Uuid,
        added_at -> Timestamptz,
    }
}

diesel::table! {
    property_object (id) {
        id -> Uuid,
        version -> BigInt,
        is_public -> Bool,
        shown -> Json,
    }
}

diesel::table! {
    snapshot (id) {
        id -> Uuid,
        post_id -> Uuid,
        source_selection_id -> Uuid,
        public_code -> Text,
        title -> Text,
        description -> Nullable<Text>,
        items -> Json,
        created_at -> Timestamptz,
        detach_reason -> Nullable<Text>,
        detached_at -> Nullable<Timestamptz>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(added_object, property_object);
diesel::allow_tables_to_appear_in_same_query!(collaborator, selection);
