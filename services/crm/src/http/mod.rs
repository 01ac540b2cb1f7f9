//! The HTTP edge: the routes of the public port.

mod board;
mod booking;
mod command_caller;
mod contract;
mod deal;
mod deal_list;
mod deal_read;
mod export;
mod note;
mod override_register;
mod pipeline;
mod saved_view;
mod selection;
mod status_override;

use ::web::{Callers, EMPTY_ID, Listener, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use crate::domain::{
    CareForDeals, ChangeOwnDeals, ManageDeals, ManageOwnPipeline, ReadDeals, ReadOwnDeals, ReadOwnPipeline,
};
use crate::error::{
    AGENT_IS_ACTOR, AGENT_IS_CLIENT, AGENT_NOT_ACTIVE, AMOUNT_OUT_OF_TOLERANCE, CLIENT_DEALS_LIMIT_EXCEEDED,
    CLIENT_IS_ACTOR, DEAL_ALREADY_TERMINAL, DEAL_BOOKING_ALREADY_ACTIVE, DEAL_BOOKING_REQUIRED,
    DEAL_CONFLICT, DEAL_CONTRACT_TYPE_REQUIRED, DEAL_MOVE_FORBIDDEN, DEAL_NOT_FOUND,
    DEAL_STATUS_OVERRIDE_FORBIDDEN, DEAL_STEP_NOT_FOUND, DEALS_LIMIT_EXCEEDED, DEVELOPER_NOT_ACTIVE,
    DEVELOPER_NOT_FOUND, EXPORT_TOO_LARGE, FORBIDDEN, NOTES_LIMIT_EXCEEDED, PIPELINE_CONFLICT,
    PIPELINE_STEP_GROUP_FIXED, PROPERTY_OBJECT_ALREADY_BOOKED, PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_NOT_FOUND, SAVED_VIEW_LIMIT_REACHED, SAVED_VIEW_NOT_FOUND, SELECTION_NOT_FOUND,
    SELECTION_NOT_OF_CLIENT, STEP_NOT_FOUND,
};

pub use deal::CreateDeal;

/// The public listener: platform routes for all deals, company routes for the own company's deals.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Deals", "Deals of all developers, for platform managers and the care service."),
        ("Own deals", "Deals of the own company."),
        ("Overrides", "The register of status overrides."),
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
const NOTE_REFUSALS: [Code; 3] = [FORBIDDEN, DEAL_NOT_FOUND, NOTES_LIMIT_EXCEEDED];

/// The refusals of every change of a deal.
const CHANGE_REFUSALS: [Code; 4] = [FORBIDDEN, DEAL_NOT_FOUND, DEAL_ALREADY_TERMINAL, DEAL_CONFLICT];

const CREATE_REFUSALS: [Code; 12] = [
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
    DEALS_LIMIT_EXCEEDED,
    CLIENT_DEALS_LIMIT_EXCEEDED,
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

const OVERRIDE_REFUSALS: [Code; 6] = [
    DEAL_STATUS_OVERRIDE_FORBIDDEN,
    DEAL_STEP_NOT_FOUND,
    DEAL_CONTRACT_TYPE_REQUIRED,
    DEAL_BOOKING_ALREADY_ACTIVE,
    PROPERTY_OBJECT_NOT_AVAILABLE,
    PROPERTY_OBJECT_ALREADY_BOOKED,
];

const EXPORT_REFUSALS: [Code; 2] = [FORBIDDEN, EXPORT_TOO_LARGE];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(reads)
            .configure(deals)
            .configure(contracts_and_bookings)
            .configure(notes_and_overrides)
            .configure(exports)
            .configure(saved_views),
    );
}

