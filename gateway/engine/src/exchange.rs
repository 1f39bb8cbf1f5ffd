//! One exchange: a client's query, the answer being built for it, and where the chain stands.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use wire::{
    Answer, Bad, Flags, Name, Options, Parts, Reply, Request, Rr, Section, option, rcode, rtype,
};

use crate::door::{Http, Identity, Session, Signature};
use crate::kept::Shelf;
use crate::plugin::{Carry, Step, Stream};
use crate::route::ListenerId;
use crate::seal::{Broken, Seal};
use crate::trail::Trail;

/// How many queries may be nested (CNAME targets, DNS64, …) before the client gets SERVFAIL.
pub(crate) const MAX_DEPTH: usize = 8;

/// How many hooks one exchange may run: a plugin that turns round for ever gets SERVFAIL, not a spinning core.
pub(crate) const MAX_HOOKS: u32 = 1024;

/// What replies are padded to a multiple of, in octets (RFC 8467 §4.1).
const PAD: usize = 468;

/// The transport a query came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Plain DNS over UDP (RFC 1035).
    Udp,
    /// Plain DNS over TCP (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS, HTTP/1.1 and HTTP/2 (RFC 8484).
    Https,
    /// DNS over HTTPS on HTTP/3.
    Https3,
    /// DNS over QUIC (RFC 9250).
    Quic,
    /// gRPC.
    Grpc,
}

impl Transport {
    /// Whether replies are datagrams, which the client's EDNS size and the ceiling bind.
    pub fn is_datagram(self) -> bool {
        self == Self::Udp
    }

    /// `udp` or `tcp`, as metrics and logs name the lower layer of plain DNS.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::Udp | Self::Quic | Self::Https3 => "udp",
            _ => "tcp",
        }
    }
}

/// The query as received; nothing changes it once it is read.
#[derive(Debug)]
pub struct Query {
    /// The bytes as they came; the listener receives straight into them.
    pub wire: Vec<u8>,
    /// Who asked.
    pub peer: SocketAddr,
    /// The address asked.
    pub local: SocketAddr,
    /// By which transport.
    pub transport: Transport,
    /// At which listener.
    pub listener: ListenerId,
    /// When.
    pub received: Instant,
    /// Where the parts of `wire` lie.
    pub parts: Parts,
    /// How long the connection may be idle, told to those who ask (RFC 7828); none for datagrams.
    pub keepalive: Option<Duration>,
    /// The encrypted connection; none in clear text.
    pub session: Option<Arc<Session>>,
    /// The HTTP request; none outside DoH. Its memory stays with the exchange.
    pub http: Option<Box<Http>>,
    /// What is known of its signature.
    pub signature: Signature,
    /// Whether so many replies wait for room in the socket that no more may; only where load is shed.
    pub congested: bool,
}

/// Why nothing was written, and what the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The response code for the client.
    pub rcode: u16,
    /// The extended error for the client (RFC 8914), if one fits.
    pub ede: Option<u16>,
    /// For the log and the extended error's text.
    pub why: &'static str,
}

impl Fault {
    /// No plugin of the chain answered.
    pub const UNANSWERED: Self = Self::servfail("no next plugin found");
    /// No server block is responsible for the name (EDE 20, Not Authoritative).
    pub const NO_ZONE: Self =
        Self { rcode: rcode::REFUSED, ede: Some(20), why: "no server block for the name" };
    /// The server block has no plugins.
    pub const NO_PLUGINS: Self =
        Self { rcode: rcode::REFUSED, ede: None, why: "the server block has no plugins" };
    /// Nothing is here for this client (EDE 18, Prohibited). HTTP says it as for a missing page.
    pub const TURNED_AWAY: Self =
        Self { rcode: rcode::REFUSED, ede: Some(18), why: "the client is not known" };
    /// The class is none that is served.
    pub const CLASS: Self =
        Self { rcode: rcode::REFUSED, ede: None, why: "the class is not served" };
    /// Queries nested too deeply.
    pub const TOO_DEEP: Self = Self::servfail("too many nested queries");
    /// The chain turned round too often.
    pub const TOO_LONG: Self = Self::servfail("too many steps for one query");
    /// The deadline passed.
    pub const TIMEOUT: Self = Self::servfail("the deadline passed");
    /// A plugin panicked.
    pub const PANIC: Self = Self::servfail("a plugin panicked");

