//! What the catalog shows to nobody.

use serde_json::Value;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS, encoded};
use crate::catalog_fill::{Object, one};
use crate::{holder, service};

/// The names of all members of an answer, however deep.
fn all_members(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            into.extend(members.keys().cloned());
            members.values().for_each(|member| all_members(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| all_members(item, into)),
        _ => {}
    }
}

/// Never shown: who holds an object, versions, audit members, where a profile comes from, what is deleted; not to those
/// either who see it elsewhere.
#[tokio::test]
async fn what_is_the_companys_alone_is_in_no_answer() {
    let mut catalog = one();
    catalog.developers[0].name = format!("Private {}", catalog.developers[0].id);
    catalog.objects = vec![
        Object { status: "Booked", ..Object::new(&catalog.buildings[0], "1") },
        Object::new(&catalog.buildings[0], "2"),
    ];
    catalog.fill(service()).await;
    let (developer, project, building) =
        (catalog.developers[0].id, catalog.projects[0].id, catalog.buildings[0].id);
    let name = encoded(&catalog.developers[0].name);
    let manager = service().caller(&holder(Some(developer), &[crate::MANAGE, crate::MANAGE_ALL]));
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
            let answer = caller.get(&path).await.expect(200);
            all_members(&answer, &mut members);
            assert!(!members.is_empty());
            for secret in [
                "HoldDealId",
                "Version",
                "CreatedAt",
                "CreatedByUserId",
                "UpdatedByUserId",
                "DeletedAt",
                "DeletedByUserId",
                "SyncSource",
                "ReplicaVersion",
                "LastSyncedAt",
                "ExternalChessboardDeveloperId",
                "TenantId",
                "OwnStatus",
            ] {
                assert!(members.iter().all(|member| member != secret), "{path} shows {secret}");
            }
            let is_objects = path.starts_with(OBJECTS);
            assert!(
                is_objects || members.iter().all(|member| member != "UpdatedAt"),
                "{path} shows UpdatedAt"
            );
        }
    }
}

/// Refusals repeat no value that was sent.
#[tokio::test]
async fn refusals_repeat_nothing() {
    let guest = service().guest();
    let faulty = "Query=sekret%00&Page=sekret&PageSize=sekret&Sort=sekret&Cursor=sekret&Kind=sekret&Status=sekret\
        &AreaMin=sekret&FloorMin=sekret&ProjectId=sekret&BuildingId=sekret&Box=sekret&City=sekret%00";
    for path in [DEVELOPERS.to_owned(), PROJECTS.to_owned(), format!("{PROJECTS}/facets"), OBJECTS.to_owned()]
    {
        let answer = guest.get(&format!("{path}?{faulty}")).await;
        assert!(!answer.text.contains("sekret"), "{path}: {}", answer.text);
        answer.expect_problem(400, "VALIDATION_FAILED");
    }
}
