//! LiveKit's server and a client of it, built from their Go modules once, and its client for browsers, from npm. All are kept
//! under `.dev/livekit`.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tokio::process::Command;

/// The modules, the packages in them, and what their programs are called here.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("server", "github.com/livekit/livekit-server/cmd/server", "livekit-server"),
    ("client", ".", "livekit-client"),
];

/// The folder of this clone that holds what was built.
fn home() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join(".dev/livekit")
}

/// Brings both programs as they should be: minutes the first time, a moment afterwards.
///
/// # Errors
/// When there is no Go, or it cannot build them.
pub async fn fetch() -> anyhow::Result<()> {
    let home = home();
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let lock = File::create(home.join("fetch.lock"))?;
    // Another process may be at it; what it brings serves this one, too.
    let _lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    for (module, package, name) in PROGRAMS {
        let mut go = Command::new("go");
        go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("livekit").join(module));
        go.args(["build", "-o"]).arg(home.join(name)).arg(package);
        let output = go.output().await.context("`go` is missing: a real LiveKit is built by Go")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("Go could not build {name}: {}", text.trim().lines().last().unwrap_or_default());
        }
    }
    Ok(())
}

/// Brings LiveKit's client for browsers as npm's lock file has it.
///
/// # Errors
/// When there is no npm, or it cannot get it.
pub async fn fetch_browser_client() -> anyhow::Result<()> {
    let home = home().join("browser");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    for file in ["package.json", "package-lock.json"] {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("livekit/browser").join(file);
        std::fs::copy(module, home.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(&home).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    let output = npm.output().await.context("`npm` is missing: it brings LiveKit's client for browsers")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("npm could not bring it: {}", text.trim().lines().last().unwrap_or_default());
    }
    Ok(())
}

/// LiveKit's client for browsers, a script for which it needs nothing else, where it was brought.
pub fn browser_client() -> PathBuf {
    home().join("browser/node_modules/livekit-client/dist/livekit-client.umd.js")
}

/// The server: the one on the PATH, or the one that was built.
pub fn server() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([home()]);
    folders.map(|folder| folder.join("livekit-server")).find(|program| program.is_file())
}

/// The client, where it was built.
pub(super) fn client() -> PathBuf {
    home().join("livekit-client")
}
