//! The HTTP edge: the routes of the public port.

mod board;
mod booking;
mod contract;
mod deal;
mod deal_read;
mod manager;
mod note;
mod pipeline;
mod selection;
mod status_override;

use ::web::{Callers, EMPTY_ID, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    AGENT_IS_ACTOR, AGENT_IS_CLIENT, AGENT_NOT_ACTIVE, AMOUNT_OUT_OF_TOLERANCE, CLIENT_IS_ACTOR,
    DEAL_ALREADY_TERMINAL, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED, DEAL_CONFLICT,
    DEAL_CONTRACT_TYPE_REQUIRED, DEAL_MOVE_FORBIDDEN, DEAL_NOT_FOUND, DEAL_STATUS_OVERRIDE_FORBIDDEN,
    DEAL_STEP_NOT_FOUND, DEVELOPER_NOT_ACTIVE, DEVELOPER_NOT_FOUND, FORBIDDEN, PIPELINE_CONFLICT,
    PIPELINE_STEP_GROUP_FIXED, PROPERTY_OBJECT_ALREADY_BOOKED, PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_NOT_FOUND, SELECTION_NOT_FOUND, SELECTION_NOT_OF_CLIENT, STEP_NOT_FOUND,
};

/// The public listener: platform routes for all deals, company routes for the own company's deals.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Deals", "Deals of all developers, for platform managers and the care service."),
        ("Own deals", "Deals of the own company."),
        ("Board", "The deals of a developer by step."),
        ("Pipeline", "The steps of a developer's deals."),
    ],
    routes: public,
};

/// The addresses of the deals, which `Location` extends.
const ALL_DEALS: &str = "/api/platform-manager/crm/deals";
const OWN_DEALS: &str = "/api/v1/crm/deals";

/// The refusals of every read of a deal.
const READ_REFUSALS: [Code; 3] = [FORBIDDEN, EMPTY_ID, DEAL_NOT_FOUND];

/// The refusals of a note.
const NOTE_REFUSALS: [Code; 2] = [FORBIDDEN, DEAL_NOT_FOUND];

/// The refusals of every change of a deal.
const CHANGE_REFUSALS: [Code; 4] = [FORBIDDEN, DEAL_NOT_FOUND, DEAL_ALREADY_TERMINAL, DEAL_CONFLICT];

const CREATE_REFUSALS: [Code; 10] = [
    FORBIDDEN,
    PROPERTY_OBJECT_NOT_FOUND,
    DEVELOPER_NOT_ACTIVE,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    DEAL_STEP_NOT_FOUND,
    CLIENT_IS_ACTOR,
    AGENT_IS_ACTOR,
    AGENT_IS_CLIENT,
    SELECTION_NOT_OF_CLIENT,
    DEAL_CONFLICT,
];

const AGENT_REFUSALS: [Code; 3] = [CLIENT_IS_ACTOR, AGENT_IS_ACTOR, AGENT_IS_CLIENT];

const MOVE_REFUSALS: [Code; 4] =
    [DEAL_STEP_NOT_FOUND, DEAL_MOVE_FORBIDDEN, DEAL_CONTRACT_TYPE_REQUIRED, DEAL_BOOKING_REQUIRED];

const BOOK_REFUSALS: [Code; 4] = [
    DEAL_BOOKING_ALREADY_ACTIVE,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_ALREADY_BOOKED,
    DEAL_STEP_NOT_FOUND,
];

const CONTRACT_REFUSALS: [Code; 3] = [DEAL_CONTRACT_TYPE_REQUIRED, CLIENT_IS_ACTOR, AGENT_IS_ACTOR];

const COMPLETE_REFUSALS: [Code; 6] = [
    DEAL_MOVE_FORBIDDEN,
    CLIENT_IS_ACTOR,
    AGENT_IS_ACTOR,
    PROPERTY_OBJECT_ALREADY_BOOKED,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    DEAL_STEP_NOT_FOUND,
];

const OVERRIDE_REFUSALS: [Code; 3] =
    [DEAL_STATUS_OVERRIDE_FORBIDDEN, DEAL_STEP_NOT_FOUND, DEAL_CONTRACT_TYPE_REQUIRED];

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)).configure(reads).configure(commands));
}

