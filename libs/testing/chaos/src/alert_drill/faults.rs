//! The fault of each alert: how to cause it and how to end it.

use std::time::Duration;

use serde_json::json;
use testkit::guid;
use tokio::time::sleep;
use uuid::Uuid;

use super::environment::Environment;
use devkit::postgres::Connection;

/// Time of a lock. It exceeds the half second of the latency goal, but not the two seconds that a
/// request waits for a connection.
const LOCK_TIME: Duration = Duration::from_millis(1_200);
/// Longer than a relay's lease.
const FREEZE_TIME: Duration = Duration::from_secs(5);

/// The faults, each with the name of its alert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    ErrorBudgetBurn,
    LatencyBudgetBurn,
    ServiceDown,
    ServeDown,
    WorkerDown,
    NotReady,
    MetricsStale,
    LoadShedding,
    OutboxDelayed,
    EventsParked,
    TopicsHeld,
    RelayLeaseLost,
    DatabaseHistoryChanged,
    SequenceWentBack,
    MessagesDelayed,
    ConsumerStopped,
    RevocationsStale,
    ConsumerDatabaseFailing,
    DeadLetters,
    JobKindFailing,
    JobFailing,
    JobsDelayed,
    LedgerMismatch,
    DealsHeld,
    ProfilesDelayed,
    CatalogIndexMissing,
}

impl Fault {
    pub(super) const ALL: [Self; 26] = [
        Self::ServiceDown,
        Self::ServeDown,
        Self::WorkerDown,
        // The fault of `NotReady` also causes `MetricsStale`.
        Self::MetricsStale,
        Self::NotReady,
        Self::OutboxDelayed,
        Self::EventsParked,
        Self::TopicsHeld,
        Self::DatabaseHistoryChanged,
        Self::SequenceWentBack,
        Self::MessagesDelayed,
        Self::ConsumerStopped,
        Self::RevocationsStale,
        Self::DeadLetters,
        Self::ConsumerDatabaseFailing,
        Self::JobKindFailing,
        Self::JobFailing,
        Self::JobsDelayed,
        Self::LedgerMismatch,
        Self::DealsHeld,
        Self::LoadShedding,
        Self::LatencyBudgetBurn,
        Self::ErrorBudgetBurn,
        Self::ProfilesDelayed,
        Self::CatalogIndexMissing,
        // This fault is the last one, since the broker counts a frozen consumer as active until its
        // session expires.
        Self::RelayLeaseLost,
    ];

