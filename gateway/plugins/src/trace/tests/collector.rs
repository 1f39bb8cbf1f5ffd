//! A collector that keeps what it gets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct Got {
    /// `POST /path HTTP/1.1`.
    pub(super) line: String,
    /// The other lines of its head, in small letters.
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
}

/// A collector.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub(super) addr: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Collector {
    /// One that replies so to all: `202 Accepted`.
    pub(super) async fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Self::at(listener, status)
    }

    /// One at a socket.
    pub(super) fn at(listener: TcpListener, status: &'static str) -> Self {
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let made = Self { addr: listener.local_addr().unwrap(), got: Arc::clone(&got) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let got = Arc::clone(&got);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read(&mut stream).await {
                        got.lock().unwrap().push(request);
                        let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
                        stream.get_mut().write_all(reply.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        made
    }

    /// The next request.
    pub(super) async fn next(&self) -> Got {
        for _ in 0..400 {
            if let Some(got) = self.first() {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("nothing has come");
    }

    /// The first request, if there is one.
    pub(super) fn first(&self) -> Option<Got> {
        let mut got = self.got.lock().unwrap();
        if got.is_empty() { None } else { Some(got.remove(0)) }
    }
}

/// Reads a request; none at the end.
async fn read(stream: &mut BufReader<tokio::net::TcpStream>) -> Option<Got> {
    let mut got = Got::default();
    stream.read_line(&mut got.line).await.ok().filter(|len| *len > 0)?;
    got.line.truncate(got.line.trim_end().len());
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end() {
            "" => break,
            line => got.headers.push(line.to_ascii_lowercase()),
        }
    }
    let length = got.headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    got.body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut got.body).await.ok()?;
    Some(got)
}
