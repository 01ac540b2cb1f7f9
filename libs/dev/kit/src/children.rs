//! Child processes of the stack. They stop with the stack. A later command finds the children of a
//! killed stack.

use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::signals::{self, Signal};
use tokio::process::Command;

use crate::stack;

/// Time after which a child is killed. A service without a drain exits within 32 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

/// A process of the stack that logs to `.dev/logs/<name>.log`.
pub struct Child {
    pub name: String,
    process: tokio::process::Child,
}

impl Child {
    pub fn spawn(name: impl Into<String>, command: &mut Command) -> anyhow::Result<Self> {
        let name = name.into();
        let log = File::create(log(&name)?)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Ctrl-C signals the whole group, but the stack stops its children in order.
        let process = command
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to run {name}"))?;
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let id = process.id().context("the process has ended")?;
        std::fs::create_dir_all(records()?)?;
        std::fs::write(records()?.join(&name), format!("{id} {program}"))?;
        Ok(Self { name, process })
    }

    /// Runs a command to its end. The last line of its log explains a failure.
    pub async fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
        let mut child = Self::spawn(name, command)?;
        let status = child.process.wait().await;
        std::fs::remove_file(records()?.join(name))?;
        ensure!(status?.success(), "{}", last_line(name));
        Ok(())
    }

    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Resolves with the reason when the process ends by itself.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        match self.process.wait().await {
            Ok(status) => self.ended_with(status),
            Err(error) => error.into(),
        }
    }

    /// Returns the reason if the process has ended by itself.
    pub fn has_ended(&mut self) -> anyhow::Result<Option<anyhow::Error>> {
        Ok(self.process.try_wait()?.map(|status| self.ended_with(status)))
    }

    fn ended_with(&self, status: ExitStatus) -> anyhow::Error {
        // A process that ended by itself has logged its reason; a killed one has not.
        match status.code() {
            Some(_) => anyhow::anyhow!("{} ended ({status}): {}", self.name, last_line(&self.name)),
            None => anyhow::anyhow!("{} ended ({status})", self.name),
        }
    }

    /// Kills the process without a chance to finish.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill().await?;
        stack::remove(&records()?.join(&self.name))
    }

    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(signals::send(self.process.id().context("the process has ended")?, signal)?)
    }

    /// Terminates the process and waits for its end. The call may be repeated after it was
    /// cancelled.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(id) = self.process.id() {
            terminate(id);
        }
        if tokio::time::timeout(STOP_TIMEOUT, self.process.wait()).await.is_err() {
            self.process.kill().await?;
        }
        stack::remove(&records()?.join(&self.name))
    }
}

/// Returns the path of a child's log.
pub fn log(name: &str) -> anyhow::Result<PathBuf> {
    let folder = stack::dev_path("logs")?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.log")))
}

fn last_line(name: &str) -> String {
    let text = log(name).ok().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(|| format!("see .dev/logs/{name}.log"), str::to_owned)
}

/// Returns the folder with a file for each running child: its process id and program.
fn records() -> anyhow::Result<PathBuf> {
    stack::dev_path("children")
}

/// Sends SIGTERM to a process, which may have ended already.
pub fn terminate(process: u32) {
    let _ = signals::send(process, Signal::SIGTERM);
}

/// Sends SIGKILL to a process, which may have ended already.
pub fn kill(process: u32) {
    let _ = signals::send(process, Signal::SIGKILL);
}

/// Terminates a process group without waiting, for use in `Drop`.
pub fn end_group(leader: u32) {
    let _ = signals::send_to_group(leader, Signal::SIGTERM);
}

/// Waits until a process has ended. Returns false if it still runs after twice `STOP_TIMEOUT`.
pub async fn wait_until_ended(process: u32) -> bool {
    // A command needs up to one timeout for its own children before it ends.
    let deadline = tokio::time::Instant::now() + STOP_TIMEOUT + STOP_TIMEOUT;
    while command_line(process).await.is_some() {
        if tokio::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    true
}

/// Stops the children of a killed stack and returns their names.
pub async fn stop_left_behind() -> anyhow::Result<Vec<String>> {
    let mut stopped = Vec::new();
    for entry in std::fs::read_dir(records()?).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path())?;
        if let Some((id, program)) = text.split_once(' ')
            && let Ok(id) = id.parse()
            // The id may belong to another process by now.
            && command_line(id).await.is_some_and(|command| command.contains(program))
        {
            terminate(id);
            ensure!(wait_until_ended(id).await, "process {id} ({program}) does not stop");
            stopped.push(entry.file_name().to_string_lossy().into_owned());
        }
        std::fs::remove_file(entry.path())?;
    }
    Ok(stopped)
}

/// Returns the command line of a living process.
pub async fn command_line(process: u32) -> Option<String> {
    if std::path::Path::new("/proc/self").exists() {
        let words = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        // A zombie has no command line.
        return (!words.is_empty()).then(|| String::from_utf8_lossy(&words).replace('\0', " "));
    }
    let output = Command::new("ps").args(["-o", "args=", "-p", &process.to_string()]).output().await.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
