//! Catalogs that tests insert into the database as plain values and compare with responses.
//!
//! Inserting is faster than writing over HTTP, and any state is possible.

use serde_json::{Value, json};
use testkit::guid;
use testkit::service::Running;
use uuid::Uuid;

/// A developer, Published by default.
#[derive(Clone, Debug)]
pub struct Developer {
    pub id: Uuid,
    pub name: String,
    pub status: &'static str,
    pub is_deleted: bool,
    pub projects_published_count: i32,
}

/// A project, Published by default.
#[derive(Clone, Debug)]
pub struct Project {
    pub id: Uuid,
    pub developer: Uuid,
    pub name: String,
    pub class: &'static str,
    pub city: String,
    pub place: Option<(f64, f64)>,
    pub status: &'static str,
    pub is_deleted: bool,
    /// Seconds after 2026-01-01T00:00:00Z.
    pub published_at: i32,
}

/// A building, `UnderConstruction` without a year by default.
#[derive(Clone, Debug)]
pub struct Building {
    pub id: Uuid,
    pub project: Uuid,
    pub name: String,
    pub state: &'static str,
    pub ready_year: Option<i16>,
    pub ready_quarter: Option<i16>,
    pub is_deleted: bool,
}

/// An object, an Available flat by default.
#[derive(Clone, Debug)]
pub struct Object {
    pub id: Uuid,
    pub building: Uuid,
    pub number: String,
    pub kind: &'static str,
    pub section: i16,
    pub floor: i16,
    pub position: i16,
    pub rooms: Option<i16>,
    pub is_studio: bool,
    /// Area in hundredths of a square metre.
    pub area: i32,
    pub finishing: &'static str,
    pub price: i64,
    pub status: &'static str,
    pub is_removed: bool,
}

impl Developer {
    pub fn new(name: &str) -> Self {
        Self {
            id: guid(),
            name: name.to_owned(),
            status: "Published",
            is_deleted: false,
            projects_published_count: 0,
        }
    }
}

impl Project {
    pub fn new(developer: &Developer, name: &str) -> Self {
        Self {
            id: guid(),
            developer: developer.id,
            name: name.to_owned(),
            class: "Comfort",
            city: "Казань".to_owned(),
            place: None,
            status: "Published",
            is_deleted: false,
            published_at: 0,
        }
    }
}

impl Building {
    pub fn new(project: &Project, name: &str) -> Self {
        Self {
            id: guid(),
            project: project.id,
            name: name.to_owned(),
            state: "UnderConstruction",
            ready_year: None,
            ready_quarter: None,
            is_deleted: false,
        }
    }
}

impl Object {
    pub fn new(building: &Building, number: &str) -> Self {
        Self {
            id: guid(),
            building: building.id,
            number: number.to_owned(),
            kind: "Flat",
            section: 1,
            floor: 1,
            position: 1,
            rooms: Some(1),
            is_studio: false,
            area: 4_550,
            finishing: "None",
            price: 100_000_000,
            status: "Available",
            is_removed: false,
        }
    }

    /// Sets the price in minor units.
    pub fn at(self, price: i64) -> Self {
        Self { price, ..self }
    }
}

/// The rows of a catalog.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub developers: Vec<Developer>,
    pub projects: Vec<Project>,
    pub buildings: Vec<Building>,
    pub objects: Vec<Object>,
}

/// Returns a Published developer with one project and one empty building.
pub fn single_building_catalog() -> Catalog {
    let developer = Developer::new("Северный Двор");
    let project = Project::new(&developer, "Сосны");
    let building = Building::new(&project, "Корпус 1");
    Catalog {
        developers: vec![developer],
        projects: vec![project],
        buildings: vec![building],
        objects: Vec::new(),
    }
}

/// Returns a Published developer with one project, one building and one object.
pub fn single_object_catalog() -> Catalog {
    let mut catalog = single_building_catalog();
    catalog.objects.push(Object::new(&catalog.buildings[0], "1"));
    catalog
}

