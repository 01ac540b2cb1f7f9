//! Property objects, for anybody.

use ::db::{Lookup, Lookups};
use ::web::{Both, Check, ClientAddress, CursorPage, Fields, Filter, Several, Sorting, unknown_cursor};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{CompanyId, Guest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use values::Invalid;

use crate::app::App;
use crate::db;
use crate::db::catalog_object::{CatalogObject, CatalogObjectSort, ObjectFilter, ObjectPaging, PastPrice};
use crate::domain::{
    AreaBound, BuildingId, Finishing, FloorBound, ObjectKind, ObjectStatus, PriceBound, ProjectId,
    PropertyObjectId, RoomsAsked,
};
use crate::error::{Error, PROPERTY_OBJECT_NOT_FOUND};

/// Within one project or developer.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchObjects {
    /// Required unless there is a `DeveloperId`.
    project_id: Option<ProjectId>,
    /// Required unless there is a `ProjectId`.
    developer_id: Option<CompanyId>,
    building_id: Option<BuildingId>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<ObjectKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<Several<ObjectKind>>,
    /// Separated by commas; 0 for studios.
    #[param(value_type = Option<Vec<RoomsAsked>>, inline, min_items = 1, style = Form, explode = false)]
    rooms: Option<Several<RoomsAsked>>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<Finishing>>, inline, min_items = 1, style = Form, explode = false)]
    finishing: Option<Several<Finishing>>,
    /// Separated by commas; Available where none is named.
    #[param(value_type = Option<Vec<ObjectStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<Several<ObjectStatus>>,
    /// In minor units.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    price_from: Option<PriceBound>,
    /// In minor units; exclusive.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    price_to: Option<PriceBound>,
    /// Of at most two decimal places.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    area_min: Option<AreaBound>,
    /// Inclusive.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    area_max: Option<AreaBound>,
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    floor_min: Option<FloorBound>,
    /// Inclusive.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    floor_max: Option<FloorBound>,
}

impl Check for SearchObjects {
    fn check(&self, fields: &mut Fields) {
        let is_bound = self.project_id.is_some() || self.developer_id.is_some();
        fields.check("/ProjectId", if is_bound { Ok(()) } else { Err(Invalid::new("required")) });
        fields.range("/PriceTo", self.price_from.as_ref(), self.price_to.as_ref());
        fields.span("/AreaMax", self.area_min.as_ref(), self.area_max.as_ref());
        fields.span("/FloorMax", self.floor_min.as_ref(), self.floor_max.as_ref());
    }
}

impl From<SearchObjects> for ObjectFilter {
    fn from(asked: SearchObjects) -> Self {
        Self {
            project_id: asked.project_id,
            developer_id: asked.developer_id,
            building_id: asked.building_id,
            kinds: asked.kind.map(|kinds| kinds.0),
            rooms: asked.rooms.map(|rooms| rooms.0),
            finishings: asked.finishing.map(|finishings| finishings.0),
            statuses: asked.status.map_or_else(|| vec![ObjectStatus::Available], |statuses| statuses.0),
            price_from: asked.price_from,
            price_to: asked.price_to,
            area_min: asked.area_min,
            area_max: asked.area_max,
            floor_min: asked.floor_min,
            floor_max: asked.floor_max,
        }
    }
}

type Asked = Both<Both<Filter<SearchObjects>, Sorting<CatalogObjectSort>>, ObjectPaging>;

/// Search property objects.
///
/// Within one project or developer. Who follows the cursors sees each object that is there and unchanged all the time
/// exactly once.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchObjects, Sorting<CatalogObjectSort>, ObjectPaging),
    responses(
        (status = 200, description = "One page", body = CursorPage<CatalogObject>),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/property-objects", wrap = "from_fn(::web::cacheable)")]
pub async fn search_catalog_objects(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    Both(Both(Filter(asked), sorting), paging): Asked,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    if paging.after.is_some_and(|after| !after.is_of(sorting)) {
        return Err(unknown_cursor().into());
    }
    let filter = ObjectFilter::from(asked);
    let search = async |conn: Lookup<'_>| db::catalog_object::search(conn, &filter, sorting, &paging).await;
    let page = if filter.is_walk(&paging) {
        lookups.run(search).await?
    } else {
        search(&*app.db.conn().await?).await?
    };
    Ok(web::Json(page))
}

/// Read a property object.
///
/// Of any status.
#[utoipa::path(
    tag = "Catalog", security(()), params(("property_object_id" = PropertyObjectId, Path)),
    responses(
        (status = 200, description = "The object", body = CatalogObject),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/property-objects/{property_object_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_object(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    id: Path<PropertyObjectId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let found = lookups.run(async |conn| db::catalog_object::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(PROPERTY_OBJECT_NOT_FOUND)?))
}

/// What a property object has cost.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PriceHistory {
    /// Newest first.
    #[schema(max_items = 100)]
    items: Vec<PastPrice>,
}

/// Read what a property object has cost.
///
/// The price that it had when its project was first published, and each change since.
#[utoipa::path(
    tag = "Catalog", security(()), params(("property_object_id" = PropertyObjectId, Path)),
    responses(
        (status = 200, description = "The prices", body = PriceHistory),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get(
    "/api/v1/public/property-objects/{property_object_id}/price-history",
    wrap = "from_fn(::web::cacheable)"
)]
pub async fn get_catalog_price_history(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    id: Path<PropertyObjectId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let found = lookups.run(async |conn| db::catalog_object::price_history(conn, *id).await).await?;
    Ok(web::Json(PriceHistory { items: found.ok_or(PROPERTY_OBJECT_NOT_FOUND)? }))
}
