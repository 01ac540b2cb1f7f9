//! The control socket of a running stack. A connection carries one request and one reply, each a
//! line of JSON.

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
/// The name of the socket until its permissions are set.
const NEW_SOCKET: &str = "control.sock.new";
/// Length of a socket's path that every system supports, in bytes.
const MAX_SOCKET_PATH: usize = 103;
/// Timeout of reading a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_REQUEST_BYTES: u64 = 1024;

/// A request to a running stack, with the name of the service.
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

/// Sends a request to the running stack and waits until it is done.
pub async fn send(request: &Request) -> anyhow::Result<String> {
    send_to(&Folder::open(&stack::dev_path("")?)?, request).await
}

async fn send_to(folder: &Folder, request: &Request) -> anyhow::Result<String> {
    let stream = UnixStream::connect(folder.reach(SOCKET)).await;
    let mut stream =
        BufReader::new(stream.context("the running stack does not listen on .dev/control.sock")?);
    stream.write_all(&line(request)?).await?;
    let mut reply = String::new();
    stream.read_line(&mut reply).await?;
    ensure!(!reply.is_empty(), "the stack ended before it replied");
    match serde_json::from_str(&reply).context("the reply of the running stack is invalid")? {
        Reply::Done(what) => Ok(what),
        Reply::Failed(why) => bail!(why),
    }
}

fn line(message: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The socket on which the stack listens. Dropping it removes the socket.
pub struct Control {
    listener: UnixListener,
    folder: Folder,
}

impl Control {
    pub fn listen() -> anyhow::Result<Self> {
        Self::listen_at(Folder::open(&stack::dev_path("")?)?)
    }

    fn listen_at(folder: Folder) -> anyhow::Result<Self> {
        let new = folder.path.join(NEW_SOCKET);
        stack::remove(&new)?;
        let listener = UnixListener::bind(folder.reach(NEW_SOCKET)).context("the control socket")?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        // Replaces the socket of a killed stack. This process holds the stack's lock.
        std::fs::rename(new, folder.path.join(SOCKET))?;
        Ok(Self { listener, folder })
    }

    /// Removes the socket of a killed stack.
    pub fn remove_socket() -> anyhow::Result<()> {
        stack::remove(&stack::dev_path(SOCKET)?).and(stack::remove(&stack::dev_path(NEW_SOCKET)?))
    }

    /// Waits for the next request and drops connections without a valid one.
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
                // An error such as too many open files is temporary.
                Err(_) => tokio::time::sleep(REQUEST_TIMEOUT).await,
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A client detects a socket without a listener, and the next stack replaces it.
        let _ = stack::remove(&self.folder.path.join(SOCKET));
    }
}

/// A request and the connection that waits for its reply.
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
            // The request is done even if the client has disconnected.
            let _ = self.stream.write_all(&line).await;
        }
    }
}

/// An open folder. Its sockets are reachable although the path of the clone may be long.
struct Folder {
    path: PathBuf,
    open: File,
}

impl Folder {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), open: File::open(path)? })
    }

    /// Returns a path that is short enough for a socket.
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

    use super::{Control, Folder, Request, SOCKET, send_to};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Sends a request to a stack that replies with the request itself.
    async fn request_stop(path: &Path, control: &Control) -> anyhow::Result<String> {
        let (folder, request) = (Folder::open(path)?, Request::Stop("news".to_owned()));
        let serve = async {
            let pending = control.next().await;
            let done = format!("{:?}", pending.request);
            pending.reply(Ok(done)).await;
        };
        tokio::join!(send_to(&folder, &request), serve).0
    }

    #[tokio::test]
    async fn socket_is_private_and_is_removed_with_the_stack() {
        let path = folder("mode");
        // The socket file of a killed stack, which the new socket replaces.
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