/// Adds the reads of deals, boards, pipelines and selections, and the replacement of pipelines.
fn reads(routes: &mut Routes<'_>) {
    let replace_refusals =
        [FORBIDDEN, DEVELOPER_NOT_FOUND, DEAL_STEP_NOT_FOUND, PIPELINE_STEP_GROUP_FIXED, PIPELINE_CONFLICT];
    routes
        .service(deal_list::list_deals.requires::<Permitted<ReadDeals>>().refuses([FORBIDDEN]))
        .service(deal_list::list_own_deals.requires::<Permitted<ReadOwnDeals>>().refuses([FORBIDDEN]))
        .service(deal_read::get_deal.requires::<Permitted<ReadDeals>>().refuses(READ_REFUSALS))
        .service(deal_read::get_own_deal.requires::<Permitted<ReadOwnDeals>>().refuses(READ_REFUSALS))
        .service(deal_read::list_deal_timeline.requires::<Permitted<ReadDeals>>().refuses(READ_REFUSALS))
        .service(
            deal_read::list_own_deal_timeline.requires::<Permitted<ReadOwnDeals>>().refuses(READ_REFUSALS),
        )
        .service(deal_read::list_deal_stages.requires::<Permitted<ReadDeals>>().refuses(READ_REFUSALS))
        .service(deal_read::list_own_deal_stages.requires::<Permitted<ReadOwnDeals>>().refuses(READ_REFUSALS))
        .service(
            board::get_board.requires::<Permitted<ReadDeals>>().refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]),
        )
        .service(
            board::get_own_board
                .requires::<Permitted<ReadOwnDeals>>()
                .refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]),
        )
        .service(
            board::get_board_column.requires::<Permitted<ReadDeals>>().refuses([FORBIDDEN, STEP_NOT_FOUND]),
        )
        .service(
            board::get_own_board_column
                .requires::<Permitted<ReadOwnDeals>>()
                .refuses([FORBIDDEN, STEP_NOT_FOUND]),
        )
        .service(
            pipeline::get_pipeline
                .requires::<Permitted<ReadDeals>>()
                .refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]),
        )
        .service(pipeline::replace_pipeline.requires::<Permitted<ManageDeals>>().refuses(replace_refusals))
        .service(
            pipeline::get_own_pipeline
                .requires::<Permitted<ReadOwnPipeline>>()
                .refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]),
        )
        .service(
            pipeline::replace_own_pipeline
                .requires::<Permitted<ManageOwnPipeline>>()
                .refuses(replace_refusals),
        )
        .service(
            selection::get_deal_selection
                .requires::<Permitted<ReadDeals>>()
                .refuses(READ_REFUSALS)
                .refuses([SELECTION_NOT_FOUND]),
        )
        .service(
            selection::get_own_deal_selection
                .requires::<Permitted<ReadOwnDeals>>()
                .refuses(READ_REFUSALS)
                .refuses([SELECTION_NOT_FOUND]),
        )
        .service(
            selection::list_client_selections.requires::<Permitted<ManageDeals>>().refuses(READ_REFUSALS),
        );
}

/// Adds the operations that create deals, and those that change their status or agent.
fn deals(routes: &mut Routes<'_>) {
    routes
        .service(deal::create_deal.requires::<Permitted<ManageDeals>>().refuses(CREATE_REFUSALS))
        .service(
            deal::create_own_deal
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CREATE_REFUSALS)
                .refuses([AGENT_NOT_ACTIVE, AMOUNT_OUT_OF_TOLERANCE]),
        )
        .service(
            deal::move_deal
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(MOVE_REFUSALS),
        )
        .service(
            deal::move_own_deal
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(MOVE_REFUSALS),
        )
        .service(
            deal::set_deal_agent
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(AGENT_REFUSALS),
        )
        .service(
            deal::set_own_deal_agent
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(AGENT_REFUSALS)
                .refuses([AGENT_NOT_ACTIVE]),
        )
        .service(
            deal::cancel_deal
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEAL_STEP_NOT_FOUND]),
        )
        .service(
            deal::cancel_own_deal
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEAL_STEP_NOT_FOUND]),
        )
        .service(
            deal::complete_deal
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(COMPLETE_REFUSALS),
        )
        .service(
            deal::complete_own_deal
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(COMPLETE_REFUSALS),
        );
}

