//! `cargo dev seed`: fills a service with many rows, to see its behaviour at scale.

pub(crate) mod accruals;
pub(crate) mod catalog;
pub(crate) mod chats;
pub(crate) mod deals;
mod rows;

use std::fmt::Display;
use std::io::Cursor;

use anyhow::{Context, ensure};
use clap::Args;
use futures_util::SinkExt;
use tokio_postgres::Client;

use self::catalog::Size;
use devkit::postgres;
use devkit::progress::Step;
use devkit::stack::Stack;

/// Rows of a batch.
const BATCH: u64 = 10_000;

/// Fill a service of the running stack with rows: identity by default, or chessboard, CRM,
/// messenger or agent
///
/// Rows are copied into the database without events. Existing rows count and stay. Half of the
/// company names contain `group`, one in ten thousand contains `zephyr`. While identity is filled,
/// it returns 503. An interrupted command changes nothing.
#[derive(Args)]
pub(crate) struct BulkData {
    /// Minimum number of companies
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tenants: u64,
    /// Minimum number of employees of the first company
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    employees: u64,
    /// Minimum number of audit entries; half of them are about the first company
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    entries: u64,
    /// Fill chessboard's catalog with at least this number of projects, of twenty buildings each
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    projects: Option<u64>,
    /// Minimum number of objects in all projects
    #[arg(long, default_value_t = 2_000_000, requires = "projects", value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    objects: u64,
    /// Fill CRM with at least this number of deals, the first hundred thousand of one developer
    #[arg(long, conflicts_with = "projects", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    deals: Option<u64>,
    /// Fill messenger with at least this number of chats, those of the deals of --deals
    #[arg(long, conflicts_with_all = ["projects", "deals"], value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    chats: Option<u64>,
    /// Minimum number of messages in each chat
    #[arg(long, default_value_t = 100, requires = "chats", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    messages: u64,
    /// Minimum number of messages in the first chat
    #[arg(long, default_value_t = 100_000, requires = "chats", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    longest: u64,
    /// Fill agent with at least this number of accruals and their deals; a tenth of the first
    /// million belongs to one agent
    #[arg(long, conflicts_with_all = ["projects", "deals", "chats"], value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    accruals: Option<u64>,
}

impl BulkData {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let stack = Stack::running()?;
        let service = match (self.projects, self.deals, self.chats, self.accruals) {
            (Some(_), ..) => "chessboard",
            (_, Some(_), ..) => "crm",
            (_, _, Some(_), _) => "messenger",
            (.., Some(_)) => "agent",
            _ => "identity",
        };
        let url = format!("{}?options=-csearch_path%3D{service}", stack.database_url);
        let server = postgres::connect(&url).await?;
        let step = Step::start("seed");
        if let Some(projects) = self.projects {
            let size = Size { projects, buildings: catalog::BUILDINGS, objects: self.objects };
            catalog::fill(&server.client, size, &step).await?;
            step.done(format!("{projects} projects, {} objects", self.objects));
            return Ok(());
        }
        if let Some(deals) = self.deals {
            deals::fill(&server.client, deals, &step).await?;
            let (developers, first) = (deals::developers(deals), deals::developer_id(1));
            step.done(format!("{deals} deals of {developers} developers, the first of them {first}"));
            return Ok(());
        }
        if let Some(chats) = self.chats {
            let counts = chats::Counts { chats, messages: self.messages, longest: self.longest };
            chats::fill(&server.client, &counts, &step).await?;
            let (first, manager) = (chats::chat_id(1), chats::manager_id(1));
            step.done(format!("{chats} chats, the longest of them {first}, whose manager is {manager}"));
            return Ok(());
        }
        if let Some(accruals) = self.accruals {
            accruals::fill(&server.client, accruals, &step).await?;
            let (first, deals) = (accruals::agent_id(1), accruals::deals_of_first_agent(accruals));
            step.done(format!("{accruals} accruals; {deals} deals are those of {first}"));
            return Ok(());
        }
        let counts = Counts { tenants: self.tenants, employees: self.employees, entries: self.entries };
        fill(&server.client, &counts, &step).await?;
        let Counts { tenants, employees, entries } = counts;
        step.done(format!(
            "{tenants} companies, {employees} employees of {}, {entries} entries",
            rows::tenant_id(1)
        ));
        Ok(())
    }
}

