//! `load SERVER NAMES [SECONDS [SOCKETS [OUTSTANDING]]]`: asks as fast as replies come, and prints one line of JSON.
//!
//! SERVER is `ADDRESS:PORT` for UDP, or behind `tcp://`, `tls://`, `https://` or `quic://`; all that a socket has to ask goes in one
//! write. Over QUIC a socket is a connection.
//! Each of the sockets keeps so many queries under way; a reply makes room for the next. NAMES is a file of `NAME [TYPE]` lines, asked in
//! random order. A query without a reply for a second is lost.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bench::link::{Link, Transport, server};
use bench::quic::{self, Came};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// After what time a query counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the queries under way are looked through for lost ones.
const CHECK: Duration = Duration::from_millis(200);

/// The longest latency that is told apart, in microseconds.
const SLOWEST: usize = 1_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: f64| {
        words.get(at).map_or(Ok(default), |w| w.parse::<f64>().map_err(|e| format!("{w:?}: {e}")))
    };
    let plan = || -> Result<Plan, String> {
        let address = words.first().ok_or(
            "usage: load [tcp://|tls://|https://|quic://]ADDRESS:PORT NAMES [SECONDS [SOCKETS [OUTSTANDING]]]",
        )?;
        let names = words.get(1).ok_or("which names?")?;
        let text = std::fs::read_to_string(names).map_err(|e| format!("{names}: {e}"))?;
        let queries = text.lines().map(bench::query).collect::<Result<Vec<_>, _>>()?;
        if queries.is_empty() {
            return Err(format!("{names} is empty"));
        }
        Ok(Plan {
            server: server(address)?,
            queries,
            time: Duration::from_secs_f64(number(2, 3.0)?),
            sockets: number(3, 8.0)? as usize,
            // A message ID says which slot it belongs to, so that the number has to divide 65,536.
            outstanding: (number(4, 64.0)? as u16).clamp(1, 16_384).next_power_of_two(),
        })
    };
    let asked = plan().and_then(|plan| {
        let report = if plan.server.0 == Transport::Quic { run_quic(plan) } else { run(&plan) };
        report.map_err(|e| e.to_string())
    });
    match asked {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("load: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What to ask whom, and how hard.
struct Plan {
    /// The server.
    server: (Transport, SocketAddr),
    /// The queries, encoded, with ID 0.
    queries: Vec<Vec<u8>>,
    /// How long to ask.
    time: Duration,
    /// How many sockets.
    sockets: usize,
    /// How many queries under way on each.
    outstanding: u16,
}

/// A place for one query under way.
#[derive(Clone, Copy)]
struct Slot {
    /// Its message ID.
    id: u16,
    /// Which query it is.
    query: usize,
    /// When it was sent.
    sent: Instant,
    /// Whether its reply is awaited.
    open: bool,
}

/// One socket and its queries.
struct Client {
    /// The way to the server.
    link: Link,
    /// The queries.
    slots: Vec<Slot>,
    /// The slots that are free.
    free: Vec<u16>,
}

/// What came of it.
struct Tally {
    /// How many queries were sent.
    sent: u64,
    /// How many were lost.
    lost: u64,
    /// How many replies there were, by response code.
    rcodes: [u64; 16],
    /// How many datagrams were no reply to a query under way.
    strange: u64,
    /// How many replies took so many microseconds.
    latency: Vec<u32>,
}

/// Asks until the time is over, then waits for the last replies.
fn run(plan: &Plan) -> io::Result<String> {
    let begin = Instant::now();
    let slot = |id| Slot { id, query: 0, sent: begin, open: false };
    let mut clients = Vec::new();
    for _ in 0..plan.sockets {
        clients.push(Client {
            link: Link::open(plan.server.0, plan.server.1, None)?,
            slots: (0..plan.outstanding).map(slot).collect(),
            free: (0..plan.outstanding).collect(),
        });
    }
    let mut tally =
        Tally { sent: 0, lost: 0, rcodes: [0; 16], strange: 0, latency: vec![0; SLOWEST + 1] };
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut checked = begin;
    let end = begin + plan.time;
    let mut buffer = vec![0; 65_536];
    loop {
        let now = Instant::now();
        let asking = now < end;
        if asking {
            for client in &mut clients {
                client.refill(plan, &mut dice, &mut tally)?;
            }
        } else if now > end + PATIENCE || clients.iter().all(|c| c.free.len() == c.slots.len()) {
            break;
        }
        let mut fds: Vec<PollFd<'_>> =
            clients.iter().map(|c| PollFd::new(&c.link, PollFlags::IN)).collect();
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }))?;
        let ready: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
        for (client, _) in clients.iter_mut().zip(ready).filter(|(_, r)| *r) {
            client.drain(plan, &mut tally, &mut buffer)?;
        }
        if now - checked > CHECK {
            checked = now;
            for client in &mut clients {
                tally.lost += client.give_up(now);
            }
        }
    }
    let left: usize = clients.iter().map(|c| c.slots.len() - c.free.len()).sum();
    tally.lost += left as u64;
    Ok(tally.report(plan.time))
}

