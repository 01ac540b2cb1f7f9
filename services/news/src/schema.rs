//! Tables of `migrations/news`.

/// A document of PostgreSQL's text search, which only SQL makes and reads.
#[derive(diesel::sql_types::SqlType, diesel::query_builder::QueryId)]
#[diesel(postgres_type(name = "tsvector"))]
pub struct Tsvector;

diesel::define_sql_function! {
    /// Returns the words of a title, of summary and tags, and of a text, with their weights.
    #[sql_name = "search_words"]
    fn words_of(title: diesel::sql_types::Text, labels: diesel::sql_types::Text, body: diesel::sql_types::Text) -> Tsvector;
}

diesel::table! {
    author (user_id) {
        user_id -> Uuid,
        id -> Uuid,
        content_bytes -> BigInt,
        revision_bytes -> BigInt,
    }
}

diesel::table! {
    use diesel::sql_types::{Array, BigInt, Bool, Integer, Json, Nullable, Text, Timestamptz, Uuid};
    use super::Tsvector;

    post (id) {
        id -> Uuid,
        author_id -> Uuid,
        author_user_id -> Uuid,
        author_company_id -> Nullable<Uuid>,
        title -> Text,
        summary -> Nullable<Text>,
        cover_file_id -> Nullable<Uuid>,
        tags -> Json,
        tag_keys -> Array<Text>,
        label_words -> Tsvector,
        status -> Text,
        blocks -> Json,
        blocks_bytes -> Integer,
        embeds -> Json,
        blocks_count -> Integer,
        search_text -> Text,
        published_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
        deleted_at -> Nullable<Timestamptz>,
        deleted_by_moderator -> Bool,
        publish_at -> Nullable<Timestamptz>,
        unpublish_at -> Nullable<Timestamptz>,
        scheduled_by_user_id -> Nullable<Uuid>,
        schedule_token_issued_at -> Nullable<Timestamptz>,
        schedule_failure -> Nullable<Json>,
        version -> BigInt,
    }
}

diesel::table! {
    post_log (post_id, version) {
        post_id -> Uuid,
        version -> BigInt,
        kind -> Text,
        actor_user_id -> Uuid,
        blocks_count -> Integer,
        occurred_at -> Timestamptz,
    }
}

diesel::table! {
    /// The view of the revisions and the present content of each post.
    kept_revision (post_id, version) {
        post_id -> Uuid,
        version -> BigInt,
        actor_user_id -> Uuid,
        blocks_count -> Integer,
        occurred_at -> Timestamptz,
        blocks -> Json,
        blocks_bytes -> Integer,
    }
}

diesel::table! {
    post_search (post_id) {
        post_id -> Uuid,
        published_at -> Timestamptz,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        author_company_id -> Nullable<Uuid>,
        tag_keys -> Array<Text>,
    }
}

diesel::table! {
    post_search_count (only_one) {
        only_one -> Bool,
        posts -> BigInt,
    }
}

diesel::table! {
    snapshot_claim (edit_id, source_selection_id) {
        edit_id -> Uuid,
        source_selection_id -> Uuid,
        post_id -> Uuid,
        actor_user_id -> Uuid,
        author_user_id -> Nullable<Uuid>,
        due_at -> Timestamptz,
    }
}

diesel::table! {
    snapshot_detach (snapshot_id) {
        snapshot_id -> Uuid,
        post_id -> Uuid,
        reason -> Text,
        started -> Bool,
        detached_at -> Nullable<Timestamptz>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(author, post);
diesel::allow_tables_to_appear_in_same_query!(post, post_search);
