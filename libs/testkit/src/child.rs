//! Child processes and temporary folders that end with the test.

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

/// Timeout of a graceful shutdown. A server that is still running is then killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns an unused path for a temporary folder in `parent`.
///
/// The first call for a parent removes the folders of test processes that have ended.
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
        if !is_alive(name.split('-').next().unwrap_or_default()) {
            // Another test process may remove the folder at the same time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns true if a process with this id may be running.
pub(crate) fn is_alive(process: &str) -> bool {
    let Some(id) = process.parse().ok().filter(|id| *id > 0) else { return false };
    // A process that this one may not signal is running, too.
    kill(Pid::from_raw(id), None) != Err(Errno::ESRCH)
}

/// A running server. It is killed when the value is dropped or this process ends.
pub(crate) struct Server {
    process: Child,
    /// A shell that kills the server when its input ends, which happens when this process ends.
    #[expect(dead_code, reason = "held, and killed when dropped")]
    guard: Child,
}

impl Server {
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        // A separate process group, since Ctrl-C signals the whole group of the terminal and would
        // stop the server before its owner does.
        let process = command.stdin(Stdio::null()).process_group(0).kill_on_drop(true).spawn()?;
        let id = process.id().context("the process has already ended")?;
        // A POSIX shell has `kill` built in, so the guard needs no further program.
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
        Ok(signals::send(self.process.id().context("the process has already ended")?, signal)?)
    }

    /// Signals the server and waits for its end. Kills it after a timeout.
    pub(crate) fn end(mut self, signal: Signal) {
        let sent = self.signal(signal).is_ok();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while sent && matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Dropping the process kills it if it is still running.
    }

    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }
}
