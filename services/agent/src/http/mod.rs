//! The HTTP edge: the routes of the public port.

mod accrual;
mod payout_list;
mod performance;
mod summary;

use ::web::{Callers, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;

use crate::error::FORBIDDEN;

/// What agents see of their own, and what the platform's people do about it.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Cabinet", "What an agent has done and earned."),
        ("Commissions", "What agents are owed: rates, accruals, requests to adjust them."),
        ("Payouts", "What agents are paid."),
    ],
    routes: public,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(reading)
            .configure(cabinet)
            .configure(commissions)
            .configure(payouts),
    );
}

/// What is read of agents' deals and of their money.
fn reading(routes: &mut Routes<'_>) {
    routes
        .service(performance::get_performance.refuses([FORBIDDEN]))
        .service(summary::get_summary.refuses([FORBIDDEN]))
        .service(accrual::list_own_accruals.refuses([FORBIDDEN]))
        .service(accrual::list_accruals.refuses([FORBIDDEN]))
        .service(payout_list::list_own_payouts.refuses([FORBIDDEN]))
        .service(payout_list::list_payouts.refuses([FORBIDDEN]));
}

/// What agents call.
fn cabinet(_routes: &mut Routes<'_>) {}

/// What the platform calls to decide what is owed.
fn commissions(_routes: &mut Routes<'_>) {}

/// What the platform calls to pay it.
fn payouts(_routes: &mut Routes<'_>) {}