/// Target numbers of rows.
pub(crate) struct Counts {
    pub(crate) tenants: u64,
    pub(crate) employees: u64,
    pub(crate) entries: u64,
}

/// A table to fill.
struct Table {
    /// Name of the table with the filled columns.
    into: &'static str,
    name: &'static str,
    /// The first four bytes of the ids of its created rows.
    ids: u32,
    /// Returns a row by its number in the text format of `copy`. The second argument is the number
    /// of tenants.
    row: fn(u64, u64) -> String,
}

/// The tables in the order of their references.
const TABLES: [Table; 4] = [rows::TENANTS, rows::EMPLOYEES, rows::ROLES, rows::ENTRIES];

/// Adds the missing rows in one transaction. `client` sees the tables of identity.
pub(crate) async fn fill(client: &Client, counts: &Counts, step: &Step) -> anyhow::Result<()> {
    let begin = "begin; set local maintenance_work_mem = '512MB'; set local statement_timeout = 0;";
    client.batch_execute(begin).await?;
    let filled = fill_within(client, counts, step).await;
    client.batch_execute(if filled.is_ok() { "commit" } else { "rollback" }).await?;
    filled?;
    step.note("vacuuming");
    for table in &TABLES {
        client.batch_execute(&format!("vacuum analyze {}", table.name)).await?;
    }
    client.batch_execute("checkpoint").await?;
    Ok(())
}

async fn fill_within(client: &Client, counts: &Counts, step: &Step) -> anyhow::Result<()> {
    let indexes = drop_indexes(client, &TABLES.map(|table| table.name)).await?;
    for table in &TABLES {
        let count = match table.name {
            "tenant" => counts.tenants,
            "audit_entry" => counts.entries,
            _ => counts.employees,
        };
        copy(client, table, count, counts.tenants, step).await.context(table.name)?;
    }
    let count = "update tenant set employees_count = (select count(*) from employee where company_id = tenant.id) \
        where id = $1::text::uuid";
    client.execute(count, &[&rows::tenant_id(1).to_string()]).await?;
    for (number, definition) in indexes.iter().enumerate() {
        step.note(format!("index {} of {}", number + 1, indexes.len()));
        client.batch_execute(definition).await?;
    }
    Ok(())
}

/// Drops the indexes that belong to no constraint, since creating them afterwards is faster.
/// Returns their definitions.
async fn drop_indexes(client: &Client, tables: &[&str]) -> anyhow::Result<Vec<String>> {
    let select = "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index \
        where indrelid = any (select unnest($1::text[])::regclass) \
        and not exists (select from pg_constraint where conindid = indexrelid)";
    let mut definitions = Vec::new();
    for row in client.query(select, &[&tables]).await? {
        client.batch_execute(&format!("drop index {}", row.get::<_, String>(0))).await?;
        definitions.push(row.get(1));
    }
    ensure!(!definitions.is_empty(), "the tables have no indexes");
    Ok(definitions)
}

