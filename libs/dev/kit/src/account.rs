//! The account of a server that refuses to run as root, and a folder that this account can reach.

use std::fs::DirBuilder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use nix::unistd::{User, geteuid};
use tokio::process::Command;

use crate::stack;

/// The account of a server process. `None` is the account of this process, which is not root.
#[derive(Clone, Copy, Debug)]
pub struct Account(Option<(u32, u32)>);

impl Account {
    /// Finds the account: the owner of the data if there is any, else `postgres` or `nobody`.
    pub fn find(data: &Path) -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        if let Ok(owner) = std::fs::metadata(data)
            && owner.uid() != 0
        {
            return Ok(Self(Some((owner.uid(), owner.gid()))));
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name)? {
                return Ok(Self(Some((user.uid.as_raw(), user.gid.as_raw()))));
            }
        }
        bail!(
            "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`: create one, run as another user, or set DATABASE_URL"
        )
    }

    /// Returns true if this process is root, so that servers need another account.
    pub fn process_is_root(self) -> bool {
        self.0.is_some()
    }

    /// Returns a command that runs as this account, in a folder that the account can read.
    pub fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }

    /// Returns a folder that the account owns and can reach.
    ///
    /// A clone may be in a home folder that is closed to others. Then `.dev/<name>` is a link to a
    /// folder outside the clone.
    pub fn folder(self, name: &str) -> anyhow::Result<PathBuf> {
        let inside = stack::dev_path(name)?;
        if let Ok(outside) = std::fs::read_link(&inside) {
            self.claim(&outside)?;
            return Ok(outside);
        }
        self.claim(&inside)?;
        let enters = self.0.map_or(Ok(true), |(user, group)| may_enter(&inside, user, group))?;
        if enters {
            return Ok(inside);
        }
        let mut hash = DefaultHasher::new();
        stack::root().hash(&mut hash);
        let outside = PathBuf::from(format!("/var/tmp/cargo-dev-{:016x}-{name}", hash.finish()));
        self.claim(&outside)?;
        std::fs::remove_dir(&inside)?;
        std::os::unix::fs::symlink(&outside, &inside)?;
        Ok(outside)
    }

    /// Creates the folder or accepts an existing one. Others may write to /var/tmp, so the owner of
    /// the folder must be this account or root.
    fn claim(self, folder: &Path) -> anyhow::Result<()> {
        let made = DirBuilder::new().mode(0o700).create(folder);
        if made.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
            return made.with_context(|| format!("failed to create {}", folder.display()));
        }
        if let Some((user, _)) = self.0 {
            let found = std::fs::symlink_metadata(folder)?;
            let ours = found.is_dir() && (found.uid() == user || found.uid() == 0);
            ensure!(ours, "{} belongs to another account", folder.display());
        }
        self.chown(folder)
    }

    /// Makes the account the owner of a path that this process has written.
    pub fn chown(self, path: &Path) -> anyhow::Result<()> {
        if let Some((user, group)) = self.0 {
            std::os::unix::fs::chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }
}

/// Returns true if an account may enter a folder, by the permissions of each folder on the way.
fn may_enter(folder: &Path, user: u32, group: u32) -> anyhow::Result<bool> {
    for folder in folder.ancestors() {
        let found = std::fs::metadata(folder)?;
        let bit = match (found.uid() == user, found.gid() == group) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        if found.mode() & bit == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::{DirBuilder, metadata};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    use super::may_enter;

    #[test]
    fn folder_below_a_private_folder_is_closed_to_other_accounts() {
        let private = std::env::temp_dir().join(format!("account-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&private).unwrap();
        let inside = private.join("inside");
        DirBuilder::new().mode(0o777).create(&inside).unwrap();
        let owner = metadata(&inside).unwrap();
        assert!(may_enter(&inside, owner.uid(), owner.gid()).unwrap());
        assert!(!may_enter(&inside, owner.uid() + 1, owner.gid() + 1).unwrap());
        std::fs::remove_dir_all(private).unwrap();
    }
}
