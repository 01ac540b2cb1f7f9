//! What requests, deals and moves above race for.

use futures_util::future::{join, join_all, join3};
use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::objects::{
    BOOKED, PROJECTS, draft_house, flat, flats, house, object_event_when, project, put_of, tell_deal,
};
use crate::{count, create_developer, id_of, manager, operator, path, publish, with};

/// Of ten `PUT`s with one version, and of parallel equal moves, one wins.
#[tokio::test]
async fn of_equal_changes_one_wins() {
    let house = draft_house().await;
    house.grid(&flats(1)).await;
    let object = house.object("1").await;
    let object_path = house.object_path(house.id_of("1").await);
    let put = |rooms: i64| {
        house.manager.put(&object_path, with(with(object.clone(), "Rooms", rooms), "Version", 1))
    };
    let answers = join_all((3..13).map(put)).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
    let project_path = house.project_path("");
    let put = |name: i64| {
        let body = with(with(project(), "Name", name.to_string()), "Version", 1);
        house.manager.put(&project_path, body)
    };
    let answers = join_all((0..10).map(put)).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
    publish(house.developer).await;
    let publish_path = house.project_path("/publish");
    let answers = join_all((0..10).map(|_| house.manager.post(&publish_path, json!({})))).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
}

/// Parallel grids answer 200 or 409 and leave one of those answered 200, whole.
#[tokio::test]
async fn of_parallel_grids_one_is_left_whole() {
    for _ in 0..5 {
        let house = draft_house().await;
        let grid = |rooms: i64| -> Vec<Value> {
            (1..60).map(|number| with(flat(&number.to_string()), "Rooms", rooms)).collect()
        };
        let grids: Vec<_> = (1..6).map(grid).collect();
        let answers = join_all(grids.iter().map(|grid| house.send_grid(grid, None))).await;
        assert_eq!(count(&answers, 200) + count(&answers, 409), 5);
        let objects = house.objects().await;
        let rooms = objects[0]["Rooms"].as_u64().unwrap();
        assert!(objects.len() == 59 && objects.iter().all(|object| object["Rooms"] == rooms));
        assert_eq!(answers[usize::try_from(rooms).unwrap() - 1].status, 200);
    }
}

/// A booking that meets a grid is never lost: the object is held, or was removed and comes back held.
#[tokio::test]
async fn a_booking_that_meets_a_grid_is_never_lost() {
    let house = house().await;
    for _ in 0..8 {
        house.grid(&flats(30)).await;
        let objects = house.objects().await;
        let free = objects.iter().find(|object| object["HoldDealId"] == Value::Null).unwrap();
        let (id, number, deal) = (id_of(&free["Id"]), free["Number"].clone(), guid());
        let booking = tell_deal(BOOKED, deal, id, 1, "2026-11-22T10:00:00Z");
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

/// Of a project made while its developer is deleted, one is refused.
#[tokio::test]
async fn a_project_made_while_its_developer_is_deleted_is_one_of_two() {
    for _ in 0..10 {
        let developer = create_developer().await;
        let (by, admin) = (manager(developer), operator());
        let gone = path(developer, "");
        let (made, deleted) = join(by.post(PROJECTS, project()), admin.delete(&gone)).await;
        let made = (made.status, deleted.status);
        assert!(made == (201, 409) || made == (404, 204), "{made:?}");
    }
}

/// Section 10: an object that is told while its developer is hidden, or what is above it renamed, is told so in the end.
#[tokio::test]
async fn what_is_told_while_it_is_hidden_is_not_public_in_the_end() {
    for round in 0..6 {
        let house = house().await;
        house.grid(&flats(3)).await;
        let object = house.object("1").await;
        let id = house.id_of("1").await;
        let object_path = house.object_path(id);
        let (admin, hide) = (operator(), path(house.developer, "/hide"));
        let name = format!("Ели {round}");
        let put = house.manager.put(&object_path, with(put_of(&object), "Rooms", 9));
        let hiding = admin.post(&hide, json!({}));
        let project_path = house.project_path("");
        let renaming = house.manager.put(&project_path, with(project(), "Name", name.clone()));
        let grids = async {
            let mut changed = flats(3);
            changed[1]["Rooms"] = json!(8);
            house.send_grid(&changed, None).await;
            tell_deal(BOOKED, guid(), house.id_of("3").await, 1, "2026-11-22T10:00:00Z").await;
        };
        let (put, (hidden, renamed), ()) = join3(put, join(hiding, renaming), grids).await;
        assert!(matches!(put.status, 200 | 409));
        hidden.expect(200);
        renamed.expect(200);
        for number in ["1", "2", "3"] {
            let id = house.id_of(number).await;
            object_event_when(id, "the end", |told| told["IsPublic"] == false && told["ProjectName"] == name)
                .await;
        }
    }
}