async fn copy(client: &Client, table: &Table, count: u64, tenants: u64, step: &Step) -> anyhow::Result<()> {
    let (first, last) = (rows::id(table.ids, 0).to_string(), rows::id(table.ids, (1 << 48) - 1).to_string());
    let key = if table.name == "employee_role" { "user_id" } else { "id" };
    let existing =
        format!("select count(*) from {} where {key} between $1::text::uuid and $2::text::uuid", table.name);
    let existing: i64 = client.query_one(&existing, &[&first, &last]).await?.get(0);
    let sink = client.copy_in(&format!("copy {} from stdin", table.into)).await?;
    let mut sink = std::pin::pin!(sink);
    let mut next = u64::try_from(existing)? + 1;
    while next <= count {
        step.note(format!("{}: {}", table.name, share(next, count)));
        let end = (next + BATCH).min(count + 1);
        let batch: String = (next..end).map(|number| (table.row)(number, tenants)).collect();
        sink.send(Cursor::new(batch.into_bytes())).await?;
        next = end;
    }
    sink.finish().await?;
    Ok(())
}

fn share(part: u64, whole: u64) -> impl Display {
    format!("{} % of {whole}", part * 100 / whole)
}

#[cfg(test)]
mod tests {
    use super::{Counts, Size, accruals, catalog, chats, deals, fill};
    use devkit::Settings;
    use devkit::postgres;
    use devkit::progress::Step;
    use devstack::services;

    async fn server_of(service: &str) -> postgres::Connection {
        let url = testkit::database::create().await.unwrap();
        let settings = Settings::from([
            ("DATABASE_URL", url.clone()),
            ("KAFKA_BROKERS", "127.0.0.1:1".to_owned()),
            ("KAFKA_TOPICS", "elsewhere".to_owned()),
            ("AUTH_ISSUER", "https://issuer".to_owned()),
            ("SELECTIONS_URL", "http://selections".to_owned()),
            ("CLIENT_SECRET", "secret".to_owned()),
        ]);
        (services::find(service).unwrap().migrate)(settings).await.unwrap();
        postgres::connect(&format!("{url}?options=-csearch_path%3D{service}")).await.unwrap()
    }

    /// Returns the index definitions of the service's tables.
    async fn indexes(server: &postgres::Connection, service: &str) -> Vec<String> {
        let select = "select array_agg(indexdef order by indexdef) from pg_indexes where schemaname = $1";
        server.client.query_one(select, &[&service]).await.unwrap().get(0)
    }

    #[tokio::test]
    async fn catalog_grows_to_the_requested_size() {
        let server = server_of("chessboard").await;
        let before = indexes(&server, "chessboard").await;
        for (projects, objects) in [(3, 120), (12, 960)] {
            let size = Size { projects, buildings: catalog::BUILDINGS, objects };
            catalog::fill(&server.client, size, &Step::start("seed")).await.unwrap();
            let select = "select (select count(*) from project), (select count(*) from building), \
                (select count(*) from property_object), (select count(*) from price_history), \
                (select sum(free_flat + free_apartment + free_parking + free_storage + free_commercial) from building_figures), \
                (select count(*) from property_object where status = 'Available')";
            let row = server.client.query_one(select, &[]).await.unwrap();
            let existing: Vec<i64> = (0..6).map(|column| row.get(column)).collect();
            let [projects, objects] = [projects, objects].map(|count| i64::try_from(count).unwrap());
            assert_eq!(existing[..4], [projects, projects * 20, objects, objects]);
            assert_eq!(existing[4], existing[5]);
        }
        assert_eq!(indexes(&server, "chessboard").await, before);
    }

    #[tokio::test]
    async fn deals_grow_to_the_requested_number() {
        let server = server_of("crm").await;
        let before = indexes(&server, "crm").await;
        for (count, developers) in [(300, 1), (100_200, 2)] {
            deals::fill(&server.client, count, &Step::start("seed")).await.unwrap();
            let select = "select (select count(*) from deal), (select count(*) from stage), (select count(*) from timeline), \
                (select count(*) from property_object), (select count(*) from developer), \
                (select max(count) from (select count(*) from deal group by step_id) as columns), \
                (select count(*) from booking) - (select count(*) from deal where status = 'Booking')";
            let row = server.client.query_one(select, &[]).await.unwrap();
            let existing: Vec<i64> = (0..7).map(|column| row.get(column)).collect();
            let count = i64::try_from(count).unwrap();
            assert_eq!(existing, [count, count, count, count, developers, count.min(100_000) / 2, 0]);
        }
        let first = server
            .client
            .query_one("select id::text from developer where name = 'Developer 1'", &[])
            .await
            .unwrap();
        assert_eq!(first.get::<_, String>(0), deals::developer_id(1).to_string());
        assert_eq!(indexes(&server, "crm").await, before);
    }

