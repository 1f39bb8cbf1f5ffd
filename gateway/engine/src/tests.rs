//! The chain's rules, by small plugins of the tests' own.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wire::rtype::{A, CNAME};
use wire::{Name, Section, rcode};

use crate::testing::Bench;
use crate::{
    Carry, Descriptor, End, Exchange, Fault, Observer, Plugin, Routes, Setup, Step, View, Work,
};

/// Renames `alias.test` to `real.test` and back.
#[derive(Debug)]
struct Rename;

impl Plugin for Rename {
    fn query(&self, x: &mut Exchange) -> Step {
        if x.request().name.to_string() != "alias.test." {
            return Step::Next;
        }
        x.request_mut().name = Name::parse("real.test").unwrap();
        Step::WRAP
    }

    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        let (real, alias) = (Name::parse("real.test").unwrap(), Name::parse("alias.test").unwrap());
        x.answer_mut().rename(real.wire(), alias.wire());
        x.request_mut().name = alias;
        Step::Next
    }
}

/// Tries the name, then `second.<name>`, then gives the first outcome.
#[derive(Debug)]
struct Again;

impl Plugin for Again {
    fn answer(&self, x: &mut Exchange, Carry(tried): Carry) -> Step {
        if x.answer().rcode != rcode::NXDOMAIN || tried > 0 {
            return Step::Next;
        }
        let name = x.request().name.child(b"second").unwrap();
        x.again(name, Carry(1))
    }
}

/// Answers by name: see the table in `query`.
#[derive(Debug)]
struct Answers;

impl Plugin for Answers {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        match &*name.to_string() {
            "cname.test." => return x.ask(&Name::parse("real.test").unwrap(), A, Carry(7)),
            "loop.test." => return x.ask(&Name::parse("loop.test").unwrap(), A, Carry(7)),
            "slow.test." => return Step::Wait(Carry(9)),
            "panic.test." => panic!("on purpose"),
            "slowpanic.test." => return Step::WAIT,
            "drop.test." => return Step::Drop,
            "half.test." => {
                x.answer_mut().a(&name, 30, [198, 51, 100, 1].into());
                x.answer_mut().options.push(65001, b"left");
                return Step::Fail(Fault::servfail("half way"));
            }
            "fail.test." => return x.fail(Fault::servfail("on purpose"), "with detail"),
            "spin.test." => return Step::Wrap(Carry(1)),
            "real.test." | "second.other.test." => {
                x.answer_mut().a(&name, 30, [198, 51, 100, 1].into())
            }
            "past.test." => return Step::Next,
            _ => x.answer_mut().rcode = rcode::NXDOMAIN,
        }
        Step::Done
    }

    fn answer(&self, _: &mut Exchange, carry: Carry) -> Step {
        Step::Wrap(carry)
    }

    fn asked(&self, x: &mut Exchange, carry: Carry) -> Step {
        assert_eq!(carry, Carry(7));
        let (sub, _, end) = x.sub();
        let (target, end) = (sub.name.clone(), end);
        let owner = x.request().name.clone();
        if end != Some(End::Answered) {
            return Step::Fail(Fault::TOO_DEEP);
        }
        x.answer_mut().push(Section::Answer, owner.wire(), CNAME, 30, target.wire());
        x.graft();
        Step::Done
    }

    fn work<'a>(&'a self, x: &'a mut Exchange, carry: Carry) -> Work<'a> {
        Box::pin(async move {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            assert_eq!(carry, Carry(9), "slowpanic.test");
            let name = x.request().name.clone();
            x.answer_mut().a(&name, 5, [198, 51, 100, 9].into());
            Step::Done
        })
    }
}

/// Cuts the first label off a name that begins with `cut`, and says on the way back what the name was.
#[derive(Debug)]
struct Cut(u16);

impl Plugin for Cut {
    fn query(&self, x: &mut Exchange) -> Step {
        if !x.request().name.to_string().starts_with("cut.") {
            return Step::Next;
        }
        x.keep();
        let (request, _, kept) = x.kept().unwrap();
        kept.notes.push(self.0);
        request.name = request.name.parent();
        Step::WRAP
    }

    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        let (request, answer, kept) = x.kept().unwrap();
        assert_eq!(*kept.notes, [self.0]);
        answer.a(&request.name, u32::from(self.0), [198, 51, 100, 2].into());
        x.put_back();
        let name = x.request().name.clone();
        x.answer_mut().a(&name, u32::from(self.0), [198, 51, 100, 2].into());
        Step::Next
    }
}

