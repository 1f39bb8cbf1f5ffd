//! What the wire crate writes, an independent decoder reads; and nothing that anybody sends makes it fall over.
#![allow(clippy::unwrap_used)]

use hickory_proto::op::Message;
use hickory_proto::rr::Name as HickoryName;
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};
use wire::{Answer, Flags, Name, Reply, Request, Section, Srv, rtype, scan};

/// A reproducible source of numbers (xorshift64*).
struct Random(u64);

impl Random {
    /// The next number.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap() % end
    }

    /// A name of up to six labels, mostly from a few words so that suffixes repeat.
    fn name(&mut self) -> Vec<u8> {
        const WORDS: [&[u8]; 8] = [
            b"svc",
            b"cluster",
            b"Local",
            b"a",
            b"_http",
            b"x-1",
            b"web",
            b"a-rather-long-label-of-a-service-name",
        ];
        let mut wire = Vec::new();
        for _ in 0..self.below(7) {
            if self.below(10) == 0 {
                let len = 1 + self.below(20);
                wire.push(u8::try_from(len).unwrap());
                wire.extend((0..len).map(|_| (self.next() >> 33) as u8));
            } else {
                let word = WORDS[self.below(WORDS.len())];
                wire.push(u8::try_from(word.len()).unwrap());
                wire.extend_from_slice(word);
            }
        }
        wire.push(0);
        wire
    }

    /// An answer with up to `most` records of the types that have names in them, and others.
    fn answer(&mut self, most: usize) -> Answer {
        let mut answer = Answer::default();
        answer.rcode = u16::try_from(self.below(24)).unwrap();
        answer.flags = Flags(u16::try_from(self.below(0x10000)).unwrap() & 0x07b0);
        for _ in 0..self.below(most + 1) {
            let section = [Section::Answer, Section::Authority, Section::Additional][self.below(3)];
            let (owner, target, other) = (self.name(), self.name(), self.name());
            let ttl = u32::try_from(self.below(1 << 31)).unwrap();
            match self.below(8) {
                0 => answer.push(section, &owner, rtype::A, ttl, &[198, 51, 100, 1]),
                1 => answer.push(section, &owner, rtype::AAAA, ttl, &[0x20; 16]),
                2 => answer.push(section, &owner, rtype::CNAME, ttl, &target),
                3 => answer.push_parts(section, &owner, rtype::MX, ttl, &[&[0, 10], &target]),
                4 => answer.soa(section, &owner, ttl, &target, &other, [1, 2, 3, 4, 5]),
                5 => answer.push_parts(
                    section,
                    &owner,
                    rtype::SRV,
                    ttl,
                    &[&[0, 1, 0, 2, 0, 3], &target],
                ),
                6 => answer.push(section, &owner, rtype::TXT, ttl, b"\x03abc\x00"),
                _ => answer.push(section, &owner, 65_280, ttl, &target),
            }
        }
        answer
    }
}

/// A query for `name`, with an OPT record that states `size` if there is one.
fn query(name: &[u8], size: Option<u16>) -> (Vec<u8>, Request) {
    let mut request =
        Request { name: Name::read(name).unwrap().0, rtype: rtype::A, ..Request::default() };
    request.edns.present = size.is_some();
    request.edns.size = size.unwrap_or(0);
    let mut out = Vec::new();
    wire::encode_query(&request, 77, &mut out);
    (out, request)
}

/// A record as text: lower-case owner and data as wire names, in any decoder's spelling.
fn owner_of(name: &HickoryName) -> Vec<u8> {
    let mut bytes = Vec::new();
    name.emit(&mut BinEncoder::new(&mut bytes)).unwrap();
    bytes.to_ascii_lowercase()
}