    #[tokio::test]
    async fn chats_grow_to_the_requested_number() {
        let server = server_of("messenger").await;
        let before = indexes(&server, "messenger").await;
        for (count, messages, longest) in [(3, 10, 100), (2_100, 20, 150)] {
            let counts = chats::Counts { chats: count, messages, longest };
            chats::fill(&server.client, &counts, &Step::start("seed")).await.unwrap();
            let select = "select (select count(*) from chat), (select count(*) from member), (select count(*) from message), \
                (select count(*) from chat where last_sequence <> (select max(sequence) from message where chat_id = chat.id)), \
                (select count(*) from member where user_id = $1::text::uuid)";
            let row = server.client.query_one(select, &[&chats::manager_id(1).to_string()]).await.unwrap();
            let existing: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
            let [count, all] =
                [count, longest + (count - 1) * messages].map(|count| i64::try_from(count).unwrap());
            assert_eq!(existing, [count, count * 3, all, 0, count.min(1_999)]);
        }
        assert_eq!(indexes(&server, "messenger").await, before);
    }

    #[tokio::test]
    async fn accruals_grow_to_the_requested_number() {
        let server = server_of("agent").await;
        let before = indexes(&server, "agent").await;
        for (count, agents) in [(300, 4), (2_050, 22)] {
            accruals::fill(&server.client, count, &Step::start("seed")).await.unwrap();
            // Compares accounts with accruals as the service's audit does.
            let select = "select (select count(*) from deal), (select count(*) from accrual), \
                (select count(distinct agent_user_id) from account), \
                (select count(*) from deal where agent_user_id = $1::text::uuid), \
                (select count(*) from account full join ( \
                    select agent_user_id, currency, count(*) as entries, \
                        coalesce(sum(amount) filter (where status = 'Pending'), 0) as pending, \
                        coalesce(sum(amount) filter (where status = 'Approved'), 0) as approved \
                    from accrual group by agent_user_id, currency) as earned using (agent_user_id, currency) \
                 where (account.entries, account.pending, account.approved, account.in_payout, account.paid) \
                    is distinct from (earned.entries, earned.pending, earned.approved, 0, 0))";
            let row = server.client.query_one(select, &[&accruals::agent_id(1).to_string()]).await.unwrap();
            let existing: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
            let [first, count] =
                [accruals::deals_of_first_agent(count), count].map(|count| i64::try_from(count).unwrap());
            assert_eq!(existing, [count, count, agents, first, 0]);
        }
        assert_eq!(indexes(&server, "agent").await, before);
    }

    #[tokio::test]
    async fn fill_adds_missing_rows_and_restores_indexes() {
        let server = server_of("identity").await;
        let before = indexes(&server, "identity").await;
        for tenants in [30, 70] {
            let counts = Counts { tenants, employees: 20, entries: 40 };
            fill(&server.client, &counts, &Step::start("seed")).await.unwrap();
            let select = "select (select count(*) from tenant), (select count(*) from employee), \
                (select count(*) from employee_role), (select count(*) from audit_entry), \
                (select max(employees_count) from tenant)::bigint";
            let row = server.client.query_one(select, &[]).await.unwrap();
            let existing: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
            assert_eq!(existing, [i64::try_from(tenants).unwrap(), 20, 20, 40, 20]);
        }
        assert_eq!(indexes(&server, "identity").await, before);
    }
}
