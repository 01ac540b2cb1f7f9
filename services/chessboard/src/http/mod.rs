//! The HTTP routes of the public port.

mod admin_developer;
mod building;
mod building_upsert;
mod catalog_building;
mod catalog_developer;
mod catalog_feed;
mod catalog_object;
mod catalog_project;
mod developer;
mod expected_version;
mod external_id;
mod feed_import;
mod feed_import_view;
mod object_upsert;
mod project;
mod project_upsert;
mod property_object;

use ::web::{Callers, Listener, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use self::external_id::INVALID_EXTERNAL_ID;
use self::feed_import::MAX_FEED_BYTES;
use self::property_object::MAX_GRID_BYTES;
use crate::domain::{ManageDevelopers, ManageOwnDeveloper};
use crate::error::{
    BUILDING_NOT_FOUND, BUILDINGS_LIMIT_EXCEEDED, CONFLICT, DEVELOPER_ALREADY_EXISTS,
    DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_COMPANY_NOT_FOUND, DEVELOPER_FIELD_SYNC_MANAGED,
    DEVELOPER_HAS_LIVE_PROJECTS, DEVELOPER_INVALID_TRANSITION, DEVELOPER_NOT_FOUND,
    DEVELOPER_PUBLISH_INCOMPLETE, DEVELOPER_TALENT_DUPLICATE, EXTERNAL_ID_TAKEN, FEED_IMPORT_IN_PROGRESS,
    FEED_IMPORT_INVALID_TRANSITION, FEED_IMPORT_NOT_FOUND, FEED_UPLOADS_LIMIT_EXCEEDED, FORBIDDEN,
    PROJECT_DEVELOPER_NOT_PUBLISHED, PROJECT_INVALID_TRANSITION, PROJECT_NOT_FOUND, PROPERTY_OBJECT_HELD,
    PROPERTY_OBJECT_NOT_FOUND, PROPERTY_OBJECT_NUMBER_TAKEN, PROPERTY_OBJECTS_LIMIT_EXCEEDED,
};

pub use object_upsert::UpsertPropertyObject;
pub use property_object::ReplaceGrid;

/// The public listener: operations of managers and administrators, and the catalog of guests.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Catalog", "Published data for guests."),
        ("Profile", "The profile of the manager's own developer."),
        ("Projects", "Projects of the manager's own developer, with their buildings and objects."),
        ("Feeds", "Imports of files with the objects of the manager's own developer."),
        ("Administration", "All developers, for platform administrators."),
    ],
    routes: public,
};

/// The errors of reading a developer.
const READ_REFUSALS: [Code; 2] = [FORBIDDEN, DEVELOPER_NOT_FOUND];

/// The errors of changing a developer.
const CHANGE_REFUSALS: [Code; 3] = [FORBIDDEN, DEVELOPER_NOT_FOUND, CONFLICT];

/// The errors of publishing a developer, in addition to those of a change.
const PUBLISH_REFUSALS: [Code; 3] =
    [DEVELOPER_INVALID_TRANSITION, DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_PUBLISH_INCOMPLETE];

/// The errors of hiding or withdrawing a developer.
const HIDE_REFUSALS: [Code; 4] = [FORBIDDEN, DEVELOPER_NOT_FOUND, CONFLICT, DEVELOPER_INVALID_TRANSITION];

const FEED_TOO_LARGE: Code = Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", MAX_FEED_BYTES as u64);

/// The errors that all operations on an import have.
const FEED_REFUSALS: [Code; 2] = [FORBIDDEN, FEED_IMPORT_NOT_FOUND];

const GRID_TOO_LARGE: Code = Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", MAX_GRID_BYTES as u64);

/// The errors that all operations on a project or its parts have.
const PROJECT_REFUSALS: [Code; 2] = [FORBIDDEN, PROJECT_NOT_FOUND];

/// The errors that all operations on a building or its parts have.
const BUILDING_REFUSALS: [Code; 3] = [FORBIDDEN, PROJECT_NOT_FOUND, BUILDING_NOT_FOUND];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(catalog)
            .configure(own_developer)
            .configure(developers)
            .configure(projects)
            .configure(buildings)
            .configure(external_ids)
            .configure(feed_imports),
    );
}

