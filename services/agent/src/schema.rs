//! The tables of `migrations/agent`.

diesel::table! {
    developer (id) {
        id -> Uuid,
        name -> Text,
        version -> BigInt,
    }
}

diesel::table! {
    agency (id) {
        id -> Uuid,
        is_active -> Bool,
        version -> BigInt,
    }
}

diesel::table! {
    agent (user_id) {
        user_id -> Uuid,
        agency_company_id -> Nullable<Uuid>,
        version -> BigInt,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
    }
}

diesel::table! {
    rate_card (id) {
        id -> Uuid,
        developer_company_id -> Nullable<Uuid>,
        agency_company_id -> Nullable<Uuid>,
        agent_user_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
        version -> BigInt,
    }
}

diesel::table! {
    rate (card_id, valid_from) {
        card_id -> Uuid,
        valid_from -> Timestamptz,
        valid_to -> Nullable<Timestamptz>,
        rate_bps -> Integer,
    }
}

diesel::table! {
    deal (id) {
        id -> Uuid,
        developer_company_id -> Uuid,
        property_object_id -> Uuid,
        created_at -> Nullable<Timestamptz>,
        status -> Text,
        status_row_version -> BigInt,
        agent_user_id -> Nullable<Uuid>,
        agent_row_version -> BigInt,
        amount -> Nullable<BigInt>,
        currency -> Nullable<Text>,
        amount_row_version -> BigInt,
        cancelled_at -> Nullable<Timestamptz>,
        known_row_version -> BigInt,
        held_since -> Nullable<Timestamptz>,
        applied_row_version -> BigInt,
        sale_row_version -> Nullable<BigInt>,
        sold_at -> Nullable<Timestamptz>,
        sale_agent_user_id -> Nullable<Uuid>,
        sale_amount -> Nullable<BigInt>,
        sale_currency -> Nullable<Text>,
        completed_at -> Nullable<Timestamptz>,
        completed_amount -> Nullable<BigInt>,
        is_unrated -> Bool,
        is_agent_assigned -> Bool,
        // Generated columns.
        counted_agent_user_id -> Nullable<Uuid>,
        commission_agent_user_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    sale_assignment (deal_id, sale_row_version) {
        deal_id -> Uuid,
        sale_row_version -> BigInt,
        agent_user_id -> Uuid,
        agency_company_id -> Uuid,
        rate_bps -> Integer,
        comment -> Text,
        assigned_by_user_id -> Uuid,
        assigned_at -> Timestamptz,
    }
}

diesel::table! {
    account (agent_user_id, currency) {
        agent_user_id -> Uuid,
        currency -> Text,
        entries -> BigInt,
        pending -> BigInt,
        approved -> BigInt,
        in_payout -> BigInt,
        paid -> BigInt,
    }
}

diesel::table! {
    payout_run (id) {
        id -> Uuid,
        run_key -> Text,
        period_from -> Timestamptz,
        period_to -> Timestamptz,
        agent_user_ids -> Nullable<Array<Uuid>>,
        withholding_bps -> Integer,
        status -> Text,
        created_at -> Timestamptz,
        created_by_user_id -> Uuid,
        completed_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    payout_run_part (run_id, part) {
        run_id -> Uuid,
        part -> SmallInt,
        after_agent_user_id -> Nullable<Uuid>,
        up_to_agent_user_id -> Nullable<Uuid>,
        last_agent_user_id -> Nullable<Uuid>,
        last_currency -> Nullable<Text>,
    }
}

diesel::table! {
    payout (id) {
        id -> Uuid,
        run_id -> Uuid,
        agent_user_id -> Uuid,
        period_from -> Timestamptz,
        period_to -> Timestamptz,
        currency -> Text,
        gross -> BigInt,
        withholding_bps -> Integer,
        withheld -> BigInt,
        net -> BigInt,
        accruals_count -> Integer,
        status -> Text,
        reference -> Nullable<Text>,
        failure_reason -> Nullable<Text>,
        created_at -> Timestamptz,
        sent_at -> Nullable<Timestamptz>,
        paid_at -> Nullable<Timestamptz>,
        updated_at -> Timestamptz,
        updated_by_user_id -> Uuid,
        version -> BigInt,
    }
}

diesel::table! {
    accrual (id) {
        id -> Uuid,
        agent_user_id -> Uuid,
        deal_id -> Uuid,
        sale_row_version -> BigInt,
        property_object_id -> Uuid,
        developer_company_id -> Uuid,
        kind -> Text,
        base_amount -> BigInt,
        rate_bps -> Integer,
        amount -> BigInt,
        currency -> Text,
        status -> Text,
        payout_id -> Nullable<Uuid>,
        reverses_accrual_id -> Nullable<Uuid>,
        adjusts_accrual_id -> Nullable<Uuid>,
        earned_at -> Timestamptz,
        approved_at -> Nullable<Timestamptz>,
        paid_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        is_self_rated -> Bool,
        awaits_release -> Bool,
        released_by_user_id -> Nullable<Uuid>,
        decided_by_user_id -> Nullable<Uuid>,
        decision_comment -> Nullable<Text>,
        version -> BigInt,
    }
}

diesel::table! {
    payout_line (payout_id, accrual_id) {
        payout_id -> Uuid,
        accrual_id -> Uuid,
        developer_name -> Nullable<Text>,
    }
}

diesel::table! {
    adjustment_request (id) {
        id -> Uuid,
        accrual_id -> Uuid,
        agent_user_id -> Uuid,
        reason -> Text,
        requested_amount -> Nullable<BigInt>,
        comment -> Text,
        status -> Text,
        granted_amount -> Nullable<BigInt>,
        decision_comment -> Nullable<Text>,
        result_accrual_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        decided_at -> Nullable<Timestamptz>,
        decided_by_user_id -> Nullable<Uuid>,
        version -> BigInt,
    }
}

diesel::table! {
    bonus_proposal (id) {
        id -> Uuid,
        accrual_id -> Uuid,
        agent_user_id -> Uuid,
        amount -> BigInt,
        reason -> Text,
        status -> Text,
        decision_comment -> Nullable<Text>,
        result_accrual_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        proposed_by_user_id -> Uuid,
        decided_at -> Nullable<Timestamptz>,
        decided_by_user_id -> Nullable<Uuid>,
        version -> BigInt,
    }
}

diesel::table! {
    money_log (id) {
        id -> Uuid,
        at -> Timestamptz,
        action -> Text,
        subject_id -> Uuid,
        agent_user_id -> Nullable<Uuid>,
        actor_user_id -> Nullable<Uuid>,
        amount -> Nullable<BigInt>,
        currency -> Nullable<Text>,
        rate_bps -> Nullable<Integer>,
        trace_id -> Nullable<Text>,
    }
}

diesel::joinable!(rate -> rate_card (card_id));
diesel::joinable!(adjustment_request -> accrual (accrual_id));
diesel::joinable!(bonus_proposal -> accrual (accrual_id));
diesel::allow_tables_to_appear_in_same_query!(
    account,
    accrual,
    adjustment_request,
    agency,
    agent,
    bonus_proposal,
    deal,
    developer,
    money_log,
    payout,
    payout_line,
    payout_run,
    rate,
    rate_card,
    sale_assignment,
);
