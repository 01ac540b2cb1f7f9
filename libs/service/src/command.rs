//! Commands for operators that a service adds to its binary.

use clap::{ArgMatches, Parser};
use db::Db;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// A command for operators, with its arguments.
pub trait OperatorCommand: Parser + Send {
    /// Runs the command and prints its result to standard output. Replicas of the service may be
    /// running.
    fn execute(self, db: Db) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// An [`OperatorCommand`] as a value, for the declaration of a service.
#[derive(Clone, Copy)]
pub struct RegisteredCommand {
    pub(crate) define: fn() -> clap::Command,
    pub(crate) execute: fn(Db, ArgMatches) -> BoxFuture<'static, anyhow::Result<()>>,
}

impl RegisteredCommand {
    pub const fn of<C: OperatorCommand + 'static>() -> Self {
        Self {
            define: C::command,
            execute: |db, arguments| {
                async move { C::from_arg_matches(&arguments)?.execute(db).await }.boxed()
            },
        }
    }
}

/// Returns the command that the command line names, with its arguments.
pub(crate) fn find(
    commands: &[RegisteredCommand],
    command_line: &ArgMatches,
) -> Option<(RegisteredCommand, ArgMatches)> {
    let (name, arguments) = command_line.subcommand()?;
    let command = commands.iter().find(|command| (command.define)().get_name() == name)?;
    Some((*command, arguments.clone()))
}