    /// A SERVFAIL without extended error.
    pub const fn servfail(why: &'static str) -> Self {
        Self { rcode: rcode::SERVFAIL, ede: None, why }
    }
}

/// How a run of the chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer is to be sent.
    Answered,
    /// Nothing was written; the fault's response code is to be sent.
    Failed(Fault),
    /// Nothing is to be sent.
    Silent,
}

/// What [`Exchange::begin`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A query for the chain.
    Run,
    /// A message that gets a bare reply with this response code, whatever the zone.
    Reply(u16),
    /// A message that gets no reply.
    Drop,
}

/// One run of a chain: the client's own, or a nested query's.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) request: Request,
    pub(crate) answer: Answer,
    /// The answer set aside with [`Exchange::swap_aside`].
    aside: Answer,
    pub(crate) site: usize,
    /// The matched zone and listener, among those of the block.
    pub(crate) route: usize,
    pub(crate) at: usize,
    pub(crate) next: usize,
    pub(crate) end: Option<End>,
    pub(crate) wraps: SmallVec<[(usize, Carry); 16]>,
    pub(crate) carry: Carry,
    /// The requests that plugins have changed.
    pub(crate) kept: Shelf,
}

impl Frame {
    /// An empty frame.
    fn new() -> Self {
        Self {
            request: Request::default(),
            answer: Answer::default(),
            aside: Answer::default(),
            site: 0,
            route: 0,
            at: 0,
            next: 0,
            end: None,
            wraps: SmallVec::new(),
            carry: Carry::NONE,
            kept: Shelf::default(),
        }
    }

    /// Forgets the last run and keeps the memory; the request is already the new one.
    fn reset(&mut self) {
        self.answer.flags = self.request.flags.only(Flags::RD.with(Flags::CD));
        self.answer.clear();
        self.route = 0;
        self.at = 0;
        self.next = 0;
        self.end = None;
        self.wraps.clear();
        self.carry = Carry::NONE;
        self.kept.clear();
    }
}

/// A query on its way through the chain. Reused from query to query; all its memory stays with it.
pub struct Exchange {
    /// The query as received.
    pub query: Query,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// The upstream that the answer came from, for metadata and taps; set by the plugins that ask one.
    pub upstream: Option<SocketAddr>,
    pub(crate) resume: Step,
    pub(crate) frames: Vec<Frame>,
    pub(crate) depth: usize,
    pub(crate) hooks: u32,
    pub(crate) answered_by: &'static str,
    #[expect(clippy::vec_box, reason = "exchanges are made in boxes, and moved into tasks")]
    pub(crate) forks: Vec<Box<Self>>,
    pub(crate) stream: Option<Box<dyn Stream>>,
    /// What a fault has to say beyond its fixed words.
    detail: String,
    /// What the query's signature has shown.
    pub(crate) seal: Option<Box<dyn Seal>>,
    /// Whether the reply is signed.
    signs: bool,
    /// Who asks, if that is known.
    identity: Option<Arc<Identity>>,
    /// Whether only blocks with a view that admits the query may answer.
    pub(crate) views_only: bool,
    /// Whether the door has sent the client away.
    pub(crate) turned_away: bool,
    /// Whether others may get other answers at the listener.
    pub(crate) selective: bool,
    /// Whether the answer depends on who asks; see [`Exchange::is_personal`].
    personal: AtomicBool,
    /// Whether the request says who asks; see [`Exchange::tells_who`].
    tells_who: AtomicBool,
    /// Its way, if somebody traces it.
    pub(crate) trail: Option<Box<Trail>>,
    random: u64,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("peer", &self.query.peer)
            .field("request", &self.top().request)
            .finish()
    }
}

