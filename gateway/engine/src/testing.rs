//! A gateway in a test: built from a Corefile, asked in words, answering in words, without a socket.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::Diagnostic;
use wire::{Answer, Edns, Flags, Request, Section, rtype, scan, text};

use crate::build::{Build, Built, Origin};
use crate::door::{Http, Session};
use crate::exchange::{Exchange, Transport};
use crate::gateway::{Common, Gateway, Limits, Served};
use crate::process::Process;
use crate::route::ListenerId;
use crate::setup::{Descriptor, Wait};

/// A gateway under test, with a clock of its own.
#[derive(Debug)]
pub struct Bench {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// What was built beside the configuration: pages, warnings.
    pub built: Aside,
    plugins: &'static [&'static Descriptor],
    process: Arc<Process>,
    /// The moment that queries come at.
    now: Instant,
    /// Who asks.
    pub peer: SocketAddr,
    /// Which address is asked.
    pub local: SocketAddr,
}

/// What a build gives beside the configuration.
#[derive(Debug, Default)]
pub struct Aside {
    /// The pages of admin listeners.
    pub pages: Vec<crate::admin::Page>,
    /// What is odd about the configuration.
    pub warnings: Vec<Diagnostic>,
    /// What a start waits for.
    pub waits: Waits,
}

/// What a start waits for; the bench does not.
#[derive(Default)]
pub struct Waits(Mutex<Vec<Wait>>);

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits").finish_non_exhaustive()
    }
}

impl Waits {
    /// Waits, for one after another.
    ///
    /// # Errors
    /// What forbids the start, in a line.
    pub async fn over(&self) -> Result<(), String> {
        let waits = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for wait in waits {
            wait.await.map_err(|wrong| shown(&[wrong]))?;
        }
        Ok(())
    }
}

