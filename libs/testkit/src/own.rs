//! Servers of a test's own: a process that goes with the test, a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::process::{Child, Command};

/// How long a server may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A name in `parent` for a folder of this process. When it asks for the first, those of test processes that
/// have ended are removed.
pub(crate) fn temporary(parent: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(parent.to_owned()) {
        sweep(parent);
    }
    parent.join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !lives(name.split('-').next().unwrap_or_default()) {
            // Another test process may be removing it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether there is a process of this number; where nobody can tell, there may be.
pub(crate) fn lives(process: &str) -> bool {
    if Path::new("/proc/self").exists() {
        return Path::new("/proc").join(process).exists();
    }
    let mut ps = std::process::Command::new("ps");
    ps.args(["-p", process]).stdout(Stdio::null()).stderr(Stdio::null());
    ps.status().map_or(true, |status| status.success())
}

/// A running server. It is killed when it is dropped, or when this process dies.
pub(crate) struct Server {
    process: Child,
    /// Kills the server when this process has ended without doing so: its input ends then.
    #[expect(dead_code, reason = "held, and killed when dropped")]
    guard: Child,
}

impl Server {
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        // Ctrl-C goes to the whole group, but whoever started it decides when it ends.
        let process = command.stdin(Stdio::null()).process_group(0).kill_on_drop(true).spawn()?;
        let id = process.id().context("it has ended already")?;
        let guard = Command::new("/bin/sh")
            .args(["-c", &format!("read -r _; kill -KILL {id}")])
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { process, guard })
    }

    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Sends it a signal by name, as in `STOP`.
    pub(crate) async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::from(self.kill_command(name)?).status().await?;
        ensure!(sent.success(), "it takes no signal");
        Ok(())
    }

    /// Ends it by a signal, waiting for it, or kills it when that takes too long.
    pub(crate) fn end(mut self, name: &str) {
        let sent = self.kill_command(name).is_ok_and(|mut kill| kill.status().is_ok());
        let deadline = Instant::now() + PATIENCE;
        while sent && matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The shell's own `kill`, since a small machine may have no other.
    fn kill_command(&self, signal: &str) -> anyhow::Result<std::process::Command> {
        let id = self.process.id().context("it has ended already")?;
        let mut kill = std::process::Command::new("/bin/sh");
        kill.args(["-c", &format!("kill -{signal} {id}")]);
        Ok(kill)
    }

    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }
}
