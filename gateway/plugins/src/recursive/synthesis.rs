//! CNAME records that a server makes of a DNAME record (RFC 6672 §3.1).

use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::dnssec::rdata::DNSSECRData;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::proto::serialize::binary::{BinDecodable, BinDecoder};

/// How many DNAME records of an answer are looked at; no chain of names is longer.
const MOST: usize = 16;

/// Takes CNAME records for secure that nobody signed because they follow from a DNAME record of the same answer, if that is secure
/// (RFC 6672 §5.3.1). They may be kept no longer than it.
pub(super) fn secure(answers: &mut [Record]) {
    let dnames = answers.iter().filter(|rr| rr.proof == Proof::Secure).filter_map(Dname::of);
    let dnames: Vec<_> = dnames.take(MOST).collect();
    if dnames.is_empty() {
        return;
    }
    let made: Vec<_> = answers.iter().map(|rr| ttl(rr, &dnames, answers)).collect();
    for (rr, ttl) in answers.iter_mut().zip(made) {
        if let Some(ttl) = ttl {
            rr.proof = Proof::Secure;
            rr.ttl = rr.ttl.min(ttl);
        }
    }
}

/// A DNAME record.
struct Dname {
    owner: Name,
    target: Name,
    ttl: u32,
}

impl Dname {
    /// Reads one.
    fn of(rr: &Record) -> Option<Self> {
        let RData::Unknown { code: RecordType::DNAME, rdata } = &rr.data else { return None };
        let mut decoder = BinDecoder::new(&rdata.anything);
        let mut target = Name::read(&mut decoder).ok()?;
        target.set_fqdn(true);
        decoder.is_empty().then(|| Self { owner: rr.name.clone(), target, ttl: rr.ttl })
    }

    /// The name that one below its owner stands for (RFC 6672 §2.2), if that is not too long.
    fn leads(&self, name: &Name) -> Option<Name> {
        let more = name.iter().len().checked_sub(self.owner.iter().len())?;
        if more == 0 || !self.owner.zone_of(name) {
            return None;
        }
        let head = Name::from_labels(name.iter().take(more)).ok()?;
        head.append_domain(&self.target).ok()
    }
}

/// The TTL, in seconds, of the DNAME record that a CNAME record without a signature is made of; none if it is none such.
fn ttl(rr: &Record, dnames: &[Dname], answers: &[Record]) -> Option<u32> {
    let RData::CNAME(target) = &rr.data else { return None };
    if rr.proof != Proof::Bogus {
        return None;
    }
    let leads = |dname: &&Dname| dname.leads(&rr.name).is_some_and(|name| name == target.0);
    let dname = dnames.iter().find(leads)?;
    let others = answers.iter().filter(|other| other.name == rr.name);
    // A second one leads elsewhere, and a signature that is there has to be good.
    (others.filter(|other| type_of(other) == RecordType::CNAME).count() == 1).then_some(dname.ttl)
}

