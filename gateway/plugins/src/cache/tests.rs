//! `cache` before a backend that the tests script, with a clock of their own.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::Duration;

use engine::testing::Bench;
use engine::{Carry, Descriptor, Exchange, Fault, Plugin, Step, Work, metrics};
use wire::{Answer, Flags, Request, Section, rcode, rtype};

use super::store::{Item, Store};

/// What the backend says: the request, how often its name was asked, the answer to fill.
type Script = Box<dyn Fn(&Request, usize, &mut Answer) -> Step>;

thread_local! {
    /// The script of the test, and what was asked: `name TYPE`, with ` ad` and ` cd`.
    static BACKEND: RefCell<(Option<Script>, Vec<String>)> = RefCell::default();
}

/// The backend. It waits for a second if the script says [`Step::Wait`], and asks the script again.
#[derive(Debug)]
struct Backend;

impl Backend {
    /// Does what the script says.
    fn run(x: &mut Exchange, count: bool) -> Step {
        BACKEND.with_borrow_mut(|(script, asked)| {
            let (request, answer) = x.parts_mut();
            let mut line = format!("{} {}", request.name, wire::text::type_name(request.rtype));
            let before = asked.iter().filter(|one| one.starts_with(&line)).count();
            for (flag, word) in [(Flags::AD, " ad"), (Flags::CD, " cd")] {
                line.push_str(if request.flags.has(flag) { word } else { "" });
            }
            line.push_str(if request.edns.dnssec_ok() { " do" } else { "" });
            let number = if count { before } else { usize::MAX };
            if count {
                asked.push(line);
            }
            answer.flags.set(Flags::RA, true);
            script.as_ref().unwrap()(request, number, answer)
        })
    }
}

impl Plugin for Backend {
    fn query(&self, x: &mut Exchange) -> Step {
        Self::run(x, true)
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, _: Carry) -> Work<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Self::run(x, false)
        })
    }
}

/// The backend's registry entry.
static BACK: Descriptor = Descriptor {
    name: "backend",
    readme: "",
    setup: |setup| {
        setup.install(Backend);
        Ok(())
    },
};

/// Lets every class into the listener.
static OPEN: Descriptor = Descriptor {
    name: "open",
    readme: "",
    setup: |setup| {
        setup.allow_classes();
        Ok(())
    },
};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[&super::PLUGIN, &BACK, &OPEN];

/// A gateway whose block has `line` and the backend.
fn bench(line: &str, script: impl Fn(&Request, usize, &mut Answer) -> Step + 'static) -> Bench {
    BACKEND.set((Some(Box::new(script)), Vec::new()));
    Bench::new(PLUGINS, &format!(". {{\n{line}\nbackend\n}}\n"))
}

/// What the backend was asked since the last time.
fn asked() -> Vec<String> {
    BACKEND.with_borrow_mut(|(_, asked)| std::mem::take(asked))
}

/// Lets time pass for queries and for what runs in the background.
async fn pass(bench: &mut Bench, time: Duration) {
    // What is to run in the background runs first.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    bench.pass(time);
    tokio::time::advance(time).await;
}

/// Seconds.
const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// An SOA record of `test`.
fn soa(answer: &mut Answer, ttl: u32, minimum: u32) {
    let (owner, host) = (b"\x04test\x00", b"\x02ns\x04test\x00");
    answer.soa(Section::Authority, owner, ttl, host, host, [1, 2, 3, 4, minimum]);
}

/// Adds the address 198.51.100.N.
fn a(request: &Request, answer: &mut Answer, ttl: u32, n: usize) {
    let last = u8::try_from(n.min(255)).unwrap();
    answer.a(&request.name, ttl, Ipv4Addr::new(198, 51, 100, last));
}

