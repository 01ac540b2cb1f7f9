//! The append-only timeline and republished events.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;
use testkit::issuer::Claims;
use testkit::service::{Running, issuer};
use tokio::process::Command;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::{
    BOOKING_CREATED, CANCELLED, COMPLETED, CREATED, DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN, OBJECT_UPSERTED,
    PLATFORM, STAGE_CHANGED, contract, create_deal, creation_body, developer, events_of, id_of, list, object,
    payloads, publish, rub, service, start, topics,
};

/// Checks that the database refuses each statement, also from the owner of the tables and from a
/// role with all privileges.
async fn expect_refused(crm: &Running, statements: &[String]) {
    let sql = crm.sql().await;
    let role = format!("clerk_{}", guid().simple());
    sql.batch_execute(&format!("create role {role}; grant usage on schema crm to {role}; grant all on all tables in schema crm to {role}"))
        .await
        .unwrap();
    for statement in statements {
        for role in ["none", &role] {
            sql.batch_execute(&format!("set role {role}")).await.unwrap();
            let refused = sql.batch_execute(statement).await.unwrap_err();
            let code = refused.code();
            assert_eq!(code, Some(&SqlState::RESTRICT_VIOLATION), "{role}: {statement}: {refused:?}");
        }
    }
    sql.batch_execute(&format!("reset role; drop owned by {role}; drop role {role}")).await.unwrap();
}

/// INV-TLE-1: the database refuses to remove all rows at once.
#[tokio::test]
async fn timeline_cannot_be_truncated() {
    // `truncate` locks tables, so the requests of other tests could deadlock with it.
    let own = start(&[]);
    expect_refused(&own, &["truncate timeline".to_owned(), "truncate deal cascade".to_owned()]).await;
}

/// INV-TLE-1: the database refuses update and delete.
#[tokio::test]
async fn timeline_rows_cannot_be_changed_or_removed() {
    let deal = create_deal().await;
    let row = format!("timeline where deal_id = '{}'", deal.id);
    let columns = "id, deal_id, kind, payload, actor_user_id, actor_role, created_at, row_version, agent_user_id, amount, currency";
    let statements = [
        format!("update timeline set actor_role = 'CareService' where deal_id = '{}'", deal.id),
        "update timeline set kind = kind where false".to_owned(),
        format!("delete from {row}"),
        format!("with gone as (delete from {row} returning id) select count(*) from gone"),
        format!(
            "insert into timeline ({columns}) select {columns} from {row} on conflict (id) do update set kind = 'ManualNote'"
        ),
        format!(
            "merge into timeline using (select id from {row}) as known on timeline.id = known.id when matched then delete"
        ),
    ];
    expect_refused(service(), &statements).await;
    assert_eq!(deal.timeline().await.len(), 1);
}

/// INV-TLE-5: the database refuses a manual note of a developer's employee.
#[tokio::test]
async fn manual_note_of_a_developer_is_refused_by_the_database() {
    let deal = create_deal().await;
    let sql = service().sql().await;
    let insert = |kind: &str, role: &str| {
        format!(
            "insert into timeline (id, deal_id, kind, payload, actor_user_id, actor_role, created_at, row_version, amount, currency)
             select '{}', deal_id, '{kind}', '{{\"Text\": \"x\"}}', actor_user_id, '{role}', created_at, row_version, amount, currency
             from timeline where deal_id = '{}' limit 1",
            guid(),
            deal.id
        )
    };
    for role in ["PlatformManager", "CareService"] {
        sql.batch_execute(&insert("ManualNote", role)).await.unwrap();
    }
    sql.batch_execute(&insert("CompanyNote", "DeveloperManager")).await.unwrap();
    let refused = sql.batch_execute(&insert("ManualNote", "DeveloperManager")).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION), "{refused:?}");
}

/// A deal of a service that one test has started.
struct DealOfService<'s> {
    service: &'s Running,
    by: &'s Client,
    id: Uuid,
    tenant: Uuid,
}