/// Counts what it sees in the block's shared counter.
#[derive(Debug)]
struct Counting(Arc<AtomicUsize>);

impl Observer for Counting {
    fn sent(&self, _: &Exchange, _: End, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Admits clients from port 40001.
#[derive(Debug)]
struct OnlyPort;

impl View for OnlyPort {
    fn name(&self) -> &str {
        "odd"
    }

    fn admits(&self, x: &Exchange) -> bool {
        x.query.peer.port() == 40001
    }
}

/// Adds an option to every reply, and a flag.
#[derive(Debug)]
struct Mark;

impl Plugin for Mark {
    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        x.answer_mut().options.push(65002, b"mark");
        x.answer_mut().set_authoritative(true);
        Step::Next
    }
}

/// Makes a registry entry.
macro_rules! plugin {
    ($static:ident, $name:literal, $setup:expr) => {
        static $static: Descriptor = Descriptor { name: $name, readme: "", setup: $setup };
    };
}

plugin!(COUNT, "count", |setup: &mut Setup<'_>| {
    let counter = setup.share("count", || Ok(Arc::new(AtomicUsize::new(0))))?;
    setup.observe(Counting(counter));
    Ok(())
});
plugin!(RENAME, "rename", |setup: &mut Setup<'_>| {
    setup.install(Rename);
    Ok(())
});
plugin!(CUT, "cut", |setup: &mut Setup<'_>| {
    for number in 1..=2 {
        setup.install(Cut(number));
    }
    Ok(())
});
plugin!(AGAIN, "again", |setup: &mut Setup<'_>| {
    setup.once()?;
    setup.install(Again);
    Ok(())
});
plugin!(ANSWERS, "answers", |setup: &mut Setup<'_>| {
    setup.install(Answers);
    Ok(())
});
/// Answers with the zone label of the block it is in; `far.test` with that of `near.other`'s block.
#[derive(Debug)]
struct Place(Routes);

impl Plugin for Place {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        if name.to_string() == "far.test." {
            return x.ask(&Name::parse("near.other").unwrap(), A, Carry::NONE);
        }
        self.asked(x, Carry::NONE)
    }

    fn asked(&self, x: &mut Exchange, _: Carry) -> Step {
        if x.request().name.to_string() == "far.test." {
            x.graft();
        }
        let (name, zone) = (x.request().name.clone(), self.0.of(x).unwrap().zone.clone());
        x.answer_mut().txt(&name, 1, 0, zone.as_bytes());
        Step::Done
    }
}

plugin!(MARK, "mark", |setup: &mut Setup<'_>| {
    setup.install(Mark);
    Ok(())
});
plugin!(PLACE, "place", |setup: &mut Setup<'_>| {
    setup.install(Place(setup.routes()));
    Ok(())
});
plugin!(CANCEL, "cancel", |setup: &mut Setup<'_>| {
    setup.deadline(setup.directive().words().duration()?);
    Ok(())
});
plugin!(ODD, "odd", |setup: &mut Setup<'_>| {
    setup.admit(OnlyPort);
    Ok(())
});

/// The registry of these tests.
static PLUGINS: &[&Descriptor] =
    &[&CANCEL, &COUNT, &MARK, &RENAME, &CUT, &AGAIN, &ANSWERS, &ODD, &PLACE];

