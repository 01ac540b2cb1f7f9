//! Visibility of developers, projects, buildings and objects in the catalog.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use uuid::Uuid;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::catalog_fill::{Catalog, execute_sql, single_object_catalog};
use crate::{list, service};

async fn status_and_body(path: &str) -> (u16, Value) {
    let response = service().guest().get(path).await;
    (response.status, response.body)
}

/// The ids of an object of one room and of its ancestors. The name of the developer is unique.
///
/// The rows match the filters of [`Self::visibility`].
pub struct VisibleObject {
    pub developer: Uuid,
    pub developer_name: String,
    pub project: Uuid,
    pub building: Uuid,
    pub object: Uuid,
}

impl VisibleObject {
    fn of(catalog: &Catalog) -> Self {
        Self {
            developer: catalog.developers[0].id,
            developer_name: catalog.developers[0].name.clone(),
            project: catalog.projects[0].id,
            building: catalog.buildings[0].id,
            object: catalog.objects[0].id,
        }
    }

    /// Returns whether guests see the developer, the project, the building and the object, in this
    /// order.
    ///
    /// Asserts that each of them is either readable and in every list, or nowhere.
    pub async fn visibility(&self) -> [bool; 4] {
        let Self { developer, developer_name, project, building, object } = self;
        let card = async |path: String, code: &str| {
            let (status, body) = status_and_body(&path).await;
            assert!(status == 200 || status == 404 && body["code"] == code, "{path}: {status} {body}");
            status == 200
        };
        let listed = async |path: String| !list(&status_and_body(&path).await.1["Items"]).is_empty();
        let developers = card(format!("{DEVELOPERS}/{developer}"), "CHESSBOARD_DEVELOPER_NOT_FOUND").await;
        let projects = card(format!("{PROJECTS}/{project}"), "CHESSBOARD_PROJECT_NOT_FOUND").await;
        let buildings =
            card(format!("{PROJECTS}/{project}/buildings/{building}"), "CHESSBOARD_BUILDING_NOT_FOUND").await;
        let objects = card(format!("{OBJECTS}/{object}"), "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND").await;
        let history =
            card(format!("{OBJECTS}/{object}/price-history"), "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND").await;
        assert_eq!(history, objects);
        let name = crate::cat_lists::encoded(developer_name);
        for sort in ["Name", "-ProjectsPublishedCount"] {
            assert_eq!(listed(format!("{DEVELOPERS}?Query={name}&Sort={sort}")).await, developers);
        }
        let (city, query) = (crate::cat_lists::encoded("Казань"), crate::cat_lists::encoded("осн"));
        let (city, query) = (format!("City={city}"), format!("Query={query}"));
        for (filter, is_shown) in [
            ("", projects),
            (city.as_str(), projects),
            (query.as_str(), projects),
            ("Class=Comfort", projects),
            ("Box=50,40,60,50", projects),
            ("ReadyBefore=2100-01-01", buildings),
            ("Rooms=1", objects),
            ("PriceFrom=1", objects),
            ("PriceFrom=1&PriceTo=1000000000000&Rooms=1&ReadyBefore=2100-01-01", objects),
        ] {
            for sort in ["PublishedAt", "Name", "PriceFrom"] {
                let path = format!("{PROJECTS}?DeveloperId={developer}&{filter}&Sort={sort}");
                let page = status_and_body(&path).await.1;
                let count = usize::from(is_shown);
                assert_eq!(
                    (list(&page["Items"]).len(), &page["TotalCount"]),
                    (count, &json!(count)),
                    "{path}"
                );
            }
            let facets =
                status_and_body(&format!("{PROJECTS}/facets?DeveloperId={developer}&{filter}")).await.1;
            assert_eq!(facets["TotalCount"], i32::from(is_shown), "{filter}");
            let is_priced = is_shown && objects;
            assert_eq!(
                (facets["PriceMin"].is_null(), facets["PriceMax"].is_null()),
                (!is_priced, !is_priced)
            );
            for facet in ["Cities", "Classes"] {
                assert_eq!(list(&facets[facet]).is_empty(), !is_shown, "{filter}: {facet}");
            }
            assert_eq!(list(&facets["Rooms"]).is_empty(), !is_priced, "{filter}");
        }
        for within in [format!("DeveloperId={developer}"), format!("ProjectId={project}")] {
            for filter in
                ["", "&Sort=Price", "&Sort=-AreaTotal", "&Status=Available,Reserved,Booked,Sold,Unavailable"]
            {
                assert_eq!(listed(format!("{OBJECTS}?{within}{filter}")).await, objects, "{within}{filter}");
                let below = format!("{OBJECTS}?{within}{filter}&BuildingId={building}");
                assert_eq!(listed(below).await, objects, "{within}{filter}");
            }
        }
        if projects {
            let card = status_and_body(&format!("{PROJECTS}/{project}")).await.1;
            assert_eq!(list(&card["Buildings"]).is_empty(), !buildings);
            assert_eq!(
                (&card["FreeCount"], &card["FreeByKind"]["Flat"], card["PriceFrom"].is_null()),
                (&json!(i32::from(objects)), &json!(i32::from(objects)), !objects)
            );
            assert_eq!(list(&card["Offers"]).is_empty(), !objects);
        }
        [developers, projects, buildings, objects]
    }
}

