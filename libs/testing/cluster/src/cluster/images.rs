//! The services' images, made of their binaries without Docker: a folder is all of a container that they need.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use devkit::children::Child;
use devkit::progress::Step;
use devkit::stack;
use devstack::processes;
use devstack::services::ServiceEntry;

const SERVICE: &str = "usr/local/bin/service";
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The tag of images of the release before.
const BEFORE: &str = "before";

/// Which release of a service; before this one there is one of some services.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    Before,
    This,
}

/// What images are called: the charts' repositories below a prefix.
pub(super) struct Images<'a> {
    pub(super) prefix: &'a str,
    tag: &'a str,
    /// The services that there is an earlier release of.
    pub(super) before: Vec<&'static str>,
}

impl<'a> Images<'a> {
    /// # Errors
    /// When there is a folder of the release before, and no service in it.
    pub(super) fn new(
        prefix: &'a str,
        tag: &'a str,
        services: &[ServiceEntry],
        before: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let has = |service: &&str| before.is_some_and(|folder| folder.join(service).is_file());
        let found: Vec<_> = services.iter().map(|service| service.name).filter(has).collect();
        if let Some(folder) = before.filter(|_| found.is_empty()) {
            bail!("{} has no binary of a service", folder.display());
        }
        Ok(Self { prefix, tag, before: found })
    }

    pub(super) fn tag(&self, service: &str, release: Release) -> &str {
        if release == Release::Before && self.before.contains(&service) { BEFORE } else { self.tag }
    }

    /// What the image of a service is called.
    pub(super) fn of(&self, service: &str, release: Release) -> String {
        format!("{}/platform/{service}:{}", self.prefix, self.tag(service, release))
    }

    /// Makes each service's image of a binary in `folder`, or of one that is built now, and that of the release before of what the
    /// other folder has, and hands it to a command that brings it to where the cluster finds it.
    pub(super) async fn load(
        &self,
        services: &[ServiceEntry],
        folder: Option<&Path>,
        before: Option<&Path>,
        command: &str,
    ) -> anyhow::Result<()> {
        let folder = if let Some(folder) = folder {
            folder.to_owned()
        } else {
            processes::build(services).await?;
            processes::folder()?
        };
        let step = Step::start("images");
        let this = services.iter().map(|service| (service.name, Release::This, folder.as_path()));
        let before = before
            .into_iter()
            .flat_map(|folder| self.before.iter().map(move |service| (*service, Release::Before, folder)));
        for (service, release, folder) in this.chain(before) {
            let image = self.of(service, release);
            step.note(&image);
            let root = stack::dev("cluster")?.join("images").join(service);
            lay_out(&folder.join(service), &root).await.with_context(|| format!("the image of {service}"))?;
            let mut load = Command::new("/bin/sh");
            load.args(["-c", command])
                .env("IMAGE", image)
                .env("ROOT", &root)
                .env("ENTRYPOINT", format!(r#"["/{SERVICE}"]"#));
            Child::run("image", &mut load).await.with_context(|| format!("--load-with, for {service}"))?;
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
    fn libraries_are_parsed_from_ldd() {
        let linked = "\tlinux-vdso.so.1 (0x00007ff7)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x00007ff7)\n\t/lib64/ld-linux.so.2 (0x00007ff7)\n";
        assert_eq!(libraries(linked), [Path::new("/lib/x/libz.so.1"), Path::new("/lib64/ld-linux.so.2")]);
    }
}
