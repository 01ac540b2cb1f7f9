//! The tables of `migrations/identity`, and of `migrations/access`.

diesel::table! {
    tenant (id) {
        id -> Uuid,
        name -> Text,
        legal_name -> Nullable<Text>,
        #[sql_name = "type"]
        type_ -> Text,
        status -> Text,
        tax_number -> Nullable<Text>,
        employees_count -> Integer,
        suspended_at -> Nullable<Timestamptz>,
        suspension_reason -> Nullable<Text>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        version -> BigInt,
        lower_name -> Text,
        folded_name -> Nullable<Text>,
        search_text -> Text,
    }
}

diesel::table! {
    employee (id) {
        id -> Uuid,
        company_id -> Uuid,
        name -> Text,
        email -> Text,
        status -> Text,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        version -> BigInt,
        lower_name -> Text,
        lower_email -> Text,
        search_text -> Text,
    }
}

diesel::table! {
    employee_with_roles (id) {
        id -> Uuid,
        company_id -> Uuid,
        name -> Text,
        email -> Text,
        status -> Text,
        role_codes -> Array<Text>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        version -> BigInt,
        lower_name -> Text,
        search_text -> Text,
    }
}

diesel::table! {
    role (id) {
        id -> Uuid,
        code -> Text,
        assignable_to -> Array<Text>,
        permissions -> Array<Text>,
        is_kept_apart -> Bool,
    }
}

diesel::table! {
    employee_role (user_id, role_id) {
        user_id -> Uuid,
        role_id -> Uuid,
        company_id -> Uuid,
        assigned_at -> Timestamptz,
        assigned_by_user_id -> Uuid,
    }
}

diesel::table! {
    machine_account (id) {
        id -> Uuid,
        company_id -> Uuid,
        name -> Text,
        status -> Text,
        role_ids -> Array<Uuid>,
        secret_requested_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        version -> BigInt,
        lower_name -> Text,
        is_outdated_at_issuer -> Bool,
    }
}

diesel::table! {
    audit_entry (id) {
        id -> Uuid,
        at -> Timestamptz,
        action -> Text,
        tenant_id -> Uuid,
        subject_id -> Uuid,
        actor_user_id -> Uuid,
        actor_company_id -> Nullable<Uuid>,
        role_id -> Nullable<Uuid>,
        role_code -> Nullable<Text>,
        from_status -> Nullable<Text>,
        to_status -> Nullable<Text>,
        changed_fields -> Array<Text>,
        reason -> Nullable<Text>,
        machine_account_name -> Nullable<Text>,
        trace_id -> Nullable<Text>,
        added_in -> Int8,
    }
}

diesel::table! {
    former_employee (user_id, company_id) {
        user_id -> Uuid,
        company_id -> Uuid,
        left_at -> Timestamptz,
    }
}

diesel::table! {
    access_revocation (subject_id) {
        subject_id -> Uuid,
        subject_kind -> Text,
        not_before -> Timestamptz,
    }
}

diesel::joinable!(employee_role -> role (role_id));
diesel::allow_tables_to_appear_in_same_query!(employee_role, role, employee_with_roles, employee, tenant);
