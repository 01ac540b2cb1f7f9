-- Copies of other services' data.

-- Names of chessboard's developers.
create table developer (
    id uuid primary key,
    name text not null,
    version bigint not null
);

-- Identity's agencies.
create table agency (
    id uuid primary key,
    is_active boolean not null,
    version bigint not null
);

-- Rates and agencies.

-- Agencies of agents. An agent without a row has no agency.
create table agent (
    user_id uuid primary key,
    agency_company_id uuid,
    version bigint not null check (version >= 1),
    updated_at timestamptz not null,
    updated_by_user_id uuid not null
);

-- A card covers sales that match each id that it names.
create table rate_card (
    id uuid primary key,
    developer_company_id uuid,
    agency_company_id uuid,
    agent_user_id uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    version bigint not null check (version >= 1),
    check (num_nonnulls(developer_company_id, agency_company_id, agent_user_id) >= 1),
    check (agency_company_id is null or agent_user_id is null),
    constraint rate_card_key unique nulls not distinct (agent_user_id, agency_company_id, developer_company_id)
);
create index rate_card_updated on rate_card (updated_at, id);
create index rate_card_developer on rate_card (developer_company_id, updated_at, id);
create index rate_card_agency on rate_card (agency_company_id, updated_at, id);
create index rate_card_agent on rate_card (agent_user_id, updated_at, id);

-- The rates of a card. valid_to is exclusive, and the rates of a card do not overlap.
create table rate (
    card_id uuid not null references rate_card (id),
    valid_from timestamptz not null,
    valid_to timestamptz check (valid_to > valid_from),
    rate_bps integer not null check (rate_bps between 0 and 10000),
    primary key (card_id, valid_from)
);

