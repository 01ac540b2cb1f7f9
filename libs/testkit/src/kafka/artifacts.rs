//! Apache Kafka's jars, which Maven downloads once to `.dev/kafka`.
//!
//! A class-data archive of a node's classes is stored beside the jars. It shortens a start from
//! four seconds to one.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use super::Cluster;

/// The minimum Java version for this Kafka.
const MIN_JAVA_VERSION: u32 = 17;

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

/// Returns the folder of this clone for the jars and the data of clusters.
///
/// # Errors
/// If the folder cannot be created.
pub fn home() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = here.ancestors().nth(2).unwrap_or(here).join(".dev/kafka");
    std::fs::create_dir_all(&home).with_context(|| format!("failed to create {}", home.display()))?;
    Ok(home)
}

/// Downloads Kafka and creates the class-data archive, unless that has been done.
///
/// # Errors
/// If Java is missing or too old, Maven is missing, or the download fails.
pub async fn fetch() -> anyhow::Result<()> {
    let version = java_version().await?;
    ensure!(
        version >= MIN_JAVA_VERSION,
        "Kafka needs Java {MIN_JAVA_VERSION} or later, but `java` is version {version}"
    );
    let home = home()?;
    let lock = File::create(home.join("fetch.lock"))?;
    // Another process may be downloading. Its result serves this process, too.
    let _lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if !home.join("libs").exists() {
        download(&home).await?;
    }
    let classes = classes()?;
    if !classes.exists() {
        // The first node that stops writes the archive.
        Cluster::start_empty(1).await?.stop().await?;
        // An empty file marks that this Java writes no archive.
        OpenOptions::new().create(true).append(true).open(classes)?;
    }
    Ok(())
}

/// Returns the path of the class-data archive.
pub(super) fn classes() -> anyhow::Result<PathBuf> {
    Ok(home()?.join("classes.jsa"))
}

async fn download(home: &Path) -> anyhow::Result<()> {
    std::fs::write(home.join("pom.xml"), POM)?;
    let mut maven = Command::new("mvn");
    // The final name exists only after the download is complete.
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs.new"]).current_dir(home);
    let output = maven.output().await.context("`mvn` is missing: Maven downloads Kafka")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        bail!("failed to download Apache Kafka with Maven: {}", text.lines().next().unwrap_or_default());
    }
    Ok(std::fs::rename(home.join("libs.new"), home.join("libs"))?)
}

/// Returns the major version from a line like `openjdk version "17.0.15" 2025-04-15`.
async fn java_version() -> anyhow::Result<u32> {
    let output = Command::new("java").arg("-version").output().await;
    let output = output.with_context(|| format!("`java` is missing: Kafka needs Java {MIN_JAVA_VERSION}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let version = text.split('"').nth(1).and_then(|version| version.split('.').next()?.parse().ok());
    version.context("failed to read a version from `java -version`")
}
