//! Moves on the board.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;
use uuid::Uuid;

use crate::{
    BOOKING_CREATED, CANCELLED, Deal, PLATFORM, STAGE_CHANGED, contract, create_deal, create_deal_of,
    create_developer, create_object, each, id_of, list, manager, payloads, platform, service, steps,
    steps_of, with,
};

const GROUPS: [&str; 5] = ["Application", "Booking", "Contract", "Cancelled", "Completed"];

async fn move_to(deal: &Deal, step: Uuid) -> Response {
    platform().post(&deal.path("/move-step"), json!({"StepId": step})).await
}

/// INV-DEAL-7, INV-DEAL-8, RULE-CRM-003, RULE-CRM-023, RULE-CRM-025: with contract data and a
/// booking, a deal moves from each status to the first step of each group as in the table.
#[tokio::test]
async fn move_follows_the_status_table() {
    let developer = create_developer().await;
    // An empty cell is the deal's own step, where a move is a no-op.
    let table = [
        ("Application", ["", "200", "MOVE_FORBIDDEN", "MOVE_FORBIDDEN", "MOVE_FORBIDDEN"]),
        ("Booking", ["200", "", "200", "MOVE_FORBIDDEN", "MOVE_FORBIDDEN"]),
        ("Sale", ["MOVE_FORBIDDEN", "200", "", "MOVE_FORBIDDEN", "MOVE_FORBIDDEN"]),
        ("Cancelled", ["ALREADY_TERMINAL"; 5]),
        ("Completed", ["ALREADY_TERMINAL"; 5]),
    ];
    for (status, row) in table {
        for (group, expected) in GROUPS.into_iter().zip(row) {
            let deal = create_deal_of(developer, create_object(developer).await).await;
            platform().put(&deal.path("/contract"), contract()).await.expect(200);
            deal.book().await;
            deal.bring_to(status).await;
            let before = deal.read().await;
            let step = steps_of(developer, group).await[0];
            let response = move_to(&deal, step).await;
            match expected {
                "" => {
                    let card = response.expect(200);
                    assert_eq!(card["RowVersion"], before["RowVersion"], "the own step: {status}");
                }
                "200" => {
                    let card = response.expect(200);
                    assert_eq!(
                        (&card["StepGroup"], id_of(&card["StepId"])),
                        (&json!(group), step),
                        "{status}"
                    );
                    let expected_status = if group == "Contract" { "Sale" } else { group };
                    assert_eq!(card["Status"], expected_status);
                    assert_eq!(
                        card["RowVersion"].as_i64(),
                        before["RowVersion"].as_i64().map(|version| version + 1)
                    );
                }
                code => drop(response.expect_problem(409, &format!("CRM_DEAL_{code}"))),
            }
        }
    }
}

