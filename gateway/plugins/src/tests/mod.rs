//! Plugins together: what their order means, and what they share. Each test has the facts of its name in `docs/parity`.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use engine::testing::{Bench, show};
use engine::{Descriptor, Exchange, Plugin, Step};
use wire::{Section, rcode, rtype};

use crate::shared::scripted::{Say, Scripted};

mod order;

/// CoreDNS's order of plugins.
const ORDER: &[&str] = &[
    "root",
    "metadata",
    "geoip",
    "cancel",
    "proxyproto",
    "quic",
    "grpc_server",
    "https",
    "https3",
    "timeouts",
    "multisocket",
    "reload",
    "nsid",
    "bufsize",
    "bind",
    "debug",
    "trace",
    "ready",
    "health",
    "pprof",
    "shed",
    "prometheus",
    "errors",
    "log",
    "dnstap",
    "local",
    "dns64",
    "any",
    "chaos",
    "loadbalance",
    "tsig",
    "rewrite",
    "autopath",
    "acl",
    "cache",
    "header",
    "dnssec",
    "tls",
    "minimal",
    "template",
    "transfer",
    "hosts",
    "route53",
    "azure",
    "clouddns",
    "k8s_external",
    "kubernetes",
    "file",
    "auto",
    "secondary",
    "etcd",
    "loop",
    "forward",
    "grpc",
    "erratic",
    "whoami",
    "on",
    "sign",
    "view",
    "nomad",
];

#[test]
fn the_chain_has_the_order_of_coredns() {
    // Plugins that CoreDNS does not have may stand anywhere.
    let names = crate::CHAIN.iter().map(|plugin| plugin.name);
    let theirs: Vec<_> = names.filter(|name| ORDER.contains(name)).collect();
    assert_eq!(theirs, ORDER);
}

thread_local! {
    /// What the backend was asked: `name TYPE`, then its EDNS options.
    static ASKED: RefCell<Vec<String>> = RefCell::default();
}

/// What the backend was asked since the last time.
fn asked() -> Vec<String> {
    ASKED.take()
}

/// Answers with three addresses, but denies names below `first.test`.
#[derive(Debug)]
struct Backend;

impl Plugin for Backend {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        let mut line = format!("{} {}", request.name, wire::text::type_name(request.rtype));
        for (code, data) in request.edns.options.iter() {
            line.push_str(&format!(" {code}:{}", String::from_utf8_lossy(data)));
        }
        ASKED.with_borrow_mut(|asked| asked.push(line));
        if request.name.to_string().ends_with(".first.test.") {
            answer.rcode = rcode::NXDOMAIN;
            answer.push(Section::Authority, &[0], rtype::SOA, 30, &[0; 22]);
        } else {
            (1..=3).for_each(|last| answer.a(&request.name, 60, [198, 51, 100, last].into()));
        }
        Step::Done
    }
}

/// The backend's entry.
static BACKEND: Descriptor = Descriptor {
    name: "backend",
    readme: "",
    setup: |setup| {
        setup.install(Backend);
        Ok(())
    },
};

/// All plugins in their order, before the backend.
fn chain() -> &'static [&'static Descriptor] {
    Vec::leak(crate::CHAIN.iter().copied().chain([&BACKEND]).collect())
}

/// A gateway with all plugins and the backend.
fn bench(corefile: &str) -> Bench {
    asked();
    Bench::new(chain(), corefile)
}

/// A folder of a test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    /// With these files.
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("plugins-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn what_is_gone_is_an_unknown_directive() {
    for old in ["proxy", "federation", "startup", "import_"] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {old} x\n}}\n"));
        assert!(text.starts_with(&format!("Unknown directive '{old}'")), "{text}");
    }
}