/// The same by DNS over QUIC.
fn run_quic(plan: Plan) -> io::Result<String> {
    let tally =
        Tally { sent: 0, lost: 0, rcodes: [0; 16], strange: 0, latency: vec![0; SLOWEST + 1] };
    let tally = Rc::new(RefCell::new(tally));
    let told = Rc::clone(&tally);
    let tell = move |came| {
        let mut tally = told.borrow_mut();
        match came {
            Came::Sent => tally.sent += 1,
            Came::Reply(rcode, took) => {
                tally.rcodes[usize::from(rcode)] += 1;
                let took = usize::try_from(took.as_micros()).map_or(SLOWEST, |t| t.min(SLOWEST));
                tally.latency[took] += 1;
            }
            Came::Strange => tally.strange += 1,
            Came::Lost => tally.lost += 1,
        }
    };
    let how = quic::Plan {
        server: plan.server.1,
        time: plan.time,
        connections: plan.sockets,
        outstanding: usize::from(plan.outstanding),
    };
    let (mut dice, queries) = (Dice(0x9e37_79b9_7f4a_7c15), plan.queries);
    quic::ask(how, move || queries[dice.below(queries.len())].clone(), tell)?;
    let report = tally.borrow().report(plan.time);
    Ok(report)
}

impl Client {
    /// Sends a query for each free slot.
    fn refill(&mut self, plan: &Plan, dice: &mut Dice, tally: &mut Tally) -> io::Result<()> {
        let mut message = [0; 512];
        while let Some(index) = self.free.pop() {
            let query = dice.below(plan.queries.len());
            let bytes = &plan.queries[query];
            let slot = &mut self.slots[usize::from(index)];
            message[..bytes.len()].copy_from_slice(bytes);
            message[..2].copy_from_slice(&slot.id.to_be_bytes());
            match self.link.send(&message[..bytes.len()]) {
                Ok(()) => (slot.query, slot.sent, slot.open) = (query, Instant::now(), true),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.free.push(index);
                    break;
                }
                Err(e) => return Err(e),
            }
            tally.sent += 1;
        }
        self.link.flush()
    }

    /// Takes all replies that are there.
    fn drain(&mut self, plan: &Plan, tally: &mut Tally, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let length = match self.link.receive(buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let reply = &buffer[..length];
            let id =
                if length < 12 { None } else { Some(u16::from_be_bytes([reply[0], reply[1]])) };
            let index = id.map(|id| id % plan.outstanding).filter(|at| {
                let slot = &self.slots[usize::from(*at)];
                slot.open && bench::answers(reply, &plan.queries[slot.query], slot.id)
            });
            let Some(index) = index else {
                tally.strange += 1;
                continue;
            };
            tally.rcodes[usize::from(reply[3] & 15)] += 1;
            let took = self.slots[usize::from(index)].sent.elapsed().as_micros();
            tally.latency[usize::try_from(took).map_or(SLOWEST, |t| t.min(SLOWEST))] += 1;
            self.release(index, plan.outstanding);
        }
    }

    /// Frees the slots whose queries are lost; says how many.
    fn give_up(&mut self, now: Instant) -> u64 {
        let outstanding = self.slots.len() as u16;
        let late: Vec<u16> = (0..outstanding)
            .filter(|at| {
                let slot = self.slots[usize::from(*at)];
                slot.open && now.saturating_duration_since(slot.sent) > PATIENCE
            })
            .collect();
        for index in &late {
            self.release(*index, outstanding);
        }
        late.len() as u64
    }

    /// Frees a slot; its next query has another ID of those that are its own.
    fn release(&mut self, index: u16, outstanding: u16) {
        let slot = &mut self.slots[usize::from(index)];
        slot.open = false;
        slot.id = slot.id.wrapping_add(outstanding);
        self.free.push(index);
    }
}

impl Tally {
    /// One line of JSON.
    fn report(&self, time: Duration) -> String {
        let answered: u64 = self.rcodes.iter().sum();
        let rcodes: BTreeMap<String, u64> = self
            .rcodes
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(code, n)| (code.to_string(), *n))
            .collect();
        serde_json::json!({
            "sent": self.sent,
            "answered": answered,
            "lost": self.lost,
            "strange": self.strange,
            "rcodes": rcodes,
            "per_second": (answered as f64 / time.as_secs_f64()).round(),
            "p50_us": self.quantile(answered, 0.5),
            "p99_us": self.quantile(answered, 0.99),
        })
        .to_string()
    }

    /// The latency that this share of the replies did not exceed, in microseconds.
    fn quantile(&self, answered: u64, share: f64) -> usize {
        let mut left = (answered as f64 * share) as u64;
        let reached = |n: &u32| {
            let done = left <= u64::from(*n);
            left = left.saturating_sub(u64::from(*n));
            done
        };
        self.latency.iter().position(reached).unwrap_or(SLOWEST)
    }
}

/// Numbers without a pattern, the same in each run (xorshift64, Marsaglia 2003).
struct Dice(u64);

impl Dice {
    /// The next one below a limit.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * limit) >> 32
    }
}
