//! LiveKit's programs in `.dev/livekit`: server and client, which Go builds once, and the client
//! for browsers from npm.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tokio::process::Command;

/// Each Go module, the package in it, and the name of its program.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("server", "github.com/livekit/livekit-server/cmd/server", "livekit-server"),
    ("client", ".", "livekit-client"),
];

/// Returns the folder of this clone for the programs.
fn home() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join(".dev/livekit")
}

/// Builds server and client, unless they are up to date. The first build takes minutes.
///
/// # Errors
/// If Go is missing, or the build fails.
pub async fn fetch() -> anyhow::Result<()> {
    let home = home();
    let _lock = lock(&home).await?;
    for (module, package, name) in PROGRAMS {
        let mut go = Command::new("go");
        go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("livekit").join(module));
        go.args(["build", "-o"]).arg(home.join(name)).arg(package);
        let output = go.output().await.context("`go` is missing: Go builds LiveKit")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("failed to build {name} with Go: {}", text.trim().lines().last().unwrap_or_default());
        }
    }
    Ok(())
}

/// Creates the folder, and waits while another process installs into it. The result of that process
/// serves this one, too.
async fn lock(home: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(home).with_context(|| format!("failed to create {}", home.display()))?;
    let lock = File::create(home.join("fetch.lock"))?;
    Ok(tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??)
}

/// Installs LiveKit's client for browsers from npm's lock file, unless it is up to date.
///
/// # Errors
/// If npm is missing, or the installation fails.
pub async fn fetch_browser_client() -> anyhow::Result<()> {
    const LOCK_FILE: &str = "package-lock.json";
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("livekit/browser");
    let _lock = lock(&home()).await?;
    let home = home().join("browser");
    let installed = std::fs::read(home.join(LOCK_FILE)).ok();
    // npm would first delete the client, which a running stack may be about to send.
    if browser_client().is_file() && installed == Some(std::fs::read(module.join(LOCK_FILE))?) {
        return Ok(());
    }
    std::fs::create_dir_all(&home)?;
    for file in ["package.json", LOCK_FILE] {
        std::fs::copy(module.join(file), home.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(&home).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    let output =
        npm.output().await.context("`npm` is missing: npm installs LiveKit's client for browsers")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "failed to install LiveKit's client for browsers with npm: {}",
            text.trim().lines().last().unwrap_or_default()
        );
    }
    Ok(())
}

/// Returns the path of LiveKit's client for browsers, a script without dependencies.
pub fn browser_client() -> PathBuf {
    home().join("browser/node_modules/livekit-client/dist/livekit-client.umd.js")
}

/// Returns the path of the server: on `PATH`, or else as built.
pub fn server() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([home()]);
    folders.map(|folder| folder.join("livekit-server")).find(|program| program.is_file())
}

/// Returns the path of the built client.
pub(super) fn client() -> PathBuf {
    home().join("livekit-client")
}
