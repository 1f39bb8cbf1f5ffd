//! Pairs of plugins of which it matters who stands above whom: the answer that their order gives, and another one if they change
//! places.

use engine::Descriptor;
use engine::testing::Bench;

use super::{Folder, asked, chain};

/// A pair of plugins.
struct Pair {
    /// The one above.
    above: &'static str,
    /// The one below.
    below: &'static str,
    /// The lines of the block for `test` and the root; `@DIR@` is the folder of the files.
    lines: &'static str,
    /// What is asked, in this order; `127.0.0.N: QUERY` by another client than 127.0.0.1.
    queries: &'static [&'static str],
    /// How the last reply begins; behind an ellipsis what it has.
    want: &'static str,
}

impl Pair {
    /// Whether a reply is as it is to be.
    fn fits(&self, reply: &str) -> bool {
        match self.want.strip_prefix('…') {
            Some(part) => reply.contains(part),
            None => reply.starts_with(self.want),
        }
    }
}

/// Makes a pair.
const fn pair(
    (above, below): (&'static str, &'static str),
    lines: &'static str,
    queries: &'static [&'static str],
    want: &'static str,
) -> Pair {
    Pair { above, below, lines, queries, want }
}

/// An entry of *hosts*.
const HOSTS: &str = "hosts /dev/null {\n 203.0.113.1 a.test localhost\n }";