-- Deals of CRM. Status, agent and amount each come from the highest version that has the value.
-- The ledger has columns of its own, so that an unknown status changes no money.
create table deal (
    id uuid primary key,
    developer_company_id uuid not null,
    property_object_id uuid not null,
    -- Null until `deal-created` was applied.
    created_at timestamptz,
    -- For statistics, from all four topics. An unknown status is Other.
    status text collate "C" not null,
    status_row_version bigint not null,
    agent_user_id uuid,
    agent_row_version bigint not null,
    amount bigint, -- minor units
    currency text collate "C",
    amount_row_version bigint not null,
    cancelled_at timestamptz check (cancelled_at is null or status = 'Cancelled'),
    -- The highest version of any topic, and the time at which the ledger fell behind.
    known_row_version bigint not null,
    held_since timestamptz,
    -- The version that the ledger has applied, from stage changes alone.
    applied_row_version bigint not null,
    -- The active sale: version, time, agent and amount at its beginning.
    sale_row_version bigint,
    sold_at timestamptz,
    -- Time from creation to sale, in microseconds.
    cycle bigint generated always as ((extract(epoch from sold_at - created_at) * 1000000)::bigint) stored,
    sale_agent_user_id uuid,
    sale_amount bigint,
    sale_currency text collate "C",
    -- The completion of the active sale.
    completed_at timestamptz,
    completed_amount bigint,
    -- The active sale has an agent, but no card has a rate for it.
    is_unrated boolean not null default false,
    -- The platform named the agent of the active sale, because CRM named none.
    is_agent_assigned boolean not null default false,
    -- The agent for whom statistics count the deal: the one that CRM names, else the assigned one.
    counted_agent_user_id uuid generated always as (
        case when is_agent_assigned then coalesce(agent_user_id, sale_agent_user_id) else agent_user_id end
    ) stored,
    -- The agent of the commission: that of the active sale, else the agent of the deal.
    commission_agent_user_id uuid generated always as (
        case when sale_row_version is null then agent_user_id else sale_agent_user_id end
    ) stored,
    check ((sale_row_version is null) = (sold_at is null)),
    check ((sale_row_version is null) = (sale_amount is null)),
    check ((sale_amount is null) = (sale_currency is null)),
    check (completed_at is null or sale_row_version is not null),
    check ((completed_at is null) = (completed_amount is null)),
    check (not is_unrated or sale_agent_user_id is not null and sale_row_version is not null),
    check (not is_agent_assigned or sale_agent_user_id is not null and sale_row_version is not null),
    -- INV-AGT-8: a topic has sent a newer version than the ledger has applied.
    constraint deal_held_is_behind check (held_since is null or known_row_version > applied_row_version)
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
create index deal_created on deal (counted_agent_user_id, created_at) include (status);
create index deal_sold on deal (counted_agent_user_id, sold_at)
    include (status, amount, currency, developer_company_id, cycle);
create index deal_cancelled on deal (counted_agent_user_id, cancelled_at) where cancelled_at is not null;
-- The same statistics for the agent of the commission.
create index deal_created_commission on deal (commission_agent_user_id, created_at) include (status);
create index deal_sold_commission on deal (commission_agent_user_id, sold_at)
    include (status, amount, currency, developer_company_id, cycle);
create index deal_cancelled_commission on deal (commission_agent_user_id, cancelled_at)
    where cancelled_at is not null;
create index deal_unrated on deal (sold_at, id) where is_unrated;
create index deal_unrated_agent on deal (sale_agent_user_id, sold_at, id) where is_unrated;
create index deal_unrated_developer on deal (developer_company_id, sold_at, id) where is_unrated;
-- Unassigned sales: without an agent or without a rate.
create index deal_unassigned on deal (sold_at, id)
    where is_unrated or sold_at is not null and sale_agent_user_id is null;
create index deal_unassigned_developer on deal (developer_company_id, sold_at, id)
    where is_unrated or sold_at is not null and sale_agent_user_id is null;
create index deal_held on deal (held_since, id) where held_since is not null;
create index deal_held_agent on deal (counted_agent_user_id, held_since, id) where held_since is not null;
create index deal_held_commission on deal (commission_agent_user_id, held_since, id) where held_since is not null;

-- Sales that the platform has assigned to an agent. Rows are append-only.
create table sale_assignment (
    deal_id uuid not null references deal (id),
    sale_row_version bigint not null,
    agent_user_id uuid not null,
    -- The agency of the agent when the sale was assigned.
    agency_company_id uuid not null,
    rate_bps integer not null check (rate_bps between 0 and 10000),
    comment text not null check (char_length(comment) between 1 and 2000),
    assigned_by_user_id uuid not null,
    assigned_at timestamptz not null,
    primary key (deal_id, sale_row_version)
);
create function sale_assignment_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'assignments of sales are append-only' using errcode = 'restrict_violation';
end
$$;
create trigger sale_assignment_is_append_only before update or delete or truncate on sale_assignment
    for each statement execute function sale_assignment_is_append_only();

-- The ledger.

-- The sums of an agent's accruals in a currency, in minor units.
-- A transaction that changes accruals of an agent first locks this row.
create table account (
    agent_user_id uuid not null,
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    entries bigint not null default 0, -- number of accruals in any status
    pending bigint not null default 0,
    approved bigint not null default 0, -- without a payout
    in_payout bigint not null default 0,
    paid bigint not null default 0,
    primary key (agent_user_id, currency)
) with (fillfactor = 70);

-- The result of the last audit of the ledger, which every worker reports.
create table ledger_audit (
    only_one boolean primary key default true check (only_one),
    mismatches bigint not null,
    audited_at timestamptz not null default clock_timestamp()
);

-- Payout runs. Jobs pay the parts of a run.
create table payout_run (
    id uuid primary key,
    run_key text collate "C" not null unique check (run_key ~ '^[A-Za-z0-9._-]{1,64}$'),
    period_from timestamptz not null,
    period_to timestamptz not null check (period_to > period_from),
    agent_user_ids uuid[], -- null: all agents
    withholding_bps integer not null check (withholding_bps between 0 and 10000),
    status text collate "C" not null check (status in ('Running', 'Completed')),
    created_at timestamptz not null,
    created_by_user_id uuid not null,
    completed_at timestamptz,
    check ((status = 'Completed') = (completed_at is not null))
);
create index payout_run_running on payout_run (created_at, id) where status = 'Running';

-- The parts of a run that are not paid yet: ranges of agents without an overlap. A job pays a part
-- account by account.
create table payout_run_part (
    run_id uuid not null references payout_run (id),
    part smallint not null,
    after_agent_user_id uuid, -- null: from the first agent
    up_to_agent_user_id uuid, -- null: to the last agent
    -- The account that was processed last.
    last_agent_user_id uuid,
    last_currency text collate "C",
    primary key (run_id, part),
    check ((last_agent_user_id is null) = (last_currency is null))
);

-- Payouts. An account has at most one in a run.
create table payout (
    id uuid primary key,
    run_id uuid not null references payout_run (id),
    agent_user_id uuid not null,
    period_from timestamptz not null,
    period_to timestamptz not null,
    currency text collate "C" not null,
    gross bigint not null check (gross > 0),
    withholding_bps integer not null check (withholding_bps between 0 and 10000),
    withheld bigint not null check (withheld >= 0),
    net bigint not null check (net >= 0),
    accruals_count integer not null check (accruals_count > 0),
    status text collate "C" not null
        check (status in ('Scheduled', 'InTransit', 'Paid', 'Failed', 'Cancelled')),
    reference text check (char_length(reference) between 1 and 128),
    failure_reason text check (char_length(failure_reason) between 1 and 500),
    created_at timestamptz not null,
    sent_at timestamptz,
    paid_at timestamptz,
    updated_at timestamptz not null,
    updated_by_user_id uuid not null,
    version bigint not null check (version >= 1),
    -- INV-AGT-6: gross is withheld plus net.
    constraint payout_adds_up check (gross = withheld + net),
    check ((status = 'Paid') = (paid_at is not null)),
    check ((status = 'Failed') = (failure_reason is not null)),
    unique (run_id, agent_user_id, currency)
) with (fillfactor = 85);
create index payout_agent_created on payout (agent_user_id, created_at, id);
create index payout_agent_period on payout (agent_user_id, period_to, id);
create index payout_agent_net on payout (agent_user_id, net, id);
create index payout_created on payout (created_at, id);
create index payout_status on payout (status, created_at, id);
create index payout_period on payout (period_to, id);
create index payout_net on payout (net, id);
create index payout_run_created on payout (run_id, created_at, id);
-- The mean of an agent's paid amounts, for previews.
create index payout_paid on payout (agent_user_id, currency) include (gross) where status = 'Paid';

-- Accruals. A trigger keeps INV-AGT-2 and INV-AGT-7, unique indexes keep INV-AGT-3.
create table accrual (
    id uuid primary key,
    agent_user_id uuid not null,
    deal_id uuid not null references deal (id),
    -- The version of the deal with which the sale began.
    sale_row_version bigint not null,
    property_object_id uuid not null,
    developer_company_id uuid not null,
    kind text collate "C" not null check (kind in ('Base', 'Bonus', 'Correction', 'Reversal')),
    base_amount bigint not null check (base_amount >= 0), -- minor units, as all amounts
    rate_bps integer not null check (rate_bps between 0 and 10000),
    amount bigint not null,
    currency text collate "C" not null check (currency ~ '^[A-Z]{3}$'),
    status text collate "C" not null
        check (status in ('Pending', 'Approved', 'Paid', 'Rejected', 'Reversed')),
    payout_id uuid references payout (id),
    reverses_accrual_id uuid references accrual (id),
    adjusts_accrual_id uuid references accrual (id),
    earned_at timestamptz not null,
    approved_at timestamptz,
    paid_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- The agent made the latest change of the rate card of the sale.
    is_self_rated boolean not null default false,
    -- The sale is completed, and only a release approves the accrual.
    awaits_release boolean not null default false,
    -- Author of the release, or of the decision that granted the accrual.
    released_by_user_id uuid,
    -- Author and comment of a rejection or reversal. Only the money log and events show the author,
    -- and no response has the comment.
    decided_by_user_id uuid,
    decision_comment text check (char_length(decision_comment) between 1 and 2000),
    version bigint not null check (version >= 1),
    check ((kind = 'Reversal') = (reverses_accrual_id is not null)),
    check ((status = 'Paid') = (paid_at is not null)),
    check (status <> 'Paid' or payout_id is not null),
    check (payout_id is null or status in ('Approved', 'Paid')),
    check (status not in ('Approved', 'Paid') or approved_at is not null),
    check (not awaits_release or status = 'Pending')
) with (fillfactor = 85);
create unique index accrual_base on accrual (deal_id, sale_row_version) where kind = 'Base';
create unique index accrual_reversal on accrual (reverses_accrual_id) where reverses_accrual_id is not null;
create index accrual_adjusting on accrual (adjusts_accrual_id) where adjusts_accrual_id is not null;
create index accrual_deal on accrual (deal_id, created_at, id);
create index accrual_payout on accrual (payout_id, id) where payout_id is not null;
-- The order in which runs take accruals: debts first.
create index accrual_payable on accrual (agent_user_id, currency, (amount >= 0), approved_at, id)
    where status = 'Approved' and payout_id is null;
-- Covers the filters by these columns, so that a count does not read the rows.
create index accrual_agent_created on accrual (agent_user_id, created_at, id)
    include (status, kind, currency, developer_company_id);
create index accrual_agent_earned on accrual (agent_user_id, earned_at, id);
create index accrual_agent_amount on accrual (agent_user_id, amount, id);
create index accrual_created on accrual (created_at, id);
create index accrual_status on accrual (status, created_at, id);
create index accrual_awaiting_release on accrual (created_at, id) where awaits_release;
create index accrual_developer on accrual (developer_company_id, created_at, id);
create index accrual_earned on accrual (earned_at, id);
create index accrual_amount on accrual (amount, id);

create function accrual_is_immutable() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' then
        if old.status in ('Paid', 'Rejected', 'Reversed') then
            raise exception 'an accrual in status % is final', old.status using errcode = 'restrict_violation';
        end if;
        if (old.id, old.agent_user_id, old.deal_id, old.sale_row_version, old.property_object_id,
            old.developer_company_id, old.kind, old.base_amount, old.rate_bps, old.amount, old.currency,
            old.earned_at, old.created_at, old.is_self_rated)
            is not distinct from
            (new.id, new.agent_user_id, new.deal_id, new.sale_row_version, new.property_object_id,
            new.developer_company_id, new.kind, new.base_amount, new.rate_bps, new.amount, new.currency,
            new.earned_at, new.created_at, new.is_self_rated)
            and (old.reverses_accrual_id, old.adjusts_accrual_id)
            is not distinct from (new.reverses_accrual_id, new.adjusts_accrual_id)
        then
            return new;
        end if;
    end if;
    raise exception 'accruals are append-only' using errcode = 'restrict_violation';
end
$$;
create trigger accrual_is_immutable before update or delete on accrual
    for each row execute function accrual_is_immutable();
create trigger accrual_is_not_truncated before truncate on accrual
    for each statement execute function accrual_is_immutable();

-- INV-AGT-6: only the status, reference, failure reason, version, latest author, and the times
-- sent_at, paid_at and updated_at of a payout change.
create function payout_is_immutable() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' then
        if (old.id, old.run_id, old.agent_user_id, old.period_from, old.period_to, old.currency, old.gross,
            old.withholding_bps, old.withheld, old.net, old.accruals_count, old.created_at)
            is not distinct from
            (new.id, new.run_id, new.agent_user_id, new.period_from, new.period_to, new.currency, new.gross,
            new.withholding_bps, new.withheld, new.net, new.accruals_count, new.created_at)
        then
            return new;
        end if;
    end if;
    raise exception 'the amounts of a payout do not change' using errcode = 'restrict_violation';
end
$$;
create trigger payout_is_immutable before update or delete on payout
    for each row execute function payout_is_immutable();
create trigger payout_is_not_truncated before truncate on payout
    for each statement execute function payout_is_immutable();

-- The statement of a payout. Its lines never change.
create table payout_line (
    payout_id uuid not null references payout (id),
    accrual_id uuid not null references accrual (id),
    developer_name text, -- at the time of the payout
    primary key (payout_id, accrual_id)
);
create function payout_line_is_immutable() returns trigger language plpgsql as $$
begin
    raise exception 'a statement does not change' using errcode = 'restrict_violation';
end
$$;
create trigger payout_line_is_immutable before update or delete or truncate on payout_line
    for each statement execute function payout_line_is_immutable();

-- Adjustment requests.

create table adjustment_request (
    id uuid primary key,
    accrual_id uuid not null references accrual (id),
    agent_user_id uuid not null,
    reason text collate "C" not null
        check (reason in ('WrongAmount', 'WrongRate', 'MissingBonus', 'WrongDeal', 'Other')),
    requested_amount bigint check (requested_amount >= 0), -- in the accrual's currency
    comment text not null check (char_length(comment) between 1 and 2000),
    status text collate "C" not null check (status in ('Open', 'Approved', 'Rejected')),
    granted_amount bigint check (granted_amount >= 0),
    decision_comment text check (char_length(decision_comment) between 1 and 2000),
    result_accrual_id uuid references accrual (id),
    created_at timestamptz not null,
    decided_at timestamptz,
    decided_by_user_id uuid,
    version bigint not null check (version >= 1),
    check ((status = 'Open') = (decided_at is null)),
    check ((status = 'Approved') = (granted_amount is not null)),
    check ((status = 'Approved') = (result_accrual_id is not null))
);
-- One open request for each accrual (INV-AGT-3).
create unique index adjustment_request_open on adjustment_request (accrual_id) where status = 'Open';
create index adjustment_request_accrual on adjustment_request (accrual_id, created_at, id);
create index adjustment_request_created on adjustment_request (created_at, id);
create index adjustment_request_agent on adjustment_request (agent_user_id, created_at, id);
create index adjustment_request_status on adjustment_request (status, created_at, id);
create index adjustment_request_open_agent on adjustment_request (agent_user_id) where status = 'Open';

-- Bonuses that one employee proposes and another one decides.
create table bonus_proposal (
    id uuid primary key,
    accrual_id uuid not null references accrual (id), -- the Base
    agent_user_id uuid not null,
    amount bigint not null check (amount > 0), -- in the accrual's currency
    reason text not null check (char_length(reason) between 1 and 2000),
    status text collate "C" not null check (status in ('Open', 'Approved', 'Rejected')),
    decision_comment text check (char_length(decision_comment) between 1 and 2000),
    result_accrual_id uuid references accrual (id),
    created_at timestamptz not null,
    proposed_by_user_id uuid not null,
    decided_at timestamptz,
    decided_by_user_id uuid,
    version bigint not null check (version >= 1),
    check ((status = 'Open') = (decided_at is null)),
    check ((status = 'Approved') = (result_accrual_id is not null)),
    -- INV-AGT-12: two employees grant a bonus, and neither is its agent.
    constraint bonus_proposal_has_two_authors check (
        proposed_by_user_id <> agent_user_id
        and (status <> 'Approved' or decided_by_user_id is not null
            and decided_by_user_id not in (proposed_by_user_id, agent_user_id))
    )
);
create index bonus_proposal_accrual on bonus_proposal (accrual_id, created_at, id);
create index bonus_proposal_created on bonus_proposal (created_at, id);
create index bonus_proposal_agent on bonus_proposal (agent_user_id, created_at, id);
create index bonus_proposal_status on bonus_proposal (status, created_at, id);

-- Money log

-- Who moved or decided money. Entries are append-only (INV-AGT-10).
-- Ids are ordered by time.
create table money_log (
    id uuid primary key,
    at timestamptz not null,
    action text collate "C" not null,
    -- Accrual, adjustment request, bonus proposal, rate card, agent, deal, payout run or payout.
    subject_id uuid not null,
    agent_user_id uuid,
    actor_user_id uuid, -- null: the job unrated-deals, or an event without a user
    amount bigint, -- minor units
    currency text collate "C" check (currency ~ '^[A-Z]{3}$'),
    rate_bps integer check (rate_bps between 0 and 10000),
    trace_id text collate "C",
    check ((amount is null) = (currency is null))
);
create index money_log_subject on money_log (subject_id, id);
create index money_log_agent on money_log (agent_user_id, id) where agent_user_id is not null;
create index money_log_actor on money_log (actor_user_id, id) where actor_user_id is not null;

create function money_log_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the money log is append-only' using errcode = 'restrict_violation';
end
$$;
create trigger money_log_is_append_only before update or delete or truncate on money_log
    for each statement execute function money_log_is_append_only();
