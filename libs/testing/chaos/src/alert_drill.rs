//! `cargo dev watch`: triggers each alert of two services under a real Prometheus with the rules of
//! the charts.

mod environment;
mod faults;
mod prometheus;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use console::style;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::environment::Environment;
use self::faults::Fault;
use self::prometheus::Prometheus;
use devkit::signals::Signals;
use devkit::stack::{self, Lock};
use devstack::{processes, services};

/// Timeout until an alert fires, and until it ends after its fault.
const ALERT_TIMEOUT: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The services that run: agent has every common alert, and each other one has alerts of its own.
const SERVICES: [&str; 2] = ["agent", "chessboard"];

/// Trigger the fault of each alert, and check that a real Prometheus fires and ends it
///
/// Needs Prometheus and Helm (`HELM` names another program than the one in the path). The charts
/// render the rules. The value `app.prometheusRule.haste` shortens their durations, so that hours
/// pass in seconds. Exits with 1 if an alert does not fire, does not end, or has no fault here.
#[derive(Args)]
pub struct AlertDrill {
    /// Factor by which the durations of the rules are shortened
    #[arg(long, default_value_t = 240)]
    haste: u32,
    /// Only these alerts, by name
    alerts: Vec<String>,
}

impl AlertDrill {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        ensure_own_alerts_are_drilled()?;
        let _lock = Lock::take("watch")?;
        let mut signals = Signals::listen()?;
        let services: Vec<_> = SERVICES.into_iter().filter_map(services::find).collect();
        tokio::select! {
            built = processes::build(&services) => built?,
            () = signals.stop() => bail!("interrupted"),
        }
        let mut environment = Environment::prepare(services).await?;
        let mut prometheus = None;
        let result = tokio::select! {
            result = self.play(&mut environment, &mut prometheus) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let stopped = match &mut prometheus {
            Some(prometheus) => Prometheus::stop(prometheus).await,
            None => Ok(()),
        };
        environment.stop().await?;
        stopped?;
        Ok(if result? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Returns true if every alert fired and ended.
    async fn play(
        &self,
        environment: &mut Environment,
        slot: &mut Option<Prometheus>,
    ) -> anyhow::Result<bool> {
        environment.start().await?;
        let prometheus = slot.insert(Prometheus::start(&environment.targets()?, self.haste).await?);
        let chosen =
            |fault: &&Fault| self.alerts.is_empty() || self.alerts.iter().any(|name| *name == fault.alert());
        let faults: Vec<_> = Fault::ALL.iter().filter(chosen).copied().collect();
        ensure!(!faults.is_empty(), "there are no such alerts");
        let rules = prometheus.alerts().await?;
        let missing = rules.iter().filter(|alert| !Fault::ALL.iter().any(|fault| fault.alert() == **alert));
        let missing: Vec<_> = missing.cloned().collect();
        ensure!(missing.is_empty(), "no fault here triggers {missing:?}");
        prometheus.wait_until_quiet(ALERT_TIMEOUT, |_| true).await?;

        let mut is_sound = true;
        for fault in faults {
            let began = Instant::now();
            fault.inject(environment).await?;
            let fired = until(async || prometheus.has_fired(&fault.alert(), began).await).await?;
            let lasted = began.elapsed();
            fault.end(environment).await?;
            let over = Instant::now();
            let ended = fired
                && prometheus.wait_until_quiet(ALERT_TIMEOUT, |alert| alert == fault.alert()).await.is_ok();
            let verdict = match (fired, ended) {
                (true, true) => style(format!(
                    "fired after {:.1} s, ended {:.1} s after its fault",
                    lasted.as_secs_f32(),
                    over.elapsed().as_secs_f32()
                )),
                (true, false) => style("fired, and did not end".to_owned()).red(),
                (false, _) => style("did not fire".to_owned()).red(),
            };
            devkit::print_line(&format!(
                "{:<22} {:<52} {verdict}",
                fault.alert(),
                style(fault.about()).dim()
            ));
            is_sound &= fired && ended;
        }
        let left = prometheus.wait_until_quiet(ALERT_TIMEOUT, |_| true).await;
        if let Err(error) = &left {
            devkit::print_line(&style(format!("{error:#}")).red().to_string());
        }
        Ok(is_sound && left.is_ok())
    }
}

/// # Errors
/// A chart has alerts of its own, and [`SERVICES`] lacks its service.
fn ensure_own_alerts_are_drilled() -> anyhow::Result<()> {
    for service in devkit::SERVICES {
        let path = stack::root().join(format!("helm/{service}/values.yaml"));
        let values = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let values: Value = yaml_serde::from_str(&values)?;
        let own = &values["app"]["prometheusRule"]["own"];
        ensure!(
            own.is_null() || SERVICES.contains(&service),
            "{service} has alerts that are not drilled: {own}"
        );
    }
    Ok(())
}

/// Repeats a check until it returns true. Returns false after [`ALERT_TIMEOUT`].
async fn until(mut is_reached: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    let deadline = Instant::now() + ALERT_TIMEOUT;
    while Instant::now() < deadline {
        if is_reached().await? {
            return Ok(true);
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    #[test]
    fn services_with_own_alerts_are_drilled() {
        super::ensure_own_alerts_are_drilled().unwrap();
    }
}
