//! The checks of the data: figures, leftovers and violations.

use anyhow::Context;
use console::style;

use super::{Count, agreement, chats, commissions};
use devkit::postgres::Connection;
use devstack::services::ServiceEntry;

/// The results of all checks, read on one connection that sees the tables of all services.
pub struct Checks {
    /// Figures that show how much was checked.
    done: Vec<(&'static str, usize)>,
    /// Counts that must be zero.
    wrong: Vec<(&'static str, usize)>,
}

impl Checks {
    pub async fn of(server: &Connection, services: &[ServiceEntry]) -> anyhow::Result<Self> {
        let left = Leftovers::of(server, services).await?;
        let rules = [
            chats::RULES,
            commissions::EVENTUAL_RULES,
            commissions::RULES,
            agreement::EVENTUAL_RULES,
            agreement::RULES,
        ]
        .concat();
        let mut wrong = vec![
            (Leftovers::PENDING, left.pending),
            ("parked", left.parked),
            ("dead letters", left.dead),
            (Leftovers::DUE, left.due),
        ];
        wrong.extend(count(server, &rules).await?);
        let done =
            count(server, &[chats::FIGURES, commissions::FIGURES, agreement::FIGURES].concat()).await?;
        Ok(Self { done, wrong })
    }

    /// Returns the counts that are not zero.
    pub fn violations(&self) -> Vec<(&'static str, usize)> {
        self.wrong.iter().copied().filter(|(_, count)| *count > 0).collect()
    }

    /// Prints the figures.
    pub fn show(&self) {
        for (name, count) in &self.done {
            devkit::print_line(&format!("{count:>10}  {name}"));
        }
    }

    /// Prints the counts that must be zero. Returns true if they are.
    pub fn report(&self) -> bool {
        for (name, count) in &self.wrong {
            report_count(*count, name);
        }
        self.violations().is_empty()
    }
}

/// Prints a count that must be zero. Returns true if it is.
pub(super) fn report_count(count: usize, name: &str) -> bool {
    let text = format!("{count:>10}  {name}");
    devkit::print_line(&if count == 0 { text } else { style(text).red().bold().to_string() });
    count == 0
}

pub(super) async fn count(
    server: &Connection,
    counts: &[Count],
) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let mut counted = Vec::new();
    for (name, query) in counts {
        let count: i64 = server.client.query_one(*query, &[]).await.context(*name)?.get(0);
        counted.push((*name, usize::try_from(count)?));
    }
    Ok(counted)
}

/// Rows that must not be left in the tables of a service once all events have arrived. No fault
/// justifies one.
#[derive(Default)]
pub(super) struct Leftovers {
    pub(super) pending: usize,
    parked: usize,
    dead: usize,
    /// Jobs, except periodic ones, that are due, running or to be retried. Commands for LiveKit do
    /// not count, since no LiveKit runs.
    pub(super) due: usize,
}

impl Leftovers {
    pub(super) const PENDING: &str = "left in an outbox";
    pub(super) const DUE: &str = "due jobs";

    pub(super) async fn of(server: &Connection, services: &[ServiceEntry]) -> anyhow::Result<Self> {
        let mut left = Self::default();
        for ServiceEntry { name, .. } in services {
            let counts = format!(
                "select (select count(*) from {name}.outbox), (select count(*) from {name}.outbox_parked), \
                 (select count(*) from {name}.dead_letter), (select count(*) from {name}.job \
                     where key <> '' and kind <> 'media-command' and (due_at <= clock_timestamp() or run is not null or attempts > 0))"
            );
            let row = server.client.query_one(&counts, &[]).await?;
            left.pending += usize::try_from(row.get::<_, i64>(0))?;
            left.parked += usize::try_from(row.get::<_, i64>(1))?;
            left.dead += usize::try_from(row.get::<_, i64>(2))?;
            left.due += usize::try_from(row.get::<_, i64>(3))?;
        }
        Ok(left)
    }
}
