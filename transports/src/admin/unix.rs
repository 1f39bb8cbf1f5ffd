//! A unix socket that a handler answers at, for those who may read the files of this process's user.
//!
//! A lock file beside it says whose it is, and is free as soon as its process is dead: so a socket that was left behind is
//! replaced, and one whose process lives is waited for, as at a hand-over between two processes.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::admin::{Handler, Page};
use engine::{Stage, Stopper};
use tokio::net::UnixListener;
use tokio::time::sleep;

use super::{GRACE, Pages, accept};

/// How many connections there are at a time; more wait to be accepted.
const CONNECTIONS: usize = 16;

/// How often a socket that another process has is looked at.
const AGAIN: Duration = Duration::from_secs(2);

/// A unix socket of this process, removed when dropped.
#[derive(Debug)]
pub struct Local {
    state: Arc<Mutex<State>>,
    stopper: Stopper,
}

/// Whose the socket is.
#[derive(Debug)]
enum State {
    /// Somebody else's, or nobody's.
    Waiting,
    /// Ours.
    #[expect(dead_code, reason = "held, since the socket goes with it")]
    Held(Held),
    /// Nobody's, and it stays so.
    Closed,
}

/// A socket that is ours.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may be gone already, which is just as well.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Why a socket cannot be had.
#[derive(Debug)]
enum Refused {
    /// A living process has it.
    Taken,
    /// Something else.
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Local {
    /// Serves `handler` at the socket `path`, from now on or as soon as no other process has it; where there can be no socket the
    /// log says so, and nothing else comes of it. Must be called within the runtime that is to serve it.
    pub fn open(path: PathBuf, handler: Arc<dyn Handler>) -> Self {
        let local =
            Self { state: Arc::new(Mutex::new(State::Waiting)), stopper: Stopper::new(GRACE) };
        let addr = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let page = Page { addr, path: "/".to_owned(), plugin: "control", handler, tls: None };
        let pages = Arc::new(Pages::new(vec![page]));
        let mut stop = local.stopper.stop();
        match take(&local.state, &path) {
            Ok(listener) => {
                tokio::spawn(accept(listener, CONNECTIONS, pages, stop));
            }
            Err(Refused::Failed(error)) => log::warn!("{}", without(&path, &error)),
            Err(Refused::Taken) => {
                log::warn!(
                    "another process has the control socket {}: this one takes it over when that one has ended",
                    path.display()
                );
                let state = Arc::clone(&local.state);
                tokio::spawn(async move {
                    loop {
                        tokio::select! {
                            () = sleep(AGAIN) => {}
                            () = stop.reached(Stage::Draining) => return,
                        }
                        match take(&state, &path) {
                            Ok(listener) => {
                                log::info!("the control socket is {} now", path.display());
                                return accept(listener, CONNECTIONS, pages, stop).await;
                            }
                            Err(Refused::Taken) => {}
                            Err(Refused::Failed(error)) => {
                                return log::warn!("{}", without(&path, &error));
                            }
                        }
                    }
                });
            }
        }
        local
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stopper.reach(Stage::Draining);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }
}

/// What the log says of a socket that cannot be had.
fn without(path: &Path, error: &io::Error) -> String {
    format!(
        "there is no control socket, `causeway status` and its like will not find this process: {}: {error} (set run_dir to a folder that it may write to)",
        path.display()
    )
}

/// Makes the socket, and keeps it in `state`.
///
/// # Errors
/// What is in the way of that.
fn take(state: &Mutex<State>, path: &Path) -> Result<UnixListener, Refused> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Closed) {
        return Err(Refused::Taken);
    }
    let (held, listener) = claim(path)?;
    *state = State::Held(held);
    Ok(listener)
}

/// Locks and binds.
///
/// # Errors
/// What is in the way of that.
fn claim(path: &Path) -> Result<(Held, UnixListener), Refused> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let lock = lock(path)?;
    if let Some(odd) = open_to_others(folder)? {
        log::warn!("{odd}");
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "is no socket").into());
        }
        _ => {}
    }
    // Bound where nobody else comes, so that nobody finds it before its mode is set.
    let nook = Nook::within(folder)?;
    let fresh = nook.0.join(IN_NOOK);
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, path)?;
    Ok((Held { path: path.to_path_buf(), _lock: lock }, listener))
}

/// Takes the lock of a socket: that of the file beside it.
///
/// # Errors
/// That another process has it, or that there is something else than a file.
fn lock(path: &Path) -> Result<File, Refused> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    // Whoever may write to the folder can put a link there, or a pipe, whose opening has no end.
    let lock = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&name)?;
    if !lock.metadata()?.is_file() {
        let what = format!("{} is no file", name.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what).into());
    }
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Refused::Taken),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// What is odd about a folder to which everybody may write.
///
/// # Errors
/// Those of looking at it.
fn open_to_others(folder: &Path) -> io::Result<Option<String>> {
    let mode = std::fs::metadata(folder)?.permissions().mode();
    Ok((mode & 0o002 != 0).then(|| {
        format!(
            "everybody may write to {}, and so put a control socket of their own there (set run_dir to a folder of this user)",
            folder.display()
        )
    }))
}

/// The socket's name in its nook: shorter than the one it gets, since a socket's path has 107 octets at most.
const IN_NOOK: &str = "s";

/// A folder that nobody else may look into, removed when dropped.
struct Nook(PathBuf);

impl Nook {
    /// A fresh one.
    ///
    /// # Errors
    /// Those of making it.
    fn within(folder: &Path) -> io::Result<Self> {
        // A hasher with a fresh key is as good as a random number here.
        let name = format!(".{:08x}", RandomState::new().hash_one(()) as u32);
        let path = folder.join(name);
        // What is there already, be it a link, is not taken.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Nook {
    fn drop(&mut self) {
        // The socket is still there only if something has failed.
        drop(std::fs::remove_file(self.0.join(IN_NOOK)));
        drop(std::fs::remove_dir(&self.0));
    }
}

#[cfg(test)]
mod tests;
