//! The facts `erratic.*`.

use std::time::{Duration, Instant};

use engine::testing::{Bench, show};
use engine::{Descriptor, Exchange, Plugin, Role, Setup, Step};

/// Tells in its metadata-free way what the block's plugins offer: whether one is ready, and a client's search path.
#[derive(Debug)]
struct Told(engine::Roles);

impl Plugin for Told {
    fn query(&self, x: &mut Exchange) -> Step {
        if x.request().rtype != wire::rtype::TXT {
            return Step::Next;
        }
        let mut text = String::new();
        for (name, role) in self.0.iter() {
            match role {
                Role::Ready(ready) => text.push_str(&format!("{name} {} ", ready.ready())),
                Role::SearchPath(path) => path.search_path(x, &mut |domain| {
                    text.push_str(&wire::text::name_text(domain));
                    text.push(' ');
                }),
                _ => {}
            }
        }
        let (request, answer) = x.parts_mut();
        answer.txt(&request.name, 1, 0, text.trim_end().as_bytes());
        Step::Done
    }
}

/// The plugin `told`.
static TOLD: Descriptor = Descriptor {
    name: "told",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        let roles = setup.roles();
        setup.install(Told(roles));
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&TOLD, &super::PLUGIN];

/// A gateway whose block has these lines.
fn bench(block: &str) -> Bench {
    Bench::new(CHAIN, &format!("test {{\nerratic {{\n{block}\n}}\n}}\n"))
}

/// The reply's parts before the records, of several queries.
fn heads(bench: &Bench, line: &str, times: usize) -> Vec<String> {
    let head = |reply: String| reply.split(" | ").next().unwrap_or_default().to_owned();
    (0..times).map(|_| head(bench.now(line))).collect()
}

#[test]
fn what_is_answered() {
    // erratic.answers, erratic.large.
    let plain = bench("drop 0");
    for (line, want) in [
        ("A.test AAAA", "NOERROR aa rd | a.test. 0 AAAA 2001:db8::53"),
        ("sub.a.test", concat!("NOERROR aa rd | sub.a.test. 0 A 192.0", ".2.53")),
        ("a.test MX", "SERVFAIL rd"),
        ("a.test IXFR +tcp", "SERVFAIL rd"),
        ("a.test AXFR", "SERVFAIL rd"),
    ] {
        assert_eq!(plain.now(line), want, "{line}");
    }
    let large = bench("drop 0\nlarge").now("a.test A +tcp");
    assert_eq!(large.matches(" A ").count(), 30, "{large}");
    assert_eq!(bench("drop 0\nlarge").now("a.test AAAA +tcp").matches(" AAAA ").count(), 30);
}

#[tokio::test]
async fn zones_are_handed_out() {
    // erratic.answers, erratic.xfrtrunc.
    let soa =
        "a.test. 0 SOA sns.dns.icann.org. noc.dns.icann.org. 2018050825 7200 3600 1209600 3600";
    let zone = format!(
        "NOERROR aa rd | {soa}; a.test. 0 NS b.a.test.; a.test. 0 NS a.a.test.; \
         a.a.test. 0 AAAA 2001:bd8::53; b.a.test. 0 AAAA 2001:500::54"
    );
    let whole = bench("drop 0").messages("a.test AXFR +tcp").await;
    assert_eq!(whole.iter().map(|one| show(one)).collect::<Vec<_>>(), [format!("{zone}; {soa}")]);
    let cut = bench("drop 0\ntruncate 1").messages("a.test AXFR +tcp").await;
    assert_eq!(cut.iter().map(|one| show(one)).collect::<Vec<_>>(), [zone]);
}

#[test]
fn one_query_in_some_is_dropped_or_truncated() {
    // erratic.drop, erratic.truncate, erratic.dropdefault, erratic.count.
    let (none, good, cut) = ("(none)", "NOERROR aa rd", "NOERROR aa tc rd");
    for (block, want) in [
        ("", [none, good, none, good, none, good]),
        ("drop", [none, good, none, good, none, good]),
        ("drop 3", [none, good, good, none, good, good]),
        ("drop 1", [none; 6]),
        ("drop 0", [good; 6]),
        ("truncate", [cut, good, cut, good, cut, good]),
        ("truncate 3", [cut, good, good, cut, good, good]),
        ("truncate 1\ndrop 2", [none, cut, none, cut, none, cut]),
        ("truncate 0", [good; 6]),
        ("large", [none, good, none, good, none, good]),
    ] {
        let line = if block == "large" { "a.test A +tcp" } else { "a.test A" };
        assert_eq!(heads(&bench(block), line, 6), want, "{block}");
    }
    // What fails is dropped too, and counts.
    assert_eq!(heads(&bench("drop 2"), "a.test MX", 3), [none, "SERVFAIL rd", none]);
}

#[tokio::test(start_paused = true)]
async fn one_reply_in_some_is_late() {
    // erratic.delay
    for (block, wait, line, want) in [
        ("delay", 100, "a.test AAAA", "NOERROR aa rd | a.test. 0 AAAA 2001:db8::53"),
        ("delay 2 1s", 1000, "a.test AAAA", "NOERROR aa rd | a.test. 0 AAAA 2001:db8::53"),
        ("delay 2 1s", 1000, "a.test MX", "SERVFAIL rd"),
    ] {
        let bench = bench(block);
        for due in [true, false, true] {
            let begin = tokio::time::Instant::now();
            assert_eq!(bench.ask(line).await, want, "{block}");
            let wait = Duration::from_millis(if due { wait } else { 0 });
            let took = begin.elapsed();
            assert!(took >= wait && took < wait + Duration::from_millis(50), "{block}: {took:?}");
        }
    }
    let begin = Instant::now();
    assert_eq!(heads(&bench("delay 0"), "a.test AAAA", 2), ["NOERROR aa rd"; 2]);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn others_are_told() {
    // erratic.ready, erratic.autopath.
    let bench = Bench::new(CHAIN, "test {\ntold\nerratic {\ndrop 0\n}\n}\n");
    let path = "a.example.org. b.example.org. .";
    for ready in [false, false, false, true, true, false] {
        let want = format!("NOERROR rd | x.test. 0 TXT \"erratic {ready} {path}\"");
        assert_eq!(bench.now("x.test TXT"), want);
        bench.now("x.test A");
    }
}

#[test]
fn what_is_refused() {
    // erratic.err
    for (lines, want) in [
        ("erratic x", "'x' is one too many"),
        ("erratic {\ndrop x\n}", "'x' is wrong"),
        ("erratic {\ndrop -1\n}", "must not be negative"),
        ("erratic {\ndrop 1 2\n}", "'2' is one too many"),
        ("erratic {\ntruncate -1\n}", "must not be negative"),
        ("erratic {\ndelay 1 5\n}", "'5' is wrong"),
        ("erratic {\ndelay 1 -5ms\n}", "'-5ms' is wrong"),
        ("erratic {\ndelay 1 5ms x\n}", "'x' is one too many"),
        ("erratic {\nlarge 3\n}", "'3' is one too many"),
        ("erratic {\nfoo\n}", "'foo' is not a property"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n{lines}\n}}\n"));
        assert!(text.starts_with("plugin/erratic: ") && text.contains(want), "{lines}: {text}");
    }
}
