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
        items_count -> Integer,
    }
}

diesel::table! {
    owner (user_id) {
        user_id -> Uuid,
        selections_count -> Integer,
        favorites_count -> Integer,
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
