//! What the recursor finds, as a message and a proof.

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::recursor::RecursorError;

use super::{synthesis, wildcard};

/// How many names of a chain are put in order; no longer one is given to clients.
const MOST: usize = 16;

/// How far a chain of signatures leads; the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trust {
    /// From a trust anchor to all of the answer (RFC 4033 §5).
    Secure,
    /// To a proof that there is none.
    Insecure,
    /// It should, and is broken.
    Bogus,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Found {
    rcode: ResponseCode,
    answers: Vec<Record>,
    authorities: Vec<Record>,
    pub(super) trust: Trust,
}

impl Found {
    /// Puts an answer together.
    fn new(rcode: ResponseCode, answers: &[Record], authorities: &[Record]) -> Self {
        let mut answers = answers.to_vec();
        synthesis::secure(&mut answers);
        let trust = trust(answers.iter().chain(authorities));
        Self { rcode, answers, authorities: authorities.to_vec(), trust }
    }

    /// Looks at an answer whose denials the recursor takes for bogus: it wants more of a wildcard than there is to be shown, and
    /// does not know that servers go on from a DNAME record to a name of which they deny what was asked for.
    fn doubted(query: &Query, message: &Message) -> Option<Self> {
        let (answers, authorities) = (&message.answers, &message.authorities);
        let found = Self::new(message.response_code, answers, authorities);
        if wildcard::holds(&found.answers, &found.authorities) {
            return Some(found);
        }
        // An alias that is signed well for its own name needs no denial; those that are there are about its target.
        let name = query.name();
        let is_about = |rr: &Record| {
            let above = matches!(rr.record_type(), RecordType::DNAME | RecordType::RRSIG);
            rr.name == *name || above && rr.name.zone_of(name)
        };
        let answers: Vec<_> = found.answers.into_iter().filter(is_about).collect();
        let alone = Self::new(ResponseCode::NoError, &answers, &[]);
        let is_whole = query.query_type() == RecordType::CNAME
            && alone.trust == Trust::Secure
            && alone.target(name).is_some()
            && wildcard::is_none(&alone.answers);
        is_whole.then_some(alone)
    }

    /// Whether it has no record that was asked for.
    pub(super) fn is_denial(&self) -> bool {
        self.answers.is_empty()
    }

    /// The name that a CNAME record for `name` leads to.
    pub(super) fn target(&self, name: &Name) -> Option<&Name> {
        self.answers.iter().find_map(|rr| match &rr.data {
            RData::CNAME(target) if rr.name == *name => Some(&target.0),
            _ => None,
        })
    }

    /// Goes on with what was found at the end of an alias; it is worth as much as the worse of both.
    #[must_use]
    pub(super) fn then(mut self, end: Self) -> Self {
        self.rcode = end.rcode;
        for rr in end.answers {
            // Below a DNAME record, servers may have gone on by themselves.
            if !self.answers.contains(&rr) {
                self.answers.push(rr);
            }
        }
        self.authorities.extend(end.authorities);
        self.trust = self.trust.max(end.trust);
        self
    }

    /// The answers to a question about `name` along its chain: what leads on stands before where it leads (RFC 1034 §4.3.2), for
    /// those who read it once. The recursor gives what it has verified in no order.
    fn in_order(&self, name: &Name) -> Vec<Record> {
        let mut chain = vec![name];
        while let Some(next) = chain.last().and_then(|name| self.target(name))
            && chain.len() < MOST
            && !chain.contains(&next)
        {
            chain.push(next);
        }
        let place = |rr: &Record| {
            let is_dname = synthesis::type_of(rr) == RecordType::DNAME;
            let is_of =
                |name: &&Name| if is_dname { rr.name.zone_of(name) } else { rr.name == **name };
            let at = chain.iter().position(is_of).unwrap_or(chain.len());
            // A signature stands behind what it signs.
            (at, !is_dname, rr.record_type() == RecordType::RRSIG)
        };
        let mut answers = self.answers.clone();
        answers.sort_by_cached_key(place);
        answers
    }

    /// As a message of DNS.
    ///
    /// # Errors
    /// If there is too much of it.
    pub(super) fn wire(&self, query: &Query) -> Result<Vec<u8>, String> {
        let mut message = Message::response(0, OpCode::Query);
        message.metadata.response_code = self.rcode;
        message.metadata.recursion_available = true;
        message.add_query(query.clone());
        message.add_answers(self.in_order(query.name()));
        message.add_authorities(self.authorities.iter().cloned());
        message.to_vec().map_err(|error| format!("it is no message: {error}"))
    }
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The servers that should know cannot be asked, or say nothing useful.
    Unreachable(String),
    /// A chain of signatures is broken.
    Bogus(String),
    /// It would take too many questions.
    TooLong(String),
}