/// The pairs.
const PAIRS: &[Pair] = &[
    pair(("dns64", "hosts"), "dns64\n @HOSTS@", &["::1: a.test AAAA"], "… AAAA 64:ff9b::cb00:7101"),
    pair(
        ("header", "template"),
        "header {\n response set ra\n }\n template IN A test {\n answer \"{{ .Name }} 5 IN A 198.51.100.1\"\n }",
        &["a.test"],
        "NOERROR aa rd ra | a.test. 5 A 198.51.100.1",
    ),
    pair(
        ("hosts", "erratic"),
        "@HOSTS@\n erratic",
        &["a.test"],
        "NOERROR aa rd | a.test. 3600 A 203.0.113.1",
    ),
    pair(
        ("erratic", "whoami"),
        "erratic {\n drop 0\n }\n whoami",
        &["a.test"],
        "NOERROR aa rd | a.test. 0 A ",
    ),
    pair(
        ("bufsize", "template"),
        "bufsize 512\n template IN TXT test {\n answer \"{{ .Name }} 5 IN TXT {{ printf \\\"%0700d\\\" 1 | printf \\\"%.250s\\\" }} {{ printf \\\"%0250d\\\" 1 }} {{ printf \\\"%0250d\\\" 1 }}\"\n }",
        &["a.test TXT +bufsize=1232"],
        "NOERROR aa tc rd",
    ),
    pair(
        ("local", "any"),
        "local\n any",
        &["localhost ANY"],
        "NOERROR rd |  | localhost. 604800 SOA",
    ),
    pair(
        ("local", "rewrite"),
        "local\n rewrite name localhost a.test\n backend",
        &["localhost"],
        "NOERROR rd | localhost. 604800 A 127.0.0.1",
    ),
    pair(
        ("local", "acl"),
        "local\n acl {\n block\n }",
        &["localhost"],
        "NOERROR rd | localhost. 604800 A 127.0.0.1",
    ),
    pair(
        ("local", "hosts"),
        "local\n @HOSTS@",
        &["localhost"],
        "NOERROR rd | localhost. 604800 A 127.0.0.1",
    ),
    pair(
        ("any", "rewrite"),
        "any\n rewrite type ANY A\n backend",
        &["a.test ANY"],
        "NOERROR rd | a.test. 8482 HINFO",
    ),
    pair(
        ("any", "acl"),
        "any\n acl {\n block\n }",
        &["a.test ANY"],
        "NOERROR rd | a.test. 8482 HINFO",
    ),
    pair(("any", "hosts"), "any\n @HOSTS@", &["a.test ANY"], "NOERROR rd | a.test. 8482 HINFO"),
    pair(("any", "whoami"), "any\n whoami", &["a.test ANY"], "NOERROR rd | a.test. 8482 HINFO"),
    pair(
        ("chaos", "rewrite"),
        "chaos v9\n rewrite name version.bind a.test\n backend",
        &["version.bind CH TXT"],
        "NOERROR rd | version.bind. 0 CH TXT \"v9\"",
    ),
    pair(
        ("chaos", "acl"),
        "chaos v9\n acl {\n block\n }",
        &["version.bind CH TXT"],
        "NOERROR rd | version.bind. 0 CH TXT \"v9\"",
    ),
    pair(
        ("chaos", "whoami"),
        "chaos v9\n whoami",
        &["version.bind CH TXT"],
        "NOERROR rd | version.bind. 0 CH TXT \"v9\"",
    ),
    pair(
        ("tsig", "rewrite"),
        "tsig old.test {\n secret key. AAAA\n require all\n }\n rewrite name old.test new.test\n backend",
        &["old.test"],
        "REFUSED rd",
    ),
    pair(
        ("tsig", "acl"),
        "tsig {\n secret key. AAAA\n require all\n }\n acl {\n block\n }",
        &["a.test +edns"],
        "REFUSED rd | EDE 18",
    ),
    pair(
        ("rewrite", "autopath"),
        "rewrite name suffix .alias.test .first.test\n autopath @DIR@/resolv\n backend",
        &["host.alias.test"],
        "NOERROR rd | host.first.test. 60 CNAME host.second.test.",
    ),
    pair(
        ("rewrite", "acl"),
        "rewrite name old.test new.test\n acl new.test {\n block\n }\n backend",
        &["old.test"],
        "REFUSED rd",
    ),
    pair(
        ("rewrite", "cache"),
        "rewrite name old.test new.test\n cache\n backend",
        &["old.test", "new.test"],
        "NOERROR aa rd | new.test. 60 A",
    ),
    pair(
        ("rewrite", "hosts"),
        "rewrite name old.test a.test\n @HOSTS@",
        &["old.test"],
        "NOERROR aa rd | old.test. 3600 A 203.0.113.1",
    ),
    pair(
        ("rewrite", "template"),
        "rewrite name old.test new.test\n template IN TXT test {\n answer \"{{ .Name }} 5 IN TXT {{ .Name }}\"\n }",
        &["old.test TXT"],
        "NOERROR aa rd | old.test. 5 TXT \"new.test.\"",
    ),
    pair(
        ("autopath", "acl"),
        "autopath @DIR@/resolv\n acl second.test {\n block\n }\n backend",
        &["host.first.test"],
        "REFUSED rd",
    ),
    pair(
        ("autopath", "cache"),
        "autopath @DIR@/resolv\n cache\n backend",
        &["host.first.test", "host.second.test"],
        "NOERROR aa rd | host.second.test. 60 A",
    ),
    pair(
        ("acl", "cache"),
        "acl {\n block net 127.0.0.7\n }\n cache\n backend",
        &["a.test", "127.0.0.7: a.test"],
        "REFUSED rd",
    ),
    pair(("acl", "hosts"), "acl {\n block\n }\n @HOSTS@", &["a.test"], "REFUSED rd"),
    pair(
        ("acl", "transfer"),
        "acl {\n block type AXFR\n }\n transfer {\n to *\n }\n file @DIR@/db test",
        &["test AXFR +tcp"],
        "REFUSED rd",
    ),
    pair(
        ("cache", "minimal"),
        "cache\n minimal\n template IN A test {\n answer \"{{ .Name }} 60 IN A 198.51.100.1\"\n authority \"test. 7 IN NS ns.test.\"\n }",
        &["a.test"],
        "NOERROR aa rd | a.test. 60 A",
    ),
    pair(
        ("cache", "template"),
        "cache 10\n template IN A test {\n answer \"{{ .Name }} 60 IN A 198.51.100.1\"\n }",
        &["a.test"],
        "NOERROR aa rd | a.test. 10 A",
    ),
    pair(("cache", "hosts"), "cache 10\n @HOSTS@", &["a.test"], "NOERROR aa rd | a.test. 10 A"),
    pair(
        ("cache", "file"),
        "cache 10\n file @DIR@/db test",
        &["a.test"],
        "NOERROR aa rd | a.test. 10 A",
    ),
    pair(
        ("minimal", "template"),
        "minimal\n template IN A test {\n answer \"{{ .Name }} 5 IN A 198.51.100.1\"\n additional \"x.test. 5 IN A 198.51.100.2\"\n }",
        &["a.test"],
        "NOERROR aa rd | a.test. 5 A 198.51.100.1.",
    ),
    pair(
        ("minimal", "file"),
        "minimal\n file @DIR@/db test",
        &["test NS"],
        "NOERROR aa rd | test. 60 NS ns.test..",
    ),
    pair(
        ("template", "hosts"),
        "template IN A test {\n answer \"{{ .Name }} 5 IN A 198.51.100.1\"\n }\n @HOSTS@",
        &["a.test"],
        "NOERROR aa rd | a.test. 5 A 198.51.100.1",
    ),
    pair(
        ("template", "file"),
        "template IN A test {\n answer \"{{ .Name }} 5 IN A 198.51.100.1\"\n }\n file @DIR@/db test",
        &["a.test"],
        "NOERROR aa rd | a.test. 5 A 198.51.100.1",
    ),
    pair(
        ("transfer", "file"),
        "transfer {\n to *\n }\n file @DIR@/db test",
        &["test AXFR +tcp"],
        "NOERROR aa rd | test. 60 SOA",
    ),
    pair(
        ("hosts", "file"),
        "@HOSTS@\n file @DIR@/db test",
        &["a.test"],
        "NOERROR aa rd | a.test. 3600 A 203.0.113.1",
    ),
    pair(
        ("hosts", "whoami"),
        "@HOSTS@\n whoami",
        &["a.test"],
        "NOERROR aa rd | a.test. 3600 A 203.0.113.1",
    ),
    pair(
        ("hosts", "forward"),
        "@HOSTS@\n forward . 127.0.0.1:1",
        &["a.test"],
        "NOERROR aa rd | a.test. 3600 A 203.0.113.1",
    ),
    pair(
        ("file", "forward"),
        "file @DIR@/db test\n forward . 127.0.0.1:1",
        &["a.test"],
        "NOERROR aa rd | a.test. 60 A 203.0.113.9",
    ),
    pair(
        ("file", "whoami"),
        "file @DIR@/db test\n whoami",
        &["a.test"],
        "NOERROR aa rd | a.test. 60 A 203.0.113.9",
    ),
    pair(("forward", "whoami"), "forward . 127.0.0.1:1\n whoami", &["a.test"], "SERVFAIL rd"),
    pair(
        ("file", "auto"),
        "file @DIR@/db test\n auto {\n directory @DIR@/zones db\\.(.*) {1}\n }",
        &["a.test"],
        "NOERROR aa rd | a.test. 60 A 203.0.113.9",
    ),
    pair(
        ("auto", "forward"),
        "auto {\n directory @DIR@/zones db\\.(.*) {1}\n }\n forward . 127.0.0.1:1",
        &["a.test"],
        "NOERROR aa rd | a.test. 60 A 203.0.113.10",
    ),
];

