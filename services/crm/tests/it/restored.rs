//! The command `restored --since`, which aligns consumers with a database that was restored to an
//! earlier time.

use std::process::{Output, Stdio};

use crm::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::issuer;
use testkit::{eventually, guid, text};
use tokio::process::Command;
use uuid::Uuid;

use crate::{
    BOOKING_CREATED, BOOKING_EXPIRED, CANCELLED, CREATED, DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN,
    OBJECT_UPSERTED, OWN, PLATFORM, STAGE_CHANGED, contract, developer, id_of, in_days, next_number, object,
    payloads, sort_by_sequence, topics, user_with,
};

/// The tables of deals, in the order of deletion. The other tables refer to `deal`.
const TABLES: [&str; 4] = ["timeline", "stage", "booking", "deal"];

/// A crm whose database can return to a stored state.
struct RestorableCrm {
    crm: DedicatedService,
    by: Client,
    tenant: Uuid,
}

impl RestorableCrm {
    async fn start() -> Self {
        let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
        let settings = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", *secret)];
        let crm = DedicatedService::start::<Service>(&settings);
        let by = crm.caller(&Claims::user(guid()).permission(MANAGE));
        let tenant = guid();
        let restorable = Self { crm, by, tenant };
        restorable.publish(DEVELOPER_UPSERTED, tenant, &developer(tenant)).await;
        restorable
    }

    /// Publishes an event and waits until crm has applied it.
    async fn publish(&self, topic: &str, key: Uuid, event: &Value) {
        self.crm.bus().publish(topic, key, next_number(), event).await;
        let (sql, key) = (self.crm.sql().await, key.to_string());
        let applied = "select 1 from inbox where topic = $1 and key = $2";
        eventually("the event", async || sql.query_opt(applied, &[&topic, &key]).await.unwrap()).await;
    }

    /// Creates a deal of a new object.
    async fn create(&self) -> Uuid {
        let flat = guid();
        self.publish(OBJECT_UPSERTED, flat, &object(flat, self.tenant, "Available")).await;
        let body = json!({"PropertyObjectId": flat, "ClientUserId": guid(), "AgentUserId": guid()});
        id_of(&self.by.post(&format!("{PLATFORM}/deals"), body).await.expect(201)["DealId"])
    }

    /// Creates a deal in Sale.
    async fn sell(&self) -> Uuid {
        let deal = self.create().await;
        self.by.put(&format!("{PLATFORM}/deals/{deal}/contract"), contract()).await.expect(200);
        self.override_status(deal, "Sale").await;
        deal
    }

    async fn post(&self, deal: Uuid, below: &str, body: Value) -> Value {
        let response = self.by.post(&format!("{PLATFORM}/deals/{deal}{below}"), body).await;
        assert!(response.status < 300, "{below}: {}", response.text);
        response.body
    }

    async fn set_agent(&self, deal: Uuid) {
        let body = json!({"AgentUserId": guid()});
        self.by.put(&format!("{PLATFORM}/deals/{deal}/agent"), body).await.expect(200);
    }

    /// Returns the events of a deal in the order of their sequences.
    async fn events(&self, deal: Uuid) -> Vec<Published> {
        sort_by_sequence(self.crm.published(deal).await)
    }

    /// Stores the present rows, to which [`RestorableCrm::go_back`] returns.
    async fn back_up(&self) {
        let copies = TABLES.map(|table| format!("create table {table}_backup as table {table};"));
        self.crm.sql().await.batch_execute(&copies.concat()).await.unwrap();
    }

    /// Waits until all events are published, and returns to the stored rows.
    async fn go_back(&self, deals: &[Uuid]) {
        for deal in deals {
            self.crm.published(deal).await;
        }
        let replace = TABLES.map(|table| {
            format!("delete from {table}; insert into {table} overriding system value table {table}_backup;")
        });
        // Without its triggers, the timeline can be changed.
        let back = format!("set session_replication_role = replica; {}", replace.concat());
        self.crm.sql().await.batch_execute(&back).await.unwrap();
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crm"));
        command.args(arguments).env("DATABASE_URL", &self.crm.database_url).env("LOG", "off");
        command.env("KAFKA_BROKERS", self.crm.broker().servers()).env("AUTH_ISSUER", issuer().url());
        command.env("SELECTIONS_URL", "http://127.0.0.1:1").env("CLIENT_SECRET", "x");
        command.stdin(Stdio::null()).output().await.unwrap()
    }

    /// Sets another status.
    async fn override_status(&self, deal: Uuid, status: &str) {
        let body = json!({"TargetStatus": status, "Comment": "x"});
        self.post(deal, "/override-status", body).await;
    }

