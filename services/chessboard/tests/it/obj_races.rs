//! Races of requests, deals and changes of ancestors.

use futures_util::future::{join, join_all, join3};
use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::objects::{
    BOOKED, PROJECTS, draft_house, flat, flats, project, publish_deal_event, published_house, unchanged_body,
    wait_for_object_event,
};
use crate::{administrator, count, create_developer, id_of, manager, path, publish_profile, with};

/// RULE-CHS-030: only one of ten `PUT`s of one version succeeds, and only one of several equal
/// parallel transitions.
#[tokio::test]
async fn only_one_parallel_change_succeeds() {
    let house = draft_house().await;
    house.grid(&flats(1)).await;
    let object = house.object("1").await;
    let object_path = house.object_path(house.id_of("1").await);
    let put = |rooms: i64| {
        house.manager.put(&object_path, with(with(object.clone(), "Rooms", rooms), "Version", 1))
    };
    let responses = join_all((3..13).map(put)).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
    let project_path = house.project_path("");
    let put = |name: i64| {
        let body = with(with(project(), "Name", name.to_string()), "Version", 1);
        house.manager.put(&project_path, body)
    };
    let responses = join_all((0..10).map(put)).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
    publish_profile(house.developer).await;
    let publish_path = house.project_path("/publish");
    let responses = join_all((0..10).map(|_| house.manager.post(&publish_path, json!({})))).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
}

/// RULE-CHS-030: parallel grids return 200 or 409, and the building has one of the accepted grids,
/// whole.
#[tokio::test]
async fn parallel_grids_leave_one_whole_grid() {
    for _ in 0..5 {
        let house = draft_house().await;
        let grid = |rooms: i64| -> Vec<Value> {
            (1..60).map(|number| with(flat(&number.to_string()), "Rooms", rooms)).collect()
        };
        let grids: Vec<_> = (1..6).map(grid).collect();
        let responses = join_all(grids.iter().map(|grid| house.send_grid(grid, None))).await;
        assert_eq!(count(&responses, 200) + count(&responses, 409), 5);
        let objects = house.objects().await;
        let rooms = objects[0]["Rooms"].as_u64().unwrap();
        assert!(objects.len() == 59 && objects.iter().all(|object| object["Rooms"] == rooms));
        assert_eq!(responses[usize::try_from(rooms).unwrap() - 1].status, 200);
    }
}

/// RULE-CHS-030: a booking that races with a grid is never lost. The object is held now, or after
/// its restoration.
#[tokio::test]
async fn booking_racing_grid_is_never_lost() {
    let house = published_house().await;
    for _ in 0..8 {
        house.grid(&flats(30)).await;
        let objects = house.objects().await;
        let free = objects.iter().find(|object| object["HoldDealId"] == Value::Null).unwrap();
        let (id, number, deal) = (id_of(&free["Id"]), free["Number"].clone(), guid());
        let booking = publish_deal_event(BOOKED, deal, id, 1, "2026-11-22T10:00:00Z");
        let emptying = async {
            for _ in 0..3 {
                house.grid(&[]).await;
                house.grid(&flats(30)).await;
            }
        };
        join(booking, emptying).await;
        eventually("the booking", async || {
            let object = house.object(number.as_str().unwrap()).await;
            (object["HoldDealId"] == deal.to_string()).then_some(())
        })
        .await;
    }
}

/// RULE-CHS-030: if the creation of a project and the deletion of its developer race, one of them
/// is rejected.
#[tokio::test]
async fn project_creation_or_developer_deletion_is_rejected() {
    for _ in 0..10 {
        let developer = create_developer().await;
        let (by, admin) = (manager(developer), administrator());
        let developer_path = path(developer, "");
        let (created, deleted) = join(by.post(PROJECTS, project()), admin.delete(&developer_path)).await;
        let statuses = (created.status, deleted.status);
        assert!(statuses == (201, 409) || statuses == (404, 204), "{statuses:?}");
    }
}

/// RULE-CHS-030: an object that is published while its developer is hidden, or its project renamed,
/// ends with the final state.
#[tokio::test]
async fn object_published_during_hiding_ends_hidden() {
    for round in 0..6 {
        let house = published_house().await;
        house.grid(&flats(3)).await;
        let object = house.object("1").await;
        let id = house.id_of("1").await;
        let object_path = house.object_path(id);
        let (admin, hide) = (administrator(), path(house.developer, "/hide"));
        let name = format!("Ели {round}");
        let put = house.manager.put(&object_path, with(unchanged_body(&object), "Rooms", 9));
        let hiding = admin.post(&hide, json!({}));
        let project_path = house.project_path("");
        let renaming = house.manager.put(&project_path, with(project(), "Name", name.clone()));
        let others = async {
            let mut changed = flats(3);
            changed[1]["Rooms"] = json!(8);
            house.send_grid(&changed, None).await;
            publish_deal_event(BOOKED, guid(), house.id_of("3").await, 1, "2026-11-22T10:00:00Z").await;
        };
        let (put, (hidden, renamed), ()) = join3(put, join(hiding, renaming), others).await;
        assert!(matches!(put.status, 200 | 409));
        hidden.expect(200);
        renamed.expect(200);
        for number in ["1", "2", "3"] {
            let id = house.id_of(number).await;
            wait_for_object_event(id, "the final state", |event| {
                event["IsPublic"] == false && event["ProjectName"] == name
            })
            .await;
        }
    }
}
