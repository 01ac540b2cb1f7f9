//! Processes that the stack starts: stopped with it, and found again if it was killed before it could.

use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::signals::{self, Signal};
use tokio::process::Command;

use crate::stack;

/// A service finishes within 30 s; past that it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

/// A process of the stack, logging to `.dev/logs/<name>.log`.
pub struct Child {
    pub name: String,
    process: tokio::process::Child,
}

impl Child {
    pub fn spawn(name: impl Into<String>, command: &mut Command) -> anyhow::Result<Self> {
        let name = name.into();
        let log = File::create(log(&name)?)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Ctrl-C goes to the whole group, but the stack decides on the order of things.
        let process = command
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} cannot be run"))?;
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let id = process.id().context("it has ended already")?;
        std::fs::create_dir_all(records()?)?;
        std::fs::write(records()?.join(&name), format!("{id} {program}"))?;
        Ok(Self { name, process })
    }

    /// Runs a command to its end; the last line of its log explains a failure.
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

    /// Resolves with the reason when the process ends although nobody stopped it.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.process.wait().await {
            Ok(status) => self.ended_with(status),
            Err(error) => error.into(),
        }
    }

    /// The reason if it has ended although nobody stopped it.
    pub fn has_ended(&mut self) -> anyhow::Result<Option<anyhow::Error>> {
        Ok(self.process.try_wait()?.map(|status| self.ended_with(status)))
    }

    fn ended_with(&self, status: ExitStatus) -> anyhow::Error {
        // One that ended by itself has said why; one that was killed has not.
        match status.code() {
            Some(_) => anyhow::anyhow!("{} ended ({status}): {}", self.name, last_line(&self.name)),
            None => anyhow::anyhow!("{} ended ({status})", self.name),
        }
    }

    /// Ends it as a failing machine would.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill().await?;
        stack::remove(&records()?.join(&self.name))
    }

    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(signals::send(self.process.id().context("it has ended already")?, signal)?)
    }

    /// Asks it to end and waits until it has; may be begun again where it was cut off.
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

/// Where a child's output goes.
fn log(name: &str) -> anyhow::Result<PathBuf> {
    let folder = stack::dev("logs")?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.log")))
}

fn last_line(name: &str) -> String {
    let text = log(name).ok().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(|| format!("see .dev/logs/{name}.log"), str::to_owned)
}

/// A file for each running child: its process and program.
fn records() -> anyhow::Result<PathBuf> {
    stack::dev("children")
}

/// Asks a process to end. It may have ended already.
pub fn terminate(process: u32) {
    let _ = signals::send(process, Signal::SIGTERM);
}

/// Ends a process at once, as a failing machine would. It may have ended already.
pub fn kill(process: u32) {
    let _ = signals::send(process, Signal::SIGKILL);
}

/// Ends what is left of a process group, without waiting: for `Drop`.
pub fn end_group(leader: u32) {
    let _ = signals::send_to_group(leader, Signal::SIGTERM);
}

/// Waits until a process is gone; says whether it went in time.
pub async fn wait_until_gone(process: u32) -> bool {
    let deadline = tokio::time::Instant::now() + STOP_TIMEOUT + STOP_TIMEOUT;
    while command_line(process).await.is_some() {
        if tokio::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    true
}

/// Ends the children of a stack that was killed, and names them.
pub async fn stop_left_behind() -> anyhow::Result<Vec<String>> {
    let mut stopped = Vec::new();
    for entry in std::fs::read_dir(records()?).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path())?;
        if let Some((id, program)) = text.split_once(' ')
            && let Ok(id) = id.parse()
            // The number may be another process's by now.
            && command_line(id).await.is_some_and(|command| command.contains(program))
        {
            terminate(id);
            ensure!(wait_until_gone(id).await, "process {id} ({program}) does not stop");
            stopped.push(entry.file_name().to_string_lossy().into_owned());
        }
        std::fs::remove_file(entry.path())?;
    }
    Ok(stopped)
}

/// How a living process was called.
pub async fn command_line(process: u32) -> Option<String> {
    if std::path::Path::new("/proc/self").exists() {
        let words = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        // A zombie has none any more.
        return (!words.is_empty()).then(|| String::from_utf8_lossy(&words).replace('\0', " "));
    }
    let output = Command::new("ps").args(["-o", "args=", "-p", &process.to_string()]).output().await.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