#[test]
fn the_order_is_the_registrys_and_plugins_put_back_what_they_change() {
    let bench = Bench::new(PLUGINS, "test {\n answers\n rename\n again\n}\n");
    for (line, want) in [
        ("real.test", "NOERROR rd | real.test. 30 A 198.51.100.1"),
        ("alias.test", "NOERROR rd | alias.test. 30 A 198.51.100.1"),
        ("other.test", "NOERROR rd | second.other.test. 30 A 198.51.100.1"),
        (
            "cname.test",
            "NOERROR rd | cname.test. 30 CNAME real.test.; real.test. 30 A 198.51.100.1",
        ),
        ("none.test +norec", "NXDOMAIN"),
        ("loop.test", "SERVFAIL rd"),
        ("fail.test", "SERVFAIL rd"),
        ("past.test", "SERVFAIL rd"),
        ("spin.test", "SERVFAIL rd"),
        ("panic.test", "SERVFAIL rd"),
        ("real.test", "NOERROR rd | real.test. 30 A 198.51.100.1"),
        ("drop.test", "(none)"),
        ("elsewhere", "REFUSED rd"),
        ("elsewhere +edns", "REFUSED rd | EDE 20 no server block for the name"),
        ("real.test CH A", "REFUSED rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

#[test]
fn requests_that_were_kept_come_back_in_reverse_order() {
    let bench = Bench::new(PLUGINS, "test {\n cut\n answers\n}\n");
    let want = "NOERROR rd | real.test. 30 A 198.51.100.1; real.test. 2 A 198.51.100.2; cut.real.test. 2 A 198.51.100.2; \
                cut.real.test. 1 A 198.51.100.2; cut.cut.real.test. 1 A 198.51.100.2";
    for _ in 0..2 {
        assert_eq!(bench.now("cut.cut.real.test"), want);
    }
    let want = "NOERROR rd | real.test. 30 A 198.51.100.1; real.test. 1 A 198.51.100.2; cut.real.test. 1 A 198.51.100.2";
    assert_eq!(bench.now("cut.real.test"), want);
    // After a panic, and after too many steps, nobody is called on the way up.
    for name in ["cut.cut.panic.test.", "cut.cut.spin.test."] {
        let mut x = bench.exchange(name);
        assert_eq!(crate::testing::show(&bench.serve(&mut x)), "SERVFAIL rd");
        assert_eq!(x.request().name.to_string(), name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_waits_holds_up_nobody_and_a_deadline_ends_it() {
    let bench = Bench::new(PLUGINS, "test {\n answers\n}\n");
    assert_eq!(bench.ask("slow.test").await, "NOERROR rd | slow.test. 5 A 198.51.100.9");
    assert_eq!(bench.ask("slowpanic.test").await, "SERVFAIL rd");
    let bench = Bench::new(PLUGINS, "test {\n cancel 100ms\n answers\n}\n");
    assert_eq!(bench.ask("slow.test").await, "SERVFAIL rd");
}

#[tokio::test(start_paused = true)]
async fn exchanges_under_way_outlive_a_reload_and_shared_state_survives_it() {
    let mut bench = Bench::new(PLUGINS, "test {\n count\n answers\n}\n");
    let mut x = bench.exchange("slow.test");
    let mut out = Vec::new();
    let crate::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) else {
        panic!("did not wait")
    };
    bench.reload("test {\n count\n}\n").unwrap();
    assert_eq!(bench.now("real.test"), "SERVFAIL rd");
    live.complete(&mut x, &mut out).await;
    assert_eq!(crate::testing::show(&out), "NOERROR rd | slow.test. 5 A 198.51.100.9");
    let wrong = bench.reload("test {\n cuont\n}\n").unwrap_err();
    assert_eq!(wrong[0].what, "Unknown directive 'cuont'");
    assert_eq!(wrong[0].help.as_deref(), Some("did you mean 'count'?"));
    bench.reload("test {\n count\n answers\n}\n").unwrap();
    bench.now("real.test");
    let counter = bench.gateway.live().shared.get::<AtomicUsize>("count").unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 3);
}

#[test]
fn blocks_are_found_by_longest_zone_view_and_parent_for_ds() {
    let corefile = "test {\n answers\n odd\n}\ntest {\n rename\n answers\n}\nreal.test {\n count\n}\nbare.test {\n}\n";
    let mut bench = Bench::new(PLUGINS, corefile);
    assert_eq!(bench.now("alias.test"), "NOERROR rd | alias.test. 30 A 198.51.100.1");
    assert_eq!(bench.now("real.test"), "SERVFAIL rd");
    assert_eq!(bench.now("real.test DS"), "NOERROR rd | real.test. 30 A 198.51.100.1");
    assert_eq!(bench.now("x.bare.test"), "REFUSED rd");
    bench.peer.set_port(40001);
    assert_eq!(bench.now("alias.test"), "NXDOMAIN rd");

    // The root's block answers for no zone that has a block, but for all others.
    let bench = Bench::new(PLUGINS, ". {\n answers\n}\nreal.test {\n count\n}\n");
    for (query, reply) in [
        ("real.test", "SERVFAIL rd"),
        ("real.test DS", "SERVFAIL rd"),
        ("x.real.test DS", "SERVFAIL rd"),
        ("test DS", "NXDOMAIN rd"),
    ] {
        assert_eq!(bench.now(query), reply, "{query}");
    }
}

#[test]
fn a_block_has_a_text_of_its_own_and_routes_name_their_listener() {
    static TEXT: Descriptor = Descriptor {
        name: "text",
        readme: "",
        setup: |setup| Err(setup.directive().name.fault(setup.block_text())),
    };
    static WITH_TEXT: &[&Descriptor] = &[&TEXT, &ANSWERS];
    let text = |corefile| Bench::refused(WITH_TEXT, corefile);
    let one = text("a.test:53 b.test {\n text x\n answers\n}\n");
    assert_eq!(one, text("a.test b.test {\n  text  \"x\"\n  answers\n}\n"));
    for other in
        ["a.test {\n text x\n answers\n}\n", "a.test b.test {\n text x\n answers {\n }\n}\n"]
    {
        assert_ne!(one, text(other));
    }
    let bench = Bench::new(PLUGINS, "a.test b.test:54 {\n answers\n}\n");
    let live = bench.gateway.live();
    let ids: Vec<_> = live.sites()[0].routes.all().iter().map(|route| route.listener).collect();
    assert_eq!(ids, live.groups().map(|group| group.id).collect::<Vec<_>>());
}

#[test]
fn a_wrong_corefile_says_all_that_is_wrong() {
    let text =
        Bench::refused(PLUGINS, "test {\n again\n again\n nonsense\n}\ntest {\n answers\n}\n");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        text.contains("plugin/again: 'again' this plugin can only be used once per Server Block"),
        "{text}"
    );
    let twice = "cannot serve dns://:53 for test. - it is already defined (the other block is at Corefile:1:1)";
    assert!(text.contains(twice), "{text}");
    let text = Bench::refused(PLUGINS, "test {\n azure\n}\n");
    let missing = "Unknown directive 'azure' (CoreDNS has this plugin, Causeway not yet)";
    assert!(text.contains(missing), "{text}");
}

#[test]
fn a_nested_query_has_the_route_of_the_block_it_is_in() {
    let bench =
        Bench::new(PLUGINS, "a.test test {\n place\n}\nb.other c.other other {\n place\n}\n");
    assert_eq!(bench.now("x.a.test"), "NOERROR rd | x.a.test. 0 TXT \"a.test.\"");
    assert_eq!(
        bench.now("far.test"),
        "NOERROR rd | near.other. 0 TXT \"other.\"; far.test. 0 TXT \"test.\"",
    );
}

/// Sets the first answer aside, tries `second.<name>`, and gives that outcome.
#[derive(Debug)]
struct Aside;

impl Plugin for Aside {
    fn query(&self, _: &mut Exchange) -> Step {
        Step::Wrap(Carry(1))
    }

    fn answer(&self, x: &mut Exchange, Carry(tries): Carry) -> Step {
        if tries == 0 {
            return Step::Next;
        }
        x.swap_aside();
        let second = x.request().name.child(b"second").unwrap();
        x.again(second, Carry(0))
    }
}

plugin!(ASIDE, "aside", |setup: &mut Setup<'_>| {
    setup.install(Aside);
    Ok(())
});

#[test]
fn a_further_run_begins_with_the_querys_own_flags() {
    static PLUGINS: &[&Descriptor] = &[&ASIDE, &ANSWERS];
    let bench = Bench::new(PLUGINS, "test {\n aside\n answers\n}\n");
    let found = "| second.other.test. 30 A 198.51.100.1";
    for (line, flags) in [("", "rd"), ("+cd", "rd cd"), ("+norec +cd", "cd")] {
        assert_eq!(bench.now(&format!("other.test {line}")), format!("NOERROR {flags} {found}"));
    }
}

#[test]
fn a_fault_leaves_nothing_of_the_answer_but_takes_options_on_the_way_up() {
    let bench = Bench::new(PLUGINS, "test {\n mark\n answers\n}\n");
    let marked = "OPT 65002 6d61726b";
    for (line, want) in [
        ("half.test +edns", format!("SERVFAIL rd | {marked}")),
        ("fail.test +edns", format!("SERVFAIL rd | {marked}")),
        ("panic.test +edns", "SERVFAIL rd".to_owned()),
        ("half.test", "SERVFAIL rd".to_owned()),
        ("none.test +edns", format!("NXDOMAIN aa rd | {marked}")),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

/// Has one figure.
#[derive(Debug)]
struct Figure(f64);

impl crate::metrics::Collect for Figure {
    fn collect(&self, figures: &mut crate::metrics::Figures) {
        figures.gauge("engine_test_figure", &[("of", "a\"b")], self.0);
    }
}

#[test]
fn collected_figures_are_there_as_long_as_their_collector() {
    let old = Arc::new(Figure(1.0));
    crate::metrics::describe("engine_test_figure", "A figure.");
    crate::metrics::collect(&old);
    let new = Arc::new(Figure(2.5));
    crate::metrics::collect(&new);
    let text = crate::metrics::render();
    let want = "# HELP engine_test_figure A figure.\n# TYPE engine_test_figure gauge\nengine_test_figure{of=\"a\\\"b\"} 2.5\n";
    assert!(text.contains(want), "{text}");
    drop((old, new));
    assert!(!crate::metrics::render().contains("engine_test_figure{"));
}

#[test]
fn labels_are_written_in_the_order_of_their_names() {
    use crate::metrics::{SLIM_TIME_BUCKETS, counter, histogram, render};
    counter("engine_test_total", &[("zone", "a"), ("server", "b")]).increment(1);
    counter("engine_test_total", &[("server", "b"), ("zone", "a")]).increment(1);
    for labels in [[("zone", "a"), ("server", "b")], [("server", "b"), ("zone", "a")]] {
        histogram("engine_test_seconds", &labels, &SLIM_TIME_BUCKETS).record(0.5);
    }
    let text = render();
    assert!(text.contains("\nengine_test_total{server=\"b\",zone=\"a\"} 2\n"), "{text}");
    assert!(text.contains("\nengine_test_seconds_count{server=\"b\",zone=\"a\"} 2\n"), "{text}");
}

#[test]
fn forty_thousand_zones_are_set_up_in_no_time() {
    let keys: Vec<String> = (0..40_000).map(|number| format!("k{number}.test")).collect();
    let blocks: String = keys.iter().map(|key| format!("{key} {{\n place\n}}\n")).collect();
    let begun = std::time::Instant::now();
    for corefile in [format!("{} {{\n place\n}}\n", keys.join(" ")), blocks] {
        let bench = Bench::new(PLUGINS, &corefile);
        assert!(bench.now("x.k39999.test TXT").contains("k39999.test."), "the last zone answers");
    }
    // Where each zone was compared with each other one, it took minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Claims `resolver.arpa` and tells, as the TTL of an address, how many listeners and own zones the configuration has.
#[derive(Debug)]
struct Claims(crate::Layout);

impl Plugin for Claims {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        if !name.is_below(&Name::parse("resolver.arpa").unwrap()) {
            return Step::Next;
        }
        let count = self.0.listeners().len() * 10 + self.0.own_zones().len();
        x.answer_mut().a(&name, u32::try_from(count).unwrap(), [198, 51, 100, 3].into());
        Step::Done
    }
}

plugin!(CLAIMS, "claims", |setup: &mut Setup<'_>| {
    setup.claim(Name::parse("resolver.arpa").unwrap());
    setup.own([Name::parse("own.test").unwrap()]);
    let layout = setup.layout();
    assert!(layout.listeners().is_empty());
    setup.install(Claims(layout));
    Ok(())
});

#[test]
fn a_block_gets_what_it_claims_at_its_listeners() {
    static PLUGINS: &[&Descriptor] = &[&CLAIMS, &ANSWERS];
    let corefile =
        "test:5301 test:5302 {\n claims\n answers\n}\n.:5301 {\n answers\n}\n.:5303 {\n answers\n}";
    let bench = Bench::new(PLUGINS, corefile);
    for (line, want) in [
        (
            "_dns.resolver.arpa SVCB +port=5301",
            "NOERROR rd | _dns.resolver.arpa. 31 A 198.51.100.3",
        ),
        ("resolver.arpa +port=5302", "NOERROR rd | resolver.arpa. 31 A 198.51.100.3"),
        ("resolver.arpa +port=5303", "NXDOMAIN rd"),
        ("xresolver.arpa +port=5301", "NXDOMAIN rd"),
        ("xresolver.arpa +port=5302", "REFUSED rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    let live = bench.gateway.live();
    let zones = live.groups().flat_map(|group| group.zones()).count();
    assert_eq!(zones, 4, "a claim is no zone of a key");
    let routes = live.sites()[0].routes.all();
    let texts: Vec<_> = routes.iter().map(|one| format!("{} {}", one.server, one.zone)).collect();
    assert_eq!(
        texts,
        [
            "dns://:5301 test.",
            "dns://:5302 test.",
            "dns://:5301 resolver.arpa.",
            "dns://:5302 resolver.arpa."
        ]
    );
    // A block with such a zone goes first.
    let bench = Bench::new(PLUGINS, &format!("resolver.arpa:5301 {{\n answers\n}}\n{corefile}"));
    assert_eq!(bench.now("resolver.arpa +port=5301"), "NXDOMAIN rd");
}

/// Says that it stands before a plugin, by a flag.
#[derive(Debug)]
struct Gate;

impl Plugin for Gate {
    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        x.answer_mut().set_authoritative(true);
        Step::Next
    }
}

/// Answers for the names in its reach.
#[derive(Debug)]
struct Asks(crate::Reach);

impl Plugin for Asks {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = x.request().name.clone();
        if !self.0.takes(&name) {
            return Step::Next;
        }
        x.answer_mut().a(&name, 30, [198, 51, 100, 4].into());
        Step::Done
    }
}

plugin!(GATE, "gate", |setup: &mut Setup<'_>| {
    setup.gate(|reach| reach.from.is_root().then(|| Box::new(Gate) as Box<dyn Plugin>));
    Ok(())
});
plugin!(ASKS, "asks", |setup: &mut Setup<'_>| {
    for directive in setup.directives() {
        let name = |text: &str| Name::parse(text).unwrap();
        let from = name(&directive.args[0].text);
        let except = directive.args[1..].iter().map(|word| name(&word.text)).collect();
        let reach = crate::Reach { from, except };
        setup.install_upstream(&reach, Asks(reach.clone()));
    }
    Ok(())
});

#[test]
fn a_gate_stands_before_those_who_ask_others() {
    static PLUGINS: &[&Descriptor] = &[&GATE, &ASKS, &ANSWERS];
    let bench = Bench::new(PLUGINS, ". {\n gate\n asks corp.test\n asks . not.test\n answers\n}");
    for (line, want) in [
        ("a.corp.test", "NOERROR rd | a.corp.test. 30 A 198.51.100.4"),
        ("a.example.org", "NOERROR aa rd | a.example.org. 30 A 198.51.100.4"),
        ("fail.test", "NOERROR aa rd | fail.test. 30 A 198.51.100.4"),
        ("a.not.test", "NXDOMAIN aa rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    let live = bench.gateway.live();
    let names: Vec<_> = live.sites()[0].chain.iter().map(|link| link.name).collect();
    assert_eq!(names, ["asks", "gate", "asks", "answers"]);
    // Without a gate nothing changes.
    let bench = Bench::new(PLUGINS, ". {\n asks .\n}");
    assert_eq!(bench.now("a.test"), "NOERROR rd | a.test. 30 A 198.51.100.4");
}

#[test]
fn local_names_over_https_are_warned_of_once() {
    static PLUGINS: &[&Descriptor] = &[&CLAIMS, &ANSWERS];
    for (corefile, count) in [
        ("https://cluster.local {\n answers\n}", 1),
        ("https://local https://x.local {\n answers\n}\nhttps://y.local {\n answers\n}", 1),
        ("https://example.org cluster.local tls://cluster.local {\n answers\n}", 0),
        ("https://xlocal {\n answers\n}", 0),
        ("https://. {\n claims\n answers\n}", 0),
    ] {
        let bench = Bench::new(PLUGINS, corefile);
        let warnings = &bench.built.warnings;
        let found = warnings.iter().filter(|one| one.what.contains("multicast")).count();
        assert_eq!(found, count, "{corefile}: {warnings:?}");
    }
}

#[test]
fn buckets_are_those_of_coredns() {
    use crate::metrics::{SLIM_TIME_BUCKETS, TIME_BUCKETS};
    for (buckets, count, step) in [(&TIME_BUCKETS[..], 16, 2.0), (&SLIM_TIME_BUCKETS[..], 5, 10.0)]
    {
        assert_eq!((buckets[0], buckets.len()), (0.000_25, count));
        let is_step = |two: &[f64]| (two[1] / two[0] - step).abs() < 1e-9;
        assert!(buckets.windows(2).all(is_step), "{buckets:?}");
    }
}