impl Bench {
    /// A gateway for the text of a Corefile. Its tasks run if there is a runtime.
    ///
    /// # Panics
    /// If the Corefile is refused; see [`Bench::refused`] for those that must be.
    pub fn new(plugins: &'static [&'static Descriptor], corefile: &str) -> Self {
        match Self::try_new(plugins, corefile) {
            Ok(bench) => bench,
            Err(wrong) => panic!("refused: {}", shown(&wrong)),
        }
    }

    /// The same, with what is wrong as text.
    ///
    /// # Panics
    /// If the Corefile is accepted.
    pub fn refused(plugins: &'static [&'static Descriptor], corefile: &str) -> String {
        match Self::try_new(plugins, corefile) {
            Ok(_) => panic!("accepted"),
            Err(wrong) => shown(&wrong),
        }
    }

    /// The same, with the diagnostics.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn try_new(
        plugins: &'static [&'static Descriptor],
        corefile: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        let data = std::env::temp_dir();
        let process = Arc::new(Process::new(data, "test".to_owned(), 1, Duration::from_secs(1)));
        let common = Common::new(Limits::default());
        let built = build(plugins, corefile, &process, common, None)?;
        let (gateway, built) = go_live(built, None);
        Ok(Self {
            gateway,
            built,
            plugins,
            process,
            now: Instant::now(),
            peer: SocketAddr::from(([127, 0, 0, 1], 40000)),
            local: SocketAddr::from(([127, 0, 0, 1], 53)),
        })
    }

    /// Replaces the configuration, as a reload does.
    ///
    /// # Errors
    /// All that is wrong; the old configuration goes on.
    pub fn reload(&mut self, corefile: &str) -> Result<(), Vec<Diagnostic>> {
        let common = Arc::clone(self.gateway.common());
        let built =
            build(self.plugins, corefile, &self.process, common, Some(self.gateway.live()))?;
        self.built = go_live(built, Some(&self.gateway)).1;
        Ok(())
    }

    /// The process that the plugins see.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Lets time pass for the queries to come.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Has the queries to come be those of `addr`.
    pub fn from(&mut self, addr: IpAddr) -> &mut Self {
        self.peer.set_ip(addr);
        self
    }

    /// A query ready to be served. `line` is a name, a type (default A), a class (default IN), and any of `+do +bufsize=N
    /// +tcp +norec +cd +ad +edns +opt=CODE:HEX +port=N`; with `+tls +sni=NAME +cert=FILE` (a certificate in DER; again for
    /// the others of its chain) it comes over DoT, with `+http +path=SECRET +auth=SCHEME:CREDENTIALS` over DoH.
    ///
    /// # Panics
    /// If the line cannot be read.
    pub fn exchange(&self, line: &str) -> Box<Exchange> {
        let Asked { request, transport, port, session, http } = read_line(line);
        let group = |port: u16| {
            let live = self.gateway.live();
            live.groups().find(|group| port == 0 || group.key.port == port).map(|group| group.id)
        };
        let listener = group(port).unwrap_or(ListenerId(usize::MAX));
        let mut x = Exchange::new(listener, transport, self.local);
        x.query.peer = self.peer;
        x.query.received = self.now;
        wire::encode_query(&request, 0x2a2a, &mut x.query.wire);
        x.query.session = session.map(Arc::new);
        x.query.http = http.map(Box::new);
        x
    }

    /// Serves a query that nobody has to wait for; the message of the reply.
    ///
    /// # Panics
    /// If a plugin has to wait: use [`Bench::ask`].
    pub fn serve(&self, x: &mut Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        match self.gateway.serve(x, &mut out) {
            Served::Now => out,
            Served::Later(_) => panic!("a plugin has to wait"),
        }
    }

    /// Asks without waiting; the reply as [`show`] puts it.
    pub fn now(&self, line: &str) -> String {
        show(&self.serve(&mut self.exchange(line)))
    }

    /// Asks, and waits if a plugin has to; the reply as [`show`] puts it.
    pub async fn ask(&self, line: &str) -> String {
        show(&self.message(line).await)
    }

    /// Asks, and waits if a plugin has to; the messages of the reply in one buffer (mostly one).
    pub async fn message(&self, line: &str) -> Vec<u8> {
        let mut x = self.exchange(line);
        let mut out = Vec::new();
        if let Served::Later(live) = self.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        out
    }

    /// Asks for a transfer and gives all its messages.
    pub async fn messages(&self, line: &str) -> Vec<Vec<u8>> {
        let mut x = self.exchange(line);
        let mut out = Vec::new();
        if let Served::Later(live) = self.gateway.serve(&mut x, &mut out) {
            live.complete(&mut x, &mut out).await;
        }
        let mut all = vec![out];
        loop {
            let mut next = Vec::new();
            if !x.more(65535, &mut next) {
                return all;
            }
            all.push(next);
        }
    }
}