impl Exchange {
    /// A fresh exchange; listeners keep some and hand them out again and again.
    pub fn new(listener: ListenerId, transport: Transport, local: SocketAddr) -> Box<Self> {
        Box::new(Self {
            query: Query {
                wire: Vec::with_capacity(512),
                peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                local,
                transport,
                listener,
                received: crate::spec::now(),
                parts: Parts::default(),
                keepalive: None,
                session: None,
                http: None,
                signature: Signature::None,
                congested: false,
            },
            deadline: None,
            upstream: None,
            resume: Step::Next,
            frames: vec![Frame::new()],
            depth: 0,
            hooks: 0,
            answered_by: "",
            forks: Vec::new(),
            stream: None,
            detail: String::new(),
            seal: None,
            signs: false,
            identity: None,
            views_only: false,
            turned_away: false,
            selective: false,
            personal: AtomicBool::new(false),
            tells_who: AtomicBool::new(false),
            trail: None,
            random: RandomState::new().hash_one(0) | 1,
        })
    }

    /// Reads `query.wire`, and forgets the exchange before.
    pub fn begin(&mut self) -> Begin {
        self.depth = 0;
        self.hooks = 0;
        self.resume = Step::Next;
        self.deadline = None;
        self.upstream = None;
        self.answered_by = "";
        self.stream = None;
        self.forks.clear();
        self.detail.clear();
        self.seal = None;
        self.signs = false;
        self.identity = None;
        self.views_only = false;
        self.turned_away = false;
        self.selective = false;
        self.trail = None;
        *self.personal.get_mut() = false;
        *self.tells_who.get_mut() = false;
        self.query.signature = Signature::None;
        self.query.parts = Parts::default();
        let frame = &mut self.frames[0];
        let read = frame.request.read(&self.query.wire);
        frame.reset();
        // A reply to port 0 or to ourselves would only make a loop (RFC 5452 §9.1, CVE-2024-2169).
        if self.query.peer.port() == 0 || self.query.peer == self.query.local {
            return Begin::Drop;
        }
        match read {
            Ok(parts) => {
                self.query.parts = parts;
                Begin::Run
            }
            Err(Bad::Drop) => Begin::Drop,
            Err(Bad::Reply { rcode, question_len }) => {
                self.query.parts.question_len = question_len;
                Begin::Reply(rcode)
            }
        }
    }

    /// What the query's signature has shown; none if there is none, or nobody at this listener has keys.
    pub fn seal(&self) -> Option<&dyn Seal> {
        self.seal.as_deref()
    }

    /// Has the reply say why the query's signature is not good; none if it is, or there is none (RFC 8945 §5.2).
    pub fn refuse_signature(&mut self) -> Option<Fault> {
        self.signs = self.seal()?.broken()? != Broken::Form;
        let (rcode, why) = match self.signs {
            true => (rcode::NOTAUTH, "the signature is not good"),
            false => (rcode::FORMERR, "the TSIG record cannot be read"),
        };
        Some(Fault { rcode, ede: None, why })
    }

    /// Has the reply be signed with the key of the query.
    pub fn sign_reply(&mut self) {
        self.signs = true;
    }

    /// Whether it will be: the query's signature has been looked at, and is no business of plugins behind.
    pub fn signs_reply(&self) -> bool {
        self.signs
    }

    /// Who asks, if that is known. Whoever answers by it notes that with [`Exchange::note_personal`].
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Notes who asks.
    pub fn identify(&mut self, identity: Arc<Identity>) {
        self.identity = Some(identity);
    }

    /// Notes that the answer depends on who asks, so that no cache before the reader keeps it.
    pub fn note_personal(&self) {
        self.personal.store(true, Ordering::Relaxed);
    }

    /// Whether the answer depends on who asks.
    pub fn is_personal(&self) -> bool {
        self.personal.load(Ordering::Relaxed)
    }

    /// Runs `read`, and tells whether what it has found depends on who asks.
    pub fn watch_personal<T>(&self, read: impl FnOnce() -> T) -> (T, bool) {
        let before = self.personal.swap(false, Ordering::Relaxed);
        let found = read();
        (found, self.personal.fetch_or(before, Ordering::Relaxed))
    }

    /// Notes that the request was changed by who asks, in what answers are not kept by, such as an EDNS option.
    pub fn tell_who(&self) {
        self.tells_who.store(true, Ordering::Relaxed);
    }

    /// Whether the request was changed so: whatever answers it, from there on, is for this client alone.
    pub fn tells_who(&self) -> bool {
        self.tells_who.load(Ordering::Relaxed)
    }

