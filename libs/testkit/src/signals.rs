//! Signals to processes, sent by a system call, since a minimal machine has no program `kill`.

use std::io;

use nix::sys::signal::{kill, killpg};
use nix::unistd::Pid;

pub use nix::sys::signal::Signal;

/// Sends a signal to a process.
///
/// # Errors
/// If the process does not exist, or belongs to another account.
pub fn send(process: u32, signal: Signal) -> io::Result<()> {
    Ok(kill(pid(process)?, signal)?)
}

/// Sends a signal to every process of the group that `leader` leads.
///
/// # Errors
/// If the group has no process.
pub fn send_to_group(leader: u32, signal: Signal) -> io::Result<()> {
    Ok(killpg(pid(leader)?, signal)?)
}

fn pid(process: u32) -> io::Result<Pid> {
    // 0 and negative numbers denote process groups.
    match i32::try_from(process) {
        Ok(id) if id > 0 => Ok(Pid::from_raw(id)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{process} is not a process id"))),
    }
}