#[test]
fn root_is_for_those_who_honour_it() {
    let files = [
        ("weights", "a.test\n203.0.113.1 7\n"),
        ("db", "@ 60 SOA ns host 1 2 3 4 5\n"),
        ("keys", "key a. { secret \"AAAA\"; };\n"),
        ("resolv", "search example.org\n"),
        ("part", "whoami\n"),
    ];
    let folder = Folder::new("root", &files);
    let root = folder.0.display();
    let corefile = |line: &str| format!("test {{\n root {root}\n {line}\n}}\n");
    for line in ["loadbalance weighted weights {\n reload 0\n }", "file db {\n reload 0\n }"] {
        Bench::new(crate::CHAIN, &corefile(line));
    }
    // Those that are not there are told with their whole path.
    for line in [
        "grpc . 127.0.0.1 {\n tls none\n }",
        "forward . tls://127.0.0.1 {\n tls none\n }",
        "tls none none",
    ] {
        let text = Bench::refused(crate::CHAIN, &corefile(line));
        assert!(text.contains(&format!("{root}/none")), "{line}: {text}");
    }
    for line in ["tsig {\n secrets keys\n }", "autopath resolv", "import part"] {
        let text = Bench::refused(crate::CHAIN, &corefile(line));
        assert!(!text.contains(&root.to_string()), "{line}: {text}");
    }
}

#[test]
fn names_that_plugins_look_up_are_the_clients_own_queries() {
    let mut bench = bench(
        "alias.test {\n template IN A {\n answer \"{{ .Name }} 5 IN CNAME x.fenced.test.\"\n }\n}\n\
         fenced.test {\n acl {\n allow net 127.0.0.9\n block\n }\n backend\n}\n",
    );
    let alias = "NOERROR aa rd | a.alias.test. 5 CNAME x.fenced.test.";
    assert_eq!(bench.now("a.alias.test"), alias);
    assert_eq!(asked(), [""; 0]);
    bench.from([127, 0, 0, 9].into());
    let whole = format!("{alias}; x.fenced.test. 60 A 198.51.100.1");
    assert!(bench.now("a.alias.test").starts_with(&whole));
    assert_eq!(asked(), ["x.fenced.test. A"]);
}

#[test]
fn names_that_plugins_look_up_lead_on_eight_times() {
    let corefile = r#"d.test {
        template IN A {
            match ^(?P<n>[0-9]+)[.]d[.]test[.]$
            var next int(group('n')) - 1
            answer "{{ .Name }} 5 IN {{ if lt .Var.next 0 }}A 198.51.100.1{{ else }}CNAME {{ .Var.next }}.d.test.{{ end }}"
        }
    }"#;
    let bench = bench(corefile);
    for (name, aliases, is_found) in
        [("8.d.test", 8, true), ("9.d.test", 9, false), ("99.d.test", 9, false)]
    {
        let reply = bench.now(&format!("{name} +bufsize=4096"));
        assert_eq!(reply.matches(" CNAME ").count(), aliases, "{reply}");
        assert_eq!(reply.contains(" A 198.51.100.1"), is_found, "{reply}");
    }
}

#[test]
fn rewritten_names_are_what_acl_and_cache_see() {
    let mut bench = bench(
        "test {\n rewrite name old.test new.test\n acl new.test {\n block net 127.0.0.7\n }\n cache\n backend\n}\n",
    );
    bench.from([127, 0, 0, 7].into());
    assert_eq!(bench.now("old.test"), "REFUSED rd");
    bench.from([127, 0, 0, 1].into());
    assert!(bench.now("old.test").starts_with("NOERROR rd | old.test. 60 A"));
    assert!(bench.now("new.test").starts_with("NOERROR aa rd | new.test. 60 A"));
    assert_eq!(asked(), ["new.test. A"]);
    // What is there already is not for those who are shut out.
    bench.from([127, 0, 0, 7].into());
    for name in ["old.test", "new.test"] {
        assert_eq!(bench.now(name), "REFUSED rd", "{name}");
    }
}

#[test]
fn names_of_a_search_path_pass_acl_one_by_one() {
    let folder = Folder::new("path", &[("resolv", "search first.test second.test\n")]);
    let corefile = |acl: &str| {
        format!("test . {{\n autopath test {}/resolv\n {acl}\n backend\n}}\n", folder.0.display())
    };
    let mut bench = bench(&corefile("acl second.test {\n block\n }"));
    // What acl says of one of them is the reply.
    assert_eq!(bench.now("host.first.test"), "REFUSED rd");
    assert_eq!(asked(), ["host.first.test. A"]);
    // Without it the next ones are asked, each as a query of its own.
    bench.reload(&corefile("")).unwrap();
    let reply = bench.now("host.first.test");
    assert!(
        reply.contains(" | host.first.test. 60 CNAME host.second.test.; host.second.test. 60 A"),
        "{reply}"
    );
    assert_eq!(asked(), ["host.first.test. A", "host.second.test. A"]);
}

