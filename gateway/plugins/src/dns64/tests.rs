//! The facts `dns64.*`.

use engine::metrics;
use engine::testing::Bench;
use engine::{Descriptor, Exchange, Fault, Plugin, Setup, Step};
use wire::{Answer, Section, rcode, rtype};

use super::prefix::Prefix;

/// Answers by the first label and the type.
#[derive(Debug)]
struct Records;

impl Plugin for Records {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        let label = name.each_label().next().unwrap_or_default().to_vec();
        let (kind, answer) = (x.request().rtype, x.answer_mut());
        answer.set_authoritative(true);
        let soa = |answer: &mut Answer, ttl| {
            answer.soa(Section::Authority, b"\0", ttl, b"\0", b"\0", [1, 2, 3, 4, 5]);
        };
        match (&*label, kind) {
            (b"both", rtype::AAAA) => answer.aaaa(&name, 30, "2001:db8::2".parse().unwrap()),
            (b"v6", rtype::AAAA) => answer.aaaa(&name, 30, "2001:db8::6".parse().unwrap()),
            (b"v4" | b"both", rtype::A) => {
                answer.a(&name, 900, [203, 0, 113, 1].into());
                answer.push(Section::Authority, name.wire(), rtype::NS, 7, name.wire());
                answer.a(&name, 30, [198, 51, 100, 7].into());
                answer.address(Section::Additional, name.wire(), 8, [203, 0, 113, 9].into());
            }
            (b"cut", rtype::A) => {
                answer.a(&name, 900, [203, 0, 113, 1].into());
                answer.flags.set(wire::Flags::TC, true);
            }
            (b"nosoa" | b"failing", rtype::A) => answer.a(&name, 900, [203, 0, 113, 1].into()),
            (b"alias", _) => {
                let target = name.parent().child(b"v4").unwrap();
                answer.push(Section::Answer, name.wire(), rtype::CNAME, 60, target.wire());
                if kind == rtype::A {
                    answer.a(&target, 40, [203, 0, 113, 4].into());
                    for covered in [rtype::CNAME, rtype::A] {
                        let data: [&[u8]; 2] = [&covered.to_be_bytes(), &[0; 18]];
                        answer.push_parts(Section::Answer, target.wire(), rtype::RRSIG, 40, &data);
                    }
                }
                soa(answer, 50);
            }
            (b"nx", rtype::AAAA) => {
                answer.rcode = rcode::NXDOMAIN;
                soa(answer, 99);
            }
            (b"nx", _) => answer.a(&name, 30, [203, 0, 113, 1].into()),
            (b"nosoa", _) => {}
            (b"failing" | b"fail", _) => return Step::Fail(Fault::servfail("it failed")),
            (b"refused", _) => {
                answer.rcode = rcode::REFUSED;
                answer.options.push_ede(18, "not you");
            }
            (b"drop", rtype::AAAA) => return Step::Drop,
            (b"lost", rtype::A) => return Step::Drop,
            _ => soa(answer, 99),
        }
        Step::Done
    }
}

/// The plugin `records`.
static RECORDS: Descriptor = Descriptor {
    name: "records",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.install(Records);
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &RECORDS];

/// A gateway whose block has this directive, asked over IPv6.
fn bench(directive: &str) -> Bench {
    let mut bench = Bench::new(CHAIN, &format!("test {{\n{directive}\nrecords\n}}\n"));
    bench.from("2001:db8::99".parse().unwrap());
    bench
}

/// An empty answer's SOA record, with this TTL.
fn soa(ttl: u32) -> String {
    format!(". {ttl} SOA . . 1 2 3 4 5")
}

#[test]
fn addresses_are_embedded_as_the_rfc_has_it() {
    // dns64.synth: RFC 6052 section 2.4 has these prefixes.
    for (prefix, want) in [
        ("2001:db8::/32", "2001:db8:cb00:7121::"),
        ("2001:db8:100::/40", "2001:db8:1cb:71:21::"),
        ("2001:db8:122::/48", "2001:db8:122:cb00:71:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3cb:0:7121::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:cb:71:2100:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::cb00:7121"),
        ("64:ff9b::ffff/96", "64:ff9b::cb00:7121"),
    ] {
        let made = Prefix::read(prefix).unwrap().embed([203, 0, 113, 33]);
        assert_eq!(std::net::Ipv6Addr::from(made).to_string(), want, "{prefix}");
    }
    assert_eq!(Prefix::default(), Prefix::read("64:ff9b::/96").unwrap());
}

