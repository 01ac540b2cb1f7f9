//! The HTTP edge: the routes of the public port.

mod board;
mod deal_read;
mod pipeline;
mod selection;

use ::web::{Callers, EMPTY_ID, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    DEAL_NOT_FOUND, DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_FOUND, FORBIDDEN, PIPELINE_CONFLICT,
    PIPELINE_STEP_GROUP_FIXED, SELECTION_NOT_FOUND, STEP_NOT_FOUND,
};

/// What the platform's people do with all deals, and a developer's with their own.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Deals", "Deals of all developers, for the platform's people."),
        ("Own deals", "Deals of one's own company."),
        ("Board", "The kanban of a developer's deals."),
        ("Pipeline", "The steps that a developer's deals go through."),
    ],
    routes: public,
};

/// What whoever reads a deal may meet.
const READING: [Code; 3] = [FORBIDDEN, EMPTY_ID, DEAL_NOT_FOUND];

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)).configure(reading));
}

/// What is read, and the pipeline.
fn reading(routes: &mut Routes<'_>) {
    let replacing =
        [FORBIDDEN, DEVELOPER_NOT_FOUND, DEAL_STEP_NOT_FOUND, PIPELINE_STEP_GROUP_FIXED, PIPELINE_CONFLICT];
    routes
        .service(deal_read::list_deals.refuses([FORBIDDEN]))
        .service(deal_read::list_own_deals.refuses([FORBIDDEN]))
        .service(deal_read::get_deal.refuses(READING))
        .service(deal_read::get_own_deal.refuses(READING))
        .service(deal_read::list_deal_timeline.refuses(READING))
        .service(deal_read::list_own_deal_timeline.refuses(READING))
        .service(deal_read::list_deal_stages.refuses(READING))
        .service(deal_read::list_own_deal_stages.refuses(READING))
        .service(board::get_board.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(board::get_own_board.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(board::get_board_column.refuses([FORBIDDEN, STEP_NOT_FOUND]))
        .service(board::get_own_board_column.refuses([FORBIDDEN, STEP_NOT_FOUND]))
        .service(pipeline::get_pipeline.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(pipeline::replace_pipeline.refuses(replacing))
        .service(pipeline::get_own_pipeline.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(pipeline::replace_own_pipeline.refuses(replacing))
        .service(selection::get_deal_selection.refuses(READING).refuses([SELECTION_NOT_FOUND]))
        .service(selection::get_own_deal_selection.refuses(READING).refuses([SELECTION_NOT_FOUND]))
        .service(selection::list_client_selections.refuses(READING));
}
