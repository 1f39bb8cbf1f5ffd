//! `idle SERVER NAME CONNECTIONS`: opens connections (`tcp://`, `tls://`, `https://`, `quic://` or `https3://`), asks once on each, and lets them stand.
//!
//! It prints `open` when all are, and waits for a line; then it asks once more on each, and prints one line of JSON: how many
//! answered, and the longest time that one took, in microseconds. Each 500 connections come from an address of their own of
//! 127.0.0.0/8.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bench::link::{Link, Transport, server};
use bench::quic;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How many connections come from one address.
const SHARE: usize = 500;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, count] = &*words else {
        eprintln!("usage: idle tls://ADDRESS:PORT NAME CONNECTIONS");
        return ExitCode::FAILURE;
    };
    let run = || -> Result<String, String> {
        let (to, query) = (server(address)?, bench::query(name)?);
        let count = count.parse().map_err(|e| format!("{count:?}: {e}"))?;
        run(to, &query, count).map_err(|e| e.to_string())
    };
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("idle: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Opens the connections, waits, and asks again.
fn run(to: (Transport, SocketAddr), query: &[u8], count: usize) -> io::Result<String> {
    let (transport, address) = to;
    if matches!(transport, Transport::Quic | Transport::Https3) {
        let over_http = transport == Transport::Https3;
        let slowest = quic::hold(address, over_http, count, query, || drop(wait()))?;
        return Ok(report(count, slowest));
    }
    let mut links = Vec::with_capacity(count);
    for number in 0..count {
        let share = u8::try_from(number / SHARE % 250).unwrap_or_default();
        let source = IpAddr::from([127, 0, 1, share + 1]);
        let mut link = Link::open(to.0, to.1, Some(source).filter(|_| to.1.is_ipv4()))?;
        ask(&mut link, query)?;
        links.push(link);
    }
    wait()?;
    let (mut answered, mut slowest) = (0, Duration::ZERO);
    for link in &mut links {
        slowest = slowest.max(ask(link, query)?);
        answered += 1;
    }
    Ok(report(answered, slowest))
}

/// Tells that all connections are open, and waits for a line.
fn wait() -> io::Result<()> {
    println!("open");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// The line of JSON.
fn report(answered: usize, slowest: Duration) -> String {
    serde_json::json!({ "answered": answered, "slowest_us": slowest.as_micros() as u64 })
        .to_string()
}

/// Asks, and says how long the answer took.
fn ask(link: &mut Link, query: &[u8]) -> io::Result<Duration> {
    let begin = Instant::now();
    link.send(query)?;
    link.flush()?;
    let mut buffer = vec![0; 65_536];
    loop {
        match link.receive(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(&*link, PollFlags::IN)];
                if poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 }))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            length => {
                let is_answer = bench::answers(&buffer[..length?], query, 0);
                return is_answer
                    .then(|| begin.elapsed())
                    .ok_or_else(|| io::Error::other("no answer"));
            }
        }
    }
}