/// The answers by the name's first label.
fn table(request: &Request, _: usize, answer: &mut Answer) -> Step {
    let label = request.name.each_label().next().unwrap_or_default().to_vec();
    let other = b"\x01t\x04test\x00";
    match &*String::from_utf8(label).unwrap() {
        "mixed" => {
            a(request, answer, 300, 1);
            a(request, answer, 60, 2);
            answer.push(Section::Authority, b"\x04test\x00", rtype::NS, 40, other);
            answer.address(Section::Additional, other, 20, Ipv4Addr::LOCALHOST.into());
        }
        "zero" => a(request, answer, 0, 1),
        "long" => a(request, answer, 99_999, 1),
        "nx" => {
            answer.rcode = rcode::NXDOMAIN;
            soa(answer, 300, 30);
        }
        "nosoa" => answer.rcode = rcode::NXDOMAIN,
        "nodata" => soa(answer, 20, 300),
        "empty" => {}
        "fail" => {
            answer.rcode = rcode::SERVFAIL;
            answer.options.push_ede(9, "no key");
        }
        "notimp" => answer.rcode = rcode::NOTIMP,
        "refused" => answer.rcode = rcode::REFUSED,
        "referral" => answer.push(Section::Authority, b"\x04test\x00", rtype::NS, 60, other),
        "cut" => {
            a(request, answer, 60, 1);
            answer.flags.set(Flags::TC, true);
        }
        "alias" | "gone" | "lost" | "nodataalias" => {
            answer.push(Section::Answer, request.name.wire(), rtype::CNAME, 100, other);
            match request.name.each_label().next().unwrap() {
                b"alias" => answer.address(Section::Answer, other, 50, Ipv4Addr::LOCALHOST.into()),
                b"gone" => {
                    answer.rcode = rcode::NXDOMAIN;
                    soa(answer, 60, 60);
                }
                b"nodataalias" => soa(answer, 60, 40),
                _ => {}
            }
        }
        "double" => {
            for target in [&other[..], b"\x01u\x04test\x00"] {
                answer.push(Section::Answer, request.name.wire(), rtype::CNAME, 100, target);
            }
        }
        "circle" => {
            answer.push(Section::Answer, request.name.wire(), rtype::CNAME, 9, request.name.wire())
        }
        "near" => {
            a(request, answer, 60, 1);
            answer.options.push(wire::option::SUBNET, &[0, 1, 24, 24, 198, 51, 100]);
        }
        "secure" => {
            a(request, answer, 60, 1);
            answer.flags.set(Flags::AD, true);
        }
        "unreachable" => {
            return Step::Fail(Fault { rcode: rcode::SERVFAIL, ede: Some(23), why: "on purpose" });
        }
        "broken" => return Step::Fail(Fault::servfail("on purpose")),
        "silent" => return Step::Drop,
        _ => a(request, answer, 300, 1),
    }
    Step::Done
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_and_how_it_is_given() {
    let bench = bench("cache", table);
    let hit = "NOERROR aa rd ra | ";
    for (name, first, second) in [
        ("a.test", "NOERROR rd ra | a.test. 300 A 198.51.100.1".to_owned(), Some(format!("{hit}a.test. 300 A 198.51.100.1"))),
        // One TTL for all, the shortest.
        (
            "mixed.test",
            "NOERROR rd ra | mixed.test. 20 A 198.51.100.1; mixed.test. 20 A 198.51.100.2 | test. 20 NS t.test. | t.test. 20 A 127.0.0.1".to_owned(),
            Some(format!("{hit}mixed.test. 20 A 198.51.100.1; mixed.test. 20 A 198.51.100.2 | test. 20 NS t.test. | t.test. 20 A 127.0.0.1")),
        ),
        ("zero.test", "NOERROR rd ra | zero.test. 5 A 198.51.100.1".to_owned(), Some(format!("{hit}zero.test. 5 A 198.51.100.1"))),
        ("long.test", "NOERROR rd ra | long.test. 3600 A 198.51.100.1".to_owned(), Some(format!("{hit}long.test. 3600 A 198.51.100.1"))),
        // RFC 2308 §5: the smaller of the SOA's TTL and its minimum.
        ("nx.test", "NXDOMAIN rd ra |  | test. 30 SOA ns.test. ns.test. 1 2 3 4 30".to_owned(), Some("NXDOMAIN aa rd ra |  | test. 30 SOA ns.test. ns.test. 1 2 3 4 30".to_owned())),
        ("nodata.test", "NOERROR rd ra |  | test. 20 SOA ns.test. ns.test. 1 2 3 4 300".to_owned(), Some(format!("{hit} | test. 20 SOA ns.test. ns.test. 1 2 3 4 300"))),
        ("nosoa.test", "NXDOMAIN rd ra".to_owned(), None),
        ("empty.test", "NOERROR rd ra".to_owned(), Some("NOERROR aa rd ra".to_owned())),
        // The reason is for who has asked (RFC 8914 §3).
        ("fail.test +edns", "SERVFAIL rd ra | EDE 9 no key".to_owned(), Some("SERVFAIL aa rd ra | EDE 13 ".to_owned())),
        ("notimp.test", "NOTIMP rd ra".to_owned(), Some("NOTIMP aa rd ra".to_owned())),
        ("refused.test", "REFUSED rd ra".to_owned(), None),
        ("referral.test", "NOERROR rd ra |  | test. 5 NS t.test.".to_owned(), Some(format!("{hit} | test. 5 NS t.test."))),
        ("cut.test", "NOERROR tc rd ra | cut.test. 60 A 198.51.100.1".to_owned(), None),
        ("alias.test", "NOERROR rd ra | alias.test. 50 CNAME t.test.; t.test. 50 A 127.0.0.1".to_owned(), Some(format!("{hit}alias.test. 50 CNAME t.test.; t.test. 50 A 127.0.0.1"))),
        ("gone.test", "NXDOMAIN rd ra | gone.test. 60 CNAME t.test. | test. 60 SOA ns.test. ns.test. 1 2 3 4 60".to_owned(), Some("NXDOMAIN aa rd ra | gone.test. 60 CNAME t.test. | test. 60 SOA ns.test. ns.test. 1 2 3 4 60".to_owned())),
        ("nodataalias.test", "NOERROR rd ra | nodataalias.test. 40 CNAME t.test. | test. 40 SOA ns.test. ns.test. 1 2 3 4 40".to_owned(), Some(format!("{hit}nodataalias.test. 40 CNAME t.test. | test. 40 SOA ns.test. ns.test. 1 2 3 4 40"))),
        ("lost.test", "NOERROR rd ra | lost.test. 100 CNAME t.test.".to_owned(), None),
        ("double.test", "NOERROR rd ra | double.test. 100 CNAME t.test.; double.test. 100 CNAME u.test.".to_owned(), None),
        ("circle.test", "NOERROR rd ra | circle.test. 9 CNAME circle.test.".to_owned(), None),
        ("near.test +edns", "NOERROR rd ra | near.test. 60 A 198.51.100.1 | OPT 8 00011818c63364".to_owned(), None),
        ("unreachable.test +edns", "SERVFAIL rd | EDE 23 on purpose".to_owned(), Some("SERVFAIL aa rd | EDE 13 ".to_owned())),
        ("broken.test", "SERVFAIL rd".to_owned(), None),
        ("silent.test", "(none)".to_owned(), None),
    ] {
        assert_eq!(bench.now(name), first, "{name} first");
        let again = bench.now(name);
        let asked = asked();
        match second {
            Some(second) => {
                assert_eq!(again, second, "{name} again");
                assert_eq!(asked.len(), 1, "{name} {asked:?}");
            }
            None => {
                assert_eq!(again, first, "{name} again");
                assert_eq!(asked.len(), 2, "{name} {asked:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn do_and_cd_have_entries_of_their_own_and_ad_is_for_those_who_want_it() {
    let bench = bench("cache", table);
    for (line, want) in [
        ("secure.test", "NOERROR rd ra"),
        ("secure.test", "NOERROR aa rd ra"),
        ("SECURE.test +ad", "NOERROR aa rd ra ad"),
        ("secure.test +norec", "NOERROR aa ra"),
        ("secure.test +do", "NOERROR rd ra ad"),
        ("secure.test +do", "NOERROR aa rd ra ad"),
        ("secure.test +cd", "NOERROR rd ra cd"),
        ("secure.test +cd +ad", "NOERROR aa rd ra ad cd"),
        ("secure.test +tcp", "NOERROR aa rd ra"),
    ] {
        assert_eq!(bench.now(line), format!("{want} | secure.test. 60 A 198.51.100.1"), "{line}");
    }
    let secure = "secure.test. A ad";
    assert_eq!(asked(), [secure, &format!("{secure} do"), &format!("{secure} cd")]);
    bench.now("secure.test CH A");
    bench.now("secure.test TXT");
    assert_eq!(asked().len(), 1, "class CH is not let in");
}

#[tokio::test(start_paused = true)]
async fn entries_age_by_the_second_and_end() {
    let mut bench = bench("cache", table);
    bench.now("mixed.test");
    bench.now("fail.test");
    pass(&mut bench, secs(4)).await;
    assert!(bench.now("mixed.test").contains("mixed.test. 16 A"));
    assert_eq!(bench.now("fail.test"), "SERVFAIL aa rd ra");
    pass(&mut bench, Duration::from_millis(1999)).await;
    assert!(bench.now("mixed.test").contains("mixed.test. 15 A"));
    assert_eq!(bench.now("fail.test"), "SERVFAIL rd ra");
    pass(&mut bench, secs(14)).await;
    assert!(bench.now("mixed.test").contains("mixed.test. 1 A"));
    pass(&mut bench, secs(1)).await;
    assert!(bench.now("mixed.test").contains("mixed.test. 20 A"));
    assert_eq!(asked().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn ttls_capacities_zones_and_kinds_are_as_the_directive_says() {
    for (line, name, ttl, kept) in [
        ("cache 10", "a.test", 10, true),
        ("cache 10", "nx.test", 10, true),
        ("cache 9999", "long.test", 9999, true),
        ("cache {\n success 2000 100 20\n}", "a.test", 100, true),
        ("cache {\n success 2000 100 20\n}", "zero.test", 20, true),
        ("cache {\n success 2000 100 0\n}", "zero.test", 0, false),
        ("cache {\n denial 2000 25 15\n}", "nx.test", 25, true),
        ("cache {\n denial 2000 1800 60\n}", "nx.test", 60, true),
        ("cache 60 a.test", "x.a.test", 60, true),
        ("cache 60 a.test", "x.b.test", 300, false),
        ("cache {\n disable denial a.test\n}", "nx.a.test", 30, false),
        ("cache {\n disable denial a.test\n}", "nx.b.test", 30, true),
        ("cache {\n disable denial a.test\n}", "x.a.test", 300, true),
        ("cache {\n disable success\n}", "a.test", 300, false),
        ("cache {\n disable success\n}", "nx.test", 30, true),
    ] {
        let bench = bench(line, table);
        for _ in 0..2 {
            let got = bench.now(name);
            assert!(got.contains(&format!(". {ttl} ")), "{line} {name}: {got}");
        }
        assert_eq!(asked().len() == 1, kept, "{line} {name}");
    }
    let bench = bench("cache {\n servfail 0\n}", table);
    for _ in 0..2 {
        assert_eq!(bench.now("fail.test"), "SERVFAIL rd ra");
    }
    assert_eq!(asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn keepttl_shows_the_first_ttl_until_the_end() {
    let mut bench = bench("cache {\n keepttl\n}", table);
    bench.now("mixed.test");
    pass(&mut bench, secs(19)).await;
    assert!(bench.now("mixed.test").contains("mixed.test. 20 A"));
    pass(&mut bench, secs(1)).await;
    bench.now("mixed.test");
    assert_eq!(asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_part_gives_up_any_entry() {
    let bench = bench("cache {\n success 10\n}", table);
    for at in 0..3000 {
        bench.now(&format!("n{at}.test"));
    }
    let text = metrics::render();
    let figure = |name: &str| {
        let line =
            format!("{name}{{server=\"dns://:53\",type=\"success\",view=\"\",zones=\".\"}} ");
        let at = text.find(&line).unwrap_or_else(|| panic!("{line} in {text}"));
        let rest = &text[at + line.len()..];
        rest.lines().next().unwrap().parse::<u32>().unwrap()
    };
    // 256 parts of 4; some are not full yet by chance. Other tests count into the same figures.
    assert!(figure("coredns_cache_evictions_total") >= 1900);
    asked();
    (0..3000).for_each(|at| drop(bench.now(&format!("n{at}.test"))));
    let missed = asked().len();
    assert!((1900..3000).contains(&missed), "{missed}");
}

#[tokio::test(start_paused = true)]
async fn popular_entries_are_refreshed_ahead_of_time() {
    let mut bench = bench("cache {\n prefetch 2 10s 50%\n}", |request, n, answer| {
        a(request, answer, 20, n);
        Step::Done
    });
    let is = |n: u32, ttl: u32| format!("NOERROR aa rd ra | a.test. {ttl} A 198.51.100.{n}");
    bench.now("a.test");
    assert_eq!(bench.ask("a.test").await, is(0, 20));
    pass(&mut bench, secs(5)).await;
    assert_eq!(bench.ask("a.test").await, is(0, 15));
    pass(&mut bench, secs(6)).await;
    // Half of the time is over: it is answered, and refreshed once in the background.
    for _ in 0..5 {
        assert_eq!(bench.ask("a.test").await, is(0, 9));
    }
    pass(&mut bench, secs(1)).await;
    assert_eq!(bench.ask("a.test").await, is(1, 19));
    assert_eq!(asked().len(), 2);
    // Hits carry over: one is enough now.
    pass(&mut bench, secs(9)).await;
    assert_eq!(bench.ask("a.test").await, is(1, 10));
    pass(&mut bench, secs(1)).await;
    assert_eq!(asked(), ["a.test. A ad"]);
    // After a pause counting begins again.
    pass(&mut bench, secs(11)).await;
    bench.now("a.test");
    pass(&mut bench, secs(1)).await;
    assert_eq!(asked().len(), 0);
}

/// A backend that answers with TTL 5 until the clock, in seconds since the first answer, reads `until`, and then fails.
fn failing(fails: std::ops::Range<u64>) -> impl Fn(&Request, usize, &mut Answer) -> Step {
    let begun = tokio::time::Instant::now();
    move |request, _, answer| {
        let now = begun.elapsed().as_secs();
        if fails.contains(&now) {
            answer.rcode = rcode::SERVFAIL;
        } else {
            a(request, answer, 5, if now < fails.start { 1 } else { 2 });
        }
        Step::Done
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_hide_what_is_out_of_date() {
    let mut bench = bench("cache {\n serve_stale 1h immediate\n}", failing(5..20));
    let mut seen = Vec::new();
    for _ in 0..=27 {
        seen.push(bench.ask("s.test +edns").await);
        pass(&mut bench, secs(1)).await;
    }
    for (at, got) in seen.iter().enumerate() {
        match at {
            0 => assert_eq!(got, "NOERROR rd ra | s.test. 5 A 198.51.100.1"),
            1..5 => {
                assert_eq!(*got, format!("NOERROR aa rd ra | s.test. {} A 198.51.100.1", 5 - at))
            }
            5..21 => {
                assert_eq!(got, "NOERROR aa rd ra | s.test. 0 A 198.51.100.1 | EDE 3 ", "{at}")
            }
            26.. => assert!(got.contains("198.51.100.2"), "{at}: {got}"),
            _ => assert!(got.starts_with("NOERROR"), "{at}: {got}"),
        }
    }
    assert!(asked().len() < 8);
}

#[tokio::test(start_paused = true)]
async fn a_denial_out_of_date_is_refreshed_as_well() {
    let begun = tokio::time::Instant::now();
    let mut bench = bench("cache {\n serve_stale\n}", move |request, _, answer| {
        if begun.elapsed() < secs(10) {
            answer.rcode = rcode::NXDOMAIN;
            soa(answer, 5, 5);
        } else {
            a(request, answer, 5, 3);
        }
        Step::Done
    });
    bench.ask("n.test").await;
    pass(&mut bench, secs(12)).await;
    assert!(bench.ask("n.test +edns").await.ends_with("EDE 19 "));
    pass(&mut bench, secs(1)).await;
    assert_eq!(bench.ask("n.test").await, "NOERROR aa rd ra | n.test. 4 A 198.51.100.3");
}

#[tokio::test(start_paused = true)]
async fn verify_asks_first_and_gives_what_is_out_of_date_only_if_it_must() {
    let mut bench = bench("cache {\n serve_stale 1h verify 0s 30s 20s\n}", failing(5..40));
    bench.ask("v.test").await;
    pass(&mut bench, secs(6)).await;
    let stale = "NOERROR aa rd ra | v.test. 30 A 198.51.100.1 | EDE 3 ";
    assert_eq!(bench.ask("v.test +edns").await, stale);
    assert_eq!(asked().len(), 2);
    // For FAILURE_RECHECK nobody is asked.
    pass(&mut bench, secs(19)).await;
    assert_eq!(bench.ask("v.test +edns").await, stale);
    assert_eq!(asked().len(), 0);
    pass(&mut bench, secs(20)).await;
    assert_eq!(bench.ask("v.test +edns").await, "NOERROR rd ra | v.test. 5 A 198.51.100.2");
    assert_eq!(asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn verify_waits_no_longer_than_it_may_and_goes_on_in_the_background() {
    let mut bench = bench("cache {\n serve_stale 1h verify 100ms\n}", |request, n, answer| {
        // All but the first answer take a second.
        if (1..usize::MAX).contains(&n) {
            return Step::WAIT;
        }
        a(request, answer, 5, if n == 0 { 1 } else { 2 });
        Step::Done
    });
    bench.ask("w.test").await;
    pass(&mut bench, secs(6)).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(
        bench.ask("w.test +edns").await,
        "NOERROR aa rd ra | w.test. 0 A 198.51.100.1 | EDE 3 "
    );
    assert!((100..110).contains(&begun.elapsed().as_millis()));
    bench.pass(secs(2));
    tokio::time::sleep(secs(2)).await;
    assert!(bench.ask("w.test").await.contains("198.51.100.2"));
}

#[tokio::test(start_paused = true)]
async fn prefer_positive_keeps_a_good_answer_against_denials() {
    let mut bench = bench(
        "cache {\n serve_stale 1h verify\n serve_stale_policy prefer_positive\n}",
        |request, n, answer| {
            match n {
                0 => a(request, answer, 5, 1),
                1 => {
                    answer.rcode = rcode::NXDOMAIN;
                    soa(answer, 60, 60);
                }
                2 => {}
                _ => a(request, answer, 5, 2),
            }
            Step::Done
        },
    );
    bench.ask("p.test").await;
    for want in ["NOERROR aa rd ra | p.test. 0 A 198.51.100.1"; 2] {
        pass(&mut bench, secs(6)).await;
        assert_eq!(bench.ask("p.test").await, want);
    }
    pass(&mut bench, secs(6)).await;
    assert_eq!(bench.ask("p.test").await, "NOERROR rd ra | p.test. 5 A 198.51.100.2");
}

#[tokio::test(start_paused = true)]
async fn entries_survive_a_reload_of_the_same_block_only() {
    let mut bench = bench("cache", table);
    bench.now("a.test");
    bench.reload(". {\n cache\n backend\n}\nother.example {\n backend\n}\n").unwrap();
    bench.now("a.test");
    assert_eq!(asked().len(), 1);
    bench.reload(". {\n cache\n backend x\n}\n").unwrap();
    bench.now("a.test");
    assert_eq!(asked().len(), 1);
}

#[test]
fn a_small_entry_takes_little_memory() {
    let store = Store::new(10, 10);
    let request =
        Request { name: "web.shop.svc.cluster.local".parse().unwrap(), ..Request::default() };
    let mut answer = Answer::default();
    (0..100).for_each(|n| answer.a(&request.name, 5, Ipv4Addr::new(198, 51, 100, n)));
    answer.clear_records();
    answer.a(&request.name, 5, Ipv4Addr::LOCALHOST);
    let item = Item::new(&store.key(&request), &answer, 5, 0);
    assert!(item.footprint() <= 300, "{}", item.footprint());
}

#[test]
fn a_wrong_directive_is_refused_with_its_place() {
    for (line, want) in [
        ("cache 0", "not a number of 1 or more"),
        ("cache\ncache", "can only be used once"),
        ("cache {\n success many\n}", "not a number of 0 or more"),
        ("cache {\n success 10 0\n}", "not a number of 1 or more"),
        ("cache {\n success 10 1 -1\n}", "not a number of 0 or more"),
        ("cache {\n success 10 1 1 1\n}", "one too many"),
        ("cache {\n success\n}", "Wrong argument count"),
        ("cache {\n servfail 6m\n}", "longer than 5m"),
        ("cache {\n prefetch -1\n}", "not a number of 0 or more"),
        ("cache {\n prefetch 1 1m 95%\n}", "not one of 10% to 90%"),
        ("cache {\n prefetch 1 1m 50\n}", "not one of 10% to 90%"),
        ("cache {\n serve_stale -1h\n}", "cannot be negative"),
        ("cache {\n serve_stale 1h later\n}", "is not known here"),
        ("cache {\n serve_stale 1h immediate 1.5s\n}", "not a duration of whole seconds"),
        ("cache {\n serve_stale 1h immediate 1s 6m\n}", "longer than 5m"),
        ("cache {\n serve_stale_policy prefer_positive\n}", "serve_stale_policy needs serve_stale"),
        ("cache {\n disable maybe\n}", "is not known here"),
        ("cache {\n nonsense\n}", "is not a property"),
    ] {
        let got = Bench::refused(PLUGINS, &format!(". {{\n {line}\n backend\n}}\n"));
        assert!(got.starts_with("plugin/cache: ") && got.contains(want), "{line}: {got}");
    }
}

#[test]
fn an_answer_of_another_class_than_asked_is_not_kept() {
    let bench = bench("cache\nopen", |request, _, answer| {
        answer.a(&request.name, 300, Ipv4Addr::new(203, 0, 113, 1));
        Step::Done
    });
    for (query, want) in [("class.test CH A", 2), ("class.test", 1)] {
        bench.now(query);
        bench.now(query);
        assert_eq!(asked().len(), want, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn denials_are_kept_for_half_an_hour_at_most() {
    let deny = |_: &Request, _: usize, answer: &mut Answer| {
        answer.rcode = rcode::NXDOMAIN;
        soa(answer, 99_999, 99_999);
        Step::Done
    };
    for (line, ttl) in [("cache", 1800), ("cache 9999", 9999), ("cache {\n denial 2000\n}", 1800)] {
        let got = bench(line, deny).now("n.test");
        assert!(got.contains(&format!("| test. {ttl} SOA")), "{line}: {got}");
    }
}

#[test]
fn a_denial_is_found_before_an_answer_and_a_failure_behind_it() {
    use super::store::Kind;
    let store = Store::new(10, 10);
    let request =
        Request { name: "a.test".parse().unwrap(), rtype: rtype::A, ..Request::default() };
    let key = store.key(&request);
    let item = |is_failure: bool, answers: bool| {
        let mut item = Item::new(&key, &Answer::default(), 60, 0);
        (item.is_failure, item.answers) = (is_failure, answers);
        item
    };
    let found = |prefer_positive: bool| {
        store.shard(&key).pick(&key, 1, None, prefer_positive).map(|(_, kind)| kind)
    };
    assert_eq!(found(false), None);
    store.put(&key, Kind::Success, item(false, true), 0);
    assert_eq!(found(false), Some(Kind::Success));
    store.put(&key, Kind::Denial, item(true, false), 0);
    assert_eq!(found(false), Some(Kind::Success), "a failure hides nothing");
    store.put(&key, Kind::Denial, item(false, false), 0);
    assert_eq!(found(false), Some(Kind::Denial));
    assert_eq!(found(true), Some(Kind::Success), "prefer_positive");
    // An answer takes the place of a denial.
    store.put(&key, Kind::Success, item(false, true), 0);
    assert_eq!(found(false), Some(Kind::Success));
    assert_eq!(store.size(Kind::Denial), 0);
}