fn catalog(routes: &mut Routes<'_>) {
    routes
        .service(catalog_developer::list_catalog_developers)
        .service(catalog_developer::get_catalog_developer.refuses([DEVELOPER_NOT_FOUND]))
        .service(catalog_feed::get_catalog_feed.refuses([DEVELOPER_NOT_FOUND]))
        .service(catalog_project::list_catalog_projects)
        .service(catalog_project::get_catalog_facets)
        .service(catalog_project::get_catalog_project.refuses([PROJECT_NOT_FOUND]))
        .service(catalog_building::get_catalog_building.refuses([BUILDING_NOT_FOUND]))
        .service(catalog_object::search_catalog_objects)
        .service(catalog_object::get_catalog_object.refuses([PROPERTY_OBJECT_NOT_FOUND]))
        .service(catalog_object::get_catalog_price_history.refuses([PROPERTY_OBJECT_NOT_FOUND]));
}

fn own_developer(routes: &mut Routes<'_>) {
    routes
        .service(
            developer::get_my_developer.requires::<Permitted<ManageOwnDeveloper>>().refuses(READ_REFUSALS),
        )
        .service(
            developer::update_my_developer
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEVELOPER_FIELD_SYNC_MANAGED]),
        )
        .service(
            developer::publish_my_developer
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(PUBLISH_REFUSALS),
        )
        .service(
            developer::hide_my_developer.requires::<Permitted<ManageOwnDeveloper>>().refuses(HIDE_REFUSALS),
        )
        .service(
            developer::withdraw_my_developer
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(HIDE_REFUSALS),
        )
        .service(
            developer::list_my_developer_events
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(READ_REFUSALS),
        );
}

fn developers(routes: &mut Routes<'_>) {
    routes
        .service(
            admin_developer::list_developers.requires::<Permitted<ManageDevelopers>>().refuses([FORBIDDEN]),
        )
        .service(admin_developer::create_developer.requires::<Permitted<ManageDevelopers>>().refuses([
            FORBIDDEN,
            DEVELOPER_COMPANY_NOT_FOUND,
            DEVELOPER_ALREADY_EXISTS,
            DEVELOPER_TALENT_DUPLICATE,
            CONFLICT,
        ]))
        .service(
            admin_developer::get_developer.requires::<Permitted<ManageDevelopers>>().refuses(READ_REFUSALS),
        )
        .service(
            admin_developer::update_developer
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEVELOPER_FIELD_SYNC_MANAGED]),
        )
        .service(
            admin_developer::delete_developer
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(CHANGE_REFUSALS)
                .refuses([DEVELOPER_HAS_LIVE_PROJECTS]),
        )
        .service(
            admin_developer::publish_developer
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(CHANGE_REFUSALS)
                .refuses(PUBLISH_REFUSALS),
        )
        .service(
            admin_developer::hide_developer.requires::<Permitted<ManageDevelopers>>().refuses(HIDE_REFUSALS),
        )
        .service(
            admin_developer::withdraw_developer
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(HIDE_REFUSALS),
        )
        .service(
            admin_developer::release_developer
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(CHANGE_REFUSALS),
        )
        .service(
            admin_developer::list_developer_events
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(READ_REFUSALS),
        );
}

fn projects(routes: &mut Routes<'_>) {
    routes
        .service(
            project::list_projects
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses([FORBIDDEN, DEVELOPER_NOT_FOUND]),
        )
        .service(project::create_project.requires::<Permitted<ManageOwnDeveloper>>().refuses([
            FORBIDDEN,
            DEVELOPER_NOT_FOUND,
            EXTERNAL_ID_TAKEN,
        ]))
        .service(project::get_project.requires::<Permitted<ManageOwnDeveloper>>().refuses(PROJECT_REFUSALS))
        .service(
            project::update_project
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([CONFLICT, EXTERNAL_ID_TAKEN]),
        )
        .service(
            project::publish_project
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([CONFLICT, PROJECT_INVALID_TRANSITION, PROJECT_DEVELOPER_NOT_PUBLISHED]),
        )
        .service(
            project::hide_project
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([CONFLICT, PROJECT_INVALID_TRANSITION]),
        )
        .service(
            project::delete_project
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([CONFLICT, PROPERTY_OBJECT_HELD]),
        )
        .service(
            project::delete_developers_project
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([DEVELOPER_NOT_FOUND, CONFLICT, PROPERTY_OBJECT_HELD]),
        );
}

