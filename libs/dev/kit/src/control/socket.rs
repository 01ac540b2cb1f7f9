//! The socket on which a running stack hears what is asked of it. A connection carries one request and
//! one reply, a line of JSON each.

use std::fs::{File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::stack;

const SOCKET: &str = "control.sock";
/// Where it is made; it gets its name once nobody else may open it.
const NEW_SOCKET: &str = "control.sock.new";
/// A socket's path has room for so many bytes on every system.
const MAX_SOCKET_PATH: usize = 103;
/// How long the other side may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// More than any request needs.
const MAX_REQUEST_BYTES: u64 = 1024;

/// What can be asked of a running stack, about the service of this name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    Stop(String),
    Start(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Done(String),
    Failed(String),
}

/// Has the running stack do something; answers once that is done.
pub async fn ask(request: &Request) -> anyhow::Result<String> {
    ask_at(&Folder::open(&stack::dev("")?)?, request).await
}

async fn ask_at(folder: &Folder, request: &Request) -> anyhow::Result<String> {
    let stream = UnixStream::connect(folder.reach(SOCKET)).await;
    let mut stream =
        BufReader::new(stream.context("the running stack does not listen on .dev/control.sock")?);
    stream.write_all(&line(request)?).await?;
    let mut reply = String::new();
    stream.read_line(&mut reply).await?;
    ensure!(!reply.is_empty(), "the stack ended before it was done");
    match serde_json::from_str(&reply).context("the running stack answers nonsense")? {
        Reply::Done(what) => Ok(what),
        Reply::Failed(why) => bail!(why),
    }
}

fn line(message: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The stack's end of the socket, which is there for as long as this is.
pub struct Control {
    listener: UnixListener,
    folder: Folder,
}

impl Control {
    pub fn listen() -> anyhow::Result<Self> {
        Self::listen_at(Folder::open(&stack::dev("")?)?)
    }

    fn listen_at(folder: Folder) -> anyhow::Result<Self> {
        let new = folder.path.join(NEW_SOCKET);
        stack::remove(&new)?;
        let listener = UnixListener::bind(folder.reach(NEW_SOCKET)).context("the control socket")?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        // In the place of one that was left behind: who gets here holds the stack's lock.
        std::fs::rename(new, folder.path.join(SOCKET))?;
        Ok(Self { listener, folder })
    }

    /// Removes what a stack that was killed has left.
    pub fn forget() -> anyhow::Result<()> {
        stack::remove(&stack::dev(SOCKET)?).and(stack::remove(&stack::dev(NEW_SOCKET)?))
    }

    /// The next request. Who connects and asks for nothing that is known here gets nothing.
    pub async fn next(&self) -> PendingRequest {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Ok(Ok(pending)) =
                        tokio::time::timeout(REQUEST_TIMEOUT, PendingRequest::read(stream)).await
                    {
                        return pending;
                    }
                }
                // Too many open files, say: it passes.
                Err(_) => tokio::time::sleep(REQUEST_TIMEOUT).await,
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A socket that nobody listens on is told apart by that, and replaced by the next.
        let _ = stack::remove(&self.folder.path.join(SOCKET));
    }
}

/// A request and who waits for its reply.
pub struct PendingRequest {
    pub request: Request,
    stream: UnixStream,
}

impl PendingRequest {
    async fn read(mut stream: UnixStream) -> anyhow::Result<Self> {
        let mut text = String::new();
        BufReader::new((&mut stream).take(MAX_REQUEST_BYTES)).read_line(&mut text).await?;
        Ok(Self { request: serde_json::from_str(&text)?, stream })
    }

    pub async fn reply(mut self, result: anyhow::Result<String>) {
        let reply = result.map_or_else(|error| Reply::Failed(format!("{error:#}")), Reply::Done);
        if let Ok(line) = line(&reply) {
            // Nobody waits for it any more: it is done all the same.
            let _ = self.stream.write_all(&line).await;
        }
    }
}

/// A folder, held open, so that a socket in it can be reached wherever the clone lies.
struct Folder {
    path: PathBuf,
    open: File,
}

impl Folder {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), open: File::open(path)? })
    }

    /// A path that is short enough for a socket.
    fn reach(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return PathBuf::from(format!("/proc/self/fd/{}/{name}", self.open.as_raw_fd()));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::{Control, Folder, Request, SOCKET, ask_at};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Asks a stack that does all that it is asked, and says so.
    async fn request_stop(path: &Path, control: &Control) -> anyhow::Result<String> {
        let (folder, request) = (Folder::open(path)?, Request::Stop("news".to_owned()));
        let serve = async {
            let pending = control.next().await;
            let done = format!("{:?}", pending.request);
            pending.reply(Ok(done)).await;
        };
        tokio::join!(ask_at(&folder, &request), serve).0
    }

    #[tokio::test]
    async fn socket_belongs_to_its_owner_and_is_removed_with_the_stack() {
        let path = folder("mode");
        // Nobody listens on this one any more.
        drop(std::os::unix::net::UnixListener::bind(path.join(SOCKET)).unwrap());
        let control = Control::listen_at(Folder::open(&path).unwrap()).unwrap();
        let mode = std::fs::metadata(path.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(request_stop(&path, &control).await.unwrap(), r#"Stop("news")"#);
        drop(control);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        std::fs::remove_dir(path).unwrap();
    }

    #[tokio::test]
    async fn invalid_request_does_not_block_others() {
        let path = folder("nonsense");
        let control = Control::listen_at(Folder::open(&path).unwrap()).unwrap();
        let mut stranger = UnixStream::connect(path.join(SOCKET)).await.unwrap();
        stranger.write_all(b"{\"restart\":\"news\"}\n").await.unwrap();
        assert_eq!(request_stop(&path, &control).await.unwrap(), r#"Stop("news")"#);
        drop(control);
        std::fs::remove_dir(path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn socket_works_below_a_long_path() {
        let path = folder(&"deep".repeat(40));
        let control = Control::listen_at(Folder::open(&path).unwrap()).unwrap();
        assert_eq!(request_stop(&path, &control).await.unwrap(), r#"Stop("news")"#);
        drop(control);
        std::fs::remove_dir(path).unwrap();
    }
}