#[test]
fn records_are_made_where_there_are_none() {
    let bench = bench("dns64");
    let v4 = "v4.test. 99 AAAA 64:ff9b::cb00:7101; v4.test. 30 AAAA 64:ff9b::c633:6407 \
              | v4.test. 7 NS v4.test. | v4.test. 8 A 203.0.113.9";
    // dns64.when, dns64.synth.
    for (line, want) in [
        ("v4.test AAAA", format!("NOERROR rd | {v4}")),
        ("V4.test AAAA +do", format!("NOERROR rd | {v4}")),
        ("both.test AAAA", "NOERROR aa rd | both.test. 30 AAAA 2001:db8::2".to_owned()),
        ("v6.test AAAA", "NOERROR aa rd | v6.test. 30 AAAA 2001:db8::6".to_owned()),
        ("none.test AAAA", format!("NOERROR rd |  | {}", soa(99))),
        ("nx.test AAAA", format!("NXDOMAIN aa rd |  | {}", soa(99))),
        ("nosoa.test AAAA", "NOERROR rd | nosoa.test. 600 AAAA 64:ff9b::cb00:7101".to_owned()),
        ("failing.test AAAA", "NOERROR rd | failing.test. 600 AAAA 64:ff9b::cb00:7101".to_owned()),
        ("cut.test AAAA", "NOERROR tc rd | cut.test. 99 AAAA 64:ff9b::cb00:7101".to_owned()),
        ("fail.test AAAA", "SERVFAIL rd".to_owned()),
        ("refused.test AAAA +edns", "REFUSED rd | EDE 18 not you".to_owned()),
        ("drop.test AAAA", "(none)".to_owned()),
        ("lost.test AAAA", format!("NOERROR aa rd |  | {}", soa(99))),
        (
            "alias.test AAAA",
            format!(
                "NOERROR rd | alias.test. 60 CNAME v4.test.; v4.test. 40 AAAA 64:ff9b::cb00:7104; \
                 v4.test. 40 RRSIG 0005{} | {}",
                "00".repeat(18),
                soa(50)
            ),
        ),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

#[test]
fn nothing_else_is_touched() {
    let bench = bench("dns64");
    // Other types and classes, and clients that check signatures on their own.
    let v4 = "NOERROR aa rd | v4.test. 900 A 203.0.113.1; v4.test. 30 A 198.51.100.7 \
              | v4.test. 7 NS v4.test. | v4.test. 8 A 203.0.113.9";
    assert_eq!(bench.now("v4.test A"), v4);
    assert_eq!(bench.now("v4.test TXT"), format!("NOERROR aa rd |  | {}", soa(99)));
    assert_eq!(bench.now("v4.test AAAA +do +cd"), format!("NOERROR aa rd cd |  | {}", soa(99)));
    let made = bench.now("v4.test AAAA +cd");
    assert!(made.starts_with("NOERROR rd cd | v4.test. 99 AAAA 64:ff9b::"), "{made}");
}

#[test]
fn options_widen_it() {
    // dns64.translate_all, dns64.allow_ipv4, dns64.prefix, dns64.line.
    for (directive, line, from, want) in [
        ("dns64", "v4.test AAAA", "203.0.113.9", "NOERROR aa rd |  | "),
        ("dns64", "v4.test AAAA", "::ffff:203.0.113.9", "NOERROR aa rd |  | "),
        (
            "dns64 {\nallow_ipv4\n}",
            "v4.test AAAA",
            "203.0.113.9",
            "NOERROR rd | v4.test. 99 AAAA 64:ff9b::cb00:7101",
        ),
        (
            "dns64 {\ntranslate_all\n}",
            "both.test AAAA",
            "2001:db8::99",
            "NOERROR rd | both.test. 600 AAAA 64:ff9b::cb00:7101",
        ),
        ("dns64 {\ntranslate_all\n}", "v6.test AAAA", "2001:db8::99", "NOERROR rd |  | . 99 SOA"),
        (
            "dns64 2001:db8:64::/96 {\nallow_ipv4\n}",
            "nosoa.test AAAA",
            "203.0.113.9",
            "NOERROR rd | nosoa.test. 600 AAAA 2001:db8:64::cb00:7101",
        ),
        (
            "dns64 {\nprefix 2001:db8:64::/96\n}\ndns64 {\nprefix 2001:db8:65::/96\n}",
            "nosoa.test AAAA",
            "2001:db8::99",
            "NOERROR rd | nosoa.test. 600 AAAA 2001:db8:65::cb00:7101",
        ),
    ] {
        let mut bench = bench(directive);
        bench.from(from.parse().unwrap());
        let reply = bench.now(line);
        assert!(reply.starts_with(want), "{directive} {line} {from}: {reply}");
    }
}

#[test]
fn translated_replies_are_counted() {
    // dns64.M, dns64.metrics.when.
    let text = "test:5399 {\ndns64\nrecords\n}\n";
    let mut bench = Bench::new(CHAIN, text);
    bench.from("2001:db8::99".parse().unwrap());
    for line in ["v4.test AAAA", "nosoa.test AAAA", "both.test AAAA", "none.test AAAA"] {
        bench.now(line);
    }
    let line = "coredns_dns64_requests_translated_total{server=\"dns://:5399\"} 2";
    assert!(metrics::render().contains(line), "{}", metrics::render());
}

#[test]
fn what_is_refused() {
    // dns64.prefix, dns64.line; dns64.nonext: a chain that ends fails as it would without.
    for (directive, want) in [
        ("dns64 x", "'x' is no network"),
        ("dns64 64:ff9b::", "is no network"),
        ("dns64 10.0.0.0/8", "is no network of IPv6"),
        ("dns64 64::/24", "has a prefix of 24 bits"),
        ("dns64 64::/97", "has a prefix of 97 bits"),
        ("dns64 64::/100", "has a prefix of 100 bits"),
        ("dns64 64::/33", "has a prefix of 33 bits"),
        ("dns64 64::/96 65::/96", "is one too many"),
        ("dns64 {\nprefix\n}", "Wrong argument count"),
        ("dns64 {\nprefix 10.0.0.0/8\n}", "is no network of IPv6"),
        ("dns64 {\ntranslate_all yes\n}", "is one too many"),
        ("dns64 {\nfoo\n}", "'foo' is not a property"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n{directive}\nrecords\n}}\n"));
        assert!(text.starts_with("plugin/dns64: ") && text.contains(want), "{directive}: {text}");
    }
    let odd = bench("dns64 2001:db8::/72");
    assert!(odd.built.warnings[0].what.contains("RFC 6052"), "{:?}", odd.built.warnings);
    let mut alone = Bench::new(CHAIN, "test {\ndns64\n}\n");
    alone.from("2001:db8::99".parse().unwrap());
    assert_eq!(alone.now("v4.test AAAA"), "SERVFAIL rd");
}