    /// Runs `restored --since` and returns its report.
    async fn restore(&self, since: &str, options: &[&str]) -> String {
        let output = self.run(&[&["restored", "--since", since], options].concat()).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Returns the `RowVersion` of each event.
fn versions(events: &[Published]) -> Vec<i64> {
    events.iter().map(|event| event.payload["RowVersion"].as_i64().unwrap()).collect()
}

/// RULE-EVT-048, RULE-CRM-073: a deal that was lost is published as Cancelled above every version
/// that consumers know, so its object is free again and its sale ends.
#[tokio::test]
async fn lost_deal_is_published_as_cancelled() {
    let restorable = RestorableCrm::start().await;
    restorable.back_up().await;
    let since = in_days(0);
    let (booked, created) = (restorable.create().await, restorable.create().await);
    restorable.set_agent(booked).await;
    restorable.post(booked, "/booking", json!({})).await;
    restorable.go_back(&[booked, created]).await;
    let known = [restorable.events(booked).await, restorable.events(created).await];
    assert_eq!(topics(&known[0]), [CREATED, STAGE_CHANGED, STAGE_CHANGED, BOOKING_CREATED]);

    let report = restorable.restore(&since, &[]).await;

    assert!(report.contains("Deal: 0 raised, 2 ended, 0 not ended"), "{report}");
    for ((deal, known), from) in [booked, created].into_iter().zip(known).zip(["Booking", "Application"]) {
        let ended = restorable.events(deal).await.split_off(known.len());
        assert_eq!(topics(&ended), [STAGE_CHANGED, CANCELLED]);
        let next = versions(&known).into_iter().max().unwrap() + 1;
        assert_eq!(versions(&ended), [next, next]);
        let last = known.iter().rfind(|event| event.topic != BOOKING_CREATED).unwrap();
        let (change, last) = (&ended[0].payload, &last.payload);
        assert_eq!((&change["FromStatus"], &change["ToStatus"]), (&json!(from), &json!("Cancelled")));
        assert_eq!(change["PreviousRowVersion"], 0, "accepted after any version");
        for member in ["TenantId", "PropertyObjectId", "ClientUserId", "AgentUserId", "Amount"] {
            assert_eq!(change[member], last[member], "{member}");
        }
        assert_eq!(ended[1].payload["PropertyObjectId"], last["PropertyObjectId"]);
    }
}

/// RULE-EVT-048, RULE-CRM-073: a deal with a lower version than before is published above every
/// version that consumers know. Its booking, or the end of a lost booking, is published with it.
/// Its next change has a higher version.
#[tokio::test]
async fn restored_deal_is_published_above_the_lost_versions() {
    let restorable = RestorableCrm::start().await;
    let (booked, free) = (restorable.create().await, restorable.create().await);
    let booking = restorable.post(booked, "/booking", json!({})).await;
    restorable.back_up().await;
    let since = in_days(0);
    restorable.post(booked, "/cancel", json!({"Reason": "x"})).await;
    let lost_booking = restorable.post(free, "/booking", json!({})).await;
    restorable.go_back(&[booked, free]).await;
    let (known_booked, known_free) = (restorable.events(booked).await, restorable.events(free).await);

    restorable.restore(&since, &[]).await;

    let raised = restorable.events(booked).await.split_off(known_booked.len());
    assert_eq!(topics(&raised), [STAGE_CHANGED, BOOKING_CREATED]);
    assert_eq!(versions(&raised), [4, 4], "above the cancellation");
    let change = &raised[0].payload;
    assert_eq!((&change["FromStatus"], &change["ToStatus"]), (&json!("Cancelled"), &json!("Booking")));
    assert_eq!(change["PreviousRowVersion"], 2, "the last change that was not lost");
    assert_eq!(raised[1].payload["BookingId"], booking["Id"]);

    let raised = restorable.events(free).await.split_off(known_free.len());
    assert_eq!(topics(&raised), [STAGE_CHANGED, BOOKING_EXPIRED]);
    assert_eq!(versions(&raised), [3, 3], "above the booking");
    let change = &raised[0].payload;
    assert_eq!((&change["FromStatus"], &change["ToStatus"]), (&json!("Booking"), &json!("Application")));
    assert_eq!(raised[1].payload["BookingId"], lost_booking["Id"]);

    restorable.set_agent(free).await;
    let next = restorable.events(free).await.pop().unwrap();
    assert_eq!((&next.payload["RowVersion"], &next.payload["PreviousRowVersion"]), (&json!(4), &json!(3)));

    let output = restorable.run(&["republish", "Deal"]).await;
    assert!(output.status.success(), "{output:?}");
    let again = restorable.events(booked).await.split_off(known_booked.len() + 2);
    assert_eq!(topics(&again), [CREATED, STAGE_CHANGED, STAGE_CHANGED, BOOKING_CREATED]);
    assert_eq!(versions(&again), [1, 2, 4, 4], "a republish has the raised version");
}

/// RULE-EVT-048, RULE-CRM-073: a sale whose completion the database has lost ends for consumers.
/// The present sale begins again, with the time of its first beginning.
#[tokio::test]
async fn sale_whose_completion_was_lost_ends_and_begins_again() {
    let restorable = RestorableCrm::start().await;
    let deal = restorable.sell().await;
    restorable.back_up().await;
    let since = in_days(0);
    let claims = user_with(Some(restorable.tenant), &[MANAGE_OWN]);
    let completion = json!({"RegistryRecordNumber": "7"});
    let manager = restorable.crm.caller(&claims);
    manager.post(&format!("{OWN}/deals/{deal}/complete"), completion).await.expect(200);
    restorable.go_back(&[deal]).await;
    let known = restorable.events(deal).await;

    restorable.restore(&since, &[]).await;

    let raised = restorable.events(deal).await.split_off(known.len());
    assert_eq!(topics(&raised), [STAGE_CHANGED, STAGE_CHANGED, BOOKING_EXPIRED]);
    assert_eq!(versions(&raised), [5, 6, 6], "above the completion");
    let statuses = |event: &Published| {
        [&event.payload["FromStatus"], &event.payload["ToStatus"]].map(|status| text(status).to_owned())
    };
    assert_eq!(statuses(&raised[0]), ["Completed", "Application"]);
    assert_eq!(statuses(&raised[1]), ["Application", "Sale"]);
    let sale = payloads(&known, STAGE_CHANGED)[0];
    assert_eq!(raised[0].payload["PreviousRowVersion"], sale["RowVersion"]);
    assert_eq!(raised[1].payload["PreviousRowVersion"], 5);
    assert_eq!(raised[1].payload["ChangedAt"], sale["ChangedAt"], "the time that decides the rate");
    assert_eq!(restorable.by.get(&format!("{PLATFORM}/deals/{deal}")).await.expect(200)["RowVersion"], 6);

    restorable.restore(&since, &[]).await;
    let again = restorable.events(deal).await.split_off(known.len() + raised.len());
    assert_eq!(statuses(&again[0]), ["Sale", "Sale"], "a second run ends no sale");
}

/// RULE-EVT-048, RULE-CRM-073: a sale with a change that the database has lost ends for consumers,
/// and the present sale begins.
#[tokio::test]
async fn sale_whose_change_was_lost_ends_and_begins_again() {
    let restorable = RestorableCrm::start().await;
    let deal = restorable.sell().await;
    restorable.back_up().await;
    let since = in_days(0);
    restorable.set_agent(deal).await;
    restorable.go_back(&[deal]).await;
    let known = restorable.events(deal).await;

    restorable.restore(&since, &[]).await;

    let raised = restorable.events(deal).await.split_off(known.len());
    let changes = payloads(&raised, STAGE_CHANGED);
    let statuses: Vec<_> = changes.iter().map(|change| text(&change["ToStatus"])).collect();
    assert_eq!(statuses, ["Application", "Sale"]);
    let sale = payloads(&known, STAGE_CHANGED)[0];
    assert_eq!(changes[1]["AgentUserId"], sale["AgentUserId"], "the agent before the lost change");
}

/// RULE-EVT-048, RULE-CRM-073: a sale that begins again has the agent, the amount and the time of
/// its beginning, although its agent and its step have changed since. The present state follows.
#[tokio::test]
async fn sale_that_begins_again_has_the_values_of_its_beginning() {
    let restorable = RestorableCrm::start().await;
    let deal = restorable.sell().await;
    restorable.set_agent(deal).await;
    restorable.back_up().await;
    let since = in_days(0);
    restorable.override_status(deal, "Application").await;
    restorable.go_back(&[deal]).await;
    let known = restorable.events(deal).await;

    restorable.restore(&since, &[]).await;

    let raised = restorable.events(deal).await.split_off(known.len());
    let (known, changes) = (payloads(&known, STAGE_CHANGED), payloads(&raised, STAGE_CHANGED));
    expect_changes(&changes, &[("Application", "Sale"), ("Sale", "Sale")]);
    expect_sale(changes[0], known[0]);
    assert_ne!(known[0]["AgentUserId"], known[1]["AgentUserId"]);
    assert_eq!(changes[1]["AgentUserId"], known[1]["AgentUserId"], "the present agent");
    assert_eq!(changes[0]["PreviousRowVersion"], known[1]["RowVersion"], "the last one that was not lost");
}

/// RULE-EVT-048, RULE-CRM-073: changes after a failover may have the versions of lost ones, which
/// consumers have applied. A sale that may differ from the one that consumers know ends first.
#[tokio::test]
async fn sale_with_the_version_of_a_lost_change_ends_and_begins_again() {
    let restorable = RestorableCrm::start().await;
    let deal = restorable.sell().await;
    restorable.back_up().await;
    let since = in_days(0);
    restorable.override_status(deal, "Application").await;
    restorable.override_status(deal, "Sale").await;
    restorable.go_back(&[deal]).await;
    restorable.set_agent(deal).await;
    restorable.set_agent(deal).await;
    let known = restorable.events(deal).await;
    let stages = payloads(&known, STAGE_CHANGED);
    let versions: Vec<_> = stages.iter().map(|change| change["RowVersion"].as_i64().unwrap()).collect();
    assert_eq!(versions[1..3], versions[3..5], "two changes with each version");

    restorable.restore(&since, &[]).await;

    let raised = restorable.events(deal).await.split_off(known.len());
    let changes = payloads(&raised, STAGE_CHANGED);
    expect_changes(&changes, &[("Sale", "Application"), ("Application", "Sale"), ("Sale", "Sale")]);
    expect_sale(changes[1], stages[0]);
    assert_eq!(changes[2]["AgentUserId"], stages[4]["AgentUserId"], "the agent after the failover");
    assert_eq!(changes[0]["RowVersion"], versions[4] + 1);
}

fn expect_changes(changes: &[&Value], expected: &[(&str, &str)]) {
    let statuses = changes.iter().map(|change| (text(&change["FromStatus"]), text(&change["ToStatus"])));
    assert!(statuses.eq(expected.iter().copied()), "{changes:?}");
}

/// Asserts that a change begins the same sale as another one.
fn expect_sale(again: &Value, first: &Value) {
    for member in ["AgentUserId", "Amount", "ChangedAt", "ToStatus"] {
        assert_eq!(again[member], first[member], "{member}");
    }
}

/// RULE-EVT-048: a dry run prints what would be raised, ended and not ended. It writes nothing.
#[tokio::test]
async fn dry_run_prints_the_outcomes_and_writes_nothing() {
    let restorable = RestorableCrm::start().await;
    let kept = restorable.create().await;
    restorable.back_up().await;
    let since = in_days(0);
    let lost = restorable.create().await;
    restorable.go_back(&[kept, lost]).await;
    let unknown = guid();
    let event = json!({"DealId": unknown, "RowVersion": 2});
    restorable.crm.bus().publish(BOOKING_EXPIRED, unknown, next_number(), &event).await;
    let sql = restorable.crm.sql().await;
    let tables = ["deal", "stage", "booking", "timeline", "restored_run", "restored_topic", "restored_event"];
    let rows = async || {
        let mut rows = Vec::new();
        for table in tables {
            let query =
                format!("select coalesce(json_agg({table} order by {table}::text), '[]')::text from {table}");
            rows.push(sql.query_one(&query, &[]).await.unwrap().get::<_, String>(0));
        }
        rows
    };
    let before = rows().await;
    let known = [restorable.events(kept).await.len(), restorable.events(lost).await.len()];

    let output = restorable.run(&["restored", "--since", &since, "--dry-run"]).await;

    let report = String::from_utf8(output.stdout).unwrap();
    for line in [
        format!("Deal {kept}: raised from 1 above 1"),
        format!("Deal {lost}: ended"),
        format!("Deal {unknown}: NOT ended: its first event is missing"),
        "Deal: 1 raised, 1 ended, 1 not ended".to_owned(),
        "dry run: nothing was written or published".to_owned(),
    ] {
        assert!(report.lines().any(|printed| printed == line), "{line}: {report}");
    }
    assert!(!output.status.success(), "a key would not be ended");
    assert_eq!(rows().await, before);
    assert_eq!([restorable.events(kept).await.len(), restorable.events(lost).await.len()], known);
}

/// RULE-EVT-048: events before the time of `--since` are left out, and a dry run publishes nothing.
#[tokio::test]
async fn later_time_and_dry_run_publish_nothing() {
    let restorable = RestorableCrm::start().await;
    let since = in_days(0);
    let deal = restorable.create().await;
    let known = restorable.events(deal).await.len();

    let report = restorable.restore(&in_days(1), &[]).await;
    assert!(report.contains("Deal: 0 raised, 0 ended, 0 not ended"), "{report}");
    let report = restorable.restore(&since, &["--dry-run"]).await;
    assert!(report.contains(&format!("Deal {deal}: raised from 1 above 1")), "{report}");
    assert_eq!(restorable.events(deal).await.len(), known);
    assert!(!restorable.run(&["restored", "--dry-run"]).await.status.success(), "`--since` is required");
}
