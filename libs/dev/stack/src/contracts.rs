//! `cargo dev contracts`: the documents in `contracts/`, the page of who talks to whom and what the charts know of it, written from
//! the code or compared with it, and linted.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use tokio::process::Command;

use crate::{areas, charts, talk};
use devkit::children::Child;
use devkit::progress::Step;
use devkit::{say, stack};

/// The linters, each of one version: a newer one may find more, and that should be nobody's surprise.
const LINTERS: &str = r#"{
  "private": true,
  "dependencies": {
    "@redocly/cli": "2.77.0",
    "@stoplight/spectral-cli": "6.16.3"
  }
}
"#;

/// Write contracts/ anew from the code, and lint it
#[derive(Args)]
pub struct Contracts {
    /// Write nothing; fail where contracts/ is not what the code says
    #[arg(long)]
    check: bool,
}

impl Contracts {
    pub async fn run(self) -> anyhow::Result<()> {
        let folder = stack::root().join("contracts");
        let step = Step::start("documents");
        let (mut openapi, mut asyncapi) = (Vec::new(), Vec::new());
        for area in areas::all() {
            let contracts = (area.contracts)()?;
            let file = format!("{}.yaml", area.name);
            openapi.push(self.keep(folder.join("openapi").join(&file), &contracts.openapi)?);
            asyncapi.push(self.keep(folder.join("asyncapi").join(&file), &contracts.asyncapi)?);
        }
        let areas = areas::all();
        for area in &areas {
            let charted = stack::root().join("helm").join(area.name).join("declared.yaml");
            self.keep(charted, &charts::declared(&areas, area)?)?;
        }
        self.keep(stack::root().join(talk::PAGE), &talk::page(&areas)?)?;
        step.done(if self.check { "contracts/ is what the code says" } else { "contracts/ is written" });
        for tool in ["node", "npm"] {
            if !Command::new(tool).arg("--version").output().await.is_ok_and(|output| output.status.success())
            {
                say(&format!("`{tool}` is missing, so the documents were not linted"));
                return Ok(());
            }
        }
        let step = Step::start("linters");
        let home = stack::dev("linters")?;
        install(&home, &step).await?;
        step.done("Redocly and Spectral");
        let mut redocly = linter(&home, "redocly");
        redocly.arg("lint").arg("--config").arg(folder.join("redocly.yaml")).args(&openapi);
        lint("redocly", &mut redocly).await?;
        let mut spectral = linter(&home, "spectral");
        spectral.args(["lint", "--fail-severity", "hint", "--ruleset"]).arg(folder.join("spectral.yaml"));
        lint("spectral", spectral.args(&openapi).args(&asyncapi)).await
    }

    /// Writes a document, or compares it with the one that is there.
    fn keep(&self, path: PathBuf, document: &str) -> anyhow::Result<PathBuf> {
        if self.check {
            let kept = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            ensure!(
                kept == document,
                "{} is not what the code says: run `cargo dev contracts`",
                path.display()
            );
        } else {
            std::fs::write(&path, document).with_context(|| path.display().to_string())?;
        }
        Ok(path)
    }
}

/// Brings the linters once for each set of versions; under a name of its own until they are complete.
async fn install(home: &Path, step: &Step) -> anyhow::Result<()> {
    if std::fs::read_to_string(home.join("package.json")).is_ok_and(|installed| installed == LINTERS) {
        return Ok(());
    }
    let partly = home.with_extension("new");
    for folder in [home, &partly] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
    }
    std::fs::create_dir_all(&partly)?;
    std::fs::write(partly.join("package.json"), LINTERS)?;
    step.note("bringing Redocly and Spectral with npm (83 MB)");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund"]).current_dir(&partly);
    Child::run("linters-install", &mut npm).await.context("npm could not bring the linters")?;
    Ok(std::fs::rename(partly, home)?)
}

fn linter(home: &Path, name: &str) -> Command {
    let mut linter = Command::new(home.join("node_modules/.bin").join(name));
    linter.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    linter
}

/// Silent, unless something was found.
async fn lint(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let step = Step::start(name);
    let output = command.output().await.with_context(|| format!("{name} cannot be run"))?;
    ensure!(
        output.status.success(),
        "{name} has found something\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    step.done("nothing found");
    Ok(())
}
