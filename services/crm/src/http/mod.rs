//! The HTTP edge: the routes of the public port.

mod board;
mod booking;
mod contract;
mod deal;
mod deal_read;
mod note;
mod order;
mod pipeline;
mod selection;
mod status_override;

use ::web::{Callers, EMPTY_ID, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    DEAL_ALREADY_TERMINAL, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED, DEAL_CONFLICT,
    DEAL_CONTRACT_TYPE_REQUIRED, DEAL_MOVE_FORBIDDEN, DEAL_NOT_FOUND, DEAL_STATUS_OVERRIDE_FORBIDDEN,
    DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_ACTIVE, DEVELOPER_NOT_FOUND, FORBIDDEN, PIPELINE_CONFLICT,
    PIPELINE_STEP_GROUP_FIXED, PROPERTY_OBJECT_ALREADY_BOOKED, PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_NOT_FOUND, SELECTION_NOT_FOUND, STEP_NOT_FOUND,
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

/// What whoever asks for a deal may meet.
const OF_DEAL: [Code; 2] = [FORBIDDEN, DEAL_NOT_FOUND];

/// What whoever changes one may meet.
const CHANGING: [Code; 4] = [FORBIDDEN, DEAL_NOT_FOUND, DEAL_ALREADY_TERMINAL, DEAL_CONFLICT];

const CREATING: [Code; 6] = [
    FORBIDDEN,
    PROPERTY_OBJECT_NOT_FOUND,
    DEVELOPER_NOT_ACTIVE,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    DEAL_STEP_NOT_FOUND,
    DEAL_CONFLICT,
];

const MOVING: [Code; 4] =
    [DEAL_STEP_NOT_FOUND, DEAL_MOVE_FORBIDDEN, DEAL_CONTRACT_TYPE_REQUIRED, DEAL_BOOKING_REQUIRED];

const BOOKING: [Code; 4] = [
    DEAL_BOOKING_ALREADY_ACTIVE,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_ALREADY_BOOKED,
    DEAL_STEP_NOT_FOUND,
];

const COMPLETING: [Code; 4] =
    [DEAL_MOVE_FORBIDDEN, PROPERTY_OBJECT_ALREADY_BOOKED, PROPERTY_OBJECT_NOT_AVAILABLE, DEAL_STEP_NOT_FOUND];

const OVERRIDING: [Code; 3] =
    [DEAL_STATUS_OVERRIDE_FORBIDDEN, DEAL_STEP_NOT_FOUND, DEAL_CONTRACT_TYPE_REQUIRED];

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)).configure(reading).configure(commands));
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

/// What is done with deals.
fn commands(routes: &mut Routes<'_>) {
    routes
        .service(deal::create_deal.refuses(CREATING))
        .service(deal::create_own_deal.refuses(CREATING))
        .service(deal::move_deal.refuses(CHANGING).refuses(MOVING))
        .service(deal::move_own_deal.refuses(CHANGING).refuses(MOVING))
        .service(deal::set_deal_agent.refuses(CHANGING))
        .service(deal::set_own_deal_agent.refuses(CHANGING))
        .service(deal::cancel_deal.refuses(CHANGING).refuses([DEAL_STEP_NOT_FOUND]))
        .service(deal::cancel_own_deal.refuses(CHANGING).refuses([DEAL_STEP_NOT_FOUND]))
        .service(deal::complete_deal.refuses(CHANGING).refuses(COMPLETING))
        .service(deal::complete_own_deal.refuses(CHANGING).refuses(COMPLETING))
        .service(contract::get_deal_contract.refuses(READING))
        .service(contract::get_own_deal_contract.refuses(READING))
        .service(contract::update_deal_contract.refuses(CHANGING).refuses([DEAL_CONTRACT_TYPE_REQUIRED]))
        .service(contract::update_own_deal_contract.refuses(CHANGING).refuses([DEAL_CONTRACT_TYPE_REQUIRED]))
        .service(booking::book_deal.refuses(CHANGING).refuses(BOOKING))
        .service(booking::book_own_deal.refuses(CHANGING).refuses(BOOKING))
        .service(booking::prolong_booking.refuses(CHANGING).refuses([DEAL_BOOKING_REQUIRED]))
        .service(booking::prolong_own_booking.refuses(CHANGING).refuses([DEAL_BOOKING_REQUIRED]))
        .service(note::add_note.refuses(OF_DEAL))
        .service(note::add_own_note.refuses(OF_DEAL))
        .service(status_override::override_deal_status.refuses(CHANGING).refuses(OVERRIDING))
        .service(status_override::preview_deal_override.refuses(CHANGING).refuses(OVERRIDING));
}