    pub(super) fn alert(self) -> String {
        format!("{self:?}")
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Self::ErrorBudgetBurn => "the database is down while requests arrive",
            Self::LatencyBudgetBurn => "a table is locked repeatedly for 1.2 s",
            Self::ServiceDown => "all processes are stopped",
            Self::ServeDown => "the serving process is stopped",
            Self::WorkerDown => "the workers are stopped",
            Self::NotReady => "the database is down",
            Self::MetricsStale => "the table of dead letters is missing",
            Self::LoadShedding => "a table is locked during 120 concurrent requests",
            Self::OutboxDelayed => "the broker is down",
            Self::EventsParked => "an event is larger than the broker accepts",
            Self::TopicsHeld => "an event has a topic that does not exist",
            Self::RelayLeaseLost => "workers are frozen for 5 s each",
            Self::DatabaseHistoryChanged => "the relay's lease has another history",
            Self::SequenceWentBack => "a later event has a lower sequence",
            Self::MessagesDelayed => "the table of a consumer is locked",
            Self::ConsumerStopped => "the broker is down for the consumers",
            Self::RevocationsStale => "the table of revocations is missing",
            Self::ConsumerDatabaseFailing => "the table of a consumer is missing",
            Self::DeadLetters => "a message violates its contract",
            Self::JobKindFailing => "the tables of a job are missing",
            Self::JobFailing => "a job has a key that is no id",
            Self::JobsDelayed => "the row of a due job is locked",
            Self::LedgerMismatch => "an account is changed outside the service",
            Self::DealsHeld => "a deal is cancelled, and its stage change is missing",
            Self::ProfilesDelayed => "a profile arrives whose company is unknown",
            Self::CatalogIndexMissing => "the index was dropped, and a lock prevents its load",
        }
    }

    pub(super) async fn inject(self, environment: &mut Environment) -> anyhow::Result<()> {
        environment.subject = guid();
        let subject = environment.subject;
        match self {
            Self::ErrorBudgetBurn => {
                environment.start_requests()?;
                environment.set_database_running(false).await
            }
            Self::LatencyBudgetBurn | Self::LoadShedding => {
                environment.start_requests()?;
                let locker = environment.connect("agent").await?;
                environment.requests.spawn(lock_repeatedly(locker));
                Ok(())
            }
            Self::ServiceDown => environment.stop_processes(&["serve", "work"]).await,
            Self::ServeDown => environment.stop_processes(&["serve"]).await,
            Self::WorkerDown => environment.stop_processes(&["work"]).await,
            Self::NotReady => environment.set_database_running(false).await,
            Self::MetricsStale => {
                environment.execute("agent", "alter table dead_letter rename to dead_letter_away").await
            }
            Self::OutboxDelayed => {
                environment.set_broker_running(false)?;
                environment.execute("agent", &event(subject, 1)).await
            }
            Self::EventsParked => environment.execute("agent", &event(subject, 2_000_000)).await,
            Self::TopicsHeld => {
                let missing = event(subject, 1).replace(ACCRUAL_CHANGED, MISSING_TOPIC);
                environment.execute("agent", &missing).await
            }
            Self::RelayLeaseLost => environment.freeze_workers(FREEZE_TIME).await,
            Self::DatabaseHistoryChanged => {
                environment.execute("agent", "update outbox_lease set history = 'another'").await
            }
            Self::SequenceWentBack => {
                publish_lower_sequence(environment, subject).await;
                Ok(())
            }
            Self::MessagesDelayed => {
                hold_lock(environment, "agent", "lock table developer in access exclusive mode").await?;
                publish_developer(environment, subject).await;
                Ok(())
            }
            Self::ConsumerStopped => environment.set_broker_running(false),
            Self::RevocationsStale => {
                environment.execute("agent", "alter table access_revocation rename to revocation_away").await
            }
            Self::ConsumerDatabaseFailing => {
                environment.execute("agent", "alter table developer rename to developer_away").await?;
                // A worker pauses after failures of five keys. One of the two workers receives at
                // least six of these twelve.
                for _ in 0..12 {
                    publish_developer(environment, guid()).await;
                }
                Ok(())
            }
            Self::DeadLetters => {
                let invalid = json!({"Id": 1});
                environment.publish("platform.chessboard.developer-upserted.v1", subject, &invalid).await;
                Ok(())
            }
            Self::JobKindFailing => {
                let rename = "alter table rate rename to rate_away; alter table deal rename to deal_away";
                environment.execute("agent", rename).await
            }
            Self::JobFailing => {
                // The alert fires above ten attempts.
                environment.execute("agent", &job(&format!("no run {subject}"), "now()", 11)).await
            }
            Self::JobsDelayed => {
                // Due in 3 s, so that the lock is held before the job starts.
                environment
                    .execute("agent", &job(&subject.to_string(), "now() + interval '3 seconds'", 0))
                    .await?;
                let lock = format!("select from job where key = '{subject}' for update");
                hold_lock(environment, "agent", &lock).await
            }
            Self::LedgerMismatch => {
                let change = format!(
                    "insert into account (agent_user_id, currency, pending) values ('{subject}', 'RUB', 1)"
                );
                environment.execute("agent", &change).await
            }
            Self::DealsHeld => {
                cancel_deal(environment, subject).await;
                Ok(())
            }
            Self::ProfilesDelayed => {
                publish_profile(environment, subject).await;
                Ok(())
            }
            Self::CatalogIndexMissing => {
                // The next search finds another id and drops the index. A load would write a row,
                // which the lock prevents, while searches can still read the table.
                environment.execute("chessboard", "delete from catalog_index_life").await?;
                hold_lock(environment, "chessboard", "lock table catalog_index_life in share mode").await?;
                environment.search_projects().await
            }
        }
    }

    pub(super) async fn end(self, environment: &mut Environment) -> anyhow::Result<()> {
        environment.requests.shutdown().await;
        drop(environment.lock_connection.take());
        let subject = environment.subject;
        match self {
            Self::ErrorBudgetBurn | Self::NotReady => environment.set_database_running(true).await,
            Self::LatencyBudgetBurn
            | Self::LoadShedding
            | Self::RelayLeaseLost
            | Self::DatabaseHistoryChanged
            | Self::SequenceWentBack
            | Self::MessagesDelayed
            | Self::CatalogIndexMissing => Ok(()),
            Self::ServiceDown | Self::ServeDown | Self::WorkerDown => environment.start_processes().await,
            Self::MetricsStale => {
                environment.execute("agent", "alter table dead_letter_away rename to dead_letter").await
            }
            Self::OutboxDelayed | Self::ConsumerStopped => environment.set_broker_running(true),
            Self::RevocationsStale => {
                environment.execute("agent", "alter table revocation_away rename to access_revocation").await
            }
            Self::EventsParked => {
                let id = id(environment, "outbox_parked").await?;
                environment.command("agent", &["parked", "discard", &id]).await
            }
            Self::TopicsHeld => {
                environment
                    .execute("agent", &format!("delete from outbox where topic = '{MISSING_TOPIC}'"))
                    .await
            }
            Self::JobFailing | Self::JobsDelayed => {
                environment.execute("agent", &format!("delete from job where key like '%{subject}'")).await
            }
            Self::ConsumerDatabaseFailing => {
                environment.execute("agent", "alter table developer_away rename to developer").await?;
                // Replays the dead letters that were written before dead-lettering was suspended.
                environment.command("agent", &["dead-letters", "replay"]).await
            }
            Self::DeadLetters => {
                let id = id(environment, "dead_letter").await?;
                environment.command("agent", &["dead-letters", "discard", &id]).await
            }
            Self::JobKindFailing => {
                environment
                    .execute(
                        "agent",
                        "alter table rate_away rename to rate; alter table deal_away rename to deal",
                    )
                    .await
            }
            Self::LedgerMismatch => {
                environment
                    .execute("agent", &format!("delete from account where agent_user_id = '{subject}'"))
                    .await
            }
            Self::DealsHeld => {
                let mut moved = deal(subject);
                moved["ChangedAt"] = json!(AT);
                moved["RowVersion"] = json!(2);
                moved["FromStatus"] = json!("Application");
                moved["ToStatus"] = json!("Cancelled");
                environment.publish("platform.crm.deal-stage-changed.v1", subject, &moved).await;
                Ok(())
            }
            // Publishes the missing company.
            Self::ProfilesDelayed => {
                let sql = environment.connect("chessboard").await?;
                let select =
                    "select company_id::text from external_profile where external_id = $1::text::uuid";
                let row = sql.client.query_one(select, &[&subject.to_string()]).await?;
                let company: Uuid = row.get::<_, &str>(0).parse()?;
                let event = json!({
                    "CompanyId": company, "Type": "Developer", "Status": "Active", "Name": "Outside",
                    "LegalName": "Outside", "Version": 1,
                });
                environment.publish("platform.identity.company-upserted.v1", company, &event).await;
                Ok(())
            }
        }
    }
}

