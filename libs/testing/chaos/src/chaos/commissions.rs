//! Checks of commissions and payouts in the tables of agent and CRM.

use super::Count;

/// Numbers that show how much was checked.
pub(super) const FIGURES: &[Count] = &[
    ("accruals", "select count(*) from agent.accrual"),
    (
        "minor units of Base accruals",
        "select coalesce(sum(amount), 0)::bigint from agent.accrual where kind = 'Base'",
    ),
    ("payouts", "select count(*) from agent.payout"),
    (
        "minor units of paid payouts",
        "select coalesce(sum(gross), 0)::bigint from agent.payout where status = 'Paid'",
    ),
    ("decided requests of agents", "select count(*) from agent.adjustment_request where status <> 'Open'"),
];

/// Violations that jobs remove some time after the last event.
pub(super) const EVENTUAL_RULES: &[Count] = &[
    ("unfinished payout runs", "select count(*) from agent.payout_run where status <> 'Completed'"),
    ("held deals", "select count(*) from agent.deal where held_since is not null"),
    (
        "unrated sales with an existing rate",
        "select count(*) from agent.deal where is_unrated and exists (select from agent.rate_card as card \
         join agent.rate on rate.card_id = card.id \
         where (card.agent_user_id is null or card.agent_user_id = deal.sale_agent_user_id) \
            and (card.developer_company_id is null or card.developer_company_id = deal.developer_company_id) \
            and card.agency_company_id is null and rate.valid_from <= deal.sold_at \
            and (rate.valid_to is null or deal.sold_at < rate.valid_to))",
    ),
];

/// Two parts of a `with` clause. `sale` has a row for each sale with an agent, from the stage in
/// which it began. `raised` has the deals whose version was raised after a loss of the database, so
/// that their timeline lacks versions.
macro_rules! sales {
    () => {
        "sale as ( \
            select stage.deal_id, stage.row_version, stage.entered_at, deal.tenant_id, \
                entry.agent_user_id, entry.amount, entry.currency \
            from ( \
                select deal_id, row_version, entered_at, status in ('Sale', 'Completed') as is_sold, \
                    lag(status in ('Sale', 'Completed'), 1, false) \
                        over (partition by deal_id order by row_version) as was_sold \
                from crm.stage \
            ) as stage \
            join crm.deal on deal.id = stage.deal_id \
            cross join lateral ( \
                select agent_user_id, amount, currency from crm.timeline \
                where timeline.deal_id = stage.deal_id and timeline.row_version = stage.row_version limit 1 \
            ) as entry \
            where stage.is_sold and not stage.was_sold and entry.agent_user_id is not null \
         ), raised as ( \
            select id from crm.deal where row_version <> ( \
                select count(distinct row_version) from crm.timeline where deal_id = deal.id) \
         )"
    };
}

/// The condition that a card had a rate for the agent of `sale` when the sale began.
///
/// A process that is frozen while it sets a rate continues within 20 s. Until then, a sale may
/// begin and end without the rate. The condition therefore ignores cards that were created less
/// than 20 s before the sale.
macro_rules! has_rate {
    () => {
        "exists ( \
            select from agent.rate_card as card join agent.rate on rate.card_id = card.id \
            where (card.agent_user_id is null or card.agent_user_id = sale.agent_user_id) \
                and (card.developer_company_id is null or card.developer_company_id = sale.tenant_id) \
                and card.agency_company_id is null and rate.valid_from <= sale.entered_at \
                and (rate.valid_to is null or sale.entered_at < rate.valid_to) \
                and card.created_at + interval '20 seconds' < sale.entered_at)"
    };
}

