//! A small API server that misbehaves as it is told.

use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// What the server does after the header of a response.
pub(super) enum Step {
    /// Sends a piece of the body.
    Send(Vec<u8>),
    /// Waits.
    Wait(u64),
    /// Sends nothing more, but leaves the connection open.
    Hold,
    /// Closes the connection without the end of the body.
    Cut,
}

/// A response.
pub(super) enum Answer {
    /// A whole one of JSON.
    Whole(u16, String),
    /// One of JSON whose body comes in steps, in this encoding.
    Steps(&'static str, Vec<Step>),
    /// None, on an open connection.
    Silence,
}

/// A request as it came.
#[derive(Clone)]
pub(super) struct Asked {
    /// Path and query.
    pub(super) path: String,
    /// The header in lower case.
    pub(super) header: String,
}

/// How the server answers: by the request, and by how many of the same path there were before.
type Script = dyn Fn(&Asked, usize) -> Answer + Send + Sync;

/// A server on a port of its own.
pub(super) struct Api {
    /// Its address.
    pub(super) address: SocketAddr,
    /// What was asked.
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Requests that wait for their header now, and the most there were.
    pub(super) open: Arc<(AtomicUsize, AtomicUsize)>,
    /// The resource version that it has come to, which watchers ask for before they go on.
    pub(super) newest: Arc<AtomicU64>,
    /// After how many milliseconds it says so, and with which status code.
    pub(super) telling: Arc<(AtomicU64, AtomicU16)>,
}

impl Api {
    /// Starts a server.
    pub(super) async fn start(
        script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, script)
    }

    /// Serves on a socket.
    pub(super) fn serve(
        listener: TcpListener,
        script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (asked, open) = (Arc::new(Mutex::new(Vec::new())), Arc::default());
        let (log, script, count) = (Arc::clone(&asked), Arc::new(script), Arc::clone(&open));
        let newest = Arc::new(AtomicU64::new(u64::MAX));
        let telling = Arc::new((AtomicU64::new(0), AtomicU16::new(200)));
        let (version, tell) = (Arc::clone(&newest), Arc::clone(&telling));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(
                    stream,
                    Arc::clone(&log),
                    Arc::clone(&script) as Arc<Script>,
                    Arc::clone(&count),
                    (Arc::clone(&version), Arc::clone(&tell)),
                ));
            }
        });
        Self { address, asked, open, newest, telling }
    }

    /// Gives the requests whose path holds this text.
    pub(super) fn asked(&self, part: &str) -> Vec<Asked> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| asked.path.contains(part))
            .cloned()
            .collect()
    }
}

/// Serves one connection.
async fn connection(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Asked>>>,
    script: Arc<Script>,
    open: Arc<(AtomicUsize, AtomicUsize)>,
    (newest, telling): (Arc<AtomicU64>, Arc<(AtomicU64, AtomicU16)>),
) {
    let mut have = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = have.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            let mut piece = [0; 4096];
            match stream.read(&mut piece).await {
                Ok(len) if len > 0 => have.extend_from_slice(&piece[..len]),
                _ => return,
            }
        };
        let header = String::from_utf8(have.drain(..end).collect()).unwrap();
        let path = header.split(' ').nth(1).unwrap().to_owned();
        let asked = Asked { header: header.to_ascii_lowercase(), path };
        if asked.path.ends_with("?limit=1") {
            let version = newest.load(SeqCst).to_string();
            let list = json!({ "metadata": { "resourceVersion": version }, "items": [] });
            open.0.fetch_add(1, SeqCst);
            sleep(Duration::from_millis(telling.0.load(SeqCst))).await;
            let answer = Answer::Whole(telling.1.load(SeqCst), list.to_string());
            if respond(&mut stream, answer, &open.0).await.is_err() {
                return;
            }
            continue;
        }
        let before = {
            let mut log = log.lock().unwrap();
            let base = asked.path.split('?').next().unwrap().to_owned();
            let before =
                log.iter().filter(|other| other.path.split('?').next() == Some(&base)).count();
            log.push(asked.clone());
            before
        };
        let now = open.0.fetch_add(1, SeqCst) + 1;
        open.1.fetch_max(now, SeqCst);
        if let Some(delay) = asked.path.find("delay-").map(|at| &asked.path[at + 6..]) {
            sleep(Duration::from_millis(delay.parse().unwrap())).await;
        }
        let answer = script(&asked, before);
        let result = respond(&mut stream, answer, &open.0).await;
        if result.is_err() {
            return;
        }
    }
}

/// Sends a response; an error ends the connection.
async fn respond(
    stream: &mut TcpStream,
    answer: Answer,
    open: &AtomicUsize,
) -> std::io::Result<()> {
    let (encoding, steps) = match answer {
        Answer::Silence => std::future::pending().await,
        Answer::Whole(status, body) => {
            // Long enough that requests at once are seen to be.
            sleep(Duration::from_millis(5)).await;
            open.fetch_sub(1, SeqCst);
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            return stream.write_all((head + &body).as_bytes()).await;
        }
        Answer::Steps(encoding, steps) => (encoding, steps),
    };
    sleep(Duration::from_millis(5)).await;
    open.fetch_sub(1, SeqCst);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {encoding}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    for step in steps {
        match step {
            Step::Send(bytes) => {
                stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
                stream.write_all(&bytes).await?;
                stream.write_all(b"\r\n").await?;
            }
            Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
            Step::Hold => std::future::pending::<()>().await,
            Step::Cut => return Err(std::io::Error::other("cut")),
        }
    }
    stream.write_all(b"0\r\n\r\n").await
}

/// Makes one gzip member.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
