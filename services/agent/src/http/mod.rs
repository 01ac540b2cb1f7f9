//! The HTTP edge: the routes of the public port.

mod accrual;
mod accrual_decision;
mod adjustment;
mod agent;
mod assignment;
mod bonus;
mod deal_list;
mod money_log;
mod own;
mod payout_list;
mod payout_run;
mod payout_transition;
mod performance;
mod rate_card;
mod statement;
mod summary;

use ::web::{Callers, Listener, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use crate::domain::{ManageCommissions, ManagePayouts, ReadMoneyLog, UseCabinet};
use crate::error::{
    ACCRUAL_NOT_ADJUSTABLE, ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_RELEASABLE,
    ACCRUAL_NOT_REVERSIBLE, ACCRUAL_OWN, ADJUSTMENT_ALREADY_DECIDED, ADJUSTMENT_ALREADY_OPEN,
    ADJUSTMENT_AMOUNT_INVALID, ADJUSTMENT_NOT_FOUND, ADJUSTMENT_OWN, ASSIGNEE_INVALID, BONUS_ALREADY_DECIDED,
    BONUS_AMOUNT_INVALID, BONUS_NOT_ALLOWED, BONUS_NOT_FOUND, BONUS_OWN, BONUS_SECOND_PERSON,
    CONCURRENCY_CONFLICT, DEAL_NOT_FOUND, FORBIDDEN, PAYOUT_INVALID_TRANSITION, PAYOUT_NOT_FOUND, PAYOUT_OWN,
    PAYOUT_RUN_KEY_REUSED, PAYOUT_RUN_NOT_FOUND, RATE_MISSING, SALE_NOT_ASSIGNABLE, TERMS_OWN,
};

/// The public API for agents and for employees of the platform.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Cabinet", "Statistics, accruals and payouts of the calling agent."),
        ("Commissions", "Rates, agencies, accruals and adjustment requests of all agents."),
        ("Payouts", "Payout runs, payouts and statements of all agents."),
    ],
    routes: public,
};

/// The refusals of every decision about an adjustment request.
const ADJUSTMENT_REFUSALS: [Code; 3] = [FORBIDDEN, ADJUSTMENT_NOT_FOUND, ADJUSTMENT_ALREADY_DECIDED];

/// The refusals of every decision about a bonus proposal.
const BONUS_REFUSALS: [Code; 5] =
    [FORBIDDEN, BONUS_NOT_FOUND, BONUS_OWN, BONUS_SECOND_PERSON, BONUS_ALREADY_DECIDED];

/// The refusals of every transition of a payout.
const TRANSITION_REFUSALS: [Code; 5] =
    [FORBIDDEN, PAYOUT_NOT_FOUND, PAYOUT_OWN, PAYOUT_INVALID_TRANSITION, CONCURRENCY_CONFLICT];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(statistics_and_lists)
            .configure(cabinet)
            .configure(rates)
            .configure(commissions)
            .configure(bonuses)
            .configure(payouts),
    );
}

/// The callers of an agent's own reads.
const AGENTS: &str = "users with the permission `agent.cabinet.use`, and former agents \
                      who are still owed money";

fn statistics_and_lists(routes: &mut Routes<'_>) {
    routes
        .service(performance::get_performance.requires::<Permitted<UseCabinet>>().refuses([FORBIDDEN]))
        .service(summary::get_summary.admits(AGENTS).refuses([FORBIDDEN]))
        .service(accrual::list_own_accruals.admits(AGENTS).refuses([FORBIDDEN]))
        .service(accrual::list_accruals.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]))
        .service(payout_list::list_own_payouts.admits(AGENTS).refuses([FORBIDDEN]))
        .service(payout_list::list_payouts.requires::<Permitted<ManagePayouts>>().refuses([FORBIDDEN]));
}

fn cabinet(routes: &mut Routes<'_>) {
    routes
        .service(statement::get_own_statement.admits(AGENTS).refuses([FORBIDDEN, PAYOUT_NOT_FOUND]))
        .service(adjustment::ask_for_adjustment.requires::<Permitted<UseCabinet>>().refuses([
            FORBIDDEN,
            ACCRUAL_NOT_FOUND,
            ACCRUAL_NOT_ADJUSTABLE,
            ADJUSTMENT_ALREADY_OPEN,
            ADJUSTMENT_AMOUNT_INVALID,
        ]));
}

