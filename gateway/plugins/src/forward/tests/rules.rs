//! What a forwarder must do, by the numbers of the rules.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::{Answer, Flags, Name, Section, rtype};

use super::bench;
use crate::shared::scripted::{Asked, Say, Scripted, encode};

/// An address of answers.
const GOOD: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// An address that must not be seen.
const EVIL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);

/// A name.
fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Adds a CNAME record.
fn cname(answer: &mut Answer, from: &Name, to: &Name) {
    answer.push(Section::Answer, from.wire(), rtype::CNAME, 60, to.wire());
}

#[tokio::test]
async fn fwd_02_wrong_replies_are_passed_over_and_many_lead_to_tcp() {
    let up = Scripted::start(|asked, answer| {
        answer.a(&asked.request.name.clone(), 60, GOOD);
        let right = encode(asked, answer);
        let wrong = |bits: u8| {
            let mut evil = Answer::default();
            evil.a(&asked.request.name.clone(), 60, EVIL);
            let mut wrong = encode(asked, &evil);
            wrong[1] ^= bits;
            wrong
        };
        match &*asked.label() {
            _ if asked.tcp => Say::Answer,
            "few" => Say::Raw((1..=5).map(wrong).chain([right]).collect()),
            "many" => Say::Raw((1..=50).map(wrong).collect()),
            _ => Say::Nothing,
        }
    })
    .await;
    let bench = bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr));
    let want = |name: &str| format!("NOERROR rd ra | {name}.test. 60 A 198.51.100.1");
    assert_eq!(bench.ask("few.test").await, want("few"));
    assert_eq!(up.seen(), ["few.test. A udp rd"]);
    let begun = Instant::now();
    assert_eq!(bench.ask("many.test").await, want("many"));
    assert_eq!(up.seen(), ["many.test. A udp rd", "many.test. A tcp rd"]);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// Adds records of other names to the right one.
fn plant(asked: &Asked, answer: &mut Answer) {
    let bank = name("www.bank.example.");
    answer.a(&bank, 60, EVIL);
    answer.a(&asked.request.name.clone(), 60, GOOD);
    answer.push(Section::Authority, bank.wire(), rtype::NS, 60, name("ns.evil.example.").wire());
    answer.push(
        Section::Authority,
        name("corp.example.").wire(),
        rtype::NS,
        60,
        name("ns.corp.example.").wire(),
    );
    for owner in ["ns.corp.example.", "ns.evil.example.", "db.cluster.local."] {
        answer.address(Section::Additional, name(owner).wire(), 60, EVIL.into());
    }
}

#[tokio::test]
async fn fwd_05_what_does_not_belong_to_the_question_is_dropped() {
    let up = Scripted::start(|asked, answer| {
        let asked_for = asked.request.name.clone();
        match &*asked.label() {
            "plant" => plant(asked, answer),
            "alias" => {
                let target = name("real.corp.example.");
                answer.a(&target, 60, GOOD);
                cname(answer, &asked_for, &target);
                answer.a(&name("other.corp.example."), 60, EVIL);
            }
            "abroad" => {
                let target = name("cdn.example.net.");
                cname(answer, &asked_for, &target);
                answer.a(&target, 60, GOOD);
            }
            "cut" => {
                // x.cut.corp.example is below it.
                answer.push(Section::Answer, asked_for.wire(), rtype::A, 60, &[198, 51, 100]);
            }
            "below" => {
                let (from, to) = (name("corp.example."), name("corp.example.net."));
                answer.push(Section::Answer, from.wire(), rtype::DNAME, 60, to.wire());
                cname(answer, &asked_for, &name("below.corp.example.net."));
                answer.a(&name("below.corp.example.net."), 60, GOOD);
                answer.a(&name("else.corp.example.net."), 60, EVIL);
            }
            _ => return Say::Nothing,
        }
        Say::Answer
    })
    .await;
    let bench = bench(&format!("forward corp.example {} {{\n max_fails 0\n}}", up.addr));
    for (label, want) in [
        (
            "plant",
            "NOERROR rd ra | plant.corp.example. 60 A 198.51.100.1 | corp.example. 60 NS ns.corp.example. \
             | ns.corp.example. 60 A 203.0.113.66",
        ),
        (
            "alias",
            "NOERROR rd ra | real.corp.example. 60 A 198.51.100.1; alias.corp.example. 60 CNAME real.corp.example.",
        ),
        (
            "abroad",
            "NOERROR rd ra | abroad.corp.example. 60 CNAME cdn.example.net.; cdn.example.net. 60 A 198.51.100.1",
        ),
        (
            "below",
            "NOERROR rd ra | corp.example. 60 DNAME corp.example.net.; below.corp.example. 60 CNAME \
             below.corp.example.net.; below.corp.example.net. 60 A 198.51.100.1",
        ),
        ("cut", "SERVFAIL rd"),
    ] {
        assert_eq!(bench.ask(&format!("{label}.corp.example")).await, want);
    }
}

