//! The tables of `migrations/chessboard`.

diesel::table! {
    company (id) {
        id -> Uuid,
        #[sql_name = "type"]
        type_ -> Text,
        status -> Text,
        name -> Text,
        legal_name -> Nullable<Text>,
        version -> BigInt,
    }
}

diesel::table! {
    external_profile (external_id) {
        external_id -> Uuid,
        company_id -> Uuid,
        version -> BigInt,
        name -> Text,
        legal_name -> Nullable<Text>,
        logo_file_id -> Nullable<Uuid>,
        founded_year -> Nullable<Integer>,
        arrival_order -> BigInt,
    }
}

diesel::table! {
    developer (id) {
        id -> Uuid,
        name -> Text,
        legal_name -> Nullable<Text>,
        description -> Nullable<Text>,
        logo_file_id -> Nullable<Uuid>,
        website -> Nullable<Text>,
        contact_phone -> Nullable<Text>,
        contact_email -> Nullable<Text>,
        founded_year -> Nullable<Integer>,
        highlights -> Json,
        status -> Text,
        hidden_by_identity -> Bool,
        sync_source -> Text,
        external_chessboard_developer_id -> Nullable<Uuid>,
        replica_version -> Nullable<BigInt>,
        last_synced_at -> Nullable<Timestamptz>,
        projects_published_count -> Integer,
        created_at -> Timestamptz,
        created_by_user_id -> Uuid,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
        deleted_at -> Nullable<Timestamptz>,
        deleted_by_user_id -> Nullable<Uuid>,
        version -> BigInt,
        folded_name -> Text,
        search_text -> Text,
    }
}

diesel::table! {
    lost_developer (id) {
        id -> Uuid,
        version -> BigInt,
    }
}

diesel::table! {
    developer_log (id) {
        id -> Uuid,
        developer_id -> Uuid,
        kind -> Text,
        from_status -> Nullable<Text>,
        to_status -> Nullable<Text>,
        changed_fields -> Array<Text>,
        sync_source -> Nullable<Text>,
        actor_kind -> Text,
        actor_user_id -> Uuid,
        version -> BigInt,
        occurred_at -> Timestamptz,
    }
}

diesel::table! {
    project (id) {
        id -> Uuid,
        tenant_id -> Uuid,
        external_id -> Nullable<Text>,
        name -> Text,
        description -> Nullable<Text>,
        class -> Text,
        city -> Text,
        address -> Text,
        latitude -> Nullable<Double>,
        longitude -> Nullable<Double>,
        cover_file_id -> Nullable<Uuid>,
        status -> Text,
        published_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        created_by_user_id -> Uuid,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
        deleted_at -> Nullable<Timestamptz>,
        version -> BigInt,
        folded_name -> Text,
        folded_city -> Text,
    }
}

diesel::table! {
    building (id) {
        id -> Uuid,
        project_id -> Uuid,
        tenant_id -> Uuid,
        external_id -> Nullable<Text>,
        name -> Text,
        sections_count -> SmallInt,
        floors_total -> SmallInt,
        state -> Text,
        ready_year -> Nullable<SmallInt>,
        ready_quarter -> Nullable<SmallInt>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        deleted_at -> Nullable<Timestamptz>,
        version -> BigInt,
        ready_on -> Nullable<Date>,
    }
}

diesel::table! {
    property_object (id) {
        id -> Uuid,
        building_id -> Uuid,
        project_id -> Uuid,
        tenant_id -> Uuid,
        external_id -> Nullable<Text>,
        number -> Text,
        kind -> Text,
        section -> SmallInt,
        floor -> SmallInt,
        position_on_floor -> SmallInt,
        rooms -> Nullable<SmallInt>,
        is_studio -> Bool,
        area_total -> Integer,
        area_living -> Nullable<Integer>,
        area_kitchen -> Nullable<Integer>,
        finishing -> Text,
        price -> BigInt,
        currency -> Text,
        layout_file_id -> Nullable<Uuid>,
        status -> Text,
        own_status -> Text,
        hold_deal_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        updated_by_user_id -> Nullable<Uuid>,
        removed_at -> Nullable<Timestamptz>,
        version -> BigInt,
        published_project_name -> Text,
        published_building_name -> Text,
        published_is_live -> Bool,
        published_is_public -> Bool,
        room_category -> SmallInt,
    }
}

diesel::table! {
    building_figures (building_id) {
        building_id -> Uuid,
        free_flat -> Integer,
        free_apartment -> Integer,
        free_parking -> Integer,
        free_storage -> Integer,
        free_commercial -> Integer,
        price_from -> Nullable<BigInt>,
        price_to -> Nullable<BigInt>,
        offer_rooms -> Array<SmallInt>,
        offer_free -> Array<Integer>,
        offer_price_from -> Array<BigInt>,
        offer_bits -> Integer,
    }
}

diesel::table! {
    deal_claim (deal_id) {
        deal_id -> Uuid,
        property_object_id -> Uuid,
        kind -> Text,
        row_version -> BigInt,
        claimed_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    propagation (scope, scope_id) {
        scope -> Text,
        scope_id -> Uuid,
        tenant_id -> Uuid,
        hides -> Bool,
        requests -> BigInt,
        published_to -> Nullable<Uuid>,
        turn -> BigInt,
        round -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(
    company,
    external_profile,
    developer,
    developer_log,
    project,
    building,
    property_object,
    building_figures,
    deal_claim,
    propagation,
    feed_building,
);

diesel::table! {
    feed_import (id) {
        id -> Uuid,
        tenant_id -> Uuid,
        building_id -> Nullable<Uuid>,
        state -> Text,
        upload_id -> Nullable<Uuid>,
        file_bytes -> BigInt,
        refusal_code -> Nullable<Text>,
        refusal_line -> Nullable<BigInt>,
        offers_count -> Integer,
        rejected_count -> Integer,
        ignored -> Json,
        skip_rejected -> Bool,
        created_at -> Timestamptz,
        created_by_user_id -> Uuid,
        updated_at -> Timestamptz,
        applied_by_user_id -> Nullable<Uuid>,
        version -> BigInt,
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    feed_chunk (import_id, upload_id, position) {
        import_id -> Uuid,
        upload_id -> Uuid,
        position -> Integer,
        content -> Binary,
    }
}

diesel::table! {
    feed_offer (import_id, building_id, position) {
        import_id -> Uuid,
        building_id -> Uuid,
        position -> Integer,
        line -> BigInt,
        external_id -> Text,
        offer -> Json,
    }
}

diesel::table! {
    feed_problem (import_id, id) {
        import_id -> Uuid,
        id -> BigInt,
        building_id -> Nullable<Uuid>,
        offer_position -> BigInt,
        line -> BigInt,
        internal_id -> Nullable<Text>,
        element -> Text,
        code -> Text,
        value -> Nullable<Text>,
    }
}

diesel::table! {
    feed_building (import_id, building_id) {
        import_id -> Uuid,
        building_id -> Uuid,
        building_version -> BigInt,
        state -> Text,
        offers_count -> Integer,
        rejected_count -> Integer,
        created_count -> Integer,
        updated_count -> Integer,
        unchanged_count -> Integer,
        kept_count -> Integer,
        missing_count -> Integer,
    }
}

diesel::table! {
    feed_change (import_id, building_id, position) {
        import_id -> Uuid,
        building_id -> Uuid,
        position -> Integer,
        kind -> Text,
        property_object_id -> Uuid,
        number -> Text,
        external_id -> Nullable<Text>,
        fields -> Json,
    }
}