/// Adds the routes of rates, agencies, and deals that wait for an agent, a rate or the ledger.
fn rates(routes: &mut Routes<'_>) {
    routes
        .service(rate_card::list_rate_cards.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]))
        .service(rate_card::replace_rate_card.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            TERMS_OWN,
            CONCURRENCY_CONFLICT,
        ]))
        .service(agent::get_agent.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]))
        .service(agent::replace_agent.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            TERMS_OWN,
            CONCURRENCY_CONFLICT,
        ]))
        .service(
            deal_list::list_unrated_deals.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]),
        )
        .service(deal_list::list_held_deals.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]))
        .service(
            assignment::list_unassigned_sales.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]),
        )
        .service(assignment::assign_sale.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            DEAL_NOT_FOUND,
            TERMS_OWN,
            SALE_NOT_ASSIGNABLE,
            ASSIGNEE_INVALID,
            RATE_MISSING,
            CONCURRENCY_CONFLICT,
        ]));
}

/// Adds the routes of the platform's decisions about accruals.
fn commissions(routes: &mut Routes<'_>) {
    routes
        .service(accrual_decision::release_accrual.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            ACCRUAL_NOT_FOUND,
            ACCRUAL_OWN,
            ACCRUAL_NOT_RELEASABLE,
            CONCURRENCY_CONFLICT,
        ]))
        .service(accrual_decision::reject_accrual.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            ACCRUAL_NOT_FOUND,
            ACCRUAL_OWN,
            ACCRUAL_NOT_REJECTABLE,
            CONCURRENCY_CONFLICT,
        ]))
        .service(accrual_decision::reverse_accrual.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            ACCRUAL_NOT_FOUND,
            ACCRUAL_OWN,
            ACCRUAL_NOT_REVERSIBLE,
            CONCURRENCY_CONFLICT,
        ]))
        .service(
            adjustment::list_adjustment_requests
                .requires::<Permitted<ManageCommissions>>()
                .refuses([FORBIDDEN]),
        )
        .service(
            adjustment::approve_adjustment
                .requires::<Permitted<ManageCommissions>>()
                .refuses(ADJUSTMENT_REFUSALS)
                .refuses([ADJUSTMENT_OWN, ADJUSTMENT_AMOUNT_INVALID, CONCURRENCY_CONFLICT]),
        )
        .service(
            adjustment::reject_adjustment
                .requires::<Permitted<ManageCommissions>>()
                .refuses(ADJUSTMENT_REFUSALS)
                .refuses([ADJUSTMENT_OWN]),
        );
}

fn bonuses(routes: &mut Routes<'_>) {
    routes
        .service(bonus::propose_bonus.requires::<Permitted<ManageCommissions>>().refuses([
            FORBIDDEN,
            ACCRUAL_NOT_FOUND,
            BONUS_OWN,
            BONUS_NOT_ALLOWED,
            BONUS_AMOUNT_INVALID,
        ]))
        .service(bonus::list_bonus_proposals.requires::<Permitted<ManageCommissions>>().refuses([FORBIDDEN]))
        .service(
            bonus::approve_bonus
                .requires::<Permitted<ManageCommissions>>()
                .refuses(BONUS_REFUSALS)
                .refuses([BONUS_NOT_ALLOWED, BONUS_AMOUNT_INVALID, CONCURRENCY_CONFLICT]),
        )
        .service(bonus::reject_bonus.requires::<Permitted<ManageCommissions>>().refuses(BONUS_REFUSALS));
}

fn payouts(routes: &mut Routes<'_>) {
    routes
        .service(
            payout_run::begin_payout_run
                .requires::<Permitted<ManagePayouts>>()
                .refuses([FORBIDDEN, PAYOUT_RUN_KEY_REUSED]),
        )
        .service(payout_run::preview_payout_run.requires::<Permitted<ManagePayouts>>().refuses([FORBIDDEN]))
        .service(money_log::list_money_log.requires::<Permitted<ReadMoneyLog>>().refuses([FORBIDDEN]))
        .service(
            payout_run::get_payout_run
                .requires::<Permitted<ManagePayouts>>()
                .refuses([FORBIDDEN, PAYOUT_RUN_NOT_FOUND]),
        )
        .service(
            payout_transition::send_payout
                .requires::<Permitted<ManagePayouts>>()
                .refuses(TRANSITION_REFUSALS),
        )
        .service(
            payout_transition::confirm_payout
                .requires::<Permitted<ManagePayouts>>()
                .refuses(TRANSITION_REFUSALS),
        )
        .service(
            payout_transition::fail_payout
                .requires::<Permitted<ManagePayouts>>()
                .refuses(TRANSITION_REFUSALS),
        )
        .service(
            payout_transition::cancel_payout
                .requires::<Permitted<ManagePayouts>>()
                .refuses(TRANSITION_REFUSALS),
        )
        .service(
            statement::get_statement
                .requires::<Permitted<ManagePayouts>>()
                .refuses([FORBIDDEN, PAYOUT_NOT_FOUND]),
        );
}
