//! INV-AGT-1 to INV-AGT-8, checked by a second connection between commits.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use testkit::service::Running;
use tokio_postgres::{Client, Statement};

/// Queries that return the ids of violations. Each has one snapshot.
const RULES: [(&str, &str); 9] = [
    (
        "INV-AGT-1",
        "select coalesce(account.agent_user_id, summed.agent_user_id)::text from account full join ( \
            select agent_user_id, currency, count(*) as entries, \
                coalesce(sum(amount) filter (where status = 'Pending'), 0) as pending, \
                coalesce(sum(amount) filter (where status = 'Approved' and payout_id is null), 0) as approved, \
                coalesce(sum(amount) filter (where status = 'Approved' and payout_id is not null), 0) as in_payout, \
                coalesce(sum(amount) filter (where status = 'Paid'), 0) as paid \
            from accrual group by agent_user_id, currency \
        ) as summed using (agent_user_id, currency) \
        where (coalesce(account.entries, 0), coalesce(account.pending, 0), coalesce(account.approved, 0), \
                coalesce(account.in_payout, 0), coalesce(account.paid, 0)) \
            is distinct from (coalesce(summed.entries, 0), coalesce(summed.pending, 0), coalesce(summed.approved, 0), \
                coalesce(summed.in_payout, 0), coalesce(summed.paid, 0))",
    ),
    (
        "INV-AGT-3, Bases",
        "select deal_id::text from accrual where kind = 'Base' group by deal_id, sale_row_version having count(*) > 1",
    ),
    (
        "INV-AGT-3, Reversals",
        "select reverses_accrual_id::text from accrual where kind = 'Reversal' group by reverses_accrual_id \
        having count(*) > 1",
    ),
    (
        "INV-AGT-3, requests",
        "select accrual_id::text from adjustment_request where status = 'Open' group by accrual_id having count(*) > 1",
    ),
    // -9e18 stands for no limit: the accruals of an active sale may have a negative sum.
    (
        "INV-AGT-4",
        "select deal.id::text from accrual join deal on deal.id = deal_id \
        group by deal.id, accrual.sale_row_version, accrual.currency \
        having coalesce(sum(accrual.amount) filter (where accrual.status not in ('Rejected', 'Reversed')), 0) \
            not between case when deal.sale_row_version is distinct from accrual.sale_row_version then 0 else -9e18 end \
            and case when deal.sale_row_version is distinct from accrual.sale_row_version then 0 \
                else greatest(max(accrual.base_amount), deal.completed_amount) end",
    ),
    (
        "INV-AGT-5",
        "select accrual_id::text from payout_line join payout on payout.id = payout_id \
        where status in ('Scheduled', 'InTransit', 'Paid') group by accrual_id having count(*) > 1",
    ),
    (
        "INV-AGT-5, accruals and payouts agree",
        "select coalesce(accrual.id, live.accrual_id)::text from ( \
            select accrual_id, payout_id, status from payout_line join payout on payout.id = payout_id \
            where status in ('Scheduled', 'InTransit', 'Paid') \
        ) as live full join (select * from accrual where payout_id is not null) as accrual on accrual.id = accrual_id \
        where accrual.payout_id is distinct from live.payout_id \
            or (accrual.status = 'Paid') is distinct from (live.status = 'Paid')",
    ),
    (
        "INV-AGT-6",
        "select payout.id::text from payout left join payout_line on payout_id = payout.id \
        left join accrual on accrual.id = accrual_id group by payout.id \
        having payout.gross is distinct from sum(accrual.amount) or payout.gross <= 0 \
            or payout.gross <> payout.withheld + payout.net or payout.accruals_count <> count(accrual.id) \
            or bool_or(accrual.agent_user_id <> payout.agent_user_id or accrual.currency <> payout.currency)",
    ),
    (
        "the accrual of an open request is neither rejected nor reversed",
        "select adjustment_request.id::text from adjustment_request join accrual on accrual.id = accrual_id \
        where adjustment_request.status = 'Open' and accrual.status in ('Rejected', 'Reversed')",
    ),
];

/// The immutable data of each accrual, and the whole row of a Paid one.
const ACCRUALS: &str = "\
    select id::text, concat_ws('|', agent_user_id, deal_id, sale_row_version, kind, base_amount, rate_bps, amount, currency, \
        reverses_accrual_id, adjusts_accrual_id, earned_at, created_at), \
        case when status = 'Paid' then accrual::text end from accrual";

/// Held deals with the state of the hold (start and versions) and the number of their payout lines.
const HELD: &str = "\
    select deal.id::text, held_since::text || '|' || applied_row_version || '|' || known_row_version, count(payout_line.payout_id) \
    from deal left join accrual on accrual.deal_id = deal.id left join payout_line on accrual_id = accrual.id \
    where held_since is not null group by deal.id";

/// Checks the invariants repeatedly, also against the state of the previous check.
pub struct InvariantChecker {
    sql: Client,
    /// The prepared queries of [`RULES`], [`ACCRUALS`] and [`HELD`].
    queries: Vec<Statement>,
    accruals: HashMap<String, (String, Option<String>)>,
    held: HashMap<String, (String, i64)>,
    pub checks: usize,
}

impl InvariantChecker {
    pub async fn for_service(service: &Running) -> Self {
        Self::with_client(service.sql().await).await
    }

    pub async fn with_client(sql: Client) -> Self {
        let queries = RULES.iter().map(|(_, query)| *query).chain([ACCRUALS, HELD]);
        let queries = try_join_all(queries.map(|query| sql.prepare(query))).await.unwrap();
        Self { sql, queries, accruals: HashMap::new(), held: HashMap::new(), checks: 0 }
    }

    /// Checks every invariant now, and the changes since the previous check.
    pub async fn check(&mut self) {
        self.checks += 1;
        // The queries need no common snapshot, so they are sent together.
        let found = try_join_all(self.queries.iter().map(|query| self.sql.query(query, &[]))).await.unwrap();
        let [broken @ .., accruals, held] = &found[..] else { panic!("a result of each query") };
        for ((rule, _), broken) in RULES.iter().zip(broken) {
            let broken: Vec<String> = broken.iter().map(|row| row.get(0)).collect();
            assert!(broken.is_empty(), "{rule} is violated by {broken:?}");
        }
        let mut now = HashMap::new();
        for row in accruals {
            now.insert(row.get::<_, String>(0), (row.get::<_, String>(1), row.get::<_, Option<String>>(2)));
        }
        for (id, (immutable, paid)) in &self.accruals {
            let (immutable_now, paid_now) =
                now.get(id).unwrap_or_else(|| panic!("INV-AGT-2: {id} was deleted"));
            assert_eq!(immutable_now, immutable, "INV-AGT-2: {id}");
            assert!(paid.is_none() || paid_now == paid, "INV-AGT-7: {paid:?} has become {paid_now:?}");
        }
        self.accruals = now;
        let held = held.iter().map(|row| (row.get(0), (row.get(1), row.get(2))));
        let held: HashMap<String, (String, i64)> = held.collect();
        for (id, (state, lines)) in &held {
            if let Some((state_before, lines_before)) = self.held.get(id) {
                assert!(
                    state != state_before || lines == lines_before,
                    "INV-AGT-8: {id} has entered a payout"
                );
            }
        }
        self.held = held;
    }
}