/// Locks the table `accrual` repeatedly. Between two locks, the waiting requests are answered.
async fn lock_repeatedly(locker: Connection) {
    let lock = "begin; lock table accrual in access exclusive mode";
    while locker.client.batch_execute(lock).await.is_ok() {
        sleep(LOCK_TIME).await;
        if locker.client.batch_execute("rollback").await.is_err() {
            return;
        }
        sleep(LOCK_TIME / 4).await;
    }
}

/// Executes a statement in the schema of a service that takes locks, and holds them until the fault
/// ends.
async fn hold_lock(environment: &mut Environment, service: &str, statement: &str) -> anyhow::Result<()> {
    let locker = environment.connect(service).await?;
    locker.client.batch_execute(&format!("begin; {statement}")).await?;
    environment.lock_connection = Some(locker);
    Ok(())
}

const AT: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-05-01T10:00:01Z";

/// Publishes an event of a developer.
async fn publish_developer(environment: &mut Environment, id: Uuid) {
    let event = json!({"Id": id, "Name": "Developer", "Version": 1});
    environment.publish("platform.chessboard.developer-upserted.v1", id, &event).await;
}

/// Publishes the profile of a company that chessboard does not know.
async fn publish_profile(environment: &Environment, id: Uuid) {
    let profile = json!({
        "ExternalChessboardDeveloperId": id, "CompanyId": guid(), "Version": 1, "Name": "Outside",
        "LegalName": null, "LogoFileId": null, "FoundedYear": null,
    });
    environment.publish_external("external.chessboard.developer-upserted.v1", id, &profile).await;
}