/// INV-DEAL-3, RULE-CRM-003, RULE-EVT-013: a move within the deal's group writes one row. A move to
/// another group writes two rows, both with the reason. Each move publishes one stage change, in
/// order.
#[tokio::test]
async fn move_is_recorded_in_the_timeline_and_published() {
    let deal = create_deal().await;
    let [first, second] = steps_of(deal.developer, "Application").await[..] else {
        panic!("expected two steps")
    };
    let booking = steps_of(deal.developer, "Booking").await[0];
    let body = json!({"StepId": second, "Reason": " \u{2003} he called\n", "RowVersion": 1});
    let card = manager(deal.developer).post(&deal.own("/move-step"), body).await.expect(200);
    assert_eq!(card.as_object().unwrap().len(), 6, "the card has six members: {card}");
    deal.book().await;
    let card = platform().post(&deal.path("/move-step"), json!({"StepId": first, "Reason": "  "})).await;
    card.expect(200);
    let card = platform().post(&deal.path("/move-step"), json!({"StepId": booking, "Reason": "б"})).await;
    let card = card.expect(200);
    let timeline = deal.timeline().await;
    let kinds = each(&timeline, "Kind");
    let expected = [
        "DealCreated",
        "StepMoved",
        "BookingCreated",
        "StatusChanged",
        "StepMoved",
        "StatusChanged",
        "StepMoved",
        "StatusChanged",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(
        timeline[1]["Payload"],
        json!({"FromStepId": first, "ToStepId": second, "Reason": "he called"})
    );
    assert_eq!(timeline[1]["ActorRole"], "DeveloperManager");
    assert_eq!(
        timeline[3]["Payload"],
        json!({"FromStatus": "Application", "ToStatus": "Booking", "Reason": null})
    );
    assert_eq!(timeline[4]["Payload"]["Reason"], Value::Null);
    assert_eq!(
        timeline[7]["Payload"],
        json!({"FromStatus": "Application", "ToStatus": "Booking", "Reason": "б"})
    );
    assert_eq!(timeline[7]["ActorRole"], "PlatformManager");
    assert_eq!(timeline[6]["CreatedAt"], timeline[7]["CreatedAt"]);
    assert_eq!((&timeline[6]["RowVersion"], &timeline[7]["RowVersion"]), (&json!(5), &json!(5)));
    let arrived = service().published(deal.id).await;
    let stages = payloads(&arrived, STAGE_CHANGED);
    assert_eq!((arrived.len(), payloads(&arrived, BOOKING_CREATED).len()), (6, 1));
    assert_eq!(stages.iter().map(|stage| &stage["RowVersion"]).collect::<Vec<_>>(), [2, 3, 4, 5]);
    let last = stages[3];
    for (member, value) in [
        ("DealId", json!(deal.id)),
        ("TenantId", json!(deal.developer)),
        ("PropertyObjectId", json!(deal.object)),
        ("FromStepId", json!(first)),
        ("ToStepId", json!(booking)),
        ("FromStepGroup", json!("Application")),
        ("ToStepGroup", json!("Booking")),
        ("FromStatus", json!("Application")),
        ("ToStatus", json!("Booking")),
        ("ChangedByUserId", timeline[7]["ActorUserId"].clone()),
        ("ChangedAt", timeline[7]["CreatedAt"].clone()),
        ("RowVersion", card["RowVersion"].clone()),
    ] {
        assert_eq!(last[member], value, "{member}");
    }
}

/// INV-BKG-2, RULE-CRM-004, RULE-CRM-021, RULE-CRM-024: terminal, no-op, step, group, contract
/// data, booking and version are checked in this order.
#[tokio::test]
async fn move_with_several_faults_reports_the_first() {
    let deal = create_deal().await;
    let stale = |step: Uuid| json!({"StepId": step, "RowVersion": 0});
    let send = async |body: Value| platform().post(&deal.path("/move-step"), body).await;
    let own = id_of(&deal.read().await["StepId"]);
    assert_eq!(send(stale(own)).await.expect(200)["RowVersion"], 1, "a no-op compares no version");
    send(stale(guid())).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    let elsewhere = steps_of(create_developer().await, "Booking").await[0];
    send(stale(elsewhere)).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    let contract_step = steps_of(deal.developer, "Contract").await[0];
    send(stale(contract_step)).await.expect_problem(409, "CRM_DEAL_MOVE_FORBIDDEN");
    let booking_step = steps_of(deal.developer, "Booking").await[0];
    send(stale(booking_step)).await.expect_problem(409, "CRM_DEAL_BOOKING_REQUIRED");
    deal.bring_to("Booking").await;
    send(stale(contract_step)).await.expect_problem(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    platform().put(&deal.path("/contract"), json!({"ContractType": "Ddu"})).await.expect(200);
    send(stale(contract_step)).await.expect_problem(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    platform().put(&deal.path("/contract"), contract()).await.expect(200);
    send(stale(contract_step)).await.expect_problem(409, "CRM_DEAL_BOOKING_REQUIRED");
    deal.book().await;
    send(stale(contract_step)).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    let version = deal.row_version().await;
    send(json!({"StepId": contract_step, "RowVersion": version})).await.expect(200);
    deal.bring_to("Cancelled").await;
    let cancelled = steps_of(deal.developer, "Cancelled").await[0];
    send(stale(cancelled)).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
    assert_eq!(payloads(&deal.events().await, CANCELLED).len(), 1);
}

/// INV-BKG-2, RULE-CRM-026: a move back from Sale to Booking needs a booking. A move from Booking
/// to Application needs none.
#[tokio::test]
async fn move_back_from_sale_without_a_booking_is_refused() {
    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    let booking = steps_of(deal.developer, "Booking").await[0];
    move_to(&deal, booking).await.expect_problem(409, "CRM_DEAL_BOOKING_REQUIRED");
    let [_, second] = steps_of(deal.developer, "Contract").await[..] else { panic!("expected two steps") };
    move_to(&deal, second).await.expect(200);
    deal.bring_to("Booking").await;
    move_to(&deal, steps_of(deal.developer, "Application").await[1]).await.expect(200);
}

/// RULE-CRM-004: a deal stays in an archived step and may leave it. No deal enters it.
#[tokio::test]
async fn archived_step_can_be_left_but_not_entered() {
    let deal = create_deal().await;
    let [first, second] = steps_of(deal.developer, "Application").await[..] else {
        panic!("expected two steps")
    };
    let live = steps(deal.developer).await;
    let kept: Vec<_> = live.iter().filter(|step| id_of(&step["Id"]) != first).collect();
    let body: Vec<_> = kept
        .iter()
        .map(|step| json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"]}))
        .collect();
    let pipeline = format!("{PLATFORM}/pipeline-steps?TenantId={}", deal.developer);
    platform().put(&pipeline, json!({"Steps": body})).await.expect(200);
    assert_eq!(move_to(&deal, first).await.expect(200)["RowVersion"], 1, "the own step, archived or not");
    assert_eq!(move_to(&deal, second).await.expect(200)["RowVersion"], 2);
    move_to(&deal, first).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
}

/// RULE-CRM-018: a change of step closes one stage and opens the next at one instant.
#[tokio::test]
async fn step_change_closes_one_stage_and_opens_the_next() {
    let deal = create_deal().await;
    let second = steps_of(deal.developer, "Application").await[1];
    move_to(&deal, second).await.expect(200);
    deal.bring_to("Booking").await;
    let stages = platform().get(&deal.path("/stages")).await.expect(200);
    let stages = list(&stages["Items"]);
    assert_eq!(each(stages, "Status"), ["Booking", "Application", "Application"]);
    assert_eq!(stages[0]["LeftAt"], Value::Null);
    assert_eq!(stages[1]["LeftAt"], stages[0]["EnteredAt"]);
    assert_eq!(stages[2]["LeftAt"], stages[1]["EnteredAt"]);
    assert_eq!(deal.read().await["StepEnteredAt"], stages[0]["EnteredAt"]);
}

/// RULE-CRM-003: the step is required. A reason has at most 2000 characters after trimming and no
/// NUL.
#[tokio::test]
async fn invalid_move_is_refused() {
    let deal = create_deal().await;
    let body = json!({"StepId": guid(), "Reason": "x"});
    for (member, value, code) in [
        ("StepId", json!(Uuid::nil()), "empty_id"),
        ("StepId", Value::Null, "invalid_type"),
        ("Reason", json!("ё".repeat(2001)), "too_long"),
        ("Reason", json!("a\0"), "forbidden_character"),
        ("Reason", json!(5), "invalid_type"),
        ("RowVersion", json!(-1), "out_of_range"),
        ("RowVersion", json!(4_294_967_296_i64), "out_of_range"),
        ("RowVersion", json!("1"), "invalid_type"),
    ] {
        for path in [deal.path("/move-step"), deal.own("/move-step")] {
            let by = if path.starts_with(PLATFORM) { platform() } else { manager(deal.developer) };
            let response = by.post(&path, with(body.clone(), member, value.clone())).await;
            response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
        }
    }
    let second = steps_of(deal.developer, "Application").await[1];
    let reason = format!("\u{a0}{} ", "😀".repeat(2000));
    let body = json!({"StepId": second, "Reason": reason, "RowVersion": null});
    platform().post(&deal.path("/move-step"), body).await.expect(200);
}