#[tokio::test]
async fn fwd_06_chains_are_bounded_and_end_in_zones_of_our_own() {
    let up = Scripted::start(|asked, answer| {
        let asked_for = asked.request.name.clone();
        match &*asked.label() {
            "home" | "nohome" => {
                let target = name(if asked.label() == "home" { "db.lan." } else { "gone.lan." });
                cname(answer, &asked_for, &target);
                answer.a(&target, 60, EVIL);
            }
            count => {
                let count: usize = count.strip_prefix('n').unwrap().parse().unwrap();
                let at = |at: usize| name(&format!("x{at}.example.org."));
                cname(answer, &asked_for, &at(1));
                (1..count).for_each(|step| cname(answer, &at(step), &at(step + 1)));
                answer.a(&at(count), 60, GOOD);
            }
        }
        Say::Answer
    })
    .await;
    let text = format!(
        "hosts nofile lan {{\n 198.51.100.7 db.lan\n}}\nforward . {} {{\n max_fails 0\n}}",
        up.addr
    );
    let bench = bench(&text);
    let got = bench.ask("n15.example.org +bufsize=4096").await;
    assert!(got.ends_with("x15.example.org. 60 A 198.51.100.1"), "{got}");
    assert_eq!(up.count(), 1);
    let got = bench.ask("n16.example.org +edns").await;
    assert_eq!(got, "SERVFAIL rd | EDE 24 no upstream gave a usable reply");
    assert_eq!(
        bench.ask("home.example.org").await,
        "NOERROR rd ra | home.example.org. 60 CNAME db.lan.; db.lan. 3600 A 198.51.100.7"
    );
    // *hosts* fails for a name that it does not have.
    assert_eq!(
        bench.ask("nohome.example.org").await,
        "SERVFAIL rd ra | nohome.example.org. 60 CNAME gone.lan."
    );
}

#[tokio::test]
async fn fwd_07_equal_questions_are_asked_once_and_others_not() {
    let up = Scripted::start(|asked, answer| {
        std::thread::sleep(Duration::from_millis(40));
        answer.a(&asked.request.name.clone(), 60, GOOD);
        Say::Answer
    })
    .await;
    let bench = Arc::new(bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr)));
    let all = async |lines: &[&str], times: usize| {
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..times {
            let (bench, line) = (Arc::clone(&bench), lines[at % lines.len()].to_owned());
            tasks.spawn(async move { bench.ask(&line).await });
        }
        for reply in tasks.join_all().await {
            assert!(reply.contains("198.51.100.1"), "{reply}");
        }
        up.count()
    };
    assert_eq!(all(&["www.test +edns", "WWW.test +edns +opt=10:0102030405060708"], 1000).await, 1);
    // Name, type, class, DO, CD, AD, subnet, transport: each makes another question.
    let others = [
        "a.test +edns",
        "b.test +edns",
        "a.test CH A +edns",
        "a.test +do",
        "a.test +edns +cd",
        "a.test +edns +ad",
        "a.test +edns +norec",
        "a.test +edns +opt=8:000118000a0000",
        "a.test +edns +opt=8:000118000a0001",
        "a.test +edns +tcp",
    ];
    assert_eq!(all(&others, others.len() * 5).await, others.len());
}

