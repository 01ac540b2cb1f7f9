//! Property objects of the catalog.

use ::db::Conn;
use ::web::{
    Both, Check, CheckedQuery, ClientAddress, CommaSeparated, CursorPage, Fields, Sorting, unknown_cursor,
};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{AnyCaller, CompanyId};
use serde::{Deserialize, Serialize};
use service::Reads;
use utoipa::{IntoParams, ToSchema};
use values::Invalid;

use crate::app::App;
use crate::db;
use crate::db::catalog_object::{CatalogObject, CatalogObjectSort, ObjectFilter, ObjectPaging, PastPrice};
use crate::domain::{
    AreaBound, BuildingId, Finishing, FloorBound, ObjectKind, ObjectStatus, PriceBound, ProjectId,
    PropertyObjectId, RoomCategory,
};
use crate::error::{Error, PROPERTY_OBJECT_NOT_FOUND};

/// Maximum number of ids in one search, equal to the maximum number of items of a selection.
const MAX_IDS: usize = 200;

/// The filters of the object search. `Ids`, `ProjectId` or `DeveloperId` is required.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchObjects {
    /// Ids separated by commas, at most 200. Objects that guests do not see are left out.
    #[param(value_type = Option<Vec<PropertyObjectId>>, inline, min_items = 1, max_items = 200, style = Form, explode = false)]
    ids: Option<CommaSeparated<PropertyObjectId>>,
    /// Required without `DeveloperId` and `Ids`.
    project_id: Option<ProjectId>,
    /// Required without `ProjectId` and `Ids`.
    developer_id: Option<CompanyId>,
    building_id: Option<BuildingId>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<ObjectKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<CommaSeparated<ObjectKind>>,
    /// Values separated by commas. 0 means studios.
    #[param(value_type = Option<Vec<RoomCategory>>, inline, min_items = 1, style = Form, explode = false)]
    rooms: Option<CommaSeparated<RoomCategory>>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<Finishing>>, inline, min_items = 1, style = Form, explode = false)]
    finishing: Option<CommaSeparated<Finishing>>,
    /// Values separated by commas. The default is `Available`, and with `Ids` every status.
    #[param(value_type = Option<Vec<ObjectStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<ObjectStatus>>,
    /// Lowest price in minor units, inclusive.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    price_from: Option<PriceBound>,
    /// Only prices below this amount, in minor units.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    price_to: Option<PriceBound>,
    /// Smallest area in square metres, inclusive, with at most two decimal places.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    area_min: Option<AreaBound>,
    /// Largest area in square metres, inclusive, with at most two decimal places.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    area_max: Option<AreaBound>,
    /// Lowest floor, inclusive.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    floor_min: Option<FloorBound>,
    /// Highest floor, inclusive.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    floor_max: Option<FloorBound>,
}

impl Check for SearchObjects {
    fn check(&self, fields: &mut Fields) {
        let has_scope = self.ids.is_some() || self.project_id.is_some() || self.developer_id.is_some();
        fields.check("/ProjectId", if has_scope { Ok(()) } else { Err(Invalid::new("required")) });
        let ids_count = self.ids.as_ref().map_or(0, |ids| ids.0.len());
        let too_many = || Invalid::new("too_many").with("max", MAX_IDS);
        fields.check("/Ids", if ids_count <= MAX_IDS { Ok(()) } else { Err(too_many()) });
        fields.check_range("/PriceTo", self.price_from.as_ref(), self.price_to.as_ref());
        fields.check_inclusive_range("/AreaMax", self.area_min.as_ref(), self.area_max.as_ref());
        fields.check_inclusive_range("/FloorMax", self.floor_min.as_ref(), self.floor_max.as_ref());
    }
}

impl From<SearchObjects> for ObjectFilter {
    fn from(parameters: SearchObjects) -> Self {
        let default_statuses = parameters.ids.is_none().then(|| vec![ObjectStatus::Available]);
        Self {
            ids: parameters.ids.map(|ids| ids.0),
            project_id: parameters.project_id,
            developer_id: parameters.developer_id,
            building_id: parameters.building_id,
            kinds: parameters.kind.map(|kinds| kinds.0),
            rooms: parameters.rooms.map(|rooms| rooms.0),
            finishings: parameters.finishing.map(|finishings| finishings.0),
            statuses: parameters.status.map(|statuses| statuses.0).or(default_statuses),
            price_from: parameters.price_from,
            price_to: parameters.price_to,
            area_min: parameters.area_min,
            area_max: parameters.area_max,
            floor_min: parameters.floor_min,
            floor_max: parameters.floor_max,
        }
    }
}

type SearchParameters = Both<Both<CheckedQuery<SearchObjects>, Sorting<CatalogObjectSort>>, ObjectPaging>;

/// Search property objects.
///
/// Searches within one project or developer, or reads up to 200 objects by their ids. A walk along
/// the cursors returns each object exactly once, if the object does not change during the walk.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchObjects, Sorting<CatalogObjectSort>, ObjectPaging),
    responses(
        (status = 200, description = "One page of objects", body = CursorPage<CatalogObject>),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get(
    "/api/v1/public/property-objects",
    wrap = "from_fn(auth::expensive)",
    wrap = "from_fn(::web::cacheable)"
)]
pub async fn search_catalog_objects(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    Both(Both(CheckedQuery(parameters), sorting), paging): SearchParameters,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    if paging.after.is_some_and(|after| !after.has_sorting(sorting)) {
        return Err(unknown_cursor().into());
    }
    let filter = ObjectFilter::from(parameters);
    let search = async |conn: &Conn| db::catalog_object::search(conn, &filter, sorting, &paging).await;
    let page = if filter.is_plain_walk(&paging) {
        reads.look_up(&caller, search).await?
    } else {
        reads.query(&caller, search).await?
    };
    Ok(web::Json(page))
}

/// Read a property object.
///
/// Returns a visible object of any status.
#[utoipa::path(
    tag = "Catalog", security(()), params(("property_object_id" = PropertyObjectId, Path)),
    responses(
        (status = 200, description = "The object", body = CatalogObject),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/property-objects/{property_object_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_object(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    id: Path<PropertyObjectId>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let found = reads.look_up(&caller, async |conn| db::catalog_object::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(PROPERTY_OBJECT_NOT_FOUND)?))
}

/// The prices of a property object.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PriceHistory {
    /// Prices, newest first.
    #[schema(max_items = 100)]
    items: Vec<PastPrice>,
}

/// Read the price history of a property object.
///
/// Returns the price at the first publication of the project and each later price: the last 100 of
/// them.
#[utoipa::path(
    tag = "Catalog", security(()), params(("property_object_id" = PropertyObjectId, Path)),
    responses(
        (status = 200, description = "The price history", body = PriceHistory),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get(
    "/api/v1/public/property-objects/{property_object_id}/price-history",
    wrap = "from_fn(::web::cacheable)"
)]
pub async fn get_catalog_price_history(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    id: Path<PropertyObjectId>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let found =
        reads.look_up(&caller, async |conn| db::catalog_object::list_price_history(conn, *id).await).await?;
    Ok(web::Json(PriceHistory { items: found.ok_or(PROPERTY_OBJECT_NOT_FOUND)? }))
}