#[test]
fn answers_from_the_cache_are_shuffled_too() {
    let bench = bench("test {\n loadbalance\n cache\n backend\n}\n");
    let seen: BTreeSet<_> = (0..100).map(|_| bench.now("a.test").replace("aa ", "")).collect();
    assert!(seen.len() > 3, "{seen:?}");
    assert_eq!(asked(), ["a.test. A"]);
}

#[test]
fn cached_answers_are_turned_back_each_time() {
    let bench = bench(
        "test {\n rewrite name suffix .a.test .int.test answer auto\n \
         rewrite name suffix .b.test .int.test answer auto\n cache\n backend\n}\n",
    );
    for name in ["x.a.test", "x.b.test", "x.int.test", "x.a.test"] {
        let reply = bench.now(name);
        assert!(reply.contains(&format!(" | {name}. 60 A")), "{reply}");
    }
    assert_eq!(asked(), ["x.int.test. A"]);
}

#[test]
fn a_label_can_become_an_option() {
    let rule = "rewrite edns0 local set 0xffee {view/name}";
    for (metadata, want) in [("metadata", "a.test. A 65518:corp"), ("", "a.test. A")] {
        let bench = bench(&format!("test {{\n {metadata}\n view corp\n {rule}\n backend\n}}\n"));
        bench.now("a.test");
        assert_eq!(asked(), [want]);
    }
}

#[test]
fn a_class_has_to_be_let_in_before_it_is_rewritten() {
    let rewrite = "rewrite class CH IN\n backend";
    let template = "template CH TXT who {\n answer \"{{ .Name }} 0 CH TXT me\"\n }";
    for (lines, line, want) in [
        (rewrite, "a.test CH A", "NOERROR rd | a.test. 60 A"),
        (template, "who CH TXT", "NOERROR aa rd | who. 0 CH TXT \"me\""),
    ] {
        assert_eq!(bench(&format!(". {{\n {lines}\n}}\n")).now(line), "REFUSED rd");
        let bench = bench(&format!(". {{\n chaos\n {lines}\n}}\n"));
        assert!(bench.now(line).starts_with(want), "{}", bench.now(line));
    }
}

#[test]
fn blocks_and_views_have_caches_of_their_own() {
    let view = |name: &str, last: u8| {
        format!(
            "test {{\n view {name} {{\n expr client_ip() == '127.0.0.{last}'\n }}\n cache\n backend\n}}\n"
        )
    };
    let mut bench = bench(&(view("one", 1) + &view("two", 2)));
    for (last, count) in [(1, 1), (1, 0), (2, 1), (2, 0), (1, 0)] {
        bench.from([127, 0, 0, last].into());
        assert!(bench.now("a.test").contains("198.51.100.1"));
        assert_eq!(asked().len(), count, "127.0.0.{last}");
    }
}

#[test]
fn what_stands_behind_a_wildcard_is_known_on_hits_too() {
    let folder =
        Folder::new("wild", &[("db", "@ 60 SOA ns host 1 2 3 4 5\n*.w 60 A 198.51.100.3\n")]);
    let corefile = format!(
        "test {{\n metadata\n log . \"W={{/zone/wildcard}} {{>rflags}}\"\n cache\n root {}\n file db\n}}\n",
        folder.0.display()
    );
    let bench = bench(&corefile);
    crate::shared::testing::logged();
    for _ in 0..2 {
        bench.now("a.w.test");
    }
    let lines = crate::shared::testing::logged();
    let lines: Vec<_> = lines.iter().filter(|line| line.contains("W=")).collect();
    assert_eq!(lines, ["[INFO] W=*.w.test. qr,aa,rd"; 2]);
}

#[tokio::test]
async fn upstreams_see_the_lowered_size() {
    let up = Scripted::start(|_, _| Say::Answer).await;
    let bench = bench(&format!(". {{\n bufsize 600\n forward . {}\n}}\n", up.addr));
    bench.ask("a.test +bufsize=1232").await;
    assert_eq!(up.seen(), ["a.test. A udp rd size=600"]);
}