/// Diagnostics in one line each.
fn shown(wrong: &[Diagnostic]) -> String {
    let lines = wrong.iter().map(|one| match &one.help {
        Some(help) => format!("{} ({help})", one.what),
        None => one.what.clone(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Parses and builds.
fn build(
    plugins: &'static [&'static Descriptor],
    corefile: &str,
    process: &Arc<Process>,
    common: Arc<Common>,
    previous: Option<Arc<crate::Live>>,
) -> Result<Built, Vec<Diagnostic>> {
    let parsed = config::corefile::parse(
        Path::new("Corefile"),
        corefile,
        &|_| None,
        &config::corefile::Disk,
    )?;
    let origin = Origin { files: vec![(PathBuf::from("Corefile"), corefile.to_owned())] };
    let build = Build {
        plugins,
        transports: &[
            Transport::Udp,
            Transport::Tls,
            Transport::Https,
            Transport::Https3,
            Transport::Quic,
            Transport::Grpc,
        ],
        check_cluster: |_| Ok(()),
        port: 53,
        process: Arc::clone(process),
        common,
        origin: Arc::new(origin),
        previous,
    };
    build.build(&parsed.blocks)
}

/// Starts what was built.
fn go_live(mut built: Built, gateway: Option<&Arc<Gateway>>) -> (Arc<Gateway>, Aside) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        for (_, task) in built.tasks() {
            runtime.spawn(task);
        }
    }
    let aside = Aside {
        pages: std::mem::take(&mut built.pages),
        warnings: std::mem::take(&mut built.warnings),
        waits: Waits(Mutex::new(std::mem::take(&mut built.waits))),
    };
    let gateway = match gateway {
        None => Arc::new(Gateway::new(built.live)),
        Some(gateway) => {
            gateway.reload(built.live);
            Arc::clone(gateway)
        }
    };
    (gateway, aside)
}

/// What a query line says.
struct Asked {
    request: Request,
    transport: Transport,
    port: u16,
    session: Option<Session>,
    http: Option<Http>,
}

/// Reads a query line.
fn read_line(line: &str) -> Asked {
    let mut request = Request { rtype: rtype::A, flags: Flags::RD, ..Request::default() };
    let (mut transport, mut port) = (Transport::Udp, 0);
    let (mut session, mut http): (Option<Session>, Option<Http>) = (None, None);
    let edns = |request: &mut Request| {
        request.edns.present = true;
        request.edns.size = request.edns.size.max(1232);
    };
    for (at, word) in line.split_whitespace().enumerate() {
        let Some(option) = word.strip_prefix('+') else {
            match (at, text::type_number(word), text::class_number(word)) {
                (0, ..) => {
                    request.name = word.parse().unwrap_or_else(|wrong| panic!("{word}: {wrong}"))
                }
                (_, Some(number), _) => request.rtype = number,
                (_, None, Some(number)) => request.class = number,
                _ => panic!("{word} is no type and no class"),
            }
            continue;
        };
        let (option, value) = option.split_once('=').unwrap_or((option, ""));
        match option {
            "tcp" => transport = Transport::Tcp,
            "norec" => request.flags.set(Flags::RD, false),
            "cd" => request.flags.set(Flags::CD, true),
            "ad" => request.flags.set(Flags::AD, true),
            "edns" => edns(&mut request),
            "do" => {
                edns(&mut request);
                request.edns.flags |= Edns::DO;
            }
            "bufsize" => {
                request.edns.present = true;
                request.edns.size = number(value);
            }
            "port" => port = number(value),
            "tls" | "sni" | "cert" => {
                if transport != Transport::Https {
                    transport = Transport::Tls;
                }
                let session = session.get_or_insert_default();
                match option {
                    "sni" => session.name = Some(value.into()),
                    "cert" => {
                        let der =
                            std::fs::read(value).unwrap_or_else(|wrong| panic!("{value}: {wrong}"));
                        let chain = std::mem::take(&mut session.certificates).into_vec();
                        session.certificates = chain.into_iter().chain([der.into()]).collect();
                    }
                    _ => {}
                }
            }
            "http" | "path" | "auth" => {
                transport = Transport::Https;
                let http = http.get_or_insert_default();
                match option {
                    "path" => value.clone_into(&mut http.secret),
                    "auth" => http.authorization = value.replacen(':', " ", 1),
                    _ => {}
                }
            }
            "opt" => {
                edns(&mut request);
                let (code, data) = value.split_once(':').unwrap_or((value, ""));
                let pairs = data.as_bytes().chunks(2);
                let octets = pairs.map(|pair| {
                    u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or(0)
                });
                request.edns.options.push(number(code), &octets.collect::<Vec<_>>());
            }
            other => panic!("+{other} is not known"),
        }
    }
    Asked { request, transport, port, session, http }
}

/// A number of a test's line.
fn number(text: &str) -> u16 {
    text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// A reply in words: `NOERROR aa rd | owner ttl TYPE data; … | authority | additional | EDE 3 text`; sections that are empty
/// are left out with what follows them, no reply is `(none)`.
pub fn show(message: &[u8]) -> String {
    if message.is_empty() {
        return "(none)".to_owned();
    }
    let mut answer = Answer::default();
    let head = match scan::read(message, &mut answer) {
        Ok(head) => head,
        Err(wrong) => return wrong.to_string(),
    };
    let mut out = text::rcode_name(answer.rcode).into_owned();
    for (flag, name) in [
        (Flags::AA, "aa"),
        (Flags::TC, "tc"),
        (Flags::RD, "rd"),
        (Flags::RA, "ra"),
        (Flags::AD, "ad"),
        (Flags::CD, "cd"),
    ] {
        if head.flags.has(flag) {
            out.push(' ');
            out.push_str(name);
        }
    }
    let sections = [Section::Answer, Section::Authority, Section::Additional];
    let last = sections.iter().rposition(|section| answer.section(*section).next().is_some());
    for section in &sections[..last.map_or(0, |last| last + 1)] {
        let records = answer.section(*section).map(|rr| {
            let class = if rr.class == 1 {
                String::new()
            } else {
                format!("{} ", text::class_name(rr.class))
            };
            let (owner, rtype) = (text::name_text(answer.owner(rr)), text::type_name(rr.rtype));
            format!("{owner} {} {class}{rtype} {}", rr.ttl, show_data(rr.rtype, answer.data(rr)))
        });
        out.push_str(" | ");
        out.push_str(&records.collect::<Vec<_>>().join("; "));
    }
    for (code, data) in answer.options.iter() {
        // Writing to a string cannot fail.
        let _unfailing = match data {
            [high, low, rest @ ..] if code == wire::option::EDE => {
                let info = u16::from_be_bytes([*high, *low]);
                write!(out, " | EDE {info} {}", String::from_utf8_lossy(rest))
            }
            _ => write!(out, " | OPT {code} {}", hex(data)),
        };
    }
    out
}

/// Octets as hexadecimal digits.
fn hex(data: &[u8]) -> String {
    data.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _unfailing = write!(text, "{byte:02x}");
        text
    })
}