#[tokio::test]
async fn fwd_11_tries_are_few_and_keep_their_edns() {
    let up = Scripted::start(|asked, answer| match &*asked.label() {
        "silent" => Say::Nothing,
        "large" if !asked.tcp => {
            answer.flags.set(Flags::TC, true);
            Say::Answer
        }
        "stubborn" => {
            answer.flags.set(Flags::TC, true);
            Say::Answer
        }
        "formerr" => {
            answer.rcode = wire::rcode::FORMERR;
            Say::Answer
        }
        _ => {
            answer.a(&asked.request.name.clone(), 60, GOOD);
            Say::Answer
        }
    })
    .await;
    let bench = bench(&format!("forward . {0} {{\n max_fails 0\n prefer_udp\n}}", up.addr));
    let begun = Instant::now();
    assert_eq!(bench.ask("silent.test +edns").await, "SERVFAIL rd | EDE 23 no upstream replied");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(up.seen(), ["silent.test. A udp rd size=1232"; 2]);
    // Cut replies lead to TCP once, whatever comes there.
    for label in ["large", "stubborn"] {
        bench.ask(&format!("{label}.test")).await;
        let (udp, tcp) = (format!("{label}.test. A udp rd"), format!("{label}.test. A tcp rd"));
        assert_eq!(up.seen(), [udp, tcp]);
    }
    // What an upstream makes of EDNS is told to who sent it, who can do without.
    assert!(bench.ask("formerr.test +edns").await.starts_with("FORMERR"));
    assert_eq!(up.count(), 1);
}

#[tokio::test]
async fn fwd_15_dnssec_goes_to_those_who_ask_and_unknown_types_to_all() {
    let up = Scripted::start(|asked, answer| {
        let owner = asked.request.name.clone();
        let kind = asked.request.rtype;
        if kind == 65280 {
            answer.push(Section::Answer, owner.wire(), kind, 60, &[1, 2, 3]);
            return Say::Answer;
        }
        if kind != rtype::RRSIG {
            answer.a(&owner, 60, GOOD);
        }
        // Whether it was asked for or not.
        let signature = [&[0, 1, 13, 2][..], &[0; 14], name("test.").wire(), &[9; 4]].concat();
        answer.push(Section::Answer, owner.wire(), rtype::RRSIG, 60, &signature);
        let next = [name("a.test.").wire(), &[0, 1, 0x40]].concat();
        answer.push(Section::Authority, owner.wire(), rtype::NSEC, 60, &next);
        answer.flags.set(Flags::AD, true);
        Say::Answer
    })
    .await;
    let bench = bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr));
    for (line, signed, seen) in [
        ("www.test", false, "www.test. A udp rd"),
        ("www.test +edns", false, "www.test. A udp rd size=1232"),
        ("www.test +do", true, "www.test. A udp rd do size=1232"),
        ("www.test +do +cd +ad", true, "www.test. A udp rd ad cd do size=1232"),
        ("www.test ANY +edns", true, "www.test. ANY udp rd size=1232"),
        ("www.test RRSIG", true, "www.test. RRSIG udp rd"),
    ] {
        let got = bench.ask(line).await;
        assert_eq!(got.contains("RRSIG"), signed, "{line}: {got}");
        assert!(got.contains(" ad"), "{line}: {got}");
        assert_eq!(up.seen(), [seen]);
    }
    let got = bench.ask("www.test TYPE65280").await;
    assert!(got.ends_with("TYPE65280 010203"), "{got}");
}

#[tokio::test]
async fn fwd_16_a_ttl_with_its_top_bit_set_is_zero() {
    let up = Scripted::start(|asked, answer| {
        answer.a(&asked.request.name.clone(), 0x8000_0001, GOOD);
        Say::Answer
    })
    .await;
    let bench = bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr));
    assert_eq!(bench.ask("www.test").await, "NOERROR rd ra | www.test. 0 A 198.51.100.1");
}

#[tokio::test]
async fn fwd_20_a_referral_is_not_followed() {
    let up = Scripted::start(|asked, answer| {
        let zone = name("test.");
        if asked.label() != "nodata" {
            answer.push(Section::Authority, zone.wire(), rtype::NS, 60, name("ns.test.").wire());
            answer.address(Section::Additional, name("ns.test.").wire(), 60, EVIL.into());
        }
        if asked.label() == "negative" || asked.label() == "nodata" {
            answer.soa(
                Section::Authority,
                zone.wire(),
                60,
                zone.wire(),
                zone.wire(),
                [1, 2, 3, 4, 5],
            );
        }
        answer.flags.set(Flags::AA, asked.label() == "authoritative");
        Say::Answer
    })
    .await;
    let bench = bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr));
    let got = bench.ask("referral.test +edns").await;
    assert_eq!(got, "SERVFAIL rd | EDE 24 no upstream gave a usable reply");
    assert!(up.seen().iter().all(|line| line.starts_with("referral.test. A udp")));
    for good in ["negative.test", "nodata.test", "authoritative.test", "referral.test +norec"] {
        let got = bench.ask(good).await;
        assert!(got.starts_with("NOERROR"), "{good}: {got}");
    }
}