/// Adds the routes of buildings and their objects.
fn buildings(routes: &mut Routes<'_>) {
    routes
        .service(
            building::create_building
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([BUILDINGS_LIMIT_EXCEEDED, EXTERNAL_ID_TAKEN]),
        )
        .service(
            building::get_building.requires::<Permitted<ManageOwnDeveloper>>().refuses(BUILDING_REFUSALS),
        )
        .service(
            building::update_building
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(BUILDING_REFUSALS)
                .refuses([CONFLICT, EXTERNAL_ID_TAKEN]),
        )
        .service(
            building::delete_building
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(BUILDING_REFUSALS)
                .refuses([CONFLICT, PROPERTY_OBJECT_HELD]),
        )
        .service(
            property_object::replace_property_objects
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(BUILDING_REFUSALS)
                .refuses([CONFLICT, EXTERNAL_ID_TAKEN, GRID_TOO_LARGE]),
        )
        .service(
            property_object::update_property_object
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(BUILDING_REFUSALS)
                .refuses([
                    PROPERTY_OBJECT_NOT_FOUND,
                    CONFLICT,
                    PROPERTY_OBJECT_HELD,
                    PROPERTY_OBJECT_NUMBER_TAKEN,
                    EXTERNAL_ID_TAKEN,
                ]),
        )
        .service(
            property_object::list_property_object_events
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(BUILDING_REFUSALS)
                .refuses([PROPERTY_OBJECT_NOT_FOUND]),
        )
        .service(
            property_object::list_developers_property_object_events
                .requires::<Permitted<ManageDevelopers>>()
                .refuses(READ_REFUSALS)
                .refuses([PROPERTY_OBJECT_NOT_FOUND]),
        );
}

/// Adds the routes of projects, buildings and objects by their external ids.
fn external_ids(routes: &mut Routes<'_>) {
    routes
        .service(
            project_upsert::get_project_by_external_id
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([INVALID_EXTERNAL_ID]),
        )
        .service(project_upsert::upsert_project.requires::<Permitted<ManageOwnDeveloper>>().refuses([
            FORBIDDEN,
            DEVELOPER_NOT_FOUND,
            CONFLICT,
        ]))
        .service(
            building_upsert::get_building_by_external_id
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses([FORBIDDEN, BUILDING_NOT_FOUND, INVALID_EXTERNAL_ID]),
        )
        .service(
            building_upsert::upsert_building
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(PROJECT_REFUSALS)
                .refuses([EXTERNAL_ID_TAKEN, CONFLICT, BUILDINGS_LIMIT_EXCEEDED]),
        )
        .service(
            object_upsert::get_property_object_by_external_id
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses([FORBIDDEN, PROPERTY_OBJECT_NOT_FOUND, INVALID_EXTERNAL_ID]),
        )
        .service(
            object_upsert::upsert_property_object
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses([FORBIDDEN, BUILDING_NOT_FOUND])
                .refuses([
                    EXTERNAL_ID_TAKEN,
                    CONFLICT,
                    PROPERTY_OBJECT_HELD,
                    PROPERTY_OBJECT_NUMBER_TAKEN,
                    PROPERTY_OBJECTS_LIMIT_EXCEEDED,
                ]),
        );
}

/// Adds the routes of imports of feeds.
fn feed_imports(routes: &mut Routes<'_>) {
    routes
        .service(
            feed_import::create_feed_import
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(READ_REFUSALS)
                .refuses([BUILDING_NOT_FOUND, FEED_IMPORT_IN_PROGRESS]),
        )
        .service(
            feed_import::list_feed_imports.requires::<Permitted<ManageOwnDeveloper>>().refuses(READ_REFUSALS),
        )
        .service(
            feed_import::get_feed_import.requires::<Permitted<ManageOwnDeveloper>>().refuses(FEED_REFUSALS),
        )
        .service(
            feed_import::upload_feed_file
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(FEED_REFUSALS)
                .refuses([
                    FEED_IMPORT_INVALID_TRANSITION,
                    FEED_UPLOADS_LIMIT_EXCEEDED,
                    CONFLICT,
                    FEED_TOO_LARGE,
                ]),
        )
        .service(
            feed_import::list_feed_problems
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(FEED_REFUSALS),
        )
        .service(
            feed_import::list_feed_buildings
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(FEED_REFUSALS),
        )
        .service(
            feed_import::list_feed_changes.requires::<Permitted<ManageOwnDeveloper>>().refuses(FEED_REFUSALS),
        )
        .service(
            feed_import::apply_feed_import
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(FEED_REFUSALS)
                .refuses([CONFLICT, FEED_IMPORT_INVALID_TRANSITION]),
        )
        .service(
            feed_import::delete_feed_import
                .requires::<Permitted<ManageOwnDeveloper>>()
                .refuses(FEED_REFUSALS)
                .refuses([CONFLICT]),
        );
}
