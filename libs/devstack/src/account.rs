//! Whom a server runs as that refuses to be root, and a folder that this account can reach.

use std::fs::DirBuilder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use crate::stack;

/// The account of a server process: nobody in particular, or another one when this process is root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// Whoever owns the data, where there is any; else whom there is.
    pub(crate) async fn find(data: &Path) -> anyhow::Result<Self> {
        if id(&["-u"]).await? != 0 {
            return Ok(Self(None));
        }
        if let Ok(owner) = std::fs::metadata(data)
            && owner.uid() != 0
        {
            return Ok(Self(Some((owner.uid(), owner.gid()))));
        }
        for name in ["postgres", "nobody"] {
            if let (Ok(user), Ok(group)) = (id(&["-u", name]).await, id(&["-g", name]).await) {
                return Ok(Self(Some((user, group))));
            }
        }
        bail!("PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`")
    }

    pub(crate) fn is_root(self) -> bool {
        self.0.is_some()
    }

    /// A command that runs as this account, in a folder that it can read.
    pub(crate) fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }

    /// A folder that belongs to the account and that it can reach: `.dev/<name>`, or one outside of
    /// the clone with a link to it there, since a clone may lie in a home that is closed to others.
    pub(crate) async fn folder(self, name: &str) -> anyhow::Result<PathBuf> {
        let inside = stack::dev(name)?;
        if let Ok(outside) = std::fs::read_link(&inside) {
            self.own(&outside)?;
            return Ok(outside);
        }
        self.own(&inside)?;
        let enter = self
            .command(Path::new("/bin/sh"), Path::new("/"))
            .args(["-c", "cd \"$0\""])
            .arg(&inside)
            .output();
        if enter.await?.status.success() {
            return Ok(inside);
        }
        let mut hash = DefaultHasher::new();
        stack::root().hash(&mut hash);
        let outside = PathBuf::from(format!("/var/tmp/cargo-dev-{:016x}-{name}", hash.finish()));
        self.own(&outside)?;
        std::fs::remove_dir(&inside)?;
        std::os::unix::fs::symlink(&outside, &inside)?;
        Ok(outside)
    }

    /// Makes the folder, or takes it when it is the account's already: others may write to /var/tmp.
    fn own(self, folder: &Path) -> anyhow::Result<()> {
        let made = DirBuilder::new().mode(0o700).create(folder);
        if made.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
            return made.with_context(|| format!("cannot create {}", folder.display()));
        }
        if let Some((user, _)) = self.0 {
            let found = std::fs::symlink_metadata(folder)?;
            let ours = found.is_dir() && (found.uid() == user || found.uid() == 0);
            ensure!(ours, "{} belongs to somebody else", folder.display());
        }
        self.give(folder)
    }

    /// Makes the account the owner of what this process has written for it.
    pub(crate) fn give(self, path: &Path) -> anyhow::Result<()> {
        if let Some((user, group)) = self.0 {
            std::os::unix::fs::chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }
}

async fn id(arguments: &[&str]) -> anyhow::Result<u32> {
    let output = Command::new("id").args(arguments).output().await.context("`id` cannot be run")?;
    ensure!(output.status.success(), "there is no such user");
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