const INSERTS: [&str; 5] = [
    "insert into developer (id, name, legal_name, description, website, contact_phone, contact_email, highlights, status, \
        sync_source, projects_published_count, created_at, created_by_user_id, updated_at, updated_by_user_id, deleted_at, \
        deleted_by_user_id, version, folded_name, search_text) \
    select id, name, name || ' LLC', 'About', 'https://example.org/', '+78432000000', 'office@example.org', \
        '{\"ContractVersion\":1,\"ObjectsDeliveredCount\":null,\"ObjectsInProgressCount\":null,\"YearsOnMarket\":null,\
        \"ReliabilityValue\":null,\"ReliabilityMax\":10,\"AwardTitles\":[]}', status, 'Platform', count, now(), id, now(), id, \
        case when is_deleted then now() end, case when is_deleted then id end, 1, folded_name, folded_name \
    from json_to_recordset($1::text::json) as input \
        (id uuid, name text, status text, count int, is_deleted bool, folded_name text)",
    "insert into project (id, tenant_id, name, description, class, city, address, latitude, longitude, status, published_at, \
        created_at, created_by_user_id, updated_at, updated_by_user_id, deleted_at, version, folded_name, folded_city) \
    select id, developer, name, 'Pines', class, city, 'ул. Мира, 1', latitude, longitude, status, \
        '2026-01-01T00:00:00Z'::timestamptz + published_at * interval '1 s', now(), id, now(), id, \
        case when is_deleted then now() end, 1, folded_name, folded_city \
    from json_to_recordset($1::text::json) as input (id uuid, developer uuid, name text, class text, city text, \
        latitude float8, longitude float8, status text, published_at int, is_deleted bool, folded_name text, folded_city text)",
    "insert into building (id, project_id, tenant_id, name, sections_count, floors_total, state, ready_year, ready_quarter, \
        created_at, updated_at, deleted_at, version) \
    select input.id, project, project.tenant_id, input.name, 100, 200, state, ready_year, ready_quarter, now(), now(), \
        case when is_deleted then now() end, 1 \
    from json_to_recordset($1::text::json) as input (id uuid, project uuid, name text, state text, ready_year smallint, \
        ready_quarter smallint, is_deleted bool) join project on project.id = input.project",
    "insert into property_object (id, building_id, project_id, tenant_id, number, kind, section, floor, position_on_floor, \
        rooms, is_studio, area_total, finishing, price, currency, status, own_status, hold_deal_id, created_at, updated_at, \
        removed_at, version, published_project_name, published_building_name, published_is_live, published_is_public) \
    select input.id, building, building.project_id, building.tenant_id, number, kind, section, floor, position, rooms, \
        is_studio, area, finishing, price, 'RUB', input.status, \
        case when input.status = 'Booked' then 'Available' else input.status end, \
        case when input.status = 'Booked' then input.id end, now(), now(), case when is_removed then now() end, 1, \
        project.name, building.name, true, true \
    from json_to_recordset($1::text::json) as input (id uuid, building uuid, number text, kind text, section smallint, \
        floor smallint, position smallint, rooms smallint, is_studio bool, area int, finishing text, price bigint, \
        status text, is_removed bool) \
        join building on building.id = input.building join project on project.id = building.project_id",
    "select renew_building_figures(id) from json_to_recordset($1::text::json) as input (id uuid)",
];

impl Catalog {
    /// Inserts the rows into the database of a service.
    pub async fn fill(&self, service: &Running) {
        self.insert(&service.sql().await).await;
    }

    /// Inserts the rows over a connection whose search path is the schema of the service.
    pub async fn insert(&self, sql: &tokio_postgres::Client) {
        let developers = self.developers.iter().map(|developer| {
            json!({
                "id": developer.id, "name": developer.name, "status": developer.status,
                "count": developer.projects_published_count, "is_deleted": developer.is_deleted,
                "folded_name": values::fold(&developer.name),
            })
        });
        let projects = self.projects.iter().map(|project| {
            json!({
                "id": project.id, "developer": project.developer, "name": project.name, "class": project.class,
                "city": project.city, "latitude": project.place.map(|place| place.0),
                "longitude": project.place.map(|place| place.1), "status": project.status,
                "published_at": project.published_at, "is_deleted": project.is_deleted,
                "folded_name": values::fold(&project.name), "folded_city": values::fold(&project.city),
            })
        });
        let buildings = self.buildings.iter().map(|building| {
            json!({
                "id": building.id, "project": building.project, "name": building.name, "state": building.state,
                "ready_year": building.ready_year, "ready_quarter": building.ready_quarter,
                "is_deleted": building.is_deleted,
            })
        });
        let objects = self.objects.iter().map(|object| {
            json!({
                "id": object.id, "building": object.building, "number": object.number, "kind": object.kind,
                "section": object.section, "floor": object.floor, "position": object.position, "rooms": object.rooms,
                "is_studio": object.is_studio, "area": object.area, "finishing": object.finishing,
                "price": object.price, "status": object.status, "is_removed": object.is_removed,
            })
        });
        let buildings: Value = buildings.collect();
        let inputs =
            [developers.collect(), projects.collect(), buildings.clone(), objects.collect(), buildings];
        for (statement, input) in INSERTS.iter().zip::<[Value; 5]>(inputs) {
            sql.execute(*statement, &[&input.to_string()]).await.unwrap();
        }
    }
}

/// Executes SQL in the database of a service.
pub async fn execute_sql(service: &Running, statement: &str) {
    service.sql().await.batch_execute(statement).await.unwrap();
}