impl DealOfService<'_> {
    async fn post(&self, below: &str, body: Value) -> Value {
        let response = self.by.post(&format!("{PLATFORM}/deals/{}{below}", self.id), body).await;
        assert!(response.status < 300, "{below}: {}", response.text);
        response.body
    }

    async fn put(&self, below: &str, body: Value) {
        self.by.put(&format!("{PLATFORM}/deals/{}{below}", self.id), body).await.expect(200);
    }

    async fn complete(&self) {
        let claims = Claims { company_id: Some(self.tenant), ..Claims::user(guid()) }.permission(MANAGE_OWN);
        let body = json!({"RegistryRecordNumber": "7"});
        let path = format!("/api/v1/crm/deals/{}/complete", self.id);
        self.service.caller(&claims).post(&path, body).await.expect(200);
    }

    /// Returns the second step of Application.
    async fn second_step(&self) -> Uuid {
        let path = format!("{PLATFORM}/pipeline-steps?TenantId={}", self.tenant);
        let pipeline = self.by.get(&path).await.expect(200);
        id_of(&list(&pipeline["Steps"])[1]["Id"])
    }
}

/// RULE-CRM-017, RULE-EVT-027: `republish Deal` publishes each deal's creation, stage changes,
/// Active booking and end again, with their original payloads. Ended bookings are left out, and so
/// is the cancellation of a deal that was revived.
#[tokio::test]
async fn republish_repeats_the_events_of_each_deal() {
    let crm = start(&[]);
    let tenant = guid();
    publish(&crm, DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
    let by = crm.caller(&Claims::user(guid()).permission(MANAGE));
    let create = async || {
        let flat = guid();
        publish(&crm, OBJECT_UPSERTED, "Id", &object(flat, tenant, "Available")).await;
        let created = by.post(&format!("{PLATFORM}/deals"), creation_body(flat).await).await.expect(201);
        DealOfService { service: &crm, by: &by, id: id_of(&created["DealId"]), tenant }
    };
    let sale = json!({"TargetStatus": "Sale", "Comment": "x"});
    let (booked, cancelled, completed, revived) =
        (create().await, create().await, create().await, create().await);
    booked.post("/move-step", json!({"StepId": booked.second_step().await})).await;
    booked.put("/contract", json!({"Amount": rub(5)})).await;
    booked.put("/agent", json!({"AgentUserId": guid()})).await;
    booked.post("/notes", json!({"Text": "x"})).await;
    booked.post("/booking", json!({})).await;
    booked.put("/agent", json!({})).await;
    booked.put("/contract", json!({"Amount": rub(6)})).await;
    cancelled.post("/booking", json!({})).await;
    cancelled.post("/cancel", json!({"Reason": "раздумал"})).await;
    completed.put("/contract", contract()).await;
    completed.post("/override-status", sale.clone()).await;
    completed.complete().await;
    revived.post("/override-status", json!({"TargetStatus": "Cancelled", "Comment": "x"})).await;
    revived.post("/override-status", json!({"TargetStatus": "Application", "Comment": "x"})).await;
    let deals = [
        (&booked, vec![CREATED, STAGE_CHANGED, STAGE_CHANGED, STAGE_CHANGED, STAGE_CHANGED, BOOKING_CREATED]),
        (&cancelled, vec![CREATED, STAGE_CHANGED, STAGE_CHANGED, CANCELLED]),
        (&completed, vec![CREATED, STAGE_CHANGED, STAGE_CHANGED, COMPLETED]),
        (&revived, vec![CREATED, STAGE_CHANGED, STAGE_CHANGED]),
    ];
    let mut first = Vec::new();
    for (deal, _) in &deals {
        let events = events_of(&crm, deal.id).await;
        let stage_changes = payloads(&events, STAGE_CHANGED);
        let mut previous = json!(0);
        for change in &stage_changes {
            assert_eq!(change["PreviousRowVersion"], previous, "the changes form a chain");
            previous = change["RowVersion"].clone();
        }
        first.push(events);
    }

    let mut republish = Command::new(env!("CARGO_BIN_EXE_crm"));
    republish.args(["republish", "Deal"]).env("DATABASE_URL", &crm.database_url).env("LOG", "off");
    republish.env("KAFKA_BROKERS", testkit::required("KAFKA_BROKERS").unwrap());
    republish.env("AUTH_ISSUER", issuer().url());
    republish.env("SELECTIONS_URL", "http://127.0.0.1:1").env("CLIENT_SECRET", "x");
    let output = republish.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    for ((deal, repeated), first) in deals.iter().zip(first) {
        let again = events_of(&crm, deal.id).await.split_off(first.len());
        assert_eq!(topics(&again), *repeated);
        for topic in BTreeSet::from_iter(repeated) {
            assert_eq!(payloads(&again, topic), payloads(&first, topic), "{topic}");
        }
    }
}
