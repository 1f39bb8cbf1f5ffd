//! A socket that is made, found again, taken over and removed.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use engine::admin::{Ask, Told};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;

/// Answers with its name and what was asked.
#[derive(Debug)]
struct Says(&'static str);

impl Handler for Says {
    fn handle(&self, ask: Ask<'_>) -> Told {
        Told::text(200, format!("{} {} {}", self.0, ask.path, ask.query.unwrap_or("-")))
    }
}

/// A folder for a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    /// One of this name.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("causeway-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What the socket says; none where nobody answers.
async fn ask(path: &Path, line: &str) -> Option<String> {
    let mut stream = UnixStream::connect(path).await.ok()?;
    let request = format!("GET {line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut got = String::new();
    stream.read_to_string(&mut got).await.ok()?;
    Some(got.split_once("\r\n\r\n")?.1.to_owned())
}

#[tokio::test]
async fn a_socket_is_private_and_goes_with_its_owner() {
    let folder = Folder::new("private");
    let path = folder.0.join("run/one.sock");
    let local = Local::open(path.clone(), Arc::new(Says("a")));
    assert_eq!(ask(&path, "/status?json").await.unwrap(), "a /status json");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    // It was bound elsewhere, of which nothing is left.
    let names = || -> Vec<String> {
        let all = std::fs::read_dir(folder.0.join("run")).unwrap();
        let mut all: Vec<_> =
            all.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(names(), ["one.sock", "one.sock.lock"]);
    drop(local);
    assert_eq!(names(), ["one.sock.lock"]);
}

#[test]
fn a_socket_is_bound_where_nobody_else_comes() {
    let folder = Folder::new("nook");
    let nook = Nook::within(&folder.0).unwrap();
    let path = nook.0.clone();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert!(
        path.join(IN_NOOK).as_os_str().len() <= folder.0.join("causeway.sock").as_os_str().len()
    );
    std::fs::write(path.join(IN_NOOK), "left behind").unwrap();
    drop(nook);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_lock_that_is_no_file_is_refused() {
    let folder = Folder::new("lock");
    let path = folder.0.join("four.sock");
    let lock = folder.0.join("four.sock.lock");
    let refused = || match claim(&path) {
        Err(Refused::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let elsewhere = folder.0.join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
    assert!(refused().contains("symbolic links"), "{}", refused());
    assert!(!elsewhere.exists());
    std::fs::remove_file(&lock).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
    assert!(made.success());
    // Without a reader the system says no; with one the pipe can be opened, and is no lock all the same.
    assert!(!refused().is_empty());
    let mut both = OpenOptions::new();
    let _reader = both.read(true).write(true).open(&lock).unwrap();
    assert!(refused().ends_with("four.sock.lock is no file"), "{}", refused());
    assert!(!path.exists());
}

#[test]
fn a_folder_of_everybody_is_warned_of() {
    let folder = Folder::new("everybody");
    for (mode, is_odd) in [(0o700, false), (0o755, false), (0o777, true), (0o1777, true)] {
        std::fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
        let odd = open_to_others(&folder.0).unwrap();
        assert_eq!(odd.is_some_and(|odd| odd.contains("set run_dir")), is_odd, "{mode:o}");
    }
}

#[tokio::test]
async fn a_dead_socket_is_replaced_and_a_living_one_waited_for() {
    let folder = Folder::new("stale");
    let path = folder.0.join("two.sock");
    // What a process that was killed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let first = Local::open(path.clone(), Arc::new(Says("a")));
    let second = Local::open(path.clone(), Arc::new(Says("b")));
    assert_eq!(ask(&path, "/").await.unwrap(), "a / -");
    drop(first);
    let taken = async {
        while ask(&path, "/").await.as_deref() != Some("b / -") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(AGAIN * 5, taken).await.unwrap();
    drop(second);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_is_no_socket_stays() {
    let folder = Folder::new("file");
    let path = folder.0.join("three.sock");
    std::fs::write(&path, "precious").unwrap();
    drop(Local::open(path.clone(), Arc::new(Says("a"))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    // Nor does a folder that cannot be made stop anything.
    drop(Local::open(path.join("below.sock"), Arc::new(Says("a"))));
}