fn contracts_and_bookings(routes: &mut Routes<'_>) {
    routes
        .service(contract::get_deal_contract.requires::<Permitted<ManageDeals>>().refuses(READ_REFUSALS))
        .service(
            contract::get_own_deal_contract.requires::<Permitted<ChangeOwnDeals>>().refuses(READ_REFUSALS),
        )
        .service(
            contract::update_deal_contract
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(CONTRACT_REFUSALS),
        )
        .service(
            contract::update_own_deal_contract
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(CONTRACT_REFUSALS)
                .refuses([AMOUNT_OUT_OF_TOLERANCE]),
        )
        .service(
            booking::book_deal
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(BOOK_REFUSALS),
        )
        .service(
            booking::book_own_deal
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(BOOK_REFUSALS),
        )
        .service(
            booking::prolong_booking
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEAL_BOOKING_REQUIRED]),
        )
        .service(
            booking::prolong_own_booking
                .requires::<Permitted<ChangeOwnDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEAL_BOOKING_REQUIRED]),
        );
}

fn notes_and_overrides(routes: &mut Routes<'_>) {
    routes
        .service(note::add_note.requires::<Permitted<CareForDeals>>().refuses(NOTE_REFUSALS))
        .service(note::add_own_note.requires::<Permitted<ChangeOwnDeals>>().refuses(NOTE_REFUSALS))
        .service(
            status_override::override_deal_status
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(OVERRIDE_REFUSALS),
        )
        .service(
            status_override::preview_deal_override
                .requires::<Permitted<ManageDeals>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(OVERRIDE_REFUSALS),
        )
        .service(
            override_register::list_status_overrides
                .requires::<Permitted<ManageDeals>>()
                .refuses([FORBIDDEN]),
        );
}

fn exports(routes: &mut Routes<'_>) {
    routes
        .service(export::export_deals.requires::<Permitted<ReadDeals>>().refuses(EXPORT_REFUSALS))
        .service(export::export_own_deals.requires::<Permitted<ReadOwnDeals>>().refuses(EXPORT_REFUSALS))
        .service(
            export::export_status_overrides.requires::<Permitted<ManageDeals>>().refuses(EXPORT_REFUSALS),
        );
}

fn saved_views(routes: &mut Routes<'_>) {
    routes
        .service(saved_view::list_saved_views.requires::<Permitted<ReadDeals>>().refuses([FORBIDDEN]))
        .service(
            saved_view::create_saved_view
                .requires::<Permitted<ReadDeals>>()
                .refuses([FORBIDDEN, SAVED_VIEW_LIMIT_REACHED]),
        )
        .service(saved_view::get_saved_view.requires::<Permitted<ReadDeals>>().refuses([
            FORBIDDEN,
            EMPTY_ID,
            SAVED_VIEW_NOT_FOUND,
        ]))
        .service(
            saved_view::replace_saved_view
                .requires::<Permitted<ReadDeals>>()
                .refuses([FORBIDDEN, SAVED_VIEW_NOT_FOUND]),
        )
        .service(saved_view::delete_saved_view.requires::<Permitted<ReadDeals>>().refuses([
            FORBIDDEN,
            EMPTY_ID,
            SAVED_VIEW_NOT_FOUND,
        ]))
        .service(saved_view::list_own_saved_views.requires::<Permitted<ReadOwnDeals>>().refuses([FORBIDDEN]))
        .service(
            saved_view::create_own_saved_view
                .requires::<Permitted<ReadOwnDeals>>()
                .refuses([FORBIDDEN, SAVED_VIEW_LIMIT_REACHED]),
        )
        .service(saved_view::get_own_saved_view.requires::<Permitted<ReadOwnDeals>>().refuses([
            FORBIDDEN,
            EMPTY_ID,
            SAVED_VIEW_NOT_FOUND,
        ]))
        .service(
            saved_view::replace_own_saved_view
                .requires::<Permitted<ReadOwnDeals>>()
                .refuses([FORBIDDEN, SAVED_VIEW_NOT_FOUND]),
        )
        .service(saved_view::delete_own_saved_view.requires::<Permitted<ReadOwnDeals>>().refuses([
            FORBIDDEN,
            EMPTY_ID,
            SAVED_VIEW_NOT_FOUND,
        ]));
}