/// Adds the reads, and the replacement of pipelines.
fn reads(routes: &mut Routes<'_>) {
    let replace_refusals =
        [FORBIDDEN, DEVELOPER_NOT_FOUND, DEAL_STEP_NOT_FOUND, PIPELINE_STEP_GROUP_FIXED, PIPELINE_CONFLICT];
    routes
        .service(deal_read::list_deals.refuses([FORBIDDEN]))
        .service(deal_read::list_own_deals.refuses([FORBIDDEN]))
        .service(deal_read::get_deal.refuses(READ_REFUSALS))
        .service(deal_read::get_own_deal.refuses(READ_REFUSALS))
        .service(deal_read::list_deal_timeline.refuses(READ_REFUSALS))
        .service(deal_read::list_own_deal_timeline.refuses(READ_REFUSALS))
        .service(deal_read::list_deal_stages.refuses(READ_REFUSALS))
        .service(deal_read::list_own_deal_stages.refuses(READ_REFUSALS))
        .service(board::get_board.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(board::get_own_board.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(board::get_board_column.refuses([FORBIDDEN, STEP_NOT_FOUND]))
        .service(board::get_own_board_column.refuses([FORBIDDEN, STEP_NOT_FOUND]))
        .service(pipeline::get_pipeline.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(pipeline::replace_pipeline.refuses(replace_refusals))
        .service(pipeline::get_own_pipeline.refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]))
        .service(pipeline::replace_own_pipeline.refuses(replace_refusals))
        .service(selection::get_deal_selection.refuses(READ_REFUSALS).refuses([SELECTION_NOT_FOUND]))
        .service(selection::get_own_deal_selection.refuses(READ_REFUSALS).refuses([SELECTION_NOT_FOUND]))
        .service(selection::list_client_selections.refuses(READ_REFUSALS));
}

/// Adds the commands on deals.
fn commands(routes: &mut Routes<'_>) {
    routes
        .service(deal::create_deal.refuses(CREATE_REFUSALS))
        .service(
            deal::create_own_deal
                .refuses(CREATE_REFUSALS)
                .refuses([AGENT_NOT_ACTIVE, AMOUNT_OUT_OF_TOLERANCE]),
        )
        .service(deal::move_deal.refuses(CHANGE_REFUSALS).refuses(MOVE_REFUSALS))
        .service(deal::move_own_deal.refuses(CHANGE_REFUSALS).refuses(MOVE_REFUSALS))
        .service(deal::set_deal_agent.refuses(CHANGE_REFUSALS).refuses(AGENT_REFUSALS))
        .service(
            deal::set_own_deal_agent
                .refuses(CHANGE_REFUSALS)
                .refuses(AGENT_REFUSALS)
                .refuses([AGENT_NOT_ACTIVE]),
        )
        .service(deal::cancel_deal.refuses(CHANGE_REFUSALS).refuses([DEAL_STEP_NOT_FOUND]))
        .service(deal::cancel_own_deal.refuses(CHANGE_REFUSALS).refuses([DEAL_STEP_NOT_FOUND]))
        .service(deal::complete_deal.refuses(CHANGE_REFUSALS).refuses(COMPLETE_REFUSALS))
        .service(deal::complete_own_deal.refuses(CHANGE_REFUSALS).refuses(COMPLETE_REFUSALS))
        .service(contract::get_deal_contract.refuses(READ_REFUSALS))
        .service(contract::get_own_deal_contract.refuses(READ_REFUSALS))
        .service(contract::update_deal_contract.refuses(CHANGE_REFUSALS).refuses(CONTRACT_REFUSALS))
        .service(
            contract::update_own_deal_contract
                .refuses(CHANGE_REFUSALS)
                .refuses(CONTRACT_REFUSALS)
                .refuses([AMOUNT_OUT_OF_TOLERANCE]),
        )
        .service(booking::book_deal.refuses(CHANGE_REFUSALS).refuses(BOOK_REFUSALS))
        .service(booking::book_own_deal.refuses(CHANGE_REFUSALS).refuses(BOOK_REFUSALS))
        .service(booking::prolong_booking.refuses(CHANGE_REFUSALS).refuses([DEAL_BOOKING_REQUIRED]))
        .service(booking::prolong_own_booking.refuses(CHANGE_REFUSALS).refuses([DEAL_BOOKING_REQUIRED]))
        .service(note::add_note.refuses(NOTE_REFUSALS))
        .service(note::add_own_note.refuses(NOTE_REFUSALS))
        .service(status_override::override_deal_status.refuses(CHANGE_REFUSALS).refuses(OVERRIDE_REFUSALS))
        .service(status_override::preview_deal_override.refuses(CHANGE_REFUSALS).refuses(OVERRIDE_REFUSALS));
}
