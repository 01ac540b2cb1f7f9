//! The files under `.dev/` that describe a running stack, and its lock.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::Settings;

/// Returns the root of the clone that this binary was built from.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here)
}

/// Returns a path under `.dev/`, and creates that folder.
pub fn dev_path(name: &str) -> anyhow::Result<PathBuf> {
    let folder = root().join(".dev");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    Ok(folder.join(name))
}

/// Writes a file that only its owner can read, since it may contain a key or a password.
pub fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(content))
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The addresses of a running stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stack {
    pub base_url: String,
    pub issuer: String,
    pub database_url: String,
    pub brokers: String,
    /// URL of the media server, if one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub livekit_url: Option<String>,
    pub services: BTreeMap<String, Urls>,
}

/// The addresses of one service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Urls {
    pub public_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_url: Option<String>,
    pub admin_url: String,
    pub state: State,
}

/// State of a service. A stopped service keeps its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Stopped,
}

impl Stack {
    /// Returns the stack that runs in this clone.
    pub fn running() -> anyhow::Result<Self> {
        if Lock::holder("up")?.is_none() {
            bail!("no stack is running here; `cargo dev up` starts one");
        }
        let Ok(text) = std::fs::read(dev_path("stack.json")?) else {
            bail!("the stack is still starting; repeat the command when `cargo dev up` prints Ready");
        };
        serde_json::from_slice(&text).context("failed to read stack.json")
    }

    /// Saves the stack atomically: a reader sees the previous or the new content.
    pub fn save(&self) -> anyhow::Result<()> {
        let new = dev_path("stack.json.new")?;
        write_private(&new, &serde_json::to_vec_pretty(self)?)?;
        Ok(std::fs::rename(new, dev_path("stack.json")?)?)
    }

    /// Returns the settings for operator commands of a service.
    pub fn settings(&self) -> Settings {
        Settings::from([
            ("DATABASE_URL", self.database_url.clone()),
            ("KAFKA_BROKERS", self.brokers.clone()),
            ("AUTH_ISSUER", self.issuer.clone()),
        ])
    }

    /// Deletes the file that describes the running stack.
    pub fn delete_file() -> anyhow::Result<()> {
        remove(&dev_path("stack.json")?)
    }
}

/// A lock that prevents a command from running twice in one clone.
///
/// The kernel releases the lock when the process ends, so a held lock also proves that the command
/// runs.
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    pub fn take(name: &str) -> anyhow::Result<Self> {
        let path = dev_path(&format!("{name}.lock"))?;
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                bail!(
                    "`cargo dev {name}`, or a command that starts the same servers, runs in this clone \
                     (process {pid}); `cargo dev down` stops it"
                );
            }
            Err(TryLockError::Error(error)) => return Err(error).context(path.display().to_string()),
        }
        file.set_len(0)?;
        write!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }

    /// Returns the process that holds the lock.
    pub fn holder(name: &str) -> anyhow::Result<Option<u32>> {
        let Ok(mut file) = File::open(dev_path(&format!("{name}.lock"))?) else {
            return Ok(None);
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                Ok(pid.parse().ok())
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// Binds the port that was bound under this name before, if it is free, else any free port.
pub fn listen_on_previous_port(name: &str) -> anyhow::Result<TcpListener> {
    let path = dev_path(&format!("{name}.port"))?;
    let before = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let listener = match before.map(|port| TcpListener::bind(("127.0.0.1", port))) {
        Some(Ok(listener)) => listener,
        _ => TcpListener::bind("127.0.0.1:0")?,
    };
    std::fs::write(&path, listener.local_addr()?.port().to_string())?;
    Ok(listener)
}
