//! Operators' commands of a service's own.

use clap::{ArgMatches, Parser};
use db::Db;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::Service;

/// A command, with its arguments.
pub trait Operate: Parser + Send {
    /// Does it, beside whatever replicas are running; what it has to say goes to standard output.
    fn execute(self, db: Db) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// An [`Operate`] as a value.
#[derive(Clone, Copy)]
pub struct OwnCommand {
    pub(crate) define: fn() -> clap::Command,
    pub(crate) execute: fn(Db, ArgMatches) -> BoxFuture<'static, anyhow::Result<()>>,
}

impl OwnCommand {
    pub const fn of<C: Operate + 'static>() -> Self {
        Self {
            define: C::command,
            execute: |db, arguments| {
                async move { C::from_arg_matches(&arguments)?.execute(db).await }.boxed()
            },
        }
    }
}

/// The own command of `S` that is among what was told, with its arguments.
pub(crate) fn told<S: Service>(arguments: &ArgMatches) -> Option<(OwnCommand, ArgMatches)> {
    let (name, told) = arguments.subcommand()?;
    let own = S::COMMANDS.iter().find(|own| (own.define)().get_name() == name)?;
    Some((*own, told.clone()))
}