/// Reads what the recursor gives for a question.
///
/// # Errors
/// Why there is no answer.
pub(super) fn read(result: Result<Message, RecursorError>) -> Result<Found, Missing> {
    match result {
        Ok(message) => {
            Ok(Found::new(message.response_code, &message.answers, &message.authorities))
        }
        Err(RecursorError::Negative(data)) => {
            let rcode = match data.is_nx_domain() {
                true => ResponseCode::NXDomain,
                false => ResponseCode::NoError,
            };
            let soa = data.soa.map(|soa| soa.into_record_of_rdata());
            Ok(Found::new(rcode, &[], &authorities(soa, data.authorities.as_deref())))
        }
        Err(RecursorError::Net(NetError::Dns(error))) => match error {
            DnsError::NoRecordsFound(none) if none.ns.is_none() => {
                let soa = none.soa.map(|soa| soa.into_record_of_rdata());
                let records = authorities(soa, none.authorities.as_deref());
                match none.response_code {
                    rcode @ (ResponseCode::NoError | ResponseCode::NXDomain) => {
                        Ok(Found::new(rcode, &[], &records))
                    }
                    rcode => Err(Missing::Unreachable(format!("the servers say {rcode}"))),
                }
            }
            DnsError::Nsec { response, proof: Proof::Insecure, .. } => {
                let (answers, authorities) = (&response.answers, &response.authorities);
                Ok(Found::new(response.response_code, answers, authorities))
            }
            DnsError::Nsec { ref query, ref response, .. } => {
                Found::doubted(query, response).ok_or_else(|| Missing::Bogus(error.to_string()))
            }
            DnsError::DnssecBogus => Err(Missing::Bogus(error.to_string())),
            error => Err(Missing::Unreachable(error.to_string())),
        },
        Err(
            error @ (RecursorError::RecursionLimitExceeded { .. }
            | RecursorError::MaxRecordLimitExceeded { .. }
            | RecursorError::QueryBudgetExceeded),
        ) => Err(Missing::TooLong(error.to_string())),
        Err(error) => Err(Missing::Unreachable(error.to_string())),
    }
}

/// The authority section of a denial: its SOA record, and what proves it.
fn authorities(soa: Option<Record>, others: Option<&[Record]>) -> Vec<Record> {
    let others = others.unwrap_or_default().iter();
    let others = others.filter(|rr| rr.record_type() != RecordType::SOA).cloned();
    soa.into_iter().chain(others).collect()
}

