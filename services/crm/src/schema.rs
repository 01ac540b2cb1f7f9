//! The tables of `migrations/crm`.

diesel::table! {
    company (id) {
        id -> Uuid,
        kind -> Text,
        status -> Text,
        version -> BigInt,
    }
}

diesel::table! {
    active_employee (user_id) {
        user_id -> Uuid,
        company_id -> Uuid,
    }
}

diesel::table! {
    developer (id) {
        id -> Uuid,
        name -> Text,
        version -> BigInt,
        pipeline_version -> BigInt,
        pipeline_updated_at -> Nullable<Timestamptz>,
        pipeline_updated_by_user_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    pipeline_log (tenant_id, version) {
        tenant_id -> Uuid,
        version -> BigInt,
        actor_user_id -> Uuid,
        actor_role -> Text,
        changed_at -> Timestamptz,
        changes -> Json,
    }
}

diesel::table! {
    property_object (id) {
        id -> Uuid,
        tenant_id -> Uuid,
        project_name -> Text,
        building_name -> Text,
        number -> Text,
        price -> BigInt,
        currency -> Text,
        status -> Text,
        version -> BigInt,
        folded_project_name -> Text,
        folded_number -> Text,
    }
}

diesel::table! {
    step (id) {
        id -> Uuid,
        tenant_id -> Uuid,
        group -> Text,
        name -> Text,
        sort_order -> SmallInt,
        is_default -> Bool,
        archived_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    deal (id) {
        id -> Uuid,
        tenant_id -> Uuid,
        property_object_id -> Uuid,
        client_user_id -> Uuid,
        agent_user_id -> Nullable<Uuid>,
        selection_id -> Nullable<Uuid>,
        amount -> BigInt,
        currency -> Text,
        status -> Text,
        step_id -> Uuid,
        step_group -> Text,
        step_entered_at -> Timestamptz,
        contract_type -> Nullable<Text>,
        payment_method -> Nullable<Text>,
        contract_number -> Nullable<Text>,
        folded_contract_number -> Nullable<Text>,
        escrow_account_number -> Nullable<Text>,
        fixation_data -> Nullable<Text>,
        cancelled_at -> Nullable<Timestamptz>,
        cancel_reason -> Nullable<Text>,
        completed_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        created_by_user_id -> Uuid,
        updated_at -> Timestamptz,
        updated_by_user_id -> Nullable<Uuid>,
        row_version -> BigInt,
        stage_change_version -> BigInt,
        request_id -> Nullable<Uuid>,
        request_family -> Nullable<Text>,
    }
}

diesel::table! {
    booking (id) {
        id -> Uuid,
        deal_id -> Uuid,
        property_object_id -> Uuid,
        status -> Text,
        expires_at -> Timestamptz,
        created_at -> Timestamptz,
        ended_at -> Nullable<Timestamptz>,
        row_version -> BigInt,
        is_expiry_suspended -> Bool,
    }
}

diesel::table! {
    stage (deal_id, row_version) {
        deal_id -> Uuid,
        row_version -> BigInt,
        step_id -> Uuid,
        status -> Text,
        entered_at -> Timestamptz,
        left_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    timeline (id) {
        position -> BigInt,
        id -> Uuid,
        deal_id -> Uuid,
        kind -> Text,
        payload -> Json,
        actor_user_id -> Nullable<Uuid>,
        actor_role -> Text,
        created_at -> Timestamptz,
        row_version -> BigInt,
        agent_user_id -> Nullable<Uuid>,
        amount -> BigInt,
        currency -> Text,
        audience -> Text,
    }
}

diesel::table! {
    status_override (id) {
        id -> Uuid,
        deal_id -> Uuid,
        tenant_id -> Uuid,
        actor_user_id -> Uuid,
        from_status -> Text,
        to_status -> Text,
        comment -> Text,
        created_at -> Timestamptz,
        row_version -> BigInt,
    }
}

diesel::table! {
    saved_view (id) {
        id -> Uuid,
        owner_user_id -> Uuid,
        company_id -> Nullable<Uuid>,
        name -> Text,
        query -> Text,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
    }
}

diesel::joinable!(deal -> property_object (property_object_id));
diesel::joinable!(stage -> step (step_id));

diesel::allow_tables_to_appear_in_same_query!(
    active_employee,
    company,
    developer,
    property_object,
    step,
    deal,
    booking,
    stage,
    timeline,
);