    /// Sets whether the answer depends on who asks, and tells what was set before: for caches, which only care for what
    /// is behind them.
    pub fn set_personal(&mut self, personal: bool) -> bool {
        std::mem::replace(self.personal.get_mut(), personal)
    }

    /// Whether the door has sent the client away: what it gets must not differ from what there is for anybody where
    /// nothing is.
    pub fn is_turned_away(&self) -> bool {
        self.turned_away
    }

    /// Whether another client may get another answer to the same query here: somebody finds out who asks, a block has a view
    /// or a plugin that goes by the client ([`crate::Setup::selective`]). Nobody between may keep the answer for others.
    pub fn is_selective(&self) -> bool {
        self.selective
    }

    /// What the chain is now working on.
    pub fn request(&self) -> &Request {
        &self.top().request
    }

    /// The same, to rewrite. Whoever changes it puts it back in `answer`.
    pub fn request_mut(&mut self) -> &mut Request {
        &mut self.top_mut().request
    }

    /// The client's own request, as plugins have left it; the same as [`Exchange::request`] outside nested queries.
    pub fn client_request(&self) -> &Request {
        &self.frames[0].request
    }

    /// Whether this is a query that a plugin asked, not a client.
    pub fn is_nested(&self) -> bool {
        self.depth > 0
    }

    /// The answer under construction.
    pub fn answer(&self) -> &Answer {
        &self.top().answer
    }

    /// The same, to write.
    pub fn answer_mut(&mut self) -> &mut Answer {
        &mut self.top_mut().answer
    }

    /// The request to read and the answer to write, at once.
    pub fn parts_mut(&mut self) -> (&Request, &mut Answer) {
        let frame = self.top_mut();
        (&frame.request, &mut frame.answer)
    }

    /// How the chain behind ended; meaningful in the response phase.
    pub fn end(&self) -> Option<End> {
        self.top().end
    }

    /// The EDNS options that the client itself sent, in wire form; plugins may have changed those of the request.
    pub fn client_options(&self) -> &[u8] {
        let (at, len) = self.query.parts.options;
        self.query.wire.get(at..at + len).unwrap_or_default()
    }

    /// When the query came: the time that ages cached records.
    pub fn now(&self) -> Instant {
        self.query.received
    }

    /// How long the query has taken until now: for observers.
    pub fn elapsed(&self) -> Duration {
        crate::spec::now().saturating_duration_since(self.query.received)
    }

    /// Says more of a fault than its fixed words, for the log; then returns the step.
    pub fn fail(&mut self, fault: Fault, detail: impl fmt::Display) -> Step {
        use fmt::Write as _;
        self.detail.clear();
        // Writing to a string cannot fail.
        let _unfailing = write!(self.detail, "{detail}");
        Step::Fail(fault)
    }