/// The last reply to the queries of a pair, with this chain.
async fn reply(chain: &'static [&'static Descriptor], pair: &Pair, folder: &Folder) -> String {
    asked();
    let lines = pair.lines.replace("@HOSTS@", HOSTS).replace("@DIR@", &folder.0.to_string_lossy());
    let mut bench = Bench::new(chain, &format!("test . {{\n {lines}\n}}\n"));
    let mut last = String::new();
    for query in pair.queries {
        let (client, line) = query.split_once(": ").unwrap_or(("127.0.0.1", query));
        bench.from(client.parse().unwrap());
        last = bench.ask(line).await;
    }
    // So that a text may stand for the whole of a reply.
    last + "."
}

/// All plugins, two of which have changed places.
fn swapped(pair: &Pair) -> &'static [&'static Descriptor] {
    let mut chain = chain().to_vec();
    let at = |name: &str| {
        chain.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("{name}"))
    };
    let (above, below) = (at(pair.above), at(pair.below));
    assert!(above < below, "{} stands above {}", pair.above, pair.below);
    chain.swap(above, below);
    chain.leak()
}

#[tokio::test]
async fn the_order_of_two_plugins_changes_an_answer() {
    let zone = |last: u8| {
        format!(
            "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 203.0.113.53\na 60 A 203.0.113.{last}\n"
        )
    };
    let folder =
        Folder::new("order", &[("resolv", "search first.test second.test\n"), ("db", &zone(9))]);
    std::fs::create_dir_all(folder.0.join("zones")).unwrap();
    std::fs::write(folder.0.join("zones/db.test"), zone(10)).unwrap();
    let mut wrong = Vec::new();
    for pair in PAIRS {
        let names = format!("{} above {}", pair.above, pair.below);
        let own = reply(chain(), pair, &folder).await;
        if !pair.fits(&own) {
            wrong.push(format!("{names}: {own}"));
        }
        let other = reply(swapped(pair), pair, &folder).await;
        if pair.fits(&other) {
            wrong.push(format!("{names}, changed: {other}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