/// The type of a record; of a signature that of what it signs.
pub(super) fn type_of(rr: &Record) -> RecordType {
    match &rr.data {
        RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) => rrsig.input().type_covered,
        _ => rr.record_type(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use hickory_resolver::proto::dnssec::Algorithm;
    use hickory_resolver::proto::dnssec::rdata::{RRSIG, SigInput};
    use hickory_resolver::proto::rr::SerialNumber;
    use hickory_resolver::proto::rr::rdata::{A, CNAME, NULL};
    use hickory_resolver::proto::serialize::binary::BinEncodable;

    use super::*;

    /// A name.
    pub(crate) fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    /// A record with a proof.
    pub(crate) fn record(owner: &str, ttl: u32, data: RData, proof: Proof) -> Record {
        let mut rr = Record::from_rdata(name(owner), ttl, data);
        rr.proof = proof;
        rr
    }

    /// A DNAME record with some bytes for its data.
    fn raw(owner: &str, data: Vec<u8>, proof: Proof) -> Record {
        let data = RData::Unknown { code: RecordType::DNAME, rdata: NULL::with(data) };
        record(owner, 60, data, proof)
    }

    /// A DNAME record.
    pub(crate) fn dname(owner: &str, target: &str, proof: Proof) -> Record {
        raw(owner, name(target).to_bytes().unwrap(), proof)
    }

    /// A CNAME record that is not signed.
    pub(crate) fn alias(owner: &str, target: &str) -> Record {
        record(owner, 3600, RData::CNAME(CNAME(name(target))), Proof::Bogus)
    }

    /// A signature that is not good, made for a name of so many labels.
    pub(crate) fn signature(owner: &str, type_covered: RecordType, num_labels: u8) -> Record {
        let input = SigInput {
            type_covered,
            algorithm: Algorithm::ECDSAP256SHA256,
            num_labels,
            original_ttl: 60,
            sig_expiration: SerialNumber::new(2),
            sig_inception: SerialNumber::new(1),
            key_tag: 1,
            signer_name: name("good.test."),
        };
        let rrsig = RRSIG::from_sig(input, vec![1]);
        record(owner, 60, RData::DNSSEC(DNSSECRData::RRSIG(rrsig)), Proof::Bogus)
    }

    #[test]
    fn an_alias_is_as_secure_as_the_dname_record_that_gives_it() {
        let d = |proof| dname("d.good.test.", "w.fine.test.", proof);
        let right = || alias("x.d.good.test.", "x.w.fine.test.");
        let sure = || d(Proof::Secure);
        let too_long = format!("{0}.{0}.{0}.d.good.test.", "x".repeat(60));
        let long = format!("{0}.{0}.fine.test.", "y".repeat(60));
        for (why, answers, want) in [
            ("it follows", vec![sure(), right()], true),
            ("in any order", vec![right(), sure()], true),
            (
                "of several labels",
                vec![sure(), alias("a.b.d.good.test.", "a.b.w.fine.test.")],
                true,
            ),
            ("in any case", vec![sure(), alias("x.D.gOOd.test.", "x.w.FINE.test.")], true),
            (
                "to the root",
                vec![dname("d.good.test.", ".", Proof::Secure), alias("x.d.good.test.", "x.")],
                true,
            ),
            ("no DNAME record", vec![right()], false),
            ("the DNAME record is bogus", vec![d(Proof::Bogus), right()], false),
            ("it is not signed", vec![d(Proof::Insecure), right()], false),
            ("nobody looked", vec![d(Proof::Indeterminate), right()], false),
            ("elsewhere", vec![sure(), alias("x.d.good.test.", "x.w.evil.test.")], false),
            ("another label", vec![sure(), alias("x.d.good.test.", "y.w.fine.test.")], false),
            ("a label more", vec![sure(), alias("x.d.good.test.", "x.y.w.fine.test.")], false),
            ("a label less", vec![sure(), alias("x.d.good.test.", "w.fine.test.")], false),
            ("the owner itself", vec![sure(), alias("d.good.test.", "w.fine.test.")], false),
            ("beside it", vec![sure(), alias("x.good.test.", "x.w.fine.test.")], false),
            ("half a label", vec![sure(), alias("xd.good.test.", "x.w.fine.test.")], false),
            (
                "too long",
                vec![dname("d.good.test.", &long, Proof::Secure), alias(&too_long, &long)],
                false,
            ),
            (
                "a second one",
                vec![sure(), right(), alias("x.d.good.test.", "x.w.evil.test.")],
                false,
            ),
            (
                "signed badly",
                vec![sure(), right(), signature("x.d.good.test.", RecordType::CNAME, 4)],
                false,
            ),
            (
                "another signature",
                vec![sure(), right(), signature("x.d.good.test.", RecordType::TXT, 4)],
                true,
            ),
            (
                "no name",
                vec![raw("d.good.test.", vec![1, b'w', 0, 0], Proof::Secure), right()],
                false,
            ),
        ] {
            let before = answers.clone();
            let mut after = answers;
            secure(&mut after);
            for (was, is) in before.iter().zip(&after) {
                let is_right = want && matches!(is.data, RData::CNAME(_));
                let expected = if is_right { (Proof::Secure, 60) } else { (was.proof, was.ttl) };
                assert_eq!((is.proof, is.ttl), expected, "{why}: {is}");
            }
        }
    }

    #[test]
    fn other_records_below_a_dname_record_stay_what_they_are() {
        let address = RData::A(A::new(203, 0, 113, 1));
        let mut answers = [
            dname("d.good.test.", "w.fine.test.", Proof::Secure),
            record("x.d.good.test.", 60, address, Proof::Bogus),
            record(
                "y.d.good.test.",
                60,
                RData::CNAME(CNAME(name("y.w.fine.test."))),
                Proof::Insecure,
            ),
        ];
        secure(&mut answers);
        let proofs = answers.map(|rr| rr.proof);
        assert_eq!(proofs, [Proof::Secure, Proof::Bogus, Proof::Insecure]);
    }
}
