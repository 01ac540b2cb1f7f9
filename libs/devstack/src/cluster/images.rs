//! The areas' images, made of their binaries without Docker: a folder is all of a container that they need.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::areas::Area;
use crate::children::Child;
use crate::progress::Step;
use crate::{processes, stack};

const SERVICE: &str = "usr/local/bin/service";
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// What images are called: the charts' repositories below a prefix.
pub(super) struct Images<'a> {
    pub(super) prefix: &'a str,
    pub(super) tag: &'a str,
}

impl Images<'_> {
    /// Makes each area's image of a binary in `folder`, or of one that is built now, and hands it to a command that brings it
    /// to where the cluster finds it.
    pub(super) async fn load(
        &self,
        areas: &[Area],
        folder: Option<&Path>,
        command: &str,
    ) -> anyhow::Result<()> {
        let folder = if let Some(folder) = folder {
            folder.to_owned()
        } else {
            processes::build(areas).await?;
            processes::folder()?
        };
        let step = Step::start("images");
        for Area { name, .. } in areas {
            step.note(name);
            let root = stack::dev("cluster")?.join("images").join(name);
            lay_out(&folder.join(name), &root).await.with_context(|| format!("the image of {name}"))?;
            let mut load = Command::new("/bin/sh");
            load.args(["-c", command])
                .env("IMAGE", format!("{}/platform/{name}:{}", self.prefix, self.tag))
                .env("ROOT", &root)
                .env("ENTRYPOINT", format!(r#"["/{SERVICE}"]"#));
            Child::run("image", &mut load).await.with_context(|| format!("--load-with, for {name}"))?;
            std::fs::remove_dir_all(root)?;
        }
        step.done(format!("{}/platform/…:{}, of {}", self.prefix, self.tag, folder.display()));
        Ok(())
    }
}

/// What a container's root has to hold: the binary, the libraries that it is linked with, whom it believes, and who it is.
async fn lay_out(binary: &Path, root: &Path) -> anyhow::Result<()> {
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    let put = |from: &Path, to: &Path| {
        let to = root.join(to);
        std::fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        std::fs::copy(from, to).with_context(|| from.display().to_string()).map(drop)
    };
    put(binary, Path::new(SERVICE))?;
    let linked = Command::new("ldd").arg(binary).output().await.context("`ldd` is missing")?;
    ensure!(linked.status.success(), "{} is no binary of this machine", binary.display());
    for library in libraries(&String::from_utf8(linked.stdout)?) {
        put(&library, library.strip_prefix("/")?)?;
    }
    put(&Path::new("/").join(AUTHORITIES), Path::new(AUTHORITIES))?;
    std::fs::write(root.join("etc/passwd"), "nonroot:x:65532:65532::/:/sbin/nologin\n")?;
    let tmp = root.join("tmp");
    std::fs::create_dir(&tmp)?;
    Ok(std::fs::set_permissions(tmp, PermissionsExt::from_mode(0o1777))?)
}

/// The files that `ldd` names: `libz.so.1 => /lib/…/libz.so.1 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn libraries(linked: &str) -> Vec<PathBuf> {
    let words = linked.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::libraries;

    #[test]
    fn libraries_are_found_where_the_linker_finds_them() {
        let linked = "\tlinux-vdso.so.1 (0x00007ff7)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x00007ff7)\n\t/lib64/ld-linux.so.2 (0x00007ff7)\n";
        assert_eq!(libraries(linked), [Path::new("/lib/x/libz.so.1"), Path::new("/lib64/ld-linux.so.2")]);
    }
}