/// INV-DEV-6, RULE-CHS-052: no list and no number contains data that is not live and Published. A
/// read of such data returns 404 with the code of the requested resource.
#[tokio::test]
async fn hidden_or_deleted_data_is_in_no_response() {
    for (change, visible) in [
        ("update developer set status = 'Draft'", [false; 4]),
        ("update developer set status = 'Hidden'", [false; 4]),
        ("update developer set status = 'Hidden', deleted_at = now(), deleted_by_user_id = id", [false; 4]),
        ("update project set status = 'Draft'", [true, false, false, false]),
        ("update project set status = 'Hidden'", [true, false, false, false]),
        ("update project set deleted_at = now()", [true, false, false, false]),
        ("update building set deleted_at = now()", [true, true, false, false]),
        ("update property_object set removed_at = now()", [true, true, true, false]),
    ] {
        let mut catalog = single_object_catalog();
        catalog.developers[0].name = format!("Visibility {}", catalog.developers[0].id);
        catalog.projects[0].place = Some((55.8, 49.1));
        catalog.buildings[0].state = "Commissioned";
        catalog.fill(service()).await;
        let shown = VisibleObject::of(&catalog);
        assert_eq!(shown.visibility().await, [true; 4]);
        let id = match change.split(' ').nth(1) {
            Some("developer") => catalog.developers[0].id,
            Some("project") => catalog.projects[0].id,
            Some("building") => catalog.buildings[0].id,
            _ => catalog.objects[0].id,
        };
        let figures = format!("select renew_building_figures('{}')", catalog.buildings[0].id);
        execute_sql(service(), &format!("begin; {change} where id = '{id}'; {figures}; commit")).await;
        assert_eq!(shown.visibility().await, visible, "{change}");
    }
}

/// INV-DEV-6, RULE-CHS-052: a project disappears from the catalog with the commit that hides it,
/// hides its developer, or deletes it.
#[tokio::test]
async fn hidden_data_disappears_at_commit() {
    let developer = crate::create_published_developer().await;
    let (manager, guest) = (crate::manager(developer), service().guest());
    let projects = "/api/v1/developers/projects";
    let project = json!({"Name": "Сосны", "Class": "Elite", "City": "Казань", "Address": "ул. Мира, 1"});
    let project = crate::id_of(&manager.post(projects, project).await.expect(201)["Id"]);
    let shown = format!("{PROJECTS}/{project}");
    guest.get(&shown).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let nothing = json!({});
    for _ in 0..5 {
        manager.post(&format!("{projects}/{project}/publish"), nothing.clone()).await.expect(200);
        let tag = guest.get(&shown).await.header("etag").to_owned();
        assert!(!tag.is_empty());
        manager.post(&format!("{projects}/{project}/hide"), nothing.clone()).await.expect(200);
        guest.get(&shown).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
        let cached = send(guest.request(Method::GET, &shown).header("If-None-Match", tag)).await;
        cached.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    }
    manager.post(&format!("{projects}/{project}/publish"), nothing.clone()).await.expect(200);
    manager.post(&format!("{}/hide", crate::ME), nothing.clone()).await.expect(200);
    guest.get(&shown).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    guest
        .get(&format!("{DEVELOPERS}/{developer}"))
        .await
        .expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager.post(&format!("{}/publish", crate::ME), nothing).await.expect(200);
    guest.get(&shown).await.expect(200);
    manager.delete(&format!("{projects}/{project}")).await.expect(204);
    guest.get(&shown).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
}
