//! What there is to show, what is left to do, and what of it all does not add up.

use anyhow::Context;
use console::style;

use super::{Count, agreement, chats, commissions};
use devkit::postgres::Connection;
use devstack::services::ServiceEntry;

/// By the tables of all services, which one connection sees.
pub struct Checks {
    /// So that one sees that there was something to add up.
    done: Vec<(&'static str, usize)>,
    /// What there must be none of.
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

    /// What does not add up, or does not yet.
    pub fn violations(&self) -> Vec<(&'static str, usize)> {
        self.wrong.iter().copied().filter(|(_, count)| *count > 0).collect()
    }

    /// Says what there is.
    pub fn show(&self) {
        for (name, count) in &self.done {
            devkit::say(&format!("{count:>10}  {name}"));
        }
    }

    /// Says what there must be none of; answers whether there is none.
    pub fn report(&self) -> bool {
        for (name, count) in &self.wrong {
            report_count(*count, name);
        }
        self.violations().is_empty()
    }
}

/// Says how many there are of what there must be none of; answers whether there is none.
pub(super) fn report_count(count: usize, name: &str) -> bool {
    let text = format!("{count:>10}  {name}");
    devkit::say(&if count == 0 { text } else { style(text).red().bold().to_string() });
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

/// What is left in the tables of all services when everything has arrived. No trouble is a reason for any.
#[derive(Default)]
pub(super) struct Leftovers {
    pub(super) pending: usize,
    parked: usize,
    dead: usize,
    /// Jobs, save periodic ones, that are due, under way or to be tried again. There is no LiveKit that could take orders.
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
                     where key <> '' and kind <> 'media-order' and (due_at <= clock_timestamp() or run is not null or attempts > 0))"
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