/// A record's data in words, for the types that tests look at.
pub fn show_data(kind: u16, data: &[u8]) -> String {
    let u16_at =
        |at: usize| data.get(at..at + 2).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]));
    match kind {
        rtype::A if data.len() == 4 => {
            Ipv4Addr::from_octets([data[0], data[1], data[2], data[3]]).to_string()
        }
        rtype::AAAA => match <[u8; 16]>::try_from(data) {
            Ok(octets) => std::net::Ipv6Addr::from(octets).to_string(),
            Err(_) => hex(data),
        },
        rtype::CNAME | rtype::NS | rtype::PTR | rtype::DNAME => text::name_text(data),
        rtype::MX if data.len() > 2 => format!("{} {}", u16_at(0), text::name_text(&data[2..])),
        rtype::SRV if data.len() > 6 => {
            format!("{} {} {} {}", u16_at(0), u16_at(2), u16_at(4), text::name_text(&data[6..]))
        }
        rtype::TXT => {
            let (mut rest, mut words) = (data, Vec::new());
            while let Some((len, tail)) = rest.split_first() {
                let (word, tail) = tail.split_at_checked(usize::from(*len)).unwrap_or((tail, &[]));
                words.push(format!("\"{}\"", String::from_utf8_lossy(word)));
                rest = tail;
            }
            words.join(" ")
        }
        rtype::SOA => {
            let Some((_, first)) = wire::Name::read(data) else { return hex(data) };
            let Some((_, second)) = wire::Name::read(&data[first..]) else { return hex(data) };
            let numbers = data[first + second..].chunks(4).map(|four| {
                four.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)).to_string()
            });
            let names = [text::name_text(data), text::name_text(&data[first..])];
            names.into_iter().chain(numbers).collect::<Vec<_>>().join(" ")
        }
        _ => hex(data),
    }
}
