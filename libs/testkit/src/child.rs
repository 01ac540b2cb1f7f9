//! Servers of a test's own: a process that goes with the test, a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::signals::{self, Signal};

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

/// Reports whether a process of this id may be running.
pub(crate) fn lives(process: &str) -> bool {
    let Some(id) = process.parse().ok().filter(|id| *id > 0) else { return false };
    // Without the right to signal it, there still is one.
    kill(Pid::from_raw(id), None) != Err(Errno::ESRCH)
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
        // Every Unix has a shell with `kill` built in, so the guard needs no program of its own.
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

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(signals::send(self.process.id().context("it has ended already")?, signal)?)
    }

    /// Ends it by a signal, waiting for it, or kills it when that takes too long.
    pub(crate) fn end(mut self, signal: Signal) {
        let sent = self.signal(signal).is_ok();
        let deadline = Instant::now() + PATIENCE;
        while sent && matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }
}
