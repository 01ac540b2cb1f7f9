//! `cargo dev contracts`: documents and pages that the code determines, written or compared, and
//! linted.
//!
//! They are `contracts/`, `docs/calls-and-topics.md`, `docs/conformance.md` and
//! `helm/<service>/declared.yaml`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use tokio::process::Command;

use crate::{charts, conformance, platform_document, service_map, services};
use devkit::children::Child;
use devkit::progress::Step;
use devkit::{print_line, stack};

/// The linters, pinned: a newer version may report more.
const LINTERS: &str = r#"{
  "private": true,
  "dependencies": {
    "@redocly/cli": "2.77.0",
    "@stoplight/spectral-cli": "6.16.3"
  }
}
"#;

/// Write contracts/ and the generated pages from the code, and lint contracts/
#[derive(Args)]
pub struct Contracts {
    /// Write nothing; fail if a file differs from the code
    #[arg(long)]
    check: bool,
}

impl Contracts {
    pub async fn run(self) -> anyhow::Result<()> {
        let folder = stack::root().join("contracts");
        let step = Step::start("documents");
        let (mut openapi, mut asyncapi, mut public) = (Vec::new(), Vec::new(), Vec::new());
        for service in services::all() {
            let contracts = (service.contracts)()?;
            let file = format!("{}.yaml", service.name);
            openapi.push(self.write(folder.join("openapi").join(&file), &contracts.openapi)?);
            asyncapi.push(self.write(folder.join("asyncapi").join(&file), &contracts.asyncapi)?);
            public.push((service.name, contracts.openapi));
        }
        let platform = stack::root().join(platform_document::PATH);
        openapi.push(self.write(platform, &platform_document::merged(&public)?)?);
        let services = services::all();
        for service in &services {
            let declared = stack::root().join("helm").join(service.name).join("declared.yaml");
            self.write(declared, &charts::declared(&services, service)?)?;
        }
        self.write(stack::root().join(service_map::PAGE), &service_map::page(&services)?)?;
        self.write(stack::root().join(conformance::PAGE), &conformance::page()?)?;
        step.done(if self.check { "contracts/ and the pages match the code" } else { "written" });
        for tool in ["node", "npm"] {
            if !Command::new(tool).arg("--version").output().await.is_ok_and(|output| output.status.success())
            {
                print_line(&format!("`{tool}` is missing; the documents were not linted"));
                return Ok(());
            }
        }
        let step = Step::start("linters");
        let home = stack::dev_path("linters")?;
        install(&home, &step).await?;
        step.done("Redocly and Spectral");
        let mut redocly = linter(&home, "redocly");
        redocly.arg("lint").arg("--config").arg(folder.join("redocly.yaml")).args(&openapi);
        lint("redocly", &mut redocly).await?;
        let mut spectral = linter(&home, "spectral");
        spectral.args(["lint", "--fail-severity", "hint", "--ruleset"]).arg(folder.join("spectral.yaml"));
        lint("spectral", spectral.args(&openapi).args(&asyncapi)).await
    }

    /// Writes a document, or compares it with the existing one.
    fn write(&self, path: PathBuf, document: &str) -> anyhow::Result<PathBuf> {
        if self.check {
            let existing = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            ensure!(
                existing == document,
                "{} differs from the code: run `cargo dev contracts`",
                path.display()
            );
        } else {
            std::fs::write(&path, document).with_context(|| path.display().to_string())?;
        }
        Ok(path)
    }
}

/// Installs the linters once for each set of versions. The folder gets its name when it is
/// complete.
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
    step.note("installing Redocly and Spectral with npm (83 MB)");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund"]).current_dir(&partly);
    Child::run("linters-install", &mut npm).await.context("npm failed to install the linters")?;
    Ok(std::fs::rename(partly, home)?)
}

fn linter(home: &Path, name: &str) -> Command {
    let mut linter = Command::new(home.join("node_modules/.bin").join(name));
    linter.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    linter
}

/// Runs a linter and prints its output only if it reports a finding.
async fn lint(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let step = Step::start(name);
    let output = command.output().await.with_context(|| format!("failed to run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} reports findings\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    step.done("no findings");
    Ok(())
}