/// What records come to: one that is bogus spoils all, and all have to be secure (RFC 4035 §3.2.3). Signatures are
/// judged by what they sign.
fn trust<'a>(records: impl Iterator<Item = &'a Record>) -> Trust {
    let signed = records.filter(|rr| rr.record_type() != RecordType::RRSIG);
    let (mut all, mut secure) = (0, 0);
    for rr in signed {
        all += 1;
        match rr.proof {
            Proof::Bogus => return Trust::Bogus,
            Proof::Secure => secure += 1,
            Proof::Insecure | Proof::Indeterminate => {}
        }
    }
    if all > 0 && all == secure { Trust::Secure } else { Trust::Insecure }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hickory_resolver::proto::dnssec::rdata::{DNSSECRData, NSEC};
    use hickory_resolver::proto::rr::rdata::A;

    use super::super::synthesis::tests::{alias, dname, name, record, signature};
    use super::*;

    /// An address below where `d.good.test` leads.
    fn address(proof: Proof) -> Record {
        record("x.w.fine.test.", 60, RData::A(A::new(203, 0, 113, 1)), proof)
    }

    #[test]
    fn an_answer_below_a_dname_record_is_as_good_as_the_worst_of_its_parts() {
        for (dname_is, address_is, want) in [
            (Proof::Secure, Proof::Secure, Trust::Secure),
            (Proof::Secure, Proof::Insecure, Trust::Insecure),
            (Proof::Secure, Proof::Bogus, Trust::Bogus),
            (Proof::Bogus, Proof::Secure, Trust::Bogus),
            (Proof::Insecure, Proof::Secure, Trust::Bogus),
        ] {
            let mut message = Message::response(0, OpCode::Query);
            message.add_answers([
                alias("x.d.good.test.", "x.w.fine.test."),
                address(address_is),
                dname("d.good.test.", "w.fine.test.", dname_is),
            ]);
            let found = read(Ok(message)).unwrap();
            assert_eq!(found.trust, want, "{dname_is} {address_is}");
        }
    }

    #[test]
    fn an_alias_needs_no_denial_of_its_target() {
        let sure = || dname("d.good.test.", "w.good.test.", Proof::Secure);
        let right = || alias("x.d.good.test.", "x.w.good.test.");
        let sign = |num_labels| signature("d.good.test.", RecordType::DNAME, num_labels);
        for (why, rtype, answers, want) in [
            ("it is", RecordType::CNAME, vec![sure(), sign(3), right()], true),
            ("another question", RecordType::A, vec![sure(), sign(3), right()], false),
            (
                "bogus",
                RecordType::CNAME,
                vec![sure(), sign(3), alias("x.d.good.test.", "x.evil.test.")],
                false,
            ),
            ("no alias", RecordType::CNAME, vec![sure(), sign(3)], false),
            // A closer name might be there.
            ("from a wildcard", RecordType::CNAME, vec![sure(), sign(2), right()], false),
            (
                "something bogus further on",
                RecordType::CNAME,
                vec![right(), sign(3), sure(), alias("x.w.good.test.", "x.evil.test.")],
                true,
            ),
        ] {
            let nsec = NSEC::new(name("www.good.test."), [RecordType::TXT]);
            let nsec = RData::DNSSEC(DNSSECRData::NSEC(nsec));
            let mut message = Message::response(0, OpCode::Query);
            message.add_answers(answers);
            message.add_authority(record("*.w.good.test.", 60, nsec, Proof::Secure));
            let query = Query::query(name("x.d.good.test."), rtype);
            let found = Found::doubted(&query, &message);
            assert_eq!(found.is_some(), want, "{why}");
            let Some(found) = found else { continue };
            assert_eq!(found.trust, Trust::Secure, "{why}");
            assert_eq!(found.target(query.name()), Some(&name("x.w.good.test.")), "{why}");
            let (answers, authorities) = (found.answers.len(), found.authorities.len());
            assert_eq!((answers, authorities), (3, 0), "{why}");
        }
    }

    #[test]
    fn what_a_server_gave_before_is_not_given_twice() {
        let found = |answers: &[Record]| Found::new(ResponseCode::NoError, answers, &[]);
        let way = found(&[alias("a.test.", "b.test."), alias("b.test.", "x.w.fine.test.")]);
        let end = found(&[alias("b.test.", "x.w.fine.test."), address(Proof::Secure)]);
        assert_eq!(way.then(end).answers.len(), 3);
    }

    #[test]
    fn what_leads_on_stands_before_where_it_leads() {
        let sign = |owner: &str, of| signature(owner, of, 3);
        let right = vec![
            alias("a.test.", "x.D.good.test."),
            sign("A.test.", RecordType::CNAME),
            dname("d.good.test.", "w.fine.test.", Proof::Secure),
            sign("d.good.test.", RecordType::DNAME),
            alias("x.d.good.test.", "x.w.Fine.test."),
            address(Proof::Secure),
            sign("x.w.fine.test.", RecordType::A),
            record("z.test.", 60, RData::A(A::new(203, 0, 113, 9)), Proof::Secure),
        ];
        let given = |answers: &[Record]| {
            let query = Query::query(name("a.test."), RecordType::A);
            let found = Found::new(ResponseCode::NoError, answers, &[]);
            let read = Message::from_vec(&found.wire(&query).unwrap()).unwrap();
            let told = |rr: &Record| format!("{} {}", rr.name, rr.record_type());
            read.answers.iter().map(told).collect::<Vec<_>>()
        };
        let want = [
            "a.test. CNAME",
            "A.test. RRSIG",
            "d.good.test. DNAME",
            "d.good.test. RRSIG",
            "x.d.good.test. CNAME",
            "x.w.fine.test. A",
            "x.w.fine.test. RRSIG",
            "z.test. A",
        ];
        for turn in 0..right.len() {
            let mut turned = right.clone();
            turned.rotate_left(turn);
            assert_eq!(given(&turned), want, "{turn}");
            turned.reverse();
            assert_eq!(given(&turned), want, "{turn} backwards");
        }
        // A circle ends.
        let circle = [alias("b.test.", "a.test."), alias("a.test.", "b.test.")];
        assert_eq!(given(&circle), ["a.test. CNAME", "b.test. CNAME"]);
    }
}