#[tokio::test]
async fn a_query_with_a_signature_is_not_forwarded() {
    let up = Scripted::start(|_, _| Say::Answer).await;
    let forward = format!("forward . {}", up.addr);
    // A record of another key than ours; the message is well formed.
    let signature = [
        &b"\x05other\0\0\xfa\0\xff\0\0\0\0\0\x2d\x0bhmac-sha256\0"[..],
        &[0, 0, 0, 0, 0, 0, 1, 44, 0, 16],
        &[7; 16],
        &[0x2a, 0x2a, 0, 0, 0, 0],
    ]
    .concat();
    for (tsig, want) in [
        ("", "SERVFAIL rd"),
        ("tsig {\n secret key.test AAAA\n }\n", "NOTAUTH"),
        ("tsig elsewhere.test {\n secret key.test AAAA\n }\n", "SERVFAIL rd"),
    ] {
        let bench = bench(&format!(". {{\n {tsig}{forward}\n}}\n"));
        let mut x = bench.exchange("www.test");
        x.query.wire.extend_from_slice(&signature);
        x.query.wire[11] = 1;
        crate::shared::testing::logged();
        let reply = show(&bench.serve(&mut x));
        assert!(reply.starts_with(want), "{tsig}: {reply}");
        let told = crate::shared::testing::logged();
        let rejected = told.iter().any(|line| line.starts_with("[DEBUG] plugin/tsig: "));
        assert_eq!(rejected, want == "NOTAUTH", "{told:?}");
    }
    assert_eq!(up.count(), 0);
}

// A wildcard answered for names below one that is there, and its alias was followed for a CNAME query.
#[test]
fn b32_a_wildcard_ends_at_names_that_are_there() {
    let zone = "@ 500 SOA ns h 3 3600 600 86400 300\n@ 500 NS ns\nns 500 A 203.0.113.53\n*.d 500 A 203.0.113.1\n\
                r.c.d 500 A 203.0.113.2\n*.al 500 CNAME t1\nt1 500 CNAME t2\nt2 500 A 203.0.113.9\n";
    let folder = Folder::new("b32", &[("db", zone)]);
    let bench =
        bench(&format!("example.test {{\n root {}\n file db\n minimal\n}}\n", folder.0.display()));
    let soa = "example.test. 500 SOA ns.example.test. h.example.test. 3 3600 600 86400 300";
    for (line, want) in [
        ("x.d", "NOERROR aa rd | x.d.example.test. 500 A 203.0.113.1".to_owned()),
        ("y.x.d", "NOERROR aa rd | y.x.d.example.test. 500 A 203.0.113.1".to_owned()),
        ("*.d", "NOERROR aa rd | *.d.example.test. 500 A 203.0.113.1".to_owned()),
        ("x.r.c.d", format!("NXDOMAIN aa rd |  | {soa}")),
        ("x.c.d", format!("NXDOMAIN aa rd |  | {soa}")),
        ("c.d", format!("NOERROR aa rd |  | {soa}")),
        ("q.al CNAME", "NOERROR aa rd | q.al.example.test. 500 CNAME t1.example.test.".to_owned()),
        (
            "q.al",
            "NOERROR aa rd | q.al.example.test. 500 CNAME t1.example.test.; t1.example.test. 500 CNAME \
             t2.example.test.; t2.example.test. 500 A 203.0.113.9"
                .to_owned(),
        ),
    ] {
        let (name, kind) = line.split_once(' ').unwrap_or((line, "A"));
        assert_eq!(bench.now(&format!("{name}.example.test {kind}")), want, "{line}");
    }
}

#[tokio::test]
async fn the_identifier_of_an_upstream_is_replaced() {
    let up = Scripted::start(|_, answer| {
        answer.options.push(wire::option::NSID, b"upstream");
        Say::Answer
    })
    .await;
    for (nsid, want) in [("nsid edge", "NOERROR rd ra | OPT 3 65646765"), ("", "NOERROR rd ra")] {
        let bench = bench(&format!(". {{\n {nsid}\n forward . {}\n}}\n", up.addr));
        assert_eq!(bench.ask("a.test +opt=3:").await, want);
    }
}
