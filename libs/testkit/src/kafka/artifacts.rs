//! Apache Kafka's published jars, brought by Maven once and kept under `.dev/kafka`, with the classes of
//! them that a node loads: read at once they have it start in one second instead of four.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use super::Cluster;

/// The oldest Java that runs this Kafka.
const JAVA: u32 = 17;

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

/// The folder of this clone that holds the jars and the data of clusters.
///
/// # Errors
/// When it cannot be made.
pub fn home() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = here.ancestors().nth(2).unwrap_or(here).join(".dev/kafka");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    Ok(home)
}

/// Brings Kafka and prepares it, unless that has been done.
///
/// # Errors
/// When there is no Java that runs it, no Maven, or Maven cannot bring it.
pub async fn fetch() -> anyhow::Result<()> {
    let version = java_version().await?;
    ensure!(version >= JAVA, "a real Kafka needs Java {JAVA} or later, but `java` is version {version}");
    let home = home()?;
    let lock = File::create(home.join("fetch.lock"))?;
    // Another process may be at it; what it brings serves this one, too.
    let _lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if !home.join("libs").exists() {
        bring(&home).await?;
    }
    let classes = classes()?;
    if !classes.exists() {
        // Written by the first node that stops.
        Cluster::start_empty(1).await?.stop().await?;
        // A Java that does not do that is not asked again.
        OpenOptions::new().create(true).append(true).open(classes)?;
    }
    Ok(())
}

/// Where the classes are.
pub(super) fn classes() -> anyhow::Result<PathBuf> {
    Ok(home()?.join("classes.jsa"))
}

async fn bring(home: &Path) -> anyhow::Result<()> {
    std::fs::write(home.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    // A name of its own until all are here.
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs.new"]).current_dir(home);
    let output = maven.output().await.context("`mvn` is missing: a real Kafka is brought by Maven")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        bail!("Maven could not bring Apache Kafka: {}", text.lines().next().unwrap_or_default());
    }
    Ok(std::fs::rename(home.join("libs.new"), home.join("libs"))?)
}

/// The major version, from a text like `openjdk version "17.0.15" 2025-04-15`.
async fn java_version() -> anyhow::Result<u32> {
    let output = Command::new("java").arg("-version").output().await;
    let output = output.with_context(|| format!("`java` is missing: a real Kafka needs Java {JAVA}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let version = text.split('"').nth(1).and_then(|version| version.split('.').next()?.parse().ok());
    version.context("`java -version` names no version")
}
