//! Comparison of the service's data with the model.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::driver::Driver;
use super::model::Request;
use crate::{CABINET, COMMISSIONS, MY, PLATFORM, claims_of, id_of, list, text};

impl Driver<'_> {
    /// Compares the stored accruals and the summaries.
    ///
    /// First copies the ids and approval times, which only the service knows, to the model.
    pub async fn compare(&mut self) {
        let sql = self.service.cached_sql().await;
        let ids: Vec<_> = self.world.deals.iter().map(|deal| deal.id.to_string()).collect();
        let stored = sql
            .query(
                "select id::text, deal_id::text, sale_row_version, agent_user_id::text, kind, base_amount, rate_bps, amount, \
                    currency, status, payout_id::text, reverses_accrual_id::text, adjusts_accrual_id::text, \
                    (extract(epoch from approved_at) * 1000000)::bigint, (extract(epoch from earned_at) * 1000000)::bigint \
                from accrual where deal_id = any($1::text[]::uuid[]) order by created_at, id",
                &[&ids],
            )
            .await
            .unwrap();
        let id = |row: &tokio_postgres::Row, column: usize| -> Option<Uuid> {
            row.get::<_, Option<String>>(column).map(|id| id.parse().unwrap())
        };
        for row in &stored {
            let row_id = id(row, 0);
            let known = |of: Option<usize>| of.and_then(|at| self.world.accruals[at].id);
            let at = self.world.accruals.iter().position(|one| one.id == row_id).or_else(|| {
                self.world.accruals.iter().position(|one| {
                    one.id.is_none()
                        && Some(self.world.deals[one.deal].id) == id(row, 1)
                        && (one.sale, one.kind, one.amount)
                            == (row.get::<_, i64>(2), row.get::<_, &str>(4), row.get::<_, i64>(7))
                        && known(one.reverses) == id(row, 11)
                })
            });
            let at = at.unwrap_or_else(|| panic!("{row:?} is not in {:#?}", self.world.accruals));
            let accrual = &mut self.world.accruals[at];
            accrual.id = row_id;
            accrual.approved_at = row.get::<_, Option<i64>>(13).unwrap_or_default();
        }
        assert_eq!(stored.len(), self.world.accruals.len(), "{:#?}", self.world.accruals);
        for row in &stored {
            let accrual = self.world.accruals.iter().find(|one| one.id == id(row, 0)).unwrap();
            let payout = accrual.payout.and_then(|at| self.world.payouts[at].id);
            assert_eq!(
                (id(row, 3), row.get::<_, i64>(5), i64::from(row.get::<_, i32>(6)), row.get::<_, &str>(8)),
                (Some(accrual.agent), accrual.base, accrual.rate, accrual.currency),
                "{accrual:?}"
            );
            assert_eq!((row.get::<_, &str>(9), id(row, 10)), (accrual.status, payout), "{accrual:?}");
            let adjusts = accrual.adjusts.and_then(|at| self.world.accruals[at].id);
            assert_eq!(id(row, 12), adjusts, "{accrual:?}");
            if let Some(at) = &accrual.earned_at {
                let micros = i64::try_from(crate::moment(at).unix_timestamp_nanos() / 1_000).unwrap();
                assert_eq!(row.get::<_, i64>(14), micros, "{accrual:?}");
            }
        }
        for agent in &self.agents {
            let by = self.service.caller(&claims_of(*agent, &[CABINET]));
            let summary = by.get(&format!("{MY}/commission-summary")).await.expect(200);
            let is_own = |request: &&Request| self.world.accruals[request.accrual].agent == *agent;
            let open = self.world.requests.iter().filter(is_own).filter(|one| one.status == "Open").count();
            assert_eq!(summary["OpenAdjustmentRequestsCount"], open);
            let currencies: BTreeSet<_> = self
                .world
                .accruals
                .iter()
                .filter(|one| one.agent == *agent)
                .map(|one| one.currency)
                .collect();
            let balances = list(&summary["Balances"]);
            assert_eq!(
                balances.iter().map(|one| text(&one["Currency"])).collect::<BTreeSet<_>>(),
                currencies
            );
            for balance in balances {
                let shown = ["Pending", "Approved", "InPayout", "Paid"]
                    .map(|member| balance[member]["AmountMinor"].as_i64().unwrap());
                assert_eq!(shown, self.world.sums(*agent, text(&balance["Currency"])));
                assert_eq!(balance["Total"]["AmountMinor"], shown.iter().sum::<i64>());
                assert_eq!(balance["Outstanding"]["AmountMinor"], shown[..3].iter().sum::<i64>());
            }
        }
    }

    /// Compares the events of each accrual, and the listed requests.
    pub async fn compare_published(&self) {
        crate::await_published(self.service).await;
        for accrual in &self.world.accruals {
            let events = self.service.bus().events(&accrual.id.unwrap());
            let to: Vec<_> = events.iter().map(|event| &event.payload["To"]).collect();
            assert_eq!(to, accrual.published.iter().collect::<Vec<_>>(), "{accrual:?}");
        }
        let by = self.by(COMMISSIONS);
        for agent in &self.agents {
            let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={agent}&PageSize=100");
            let page = by.get(&path).await.expect(200);
            for shown in list(&page["Items"]) {
                let request = self.world.requests.iter().find(|one| one.id == id_of(&shown["Id"])).unwrap();
                assert_eq!(shown["Status"], request.status);
                assert_eq!(shown["GrantedAmount"]["AmountMinor"].as_i64(), request.granted);
            }
        }
    }
}
