//! Whether an answer may come from a wildcard (RFC 4035 §5.3.4).

use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::dnssec::rdata::{DNSSECRData, NSEC, RRSIG};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

/// Whether all records of an answer are signed well, at least one comes from a wildcard, and an NSEC record shows for each
/// that does that there is no closer name.
///
/// It suffices that the *next closer name* is not there: the name with one label more than the wildcard's parent. Nothing that
/// is below a name that does not exist does.
pub(super) fn holds(answers: &[Record], authorities: &[Record]) -> bool {
    let is_secure = |rr: &Record| rr.proof == Proof::Secure;
    if !answers.iter().filter(|rr| rr.record_type() != RecordType::RRSIG).all(is_secure) {
        return false;
    }
    let nsecs: Vec<_> = authorities.iter().filter(|rr| is_secure(rr)).filter_map(nsec).collect();
    let mut expanded = answers.iter().filter_map(expansion).peekable();
    expanded.peek().is_some()
        && expanded.all(|(next_closer, zone)| {
            nsecs.iter().any(|(owner, nsec)| denies(owner, nsec, &next_closer, zone))
        })
}

/// Whether nothing of an answer comes from a wildcard.
pub(super) fn is_none(answers: &[Record]) -> bool {
    answers.iter().filter_map(expansion).next().is_none()
}

/// The next closer name and the zone of a signature that is a wildcard's.
fn expansion(rr: &Record) -> Option<(Name, &Name)> {
    let RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) = &rr.data else { return None };
    let rrsig: &RRSIG = rrsig;
    let labels = rrsig.input().num_labels;
    let next_closer = rr.name.trim_to(usize::from(labels) + 1);
    (labels < rr.name.num_labels()).then_some((next_closer, &rrsig.input().signer_name))
}

/// The owner and the data of an NSEC record.
fn nsec(rr: &Record) -> Option<(&Name, &NSEC)> {
    match &rr.data {
        RData::DNSSEC(DNSSECRData::NSEC(nsec)) => Some((&rr.name, nsec)),
        _ => None,
    }
}

/// Whether an NSEC record of a zone says that neither a name nor anything below it exists.
fn denies(owner: &Name, nsec: &NSEC, name: &Name, zone: &Name) -> bool {
    let next = nsec.next_domain_name();
    // RFC 6840 §4.1: at a delegation, the zone above knows nothing of what is below.
    let is_above = nsec.is_ancestor_delegation() && owner.zone_of(name);
    let is_last = next == zone;
    zone.zone_of(owner)
        && zone.zone_of(next)
        && !is_above
        && owner < name
        // A next name that is below it would show that it exists without records.
        && (is_last || name < next && !name.zone_of(next))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hickory_resolver::proto::rr::rdata::A;

    use super::super::synthesis::tests::{name, record, signature};
    use super::*;

    #[test]
    fn an_nsec_record_denies_what_is_between_its_names() {
        let zone = name("good.test.");
        for (owner, next, types, asked, want) in [
            ("*.w.good.test.", "www.good.test.", [RecordType::TXT], "x.w.good.test.", true),
            // The last one of a zone.
            ("www.good.test.", "good.test.", [RecordType::A], "x.good.test.", true),
            ("www.good.test.", "other.test.", [RecordType::A], "x.good.test.", false),
            // Not between.
            ("a.w.good.test.", "m.w.good.test.", [RecordType::A], "x.w.good.test.", false),
            ("x.w.good.test.", "y.w.good.test.", [RecordType::A], "x.w.good.test.", false),
            ("a.w.good.test.", "x.w.good.test.", [RecordType::A], "x.w.good.test.", false),
            // There without records.
            ("*.w.good.test.", "a.x.w.good.test.", [RecordType::A], "x.w.good.test.", false),
            // At a delegation, and at a name whose place is elsewhere.
            ("w.good.test.", "y.good.test.", [RecordType::NS], "x.w.good.test.", false),
            ("w.good.test.", "y.good.test.", [RecordType::DNAME], "x.w.good.test.", false),
            ("w.good.test.", "y.good.test.", [RecordType::A], "x.w.good.test.", true),
            // Of another zone.
            ("a.fine.test.", "good.test.", [RecordType::A], "x.good.test.", false),
        ] {
            let nsec = NSEC::new(name(next), types);
            assert_eq!(
                denies(&name(owner), &nsec, &name(asked), &zone),
                want,
                "{owner} {next} {asked}"
            );
        }
    }

    #[test]
    fn a_wildcard_needs_a_denial_that_is_signed() {
        let asked = "a.x.w.good.test.";
        let sign = |labels| signature(asked, RecordType::A, labels);
        let address = |proof| record(asked, 60, RData::A(A::new(203, 0, 113, 1)), proof);
        let denial = |owner: &str, next: &str, proof| {
            let nsec = NSEC::new(name(next), [RecordType::A]);
            record(owner, 60, RData::DNSSEC(DNSSECRData::NSEC(nsec)), proof)
        };
        let right = denial("*.w.good.test.", "www.good.test.", Proof::Secure);
        // It denies the name, but a wildcard of `x.w` might be there.
        let low = denial("*.x.w.good.test.", "b.x.w.good.test.", Proof::Secure);
        let unsigned = denial("*.w.good.test.", "www.good.test.", Proof::Insecure);
        let secure = || address(Proof::Secure);
        for (answers, authorities, want) in [
            (vec![secure(), sign(3)], vec![right.clone()], true),
            (vec![secure(), sign(3)], vec![low.clone(), right.clone()], true),
            (vec![secure(), sign(3)], vec![low], false),
            (vec![secure(), sign(3)], vec![unsigned], false),
            (vec![secure(), sign(3)], vec![], false),
            (vec![address(Proof::Bogus), sign(3)], vec![right.clone()], false),
            // No wildcard, so another reason for the doubt.
            (vec![secure(), sign(5)], vec![right.clone()], false),
            (vec![], vec![right], false),
        ] {
            assert_eq!(holds(&answers, &authorities), want, "{answers:?} {authorities:?}");
        }
    }
}
