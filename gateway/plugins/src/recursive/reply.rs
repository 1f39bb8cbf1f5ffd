//! What the recursor finds, as a message and a proof.

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::recursor::RecursorError;

use super::wildcard;

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
        let trust = trust(answers.iter().chain(authorities));
        Self { rcode, answers: answers.to_vec(), authorities: authorities.to_vec(), trust }
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
        self.answers.extend(end.answers);
        self.authorities.extend(end.authorities);
        self.trust = self.trust.max(end.trust);
        self
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
        message.add_answers(self.answers.iter().cloned());
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
            // The recursor wants more of a wildcard than there is to be shown.
            DnsError::Nsec { response, proof, .. }
                if proof == Proof::Insecure
                    || wildcard::holds(&response.answers, &response.authorities) =>
            {
                let (answers, authorities) = (&response.answers, &response.authorities);
                Ok(Found::new(response.response_code, answers, authorities))
            }
            error @ (DnsError::Nsec { .. } | DnsError::DnssecBogus) => {
                Err(Missing::Bogus(error.to_string()))
            }
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
