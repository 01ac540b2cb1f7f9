//! The images of the services, made from their binaries without Docker: a folder with the root of
//! the container.

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

/// The tag of images of the previous release.
const BEFORE: &str = "before";

/// A release of a service. A service may have no previous one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    Before,
    This,
}

/// The names of images: the charts' repositories below a prefix.
pub(super) struct Images<'a> {
    pub(super) prefix: &'a str,
    tag: &'a str,
    /// The services with a previous release.
    pub(super) before: Vec<&'static str>,
}

impl<'a> Images<'a> {
    /// Creates the names.
    ///
    /// # Errors
    /// If the folder of the previous release has no binary of any service.
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

    /// Returns the name of a service's image.
    pub(super) fn of(&self, service: &str, release: Release) -> String {
        format!("{}/platform/{service}:{}", self.prefix, self.tag(service, release))
    }

    /// Makes the image of each service and release, and runs the command that loads it into the
    /// cluster.
    ///
    /// Binaries come from `folder`, or are built. Those of the previous release come from `before`.
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
            let root = stack::dev_path("cluster")?.join("images").join(service);
            write_root(&folder.join(service), &root)
                .await
                .with_context(|| format!("the image of {service}"))?;
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

/// Fills the root of a container: the binary, its libraries, certificates and the user.
async fn write_root(binary: &Path, root: &Path) -> anyhow::Result<()> {
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

/// Returns the files in the output of `ldd`: `libz.so.1 => /lib/…/libz.so.1 (0x…)`,
/// `/lib64/ld-linux-x86-64.so.2 (0x…)`.
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
