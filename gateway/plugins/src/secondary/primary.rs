//! The servers that a zone is copied from, and how one is asked (RFC 5936, RFC 1995, RFC 9103).

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use transports::upstream::{Error, Line, Way};
use wire::{Answer, Flags, Name, Request, Section, rcode, rtype, scan, text};
use zone::{BadTransfer, Incoming, Soa};

use crate::shared::tsig::{Checker, Key};

/// How long a connection may take.
const DIAL: Duration = Duration::from_secs(5);
/// How long a message is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// The servers of a zone, in the order in which they are asked, and how.
#[derive(Debug)]
pub(super) struct Primaries {
    /// The ways to them.
    pub(super) ways: Vec<Way>,
    /// What queries are signed with.
    pub(super) key: Option<Key>,
}

/// Why a server gives no zone.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It cannot be reached, or the connection ended.
    Gone(Error),
    /// It answers with a response code.
    Code(u16),
    /// What it says is no answer, and why.
    Wrong(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(error) => error.fmt(f),
            Self::Code(code) => write!(f, "rcode was {}", text::rcode_name(*code)),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Gone(error)
    }
}

impl From<BadTransfer> for Refusal {
    fn from(wrong: BadTransfer) -> Self {
        Self::Wrong(wrong.to_string())
    }
}

impl Primaries {
    /// Whether one of them has this address.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.ways.iter().any(|way| way.addr().ip().to_canonical() == ip)
    }

    /// The ways to them: first to that which has told of a change, then in their order.
    pub(super) fn from(&self, first: Option<IpAddr>) -> impl Iterator<Item = &Way> {
        let is_first = move |way: &&Way| {
            first.is_some_and(|ip| way.addr().ip().to_canonical() == ip.to_canonical())
        };
        let rest = self.ways.iter().filter(move |way| !is_first(way));
        self.ways.iter().filter(is_first).chain(rest)
    }

    /// What a server has for the zone `name`: all of it, or what has changed since `have`; none if that is not older.
    ///
    /// # Errors
    /// Why it gives none.
    pub(super) async fn fetch(
        &self,
        way: &Way,
        name: &Name,
        have: Option<(u32, &[u8])>,
    ) -> Result<Option<Incoming>, Refusal> {
        let mut line = way.open(DIAL).await?;
        if let Some((serial, soa)) = have {
            let theirs = self.serial(&mut line, name).await?;
            // RFC 1982 §3.2; the same serial, or one that is behind, is nothing new.
            if serial.wrapping_sub(theirs) < 1 << 31 {
                return Ok(None);
            }
            let mut changes = self.transfer(&mut line, name, Some((serial, soa))).await;
            if matches!(changes, Err(Refusal::Gone(_))) {
                // A server may end the connection behind its first reply.
                line = way.open(DIAL).await?;
                changes = self.transfer(&mut line, name, Some((serial, soa))).await;
            }
            match changes {
                Ok(incoming) => return Ok(Some(incoming)),
                Err(gone @ Refusal::Gone(_)) => return Err(gone),
                // Whoever cannot tell changes may still have the zone (RFC 1995 §4).
                Err(refusal) => {
                    log::debug!(target: "plugin/secondary", "no changes of {name} from {}: {refusal}", way.addr());
                    line = way.open(DIAL).await?;
                }
            }
        }
        self.transfer(&mut line, name, None).await.map(Some)
    }

    /// The serial of the zone that a server has.
    async fn serial(&self, line: &mut Line, name: &Name) -> Result<u32, Refusal> {
        let mut talk = Talk::begin(self.key.as_ref(), line, name, rtype::SOA, None).await?;
        talk.next(line).await?;
        talk.end()?;
        let answer = &talk.answer;
        let soa = answer.section(Section::Answer).find(|rr| {
            rr.rtype == rtype::SOA && answer.owner(rr).eq_ignore_ascii_case(name.wire())
        });
        let soa = soa.and_then(|rr| Soa::read(answer.data(rr)));
        soa.map(|soa| soa.serial).ok_or_else(|| Refusal::Wrong("it has no SOA record".to_owned()))
    }

    /// The zone, or its changes.
    async fn transfer(
        &self,
        line: &mut Line,
        name: &Name,
        have: Option<(u32, &[u8])>,
    ) -> Result<Incoming, Refusal> {
        let kind = if have.is_some() { rtype::IXFR } else { rtype::AXFR };
        let mut talk = Talk::begin(self.key.as_ref(), line, name, kind, have).await?;
        let mut incoming = Incoming::new(name.clone(), have.map(|(serial, _)| serial));
        loop {
            if incoming.take(talk.next(line).await?)? {
                talk.end()?;
                return Ok(incoming);
            }
        }
    }
}

/// A query, and the messages of its reply.
struct Talk {
    id: u16,
    question: (Name, u16),
    checker: Option<Checker>,
    answer: Answer,
}

impl Talk {
    /// Asks.
    async fn begin(
        key: Option<&Key>,
        line: &mut Line,
        name: &Name,
        kind: u16,
        have: Option<(u32, &[u8])>,
    ) -> Result<Self, Refusal> {
        let id = Line::id();
        let request = Request {
            name: name.clone(),
            rtype: kind,
            flags: Flags::default(),
            ..Request::default()
        };
        let mut query = Vec::with_capacity(512);
        wire::encode_query(&request, id, &mut query);
        if let Some((_, soa)) = have {
            // RFC 1995 §3: the zone's own SOA record says which version is there.
            query.extend_from_slice(name.wire());
            query.extend_from_slice(
                &[rtype::SOA.to_be_bytes(), request.class.to_be_bytes()].concat(),
            );
            query.extend_from_slice(&[0; 4]);
            query.extend_from_slice(&u16::try_from(soa.len()).unwrap_or_default().to_be_bytes());
            query.extend_from_slice(soa);
            // The count of the authority section.
            if let Some(count) = query.get_mut(9) {
                *count = 1;
            }
        }
        let checker = key.map(|key| key.sign(&mut query));
        line.send(&query, PATIENCE).await?;
        Ok(Self { id, question: (name.clone(), kind), checker, answer: Answer::default() })
    }

    /// The next message.
    async fn next(&mut self, line: &mut Line) -> Result<&Answer, Refusal> {
        let message = line.receive(PATIENCE).await?;
        let wrong = |why: &str| Refusal::Wrong(why.to_owned());
        let head = scan::read(message, &mut self.answer)
            .map_err(|malformed| Refusal::Wrong(malformed.to_string()))?;
        if head.id != self.id || !head.flags.has(Flags::QR) {
            return Err(wrong("what came is no reply to the query"));
        }
        if let Some(checker) = &mut self.checker {
            checker.check(message).map_err(Refusal::Wrong)?;
        }
        if self.answer.rcode != rcode::NOERROR {
            return Err(Refusal::Code(self.answer.rcode));
        }
        // Only the first message has to have the question (RFC 5936 §2.2.1).
        if let Some((name, kind, _)) = &head.question
            && (*name != self.question.0 || *kind != self.question.1)
        {
            return Err(wrong("the reply is to another question"));
        }
        if self.answer.flags.has(Flags::TC) {
            return Err(wrong("a message is cut"));
        }
        Ok(&self.answer)
    }

    /// Says that no more messages are awaited.
    fn end(&self) -> Result<(), Refusal> {
        self.checker.as_ref().map_or(Ok(()), |checker| checker.end().map_err(Refusal::Wrong))
    }
}