    /// What was said with [`Exchange::fail`]; may be empty.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The name of the plugin that ended the client's query; empty if none did.
    pub fn answered_by(&self) -> &'static str {
        self.answered_by
    }

    /// The index of the matched zone and listener among the block's own, as [`crate::Observer::routes`] lists them; of
    /// a nested query those of the block that it is in.
    pub fn route(&self) -> usize {
        self.top().route
    }

    /// Goes down the chain behind this plugin once more, with another name; `answer` is called again with `carry`.
    pub fn again(&mut self, name: Name, carry: Carry) -> Step {
        let frame = self.top_mut();
        frame.request.name = name;
        // The answer may be one that was set aside, in this run or before.
        frame.answer.flags = frame.request.flags.only(Flags::RD.with(Flags::CD));
        frame.answer.clear();
        Step::Wrap(carry)
    }

    /// Asks the whole server about another name and type; the plugin's `asked` gets `carry` and the result.
    pub fn ask(&mut self, name: &Name, rtype: u16, carry: Carry) -> Step {
        self.top_mut().carry = carry;
        if self.frames.len() == self.depth + 1 {
            self.frames.push(Frame::new());
        }
        let (own, sub) = self.frames.split_at_mut(self.depth + 1);
        let (own, sub) = (&own[self.depth], &mut sub[0]);
        sub.request.copy_from(&own.request);
        sub.request.name.clone_from(name);
        sub.request.rtype = rtype;
        sub.reset();
        Step::Ask
    }

    /// The result of the query just asked: what was asked, what came, and how it ended.
    pub fn sub(&self) -> (&Request, &Answer, Option<End>) {
        let frame = &self.frames[self.depth + 1];
        (&frame.request, &frame.answer, frame.end)
    }

    /// Appends the answer section of the query just asked, and takes over its response code if it ended well.
    pub fn graft(&mut self) {
        let (own, sub) = self.frames.split_at_mut(self.depth + 1);
        own[self.depth].answer.graft(&sub[0].answer, Section::Answer, Section::Answer);
    }

    /// Appends the records of a section of the query just asked that `keep` says yes to; it is told of signatures which type they cover.
    pub fn graft_from(&mut self, section: Section, keep: impl Fn(&Rr, Option<u16>) -> bool) {
        let (own, sub) = self.frames.split_at_mut(self.depth + 1);
        let (own, sub) = (&mut own[self.depth].answer, &sub[0].answer);
        for rr in sub.section(section) {
            let covered = match sub.data(rr) {
                [high, low, ..] if rr.rtype == rtype::RRSIG => {
                    Some(u16::from_be_bytes([*high, *low]))
                }
                _ => None,
            };
            if keep(rr, covered) {
                own.push_class(section, sub.owner(rr), rr.class, rr.rtype, rr.ttl, &[sub.data(rr)]);
            }
        }
    }

    /// Appends the records of the answer section of the query just asked that `keep` says yes to, to the additional section.
    pub fn graft_glue(&mut self, keep: impl Fn(&Rr) -> bool) {
        let (own, sub) = self.frames.split_at_mut(self.depth + 1);
        let (own, sub) = (&mut own[self.depth].answer, &sub[0].answer);
        for rr in sub.section(Section::Answer).filter(|rr| keep(rr)) {
            let (owner, data) = (sub.owner(rr), sub.data(rr));
            own.push_class(Section::Additional, owner, rr.class, rr.rtype, rr.ttl, &[data]);
        }
    }

    /// Swaps the answer with the one set aside in this run of the chain.
    pub fn swap_aside(&mut self) {
        let frame = self.top_mut();
        std::mem::swap(&mut frame.answer, &mut frame.aside);
    }

    /// Queues a second run of the chain behind this plugin, in the background, for nobody: its `answer` is called with
    /// `carry` when it ends (prefetch, verify a stale answer). The run has the client's facts and this request.
    pub fn fork(&mut self, carry: Carry) {
        let mut fork = Self::new(self.query.listener, self.query.transport, self.query.local);
        fork.query.peer = self.query.peer;
        fork.query.received = self.query.received;
        fork.query.wire.extend_from_slice(&self.query.wire);
        fork.query.parts = self.query.parts;
        fork.query.session.clone_from(&self.query.session);
        fork.query.http.clone_from(&self.query.http);
        fork.identity.clone_from(&self.identity);
        // What it asks of other blocks has to be what the client would get.
        fork.views_only = self.views_only;
        *fork.tells_who.get_mut() = self.tells_who();
        let (own, frame) = (self.top(), &mut fork.frames[0]);
        frame.request.copy_from(&own.request);
        frame.reset();
        frame.site = own.site;
        frame.route = own.route;
        frame.at = own.at;
        frame.next = own.at + 1;
        frame.wraps.push((own.at, carry));
        self.forks.push(fork);
    }

    /// Answers with many messages, one after another: a zone transfer. Ends with [`Step::Done`].
    pub fn stream(&mut self, stream: Box<dyn Stream>) -> Step {
        self.stream = Some(stream);
        Step::Done
    }

    /// Whether more messages follow the one just encoded.
    pub fn is_streaming(&self) -> bool {
        self.stream.is_some()
    }

    /// Appends the next message of a stream to `out`; false if there is none.
    pub fn more(&mut self, limit: usize, out: &mut Vec<u8>) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let frame = &mut self.frames[0];
        frame.answer.clear_records();
        if !stream.next(&mut frame.answer) {
            self.stream = None;
            return false;
        }
        self.seal_up(limit, out);
        true
    }

    /// A pseudo-random number (xorshift64*), for rotation and jitter, never for secrets.
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The most octets a reply to this query may have: the transport's limit, and for datagrams the client's size
    /// (at least 512, RFC 6891 §6.2.3) and the ceiling.
    pub fn limit(&self, ceiling: usize) -> usize {
        if !self.query.transport.is_datagram() {
            return 65535;
        }
        let edns = &self.frames[0].request.edns;
        let size = if edns.present { usize::from(edns.size).max(512) } else { 512 };
        size.min(ceiling)
    }

    /// Appends the reply for `end` to `out`; nothing if nothing is to be sent.
    pub(crate) fn reply(&mut self, end: End, limit: usize, out: &mut Vec<u8>) {
        match end {
            End::Silent => return,
            End::Failed(fault) => {
                // What is there since the fault are options of the way up (NSID); everything else is the fault's own.
                let answer = &mut self.frames[0].answer;
                answer.flags = answer.flags.only(Flags::RD.with(Flags::CD));
                answer.clear_records();
                answer.rcode = fault.rcode;
                if let Some(code) = fault.ede {
                    answer.options.push_ede(code, fault.why);
                }
            }
            End::Answered => {}
        }
        if let Some(stream) = &mut self.stream {
            // The first message of a stream; the listener asks for the others.
            stream.next(&mut self.frames[0].answer);
        }
        self.tell_keepalive();
        self.seal_up(limit, out);
    }

    /// Tells a client that asks how long its connection may be idle, in units of 100 ms (RFC 7828 §3.2.2).
    fn tell_keepalive(&mut self) {
        let frame = &mut self.frames[0];
        if let Some(idle) = self.query.keepalive
            && frame.request.edns.options.get(option::KEEPALIVE).is_some()
        {
            let units = u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX);
            frame.answer.options.push(option::KEEPALIVE, &units.to_be_bytes());
        }
    }

    /// Appends a bare reply with `code`.
    pub(crate) fn reject(&mut self, code: u16, limit: usize, out: &mut Vec<u8>) {
        let answer = &mut self.frames[0].answer;
        answer.clear();
        if code == rcode::NOTIMP {
            // CD is a flag of QUERY (RFC 4035 §3.2.2); nobody knows what the bit means to another opcode.
            answer.flags = answer.flags.only(Flags::RD);
        }
        answer.rcode = code;
        self.encode(limit, 0, out);
    }

    /// Appends the client's reply as it stands, and its signature.
    fn seal_up(&mut self, limit: usize, out: &mut Vec<u8>) {
        let Some(mut seal) = self.seal.take_if(|_| self.signs) else {
            return self.encode(limit, 0, out);
        };
        let start = out.len();
        self.encode(limit, seal.size(), out);
        seal.sign(out, start);
        self.seal = Some(seal);
    }

    /// Appends the client's reply as it stands.
    fn encode(&self, limit: usize, reserve: usize, out: &mut Vec<u8>) {
        let frame = &self.frames[0];
        let reply = Reply {
            query: &self.query.wire,
            question_len: self.query.parts.question_len,
            limit,
            edns: &frame.request.edns,
            udp_size: frame.request.edns.size,
            reserve,
            pad: self.padding(),
        };
        wire::encode(&frame.answer, &reply, out);
    }

    /// The block that the reply is padded to: over an encrypted connection, if the client has padded (RFC 7830 §4), and over
    /// QUIC for all that can be (RFC 9250 §5.4); 0 for none.
    fn padding(&self) -> usize {
        let asked =
            || Options::each(self.client_options()).any(|(code, _)| code == option::PADDING);
        let pads =
            self.query.session.is_some() && (self.query.transport == Transport::Quic || asked());
        if pads { PAD } else { 0 }
    }

    /// Leaves all nested runs, after a panic.
    pub(crate) fn unwind(&mut self) {
        self.depth = 0;
        self.stream = None;
        self.forks.clear();
        self.frames[0].wraps.clear();
        self.put_all_back();
        self.frames[0].answer.clear();
    }

    /// The run of the chain that is now working.
    pub(crate) fn top(&self) -> &Frame {
        &self.frames[self.depth]
    }

    /// The same, to change.
    pub(crate) fn top_mut(&mut self) -> &mut Frame {
        &mut self.frames[self.depth]
    }
}
