//! A real Apache Kafka of this clone's own: one `KRaft` node, brought by Maven, its data under `.dev/kafka`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::process::Command;

use crate::children::Child;
use crate::progress::Step;
use crate::stack;

/// From a cold start; it takes three seconds on a small machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Names the one cluster there will ever be: 16 bytes in base64.
const CLUSTER: &str = "bG9jYWwtZGV2LXN0YWNrMA";

const POM: &str = "<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.1.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
";

/// A running broker.
pub(crate) struct Kafka {
    child: Child,
    port: u16,
}

impl Kafka {
    pub(crate) async fn start(step: &Step) -> anyhow::Result<Self> {
        for tool in ["java", "mvn"] {
            let found =
                Command::new(tool).arg("-version").output().await.is_ok_and(|output| output.status.success());
            ensure!(found, "`{tool}` is missing: --broker kafka needs Java 17 or later and Maven");
        }
        let home = stack::dev("kafka")?;
        std::fs::create_dir_all(&home)?;
        install(&home, step).await?;
        let (port, controller) = (stack::free_port()?, stack::free_port()?);
        let properties = home.join("server.properties");
        std::fs::write(&properties, settings(&home, port, controller))?;
        if !home.join("data/meta.properties").exists() {
            step.note("formatting its storage");
            let mut format = java(&home);
            format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"]).arg(&properties);
            Child::run("kafka-format", &mut format).await.context("Kafka's storage could not be made")?;
        }
        step.note("starting");
        let mut server = java(&home);
        server.arg("kafka.Kafka").arg(&properties);
        let mut kafka = Self { child: Child::spawn("kafka", &mut server)?, port };
        let answer = tokio::select! {
            answer = answers(kafka.brokers()) => answer,
            error = kafka.child.ended() => Err(error),
        };
        match answer {
            Ok(()) => Ok(kafka),
            Err(error) => {
                kafka.stop().await?;
                Err(error)
            }
        }
    }

    /// Drops everything that it has kept.
    pub(crate) fn forget() -> anyhow::Result<()> {
        match std::fs::remove_dir_all(stack::dev("kafka")?.join("data")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        self.child.ended().await
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.stop().await
    }
}

/// Brings the jars once; a name of its own until they are complete.
async fn install(home: &Path, step: &Step) -> anyhow::Result<()> {
    let (jars, partly) = (home.join("libs"), home.join("libs.new"));
    if jars.exists() {
        return Ok(());
    }
    step.note("bringing Apache Kafka with Maven (54 MB)");
    std::fs::write(home.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs.new"]).current_dir(home);
    Child::run("kafka-install", &mut maven).await.context("Maven could not bring Apache Kafka")?;
    Ok(std::fs::rename(partly, jars)?)
}

fn java(home: &Path) -> Command {
    let mut java = Command::new("java");
    let jars: PathBuf = home.join("libs/*");
    java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars).current_dir(home);
    java
}

/// One node that is broker and controller, so each replication factor is 1.
fn settings(home: &Path, port: u16, controller: u16) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         log.dirs={}\n\
         num.partitions=4\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n",
        home.join("data").display()
    )
}

async fn answers(brokers: String) -> anyhow::Result<()> {
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &brokers).create()?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while tokio::time::Instant::now() < deadline {
        let metadata =
            tokio::task::block_in_place(|| client.fetch_metadata(None, Duration::from_millis(500)));
        if metadata.is_ok_and(|metadata| !metadata.brokers().is_empty()) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("Kafka did not answer within {} s; see .dev/logs/kafka.log", PATIENCE.as_secs())
}