#[tokio::test]
async fn malformed_data_is_no_reply_and_the_next_upstream_is_asked() {
    let cut = Scripted::start(|asked, answer| {
        let owner = asked.request.name.clone();
        answer.push(Section::Answer, owner.wire(), asked.request.rtype, 60, &[198, 51, 100]);
        Say::Answer
    })
    .await;
    let good = Scripted::start(|asked, answer| {
        answer.a(&asked.request.name.clone(), 60, GOOD);
        Say::Answer
    })
    .await;
    let order = "{\n policy sequential\n max_fails 0\n}";
    let both = bench(&format!("forward . {} {} {order}", cut.addr, good.addr));
    assert_eq!(both.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
    let alone = bench(&format!("forward . {} {order}", cut.addr));
    for kind in ["A", "AAAA", "MX", "SOA", "SRV", "HTTPS", "DS"] {
        let got = alone.ask(&format!("www.test {kind} +edns")).await;
        assert_eq!(got, "SERVFAIL rd | EDE 24 no upstream gave a usable reply", "{kind}");
    }
}

#[tokio::test]
async fn pad_queries_with_edns_are_padded_where_they_are_encrypted() {
    use crate::shared::relay::message::Outgoing;
    use transports::upstream::Protocol;
    use wire::{Request, option};

    let keepalive = "rewrite edns0 local set 11 0x0064";
    let bench = bench(&format!("{keepalive}\nforward . 127.0.0.1:1"));
    for (line, protocol, padded, alive) in [
        ("www.example.org +edns", Protocol::Udp, false, false),
        ("www.example.org +edns", Protocol::Tcp, false, true),
        ("www.example.org +edns", Protocol::Tls, true, true),
        ("www.example.org +edns", Protocol::Https, true, false),
        ("www.example.org +do", Protocol::Https3, true, false),
        ("www.example.org +edns", Protocol::Quic, true, false),
        (&format!("{}.example.org +edns", "x".repeat(60)), Protocol::Quic, true, false),
        (&format!("www.example.org +opt=65001:{}", "00".repeat(90)), Protocol::Tls, true, true),
        ("www.example.org +opt=11 +opt=12:0000 +opt=65001:01", Protocol::Quic, true, false),
    ] {
        let mut x = bench.exchange(line);
        let served = bench.gateway.serve(&mut x, &mut Vec::new());
        assert!(matches!(served, engine::Served::Later(_)));
        let mut out = Vec::new();
        Outgoing::of(&x, protocol).write(7, &mut out);
        let mut request = Request::default();
        request.read(&out).unwrap();
        let has = |code| request.edns.options.get(code).is_some();
        assert_eq!(out.len().is_multiple_of(128), padded, "{line} {protocol:?}: {}", out.len());
        assert_eq!(has(option::KEEPALIVE), alive, "{line} {protocol:?}");
        let pads = request.edns.options.iter().filter(|(code, _)| *code == option::PADDING);
        let zeros: Vec<_> = pads.map(|(_, zeros)| zeros.to_vec()).collect();
        assert_eq!(zeros.len(), usize::from(padded), "{line}: {zeros:?}");
        assert!(zeros.concat().iter().all(|octet| *octet == 0), "{line}: {zeros:?}");
    }
    // Without EDNS there is nothing to pad with, and none is added.
    let plain = super::bench("forward . 127.0.0.1:1");
    let mut x = plain.exchange("www.example.org");
    drop(plain.gateway.serve(&mut x, &mut Vec::new()));
    let mut out = Vec::new();
    Outgoing::of(&x, Protocol::Quic).write(0, &mut out);
    assert_eq!(out.len(), 12 + 17 + 4);
}