/// Violations that must not exist, with the queries that count them.
pub(super) const RULES: &[Count] = &[
    (
        "sales of agents without exactly one matching Base, or Bases without a sale",
        concat!(
            "with ",
            sales!(),
            ", base as ( \
                select *, status in ('Rejected', 'Reversed') or exists ( \
                    select from agent.accrual as reversal where reversal.reverses_accrual_id = accrual.id \
                ) as is_undone from agent.accrual where kind = 'Base') \
             select count(*) from sale full join base \
                on base.deal_id = sale.deal_id and base.sale_row_version = sale.row_version \
             where coalesce(sale.deal_id, base.deal_id) not in (select id from raised) and case \
                when sale.deal_id is null then not base.is_undone \
                    or exists (select from crm.deal where deal.id = base.deal_id) \
                when base.id is null then ",
            has_rate!(),
            " else (base.agent_user_id, base.base_amount, base.currency) \
                    <> (sale.agent_user_id, sale.amount, sale.currency) end"
        ),
    ),
    // The command `restored` raises the version of a deal and adds no row to its timeline. The
    // sales of such deals are therefore compared without their versions.
    (
        "deals with lost changes whose present sale and effective Base do not match",
        concat!(
            "with ",
            sales!(),
            ", present as ( \
                select distinct on (sale.deal_id) sale.* from sale join crm.deal on deal.id = sale.deal_id \
                where deal.status in ('Sale', 'Completed') order by sale.deal_id, sale.row_version desc \
             ), base as ( \
                select * from agent.accrual where kind = 'Base' and status not in ('Rejected', 'Reversed') \
                    and not exists (select from agent.accrual as reversal \
                        where reversal.reverses_accrual_id = accrual.id) \
             ) select count(*) from raised left join present as sale on sale.deal_id = raised.id \
             left join base on base.deal_id = raised.id \
             where case when base.id is not null \
                then (base.agent_user_id, base.base_amount, base.currency) \
                    is distinct from (sale.agent_user_id, sale.amount, sale.currency) \
                else sale.deal_id is not null and not exists (select from agent.accrual as undone \
                    where undone.deal_id = sale.deal_id and undone.kind = 'Base' \
                        and (undone.agent_user_id, undone.base_amount, undone.currency) \
                            = (sale.agent_user_id, sale.amount, sale.currency)) \
                    and ",
            has_rate!(),
            " end"
        ),
    ),
    (
        "accounts that differ from the sums of their accruals",
        "select count(*) from agent.account full join ( \
            select agent_user_id, currency, count(*) as entries, \
                sum(amount) filter (where status = 'Pending') as pending, \
                sum(amount) filter (where status = 'Approved' and payout_id is null) as approved, \
                sum(amount) filter (where status = 'Approved' and payout_id is not null) as in_payout, \
                sum(amount) filter (where status = 'Paid') as paid \
            from agent.accrual group by agent_user_id, currency \
         ) as earned using (agent_user_id, currency) \
         where coalesce(account.pending, 0) <> coalesce(earned.pending, 0) \
            or coalesce(account.approved, 0) <> coalesce(earned.approved, 0) \
            or coalesce(account.in_payout, 0) <> coalesce(earned.in_payout, 0) \
            or coalesce(account.paid, 0) <> coalesce(earned.paid, 0) \
            or coalesce(account.entries, 0) <> coalesce(earned.entries, 0)",
    ),
    (
        "payouts that differ from the sums of their lines",
        "select count(*) from (select payout.id from agent.payout \
         left join agent.payout_line as line on line.payout_id = payout.id \
         left join agent.accrual on accrual.id = line.accrual_id \
         group by payout.id, payout.gross, payout.withheld, payout.net, payout.accruals_count \
         having payout.gross is distinct from sum(accrual.amount) or payout.gross <= 0 \
            or payout.gross <> payout.withheld + payout.net or payout.accruals_count <> count(accrual.id) \
            or bool_or(accrual.agent_user_id <> payout.agent_user_id or accrual.currency <> payout.currency) \
         ) as wrong",
    ),
    (
        "accruals in two payouts, or in another state than their payout",
        "select count(*) from ( \
            select line.accrual_id, line.payout_id, payout.status from agent.payout_line as line \
            join agent.payout on payout.id = line.payout_id \
            where payout.status in ('Scheduled', 'InTransit', 'Paid') \
         ) as live full join (select * from agent.accrual where payout_id is not null) as accrual \
            on accrual.id = live.accrual_id \
         where accrual.payout_id is distinct from live.payout_id \
            or (accrual.status = 'Paid') is distinct from (live.status = 'Paid')",
    ),
    // The accruals of an ended sale sum to zero. Those of the active sale do not exceed its price;
    // -9e18 means that their sum has no lower bound.
    (
        "ended sales with effective accruals, or sales with too high accruals",
        "select count(*) from (select deal.id from agent.accrual join agent.deal on deal.id = accrual.deal_id \
         group by deal.id, deal.sale_row_version, deal.completed_amount, accrual.sale_row_version, accrual.currency \
         having coalesce(sum(accrual.amount) filter (where accrual.status not in ('Rejected', 'Reversed')), 0) \
            not between case when deal.sale_row_version is distinct from accrual.sale_row_version then 0 else -9e18 end \
            and case when deal.sale_row_version is distinct from accrual.sale_row_version then 0 \
                else greatest(max(accrual.base_amount), deal.completed_amount) end) as wrong",
    ),
    (
        "open requests about decided accruals",
        "select count(*) from agent.adjustment_request as request \
         join agent.accrual on accrual.id = request.accrual_id \
         where request.status = 'Open' and accrual.status in ('Rejected', 'Reversed')",
    ),
];
