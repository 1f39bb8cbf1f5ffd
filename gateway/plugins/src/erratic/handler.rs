//! The misbehaviour.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::{Carry, Exchange, Fault, Plugin, Ready, SearchPath, Step, Stream, Transport, Work};
use wire::{Answer, Flags, Name, Section, rtype};

/// The address of every name.
const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);

/// The IPv6 address of every name.
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

/// How many records a large answer has.
const LARGE: usize = 30;

/// What nobody logs: it fails on purpose.
const ON_PURPOSE: Fault = Fault::servfail("");

/// What goes wrong: each number is how many queries there are for one that does; none for 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Queries dropped.
    pub(super) drop: u64,
    /// Replies truncated.
    pub(super) truncate: u64,
    /// Replies delayed,
    pub(super) delay: u64,
    /// for so long.
    pub(super) duration: Duration,
    /// Whether answers have 30 records.
    pub(super) large: bool,
}

/// How many queries there were.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Ready for Count {
    /// After the third query, until the fifth: those that ask see it come and go.
    fn ready(&self) -> bool {
        (3..5).contains(&self.0.load(Ordering::Relaxed))
    }
}

impl SearchPath for Count {
    fn search_path(&self, _: &Exchange, each: &mut dyn FnMut(&[u8])) {
        each(b"\x01a\x07example\x03org\0");
        each(b"\x01b\x07example\x03org\0");
        each(Name::ROOT.wire());
    }
}

/// Answers, or not.
#[derive(Debug)]
pub(super) struct Erratic {
    pub(super) faults: Faults,
    pub(super) count: Arc<Count>,
}

impl Plugin for Erratic {
    fn query(&self, x: &mut Exchange) -> Step {
        let number = self.count.0.fetch_add(1, Ordering::Relaxed);
        let is_due = |every: u64| every > 0 && number.is_multiple_of(every);
        if is_due(self.faults.drop) {
            return Step::Drop;
        }
        let done = self.write(x, is_due(self.faults.truncate));
        match (done, is_due(self.faults.delay)) {
            (done, true) => Step::Wait(Carry(u64::from(done))),
            (true, false) => Step::Done,
            (false, false) => Step::Fail(ON_PURPOSE),
        }
    }

    fn work<'a>(&'a self, _: &'a mut Exchange, Carry(done): Carry) -> Work<'a> {
        Box::pin(async move {
            tokio::time::sleep(self.faults.duration).await;
            if done == 1 { Step::Done } else { Step::Fail(ON_PURPOSE) }
        })
    }
}

impl Erratic {
    /// Writes the answer; false if there is none for such queries.
    fn write(&self, x: &mut Exchange, truncate: bool) -> bool {
        let is_stream =
            matches!(x.query.transport, Transport::Tcp | Transport::Tls | Transport::Quic)
                && !x.is_nested();
        let (request, answer) = x.parts_mut();
        let name = &request.name;
        let times = if self.faults.large { LARGE } else { 1 };
        match request.rtype {
            rtype::A => (0..times).for_each(|_| answer.a(name, 0, V4)),
            rtype::AAAA => (0..times).for_each(|_| answer.aaaa(name, 0, V6)),
            rtype::AXFR if is_stream => {
                let zone = Some(Zone { name: name.clone(), truncate });
                answer.set_authoritative(true);
                // The step that ends a transfer is the one that ends all else.
                let _done = x.stream(Box::new(Message(zone)));
                return true;
            }
            _ => return false,
        }
        answer.set_authoritative(true);
        answer.flags.set(Flags::TC, truncate);
        true
    }
}

/// A zone to hand out.
struct Zone {
    name: Name,
    /// Whether its end is missing.
    truncate: bool,
}

/// A transfer of one message, until it is sent.
struct Message(Option<Zone>);

impl Stream for Message {
    fn next(&mut self, answer: &mut Answer) -> bool {
        let Some(Zone { name, truncate }) = self.0.take() else { return false };
        let own = name.wire();
        let soa = |answer: &mut Answer| {
            const MNAME: &[u8] = b"\x03sns\x03dns\x05icann\x03org\0";
            const RNAME: &[u8] = b"\x03noc\x03dns\x05icann\x03org\0";
            let numbers = [2_018_050_825, 7200, 3600, 1_209_600, 3600];
            answer.soa(Section::Answer, own, 0, MNAME, RNAME, numbers);
        };
        soa(answer);
        let hosts: [(&[u8], Ipv6Addr); 2] = [
            (b"b", Ipv6Addr::new(0x2001, 0x500, 0, 0, 0, 0, 0, 0x54)),
            (b"a", Ipv6Addr::new(0x2001, 0xbd8, 0, 0, 0, 0, 0, 0x53)),
        ];
        // A name without room for another label has no servers.
        let servers = hosts.map(|(label, addr)| name.child(label).map(|host| (host, addr)));
        for (host, _) in servers.iter().flatten() {
            answer.push(Section::Answer, own, rtype::NS, 0, host.wire());
        }
        for (host, addr) in servers.iter().flatten().rev() {
            answer.aaaa(host, 0, *addr);
        }
        if !truncate {
            soa(answer);
        }
        true
    }
}
