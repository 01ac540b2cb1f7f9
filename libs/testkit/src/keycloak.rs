//! A real Keycloak on this machine, with the realm of `deploy/keycloak`: brought by Maven once and kept under
//! `.dev/keycloak`. What it has it forgets when it stops.

mod realm;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

pub use self::realm::Realm;
use crate::own::Server;
use crate::ports;

/// The variable that names one to the tests.
pub const URL: &str = "KEYCLOAK_URL";
/// The administrator of one that protects nothing but a developer's own machine.
pub const ADMINISTRATOR: (&str, &str) = ("admin", "admin");

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

/// Its folder in what Maven unpacks.
const DISTRIBUTION: &str = "keycloak-26.4.5";

/// A busy machine of two cores takes a minute to make its tables.
const PATIENCE: Duration = Duration::from_mins(3);

/// A running Keycloak. It is killed when it is dropped, or when this process dies.
pub struct Keycloak {
    server: Server,
    url: String,
}

impl Keycloak {
    /// Starts one on a free port, and answers when its realm is there.
    ///
    /// # Errors
    /// When [`fetch`] has not brought it, or it does not start; its log says why.
    pub async fn start() -> anyhow::Result<Self> {
        let (port, home) = (ports::free()?, home());
        let import = home.join("data/import");
        std::fs::create_dir_all(&import)?;
        std::fs::copy(root().join("deploy/keycloak/realm.json"), import.join("realm.json"))?;
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
        ready.with_context(|| format!("Keycloak does not start, see {}", self::log().display()))?;
        Ok(keycloak)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let realm = Realm::of(&self.url);
        loop {
            tokio::select! {
                ended = self.server.wait() => bail!("it has ended: {}", ended?),
                () = sleep(Duration::from_millis(200)) => {}
            }
            match realm.prepare().await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Resolves with the reason when it ends although nobody stopped it.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.server.wait().await {
            Ok(status) => anyhow::anyhow!("Keycloak has ended ({status}), see {}", log().display()),
            Err(error) => error.into(),
        }
    }
}

/// Brings Keycloak and prepares it for tables in memory, unless that has been done.
///
/// # Errors
/// When there is no Java or Maven, or Maven cannot bring it.
pub async fn fetch() -> anyhow::Result<()> {
    let folder = folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if folder.join("brought").exists() {
        return Ok(());
    }
    std::fs::write(folder.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:unpack-dependencies", "-DoutputDirectory=brought.new"]);
    run(maven.current_dir(&folder), "Maven brings Keycloak").await?;
    run(
        java(&folder.join("brought.new").join(DISTRIBUTION)).args(["build", "--db=dev-mem"]),
        "Java prepares it",
    )
    .await?;
    // Under its name when all is done.
    Ok(std::fs::rename(folder.join("brought.new"), folder.join("brought"))?)
}

async fn run(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let output = command.output().await.with_context(|| format!("{what}, and is missing"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        bail!("{what}, and could not: {}", text.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// The server's own program, without the shell script that would be its parent.
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
    folder().join("brought").join(DISTRIBUTION)
}

fn log() -> PathBuf {
    folder().join("server.log")
}