/// Publishes two events of a developer, of which the later one has the lower sequence.
async fn publish_lower_sequence(environment: &Environment, id: Uuid) {
    let event = json!({"Id": id, "Name": "Developer", "Version": 1});
    for (sequence, time) in [(2, AT), (1, LATER)] {
        environment.publish_at("platform.chessboard.developer-upserted.v1", id, sequence, time, &event).await;
    }
}

/// Publishes a deal and its cancellation without its stage change.
async fn cancel_deal(environment: &mut Environment, id: Uuid) {
    let deal = deal(id);
    let mut created = deal.clone();
    created["CreatedAt"] = json!(AT);
    created["RowVersion"] = json!(1);
    environment.publish("platform.crm.deal-created.v1", id, &created).await;
    let mut cancelled = deal;
    cancelled["CancelledAt"] = json!(AT);
    cancelled["RowVersion"] = json!(2);
    environment.publish("platform.crm.deal-cancelled.v1", id, &cancelled).await;
}

/// Returns the members that agent reads from every topic of a deal.
fn deal(id: Uuid) -> serde_json::Value {
    json!({
        "DealId": id, "TenantId": id, "PropertyObjectId": id, "ClientUserId": id, "AgentUserId": id,
        "Amount": {"AmountMinor": 1, "Currency": "RUB"},
    })
}

const ACCRUAL_CHANGED: &str = "platform.agent.accrual-changed.v1";
const MISSING_TOPIC: &str = "platform.agent.missing.v1";

/// Returns SQL that schedules a payout run.
fn job(key: &str, due_at: &str, attempts: u32) -> String {
    format!(
        "insert into job (kind, key, due_at, attempts) values ('payout-run', '{key}', {due_at}, {attempts})"
    )
}

/// Returns SQL that appends an event to agent's outbox, as its transactions do.
fn event(key: Uuid, bytes: u32) -> String {
    format!(
        "insert into outbox (event_id, topic, key, type, payload, headers) values \
         ('{key}', '{ACCRUAL_CHANGED}', '{key}', 'accrual-changed', convert_to(repeat('x', {bytes}), 'UTF8'), '{{}}')"
    )
}

/// Returns the id of the first row of a table.
async fn id(environment: &Environment, table: &str) -> anyhow::Result<String> {
    let sql = environment.connect("agent").await?;
    Ok(sql.client.query_one(&format!("select id::text from {table} order by id limit 1"), &[]).await?.get(0))
}
