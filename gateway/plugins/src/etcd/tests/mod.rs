//! The facts `etcd.*`: a Corefile and keys in, replies in words out. A stub takes etcd's place; the real one has its turn in the
//! crate `tests`.
#![allow(clippy::unwrap_used)]

mod answers;
mod calls;
mod settings;
mod stub;

use engine::testing::Bench;

use crate::CHAIN;
use stub::Stub;

/// A gateway for `example.org` whose keys are in the stub, with what its directive says besides.
fn bench(stub: &Stub, lines: &str) -> Bench {
    let endpoint = stub.endpoint();
    let corefile = format!(
        "example.org 10.in-addr.arpa {{\n etcd {{\n endpoint {endpoint}\n {lines}\n }}\n}}\n\
         up.test {{\n template IN A {{\n answer \"{{{{ .Name }}}} 30 IN A 203.0.113.200\"\n }}\n \
         template IN AAAA {{\n rcode NOERROR\n }}\n}}\n"
    );
    Bench::new(CHAIN, &corefile)
}

/// Asks, and puts `SOA` for a zone's own record, whose serial is the time.
async fn ask(bench: &Bench, line: &str) -> String {
    let mut out = Vec::new();
    for section in bench.ask(line).await.split(" | ") {
        let records =
            section.split("; ").map(|record| match record.split(' ').collect::<Vec<_>>()[..] {
                [zone, "30", "SOA", server, mailbox, serial, "7200", "1800", "86400", "30"] => {
                    assert!(serial.parse::<u32>().unwrap() > 1_700_000_000, "{record}");
                    assert_eq!(server, format!("ns.dns.{zone}"));
                    assert_eq!(mailbox, format!("hostmaster.{zone}"));
                    "SOA".to_owned()
                }
                _ => record.to_owned(),
            });
        out.push(records.collect::<Vec<_>>().join("; "));
    }
    out.join(" | ")
}

/// Asks each line of a table and compares.
async fn table(bench: &Bench, rows: &[(&str, &str)]) {
    for (line, want) in rows {
        assert_eq!(ask(bench, line).await, *want, "{line}");
    }
}

/// The reply to a name that has nothing of the type.
const NODATA: &str = "NOERROR aa rd |  | SOA";
/// The reply to a name that is not there.
const NXDOMAIN: &str = "NXDOMAIN aa rd |  | SOA";
