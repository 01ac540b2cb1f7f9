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
    std::fs::create_dir_all(&home).with_context(|| format!("failed to create {}", home.display()))?;
    let lock = File::create(home.join("fetch.lock"))?;
    // Another process may be building. Its result serves this process, too.
    let _lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
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

/// Installs LiveKit's client for browsers from npm's lock file.
///
/// # Errors
/// If npm is missing, or the installation fails.
pub async fn fetch_browser_client() -> anyhow::Result<()> {
    let home = home().join("browser");
    std::fs::create_dir_all(&home).with_context(|| format!("failed to create {}", home.display()))?;
    for file in ["package.json", "package-lock.json"] {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("livekit/browser").join(file);
        std::fs::copy(module, home.join(file))?;
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
