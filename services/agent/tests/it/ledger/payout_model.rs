//! Payout runs and payouts as a model in memory.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::model::{Payout, Refusal, World, share};

const INVALID_TRANSITION: Refusal = (409, "AGENT_PAYOUT_INVALID_TRANSITION");

impl World {
    /// Creates the payouts of the accruals that were approved before `until`, in microseconds.
    pub fn run(&mut self, agents: &[Uuid], until: i64, withholding: i64, max_lines: usize) {
        let mut payable: BTreeMap<(Uuid, &'static str), Vec<usize>> = BTreeMap::new();
        for (at, accrual) in self.accruals.iter().enumerate() {
            let deal = &self.deals[accrual.deal];
            if agents.contains(&accrual.agent)
                && (accrual.status, accrual.payout) == ("Approved", None)
                && accrual.approved_at < until
                && deal.known <= deal.applied
            {
                payable.entry((accrual.agent, accrual.currency)).or_default().push(at);
            }
        }
        for ((agent, currency), mut lines) in payable {
            lines.sort_by_key(|at| {
                let accrual = &self.accruals[*at];
                (accrual.amount >= 0, accrual.approved_at, accrual.id)
            });
            lines.truncate(max_lines);
            let gross: i64 = lines.iter().map(|at| self.accruals[*at].amount).sum();
            if gross <= 0 {
                continue;
            }
            for at in &lines {
                self.accruals[*at].payout = Some(self.payouts.len());
            }
            let withheld = share(gross, withholding);
            self.payouts.push(Payout {
                id: None,
                agent,
                currency,
                gross,
                withheld,
                status: "Scheduled",
                lines,
            });
        }
    }

    pub fn transition(&mut self, at: usize, to: &'static str) -> Result<(), Refusal> {
        let from = self.payouts[at].status;
        if from == to {
            return Ok(());
        }
        let is_legal = match to {
            "Paid" | "Failed" => matches!(from, "Scheduled" | "InTransit"),
            _ => from == "Scheduled",
        };
        if !is_legal {
            return Err(INVALID_TRANSITION);
        }
        self.payouts[at].status = to;
        for accrual in 0..self.accruals.len() {
            if self.accruals[accrual].payout != Some(at) {
                continue;
            }
            match to {
                "Paid" => self.set(accrual, "Paid"),
                "Failed" | "Cancelled" => self.accruals[accrual].payout = None,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns `Pending`, `Approved`, `InPayout` and `Paid` of an agent in a currency.
    pub fn sums(&self, agent: Uuid, currency: &str) -> [i64; 4] {
        let mut sums = [0; 4];
        for accrual in self.accruals.iter().filter(|one| one.agent == agent && one.currency == currency) {
            let at = match (accrual.status, accrual.payout) {
                ("Pending", _) => 0,
                ("Approved", None) => 1,
                ("Approved", Some(_)) => 2,
                ("Paid", _) => 3,
                _ => continue,
            };
            sums[at] += accrual.amount;
        }
        sums
    }
}