#[test]
fn what_is_encoded_decodes_elsewhere_to_the_same_records() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..4000 {
        let answer = random.answer(if round % 50 == 0 { 400 } else { 12 });
        let (query, request) = query(&random.name(), (round % 2 == 0).then_some(4096));
        let question_len = query.len() - 12 - if round % 2 == 0 { 11 } else { 0 };
        let reply = Reply {
            query: &query,
            question_len,
            limit: 65535,
            edns: &request.edns,
            udp_size: 4096,
            reserve: 0,
            pad: 0,
        };
        let mut out = Vec::new();
        wire::encode(&answer, &reply, &mut out);
        let decoded =
            Message::from_vec(&out).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let sections = [
            (Section::Answer, &decoded.answers),
            (Section::Authority, &decoded.authorities),
            (Section::Additional, &decoded.additionals),
        ];
        for (section, records) in sections {
            let own: Vec<_> = answer.section(section).collect();
            assert_eq!(own.len(), records.len(), "round {round}, {section:?}");
            for (own, other) in own.iter().zip(records) {
                assert_eq!(
                    answer.owner(own).to_ascii_lowercase(),
                    owner_of(&other.name),
                    "round {round}"
                );
                assert_eq!(
                    (own.rtype, own.ttl),
                    (u16::from(other.record_type()), other.ttl),
                    "round {round}"
                );
                let mut data = Vec::new();
                let mut encoder = BinEncoder::new(&mut data);
                encoder.set_name_encoding(NameEncoding::Uncompressed);
                other.data.emit(&mut encoder).unwrap();
                assert_eq!(
                    answer.data(own).to_ascii_lowercase(),
                    data.to_ascii_lowercase(),
                    "round {round}"
                );
            }
        }
        // And our own reader agrees.
        let mut again = Answer::default();
        scan::read(&out, &mut again).unwrap();
        assert_eq!(again.records().len(), answer.records().len());
    }
}

#[test]
fn short_room_gives_whole_records_and_never_more_than_the_limit() {
    let mut random = Random(42);
    for round in 0..2000 {
        let answer = random.answer(60);
        let limit = 512 + random.below(1000);
        let (query, request) = query(&random.name(), Some(1232));
        let reply = Reply {
            query: &query,
            question_len: query.len() - 23,
            limit,
            edns: &request.edns,
            udp_size: 1232,
            reserve: 0,
            pad: 0,
        };
        let mut out = Vec::new();
        wire::encode(&answer, &reply, &mut out);
        assert!(out.len() <= limit, "round {round}");
        let decoded =
            Message::from_vec(&out).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let kept = decoded.answers.len() + decoded.authorities.len();
        let wanted = answer.records().iter().filter(|rr| rr.section != Section::Additional).count();
        assert_eq!(
            decoded.metadata.truncation,
            kept < wanted || answer.flags.has(Flags::TC),
            "round {round}"
        );
    }
}

#[test]
fn garbage_is_refused_and_nothing_panics() {
    let mut random = Random(7);
    let mut request = Request::default();
    for _ in 0..30_000 {
        let answer = random.answer(6);
        let (query, asked) = query(&random.name(), Some(1232));
        let reply = Reply {
            query: &query,
            question_len: query.len() - 23,
            limit: 65535,
            edns: &asked.edns,
            udp_size: 1232,
            reserve: 0,
            pad: 0,
        };
        let mut message = Vec::new();
        wire::encode(&answer, &reply, &mut message);
        for _ in 0..1 + random.below(4) {
            let at = random.below(message.len());
            // At least one octet stays.
            match random.below(3) {
                0 => message[at] = (random.next() >> 40) as u8,
                1 => message.truncate(at.max(1)),
                _ => message.insert(at, (random.next() >> 40) as u8),
            }
        }
        let mut read = Answer::default();
        if scan::read(&message, &mut read).is_ok() {
            // Whatever was read can be written, and read again.
            let mut out = Vec::new();
            wire::encode(&read, &reply, &mut out);
            scan::read(&out, &mut Answer::default()).unwrap();
        }
        if let Some(flags) = message.get_mut(2) {
            *flags &= 0x7f;
        }
        let _outcome = request.read(&message).is_ok();
    }
}

#[test]
fn a_large_set_costs_no_more_than_its_size() {
    let owner = Name::parse("many.shop.svc.cluster.local").unwrap();
    let mut answer = Answer::default();
    for number in 0..2000u16 {
        let target = owner.child(format!("pod-{number}").as_bytes()).unwrap();
        answer.srv(&owner, 5, Srv { priority: 0, weight: 1, port: number }, target.wire());
    }
    let (query, request) = query(owner.wire(), None);
    let reply = Reply {
        query: &query,
        question_len: query.len() - 12,
        limit: 65535,
        edns: &request.edns,
        udp_size: 0,
        reserve: 0,
        pad: 0,
    };
    let mut out = Vec::new();
    wire::encode(&answer, &reply, &mut out);
    let decoded = Message::from_vec(&out).unwrap();
    assert!(
        decoded.metadata.truncation && decoded.answers.len() > 900,
        "{}",
        decoded.answers.len()
    );
}
