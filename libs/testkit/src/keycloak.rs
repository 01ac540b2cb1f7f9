//! A real Keycloak on this machine with the realm of `deploy/local/keycloak`.
//!
//! Maven downloads it once to `.dev/keycloak`. Its data is in memory and is lost when it stops.

mod realm;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

pub use self::realm::{ADMINISTRATOR, Realm};
use crate::child::Server;
use crate::ports;

/// The environment variable with the URL of the Keycloak that tests use.
pub const URL_VARIABLE: &str = "KEYCLOAK_URL";

const POM: &str = "<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>keycloak</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.keycloak</groupId><artifactId>keycloak-quarkus-dist</artifactId><version>26.4.5</version><type>zip</type></dependency>
  </dependencies>
</project>
";

/// The folder of the downloaded and built Keycloak.
const INSTALLED: &str = "installed";
/// The folder of an unfinished download or build.
const UNFINISHED: &str = "installed.new";
/// The folder in the archive that Maven unpacks.
const DISTRIBUTION: &str = "keycloak-26.4.5";

/// Timeout of a start. A busy machine with two cores needs a minute to create the tables.
const START_TIMEOUT: Duration = Duration::from_mins(3);

/// A running Keycloak. It is killed when the value is dropped or this process ends.
pub struct Keycloak {
    server: Server,
    url: String,
}

impl Keycloak {
    /// Starts Keycloak on a free port and waits until its realm exists.
    ///
    /// # Errors
    /// If [`fetch`] has not downloaded it, or it does not start. The error names the log file.
    pub async fn start() -> anyhow::Result<Self> {
        let (port, home) = (ports::free()?, home());
        let import = home.join("data/import");
        std::fs::create_dir_all(&import)?;
        std::fs::copy(root().join("deploy/local/keycloak/realm.json"), import.join("realm.json"))?;
        let log = File::create(log())?;
        let mut java = java(&home);
        java.args(["start", "--optimized", "--import-realm", "--http-enabled=true", "--http-host=127.0.0.1"])
            .arg(format!("--http-port={port}"))
            .arg(format!("--hostname=http://127.0.0.1:{port}"))
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMINISTRATOR.0)
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMINISTRATOR.1)
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut keycloak =
            Self { server: Server::spawn(&mut java)?, url: format!("http://127.0.0.1:{port}") };
        let ready = keycloak.ready().await;
        ready.with_context(|| format!("failed to start Keycloak, see {}", self::log().display()))?;
        Ok(keycloak)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let realm = Realm::new(&self.url);
        loop {
            tokio::select! {
                ended = self.server.wait() => bail!("the process has ended: {}", ended?),
                () = sleep(Duration::from_millis(200)) => {}
            }
            match realm.prepare().await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits for an unexpected end of the process and returns its reason.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        match self.server.wait().await {
            Ok(status) => anyhow::anyhow!("Keycloak has ended ({status}), see {}", log().display()),
            Err(error) => error.into(),
        }
    }
}

/// Downloads Keycloak and builds it for tables in memory, unless that has been done.
///
/// # Errors
/// If Java or Maven is missing, or the download fails.
pub async fn fetch() -> anyhow::Result<()> {
    let folder = folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    if folder.join(INSTALLED).exists() {
        return Ok(());
    }
    std::fs::write(folder.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:unpack-dependencies"]);
    maven.arg(format!("-DoutputDirectory={UNFINISHED}"));
    run(maven.current_dir(&folder), "download Keycloak with Maven").await?;
    run(
        java(&folder.join(UNFINISHED).join(DISTRIBUTION)).args(["build", "--db=dev-mem"]),
        "build Keycloak with Java",
    )
    .await?;
    // The final name exists only after all steps have succeeded.
    Ok(std::fs::rename(folder.join(UNFINISHED), folder.join(INSTALLED))?)
}

async fn run(command: &mut Command, step: &str) -> anyhow::Result<()> {
    let output =
        command.output().await.with_context(|| format!("failed to {step}: the program is missing"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        bail!("failed to {step}: {}", text.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// Returns the command of the server without its shell script, which would be the parent process.
fn java(home: &Path) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1"])
        .arg("-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory")
        .arg(format!("-Dkc.home.dir={}", home.display()))
        .arg("-cp")
        .arg(home.join("lib/quarkus-run.jar"))
        .arg("io.quarkus.bootstrap.runner.QuarkusEntryPoint")
        .stdin(Stdio::null());
    java
}

fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

fn folder() -> PathBuf {
    root().join(".dev/keycloak")
}

fn home() -> PathBuf {
    folder().join(INSTALLED).join(DISTRIBUTION)
}

fn log() -> PathBuf {
    folder().join("server.log")
}
