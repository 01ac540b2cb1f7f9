//! Internal fields, which no response of the catalog contains.

use serde_json::Value;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS, encoded};
use crate::catalog_fill::{Object, single_building_catalog};
use crate::{service, user_claims};

/// Collects the names of all fields of a response at any depth.
fn collect_fields(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            into.extend(members.keys().cloned());
            members.values().for_each(|member| collect_fields(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_fields(item, into)),
        _ => {}
    }
}

/// RULE-CHS-053: no response shows holds, versions, audit fields, deletions or the source of a
/// profile, not even to the owner.
#[tokio::test]
async fn internal_fields_are_in_no_catalog_response() {
    let mut catalog = single_building_catalog();
    catalog.developers[0].name = format!("Private {}", catalog.developers[0].id);
    catalog.objects = vec![
        Object { status: "Booked", ..Object::new(&catalog.buildings[0], "1") },
        Object::new(&catalog.buildings[0], "2"),
    ];
    catalog.fill(service()).await;
    let (developer, project, building) =
        (catalog.developers[0].id, catalog.projects[0].id, catalog.buildings[0].id);
    let name = encoded(&catalog.developers[0].name);
    let manager = service().caller(&user_claims(Some(developer), &[crate::MANAGE, crate::MANAGE_ALL]));
    for path in [
        format!("{DEVELOPERS}?Query={name}"),
        format!("{DEVELOPERS}/{developer}"),
        format!("{PROJECTS}?DeveloperId={developer}"),
        format!("{PROJECTS}/facets?DeveloperId={developer}"),
        format!("{PROJECTS}/{project}"),
        format!("{PROJECTS}/{project}/buildings/{building}"),
        format!("{OBJECTS}?DeveloperId={developer}&Status=Booked,Available"),
        format!("{OBJECTS}/{}", catalog.objects[0].id),
        format!("{OBJECTS}/{}/price-history", catalog.objects[0].id),
    ] {
        for caller in [service().guest(), manager.clone()] {
            let mut members = Vec::new();
            let response = caller.get(&path).await.expect(200);
            collect_fields(&response, &mut members);
            assert!(!members.is_empty());
            for hidden in [
                "HoldDealId",
                "Version",
                "CreatedAt",
                "CreatedByUserId",
                "UpdatedByUserId",
                "ActorUserId",
                "DeletedAt",
                "DeletedByUserId",
                "SyncSource",
                "ReplicaVersion",
                "LastSyncedAt",
                "ExternalChessboardDeveloperId",
                "ExternalId",
                "TenantId",
                "OwnStatus",
            ] {
                assert!(members.iter().all(|member| member != hidden), "{path} shows {hidden}");
            }
            let is_objects = path.starts_with(OBJECTS);
            assert!(
                is_objects || members.iter().all(|member| member != "UpdatedAt"),
                "{path} shows UpdatedAt"
            );
        }
    }
}

/// RULE-CHS-053: a problem of the catalog repeats no sent value.
#[tokio::test]
async fn catalog_problem_repeats_no_sent_value() {
    let guest = service().guest();
    let faulty = "Query=secret%00&Page=secret&PageSize=secret&Sort=secret&Cursor=secret&Kind=secret&Status=secret\
        &AreaMin=secret&FloorMin=secret&ProjectId=secret&BuildingId=secret&Box=secret&City=secret%00";
    for path in [DEVELOPERS.to_owned(), PROJECTS.to_owned(), format!("{PROJECTS}/facets"), OBJECTS.to_owned()]
    {
        let response = guest.get(&format!("{path}?{faulty}")).await;
        assert!(!response.text.contains("secret"), "{path}: {}", response.text);
        response.expect_problem(400, "VALIDATION_FAILED");
    }
}
