//! The rules, each with a backend that answers as it is told and shows what it was asked.

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Fault, Plugin, Setup, Step};
use wire::{Section, class, rcode, rtype};
use zone::record::{Defaults, Record};

/// Answers from the records of its block; a TXT question by what it was asked, NULL by the EDNS options.
#[derive(Debug)]
struct Backend(Vec<(Section, Record)>);

impl Plugin for Backend {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        let name = request.name.clone();
        if name.to_string().starts_with("broken.") {
            return Step::Fail(Fault { rcode: rcode::SERVFAIL, ede: Some(23), why: "on purpose" });
        }
        let edns = &request.edns;
        match request.rtype {
            rtype::TXT => answer.txt(&name, request.class, 60, name.to_string().as_bytes()),
            rtype::NULL => {
                let mut shown = if edns.present { edns.size.to_string() } else { String::new() };
                for (code, data) in edns.options.iter() {
                    shown.push_str(&format!(" {code}:"));
                    data.iter().for_each(|byte| shown.push_str(&format!("{byte:02x}")));
                }
                answer.txt(&name, class::IN, 60, shown.as_bytes());
                answer.options.copy_from(&edns.options);
            }
            asked => {
                let mut owner = name.wire().to_vec();
                for (section, record) in &self.0 {
                    let fits = record.rtype == asked || record.rtype == rtype::CNAME;
                    if *section != Section::Answer
                        || (fits && record.owner.eq_ignore_ascii_case(&owner))
                    {
                        let data = [&*record.data];
                        answer.push_class(
                            *section,
                            &record.owner,
                            record.class,
                            record.rtype,
                            record.ttl,
                            &data,
                        );
                        if record.rtype == rtype::CNAME && *section == Section::Answer {
                            owner.clone_from(&record.data);
                        }
                    }
                }
                if answer.section(Section::Answer).next().is_none() {
                    answer.rcode = rcode::NXDOMAIN;
                }
            }
        }
        Step::Done
    }
}

/// The backend's entry: lines `answer|authority|additional RECORD`.
static BACKEND: Descriptor = Descriptor {
    name: "backend",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        let mut records = Vec::new();
        for line in setup.directive().lines() {
            let section = match &*line.name.text {
                "answer" => Section::Answer,
                "authority" => Section::Authority,
                _ => Section::Additional,
            };
            let record = Record::parse(&line.args[0].text, &Defaults::default()).unwrap().unwrap();
            records.push((section, record));
        }
        setup.allow_classes();
        setup.install(Backend(records));
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &BACKEND];

/// The records of the backend, as `int.test` has them.
const RECORDS: &str = r#"backend {
    answer "cn.int.test. 60 CNAME www.int.test."
    answer "www.int.test. 60 A 198.51.100.1"
    answer "www.int.test. 60 A 198.51.100.2"
    answer "mx.int.test. 60 MX 10 Mail.int.test."
    answer "srv.int.test. 60 SRV 0 0 80 www.int.test."
    answer "naptr.int.test. 60 NAPTR 1 2 u s r www.int.test."
    answer "ptr.int.test. 60 PTR else.where."
    authority "int.test. 3600 SOA ns1.int.test. hostmaster.int.test. 1 2 3 4 5"
    authority "int.test. 5 NS ns1.int.test."
    additional "ns1.int.test. 60 A 198.51.100.53"
}"#;

/// What follows the answers of the backend when nothing is turned back.
const REST: &str = "int.test. 3600 SOA ns1.int.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.int.test. | ns1.int.test. 60 A 198.51.100.53";

/// A gateway with these rules, in front of the backend.
fn bench(rules: &str) -> Bench {
    Bench::new(CHAIN, &format!(". {{\n{rules}\n{RECORDS}\n}}\n"))
}

/// Asks each question of a table.
fn all(rules: &str, table: &[(&str, &str)]) {
    let bench = bench(rules);
    for (line, want) in table {
        assert_eq!(bench.now(line), *want, "{line}\n{rules}");
    }
}

/// Asks each name of a table for TXT: the backend shows the name that reaches it. The question comes back as it was.
fn names(rules: &str, table: &[(&str, &str)]) {
    let bench = bench(rules);
    for (name, want) in table {
        let mut x = bench.exchange(&format!("{name} TXT"));
        let asked = x.query.wire.clone();
        let reply = bench.serve(&mut x);
        assert_eq!(reply[12..asked.len()], asked[12..], "{name}: the question changed");
        let shown = engine::testing::show(&reply);
        let text = shown.split('"').nth(1).unwrap_or(&shown);
        assert_eq!(text, *want, "{name}\n{rules}");
    }
}

#[test]
fn names_match_exactly_by_prefix_suffix_substring_and_regex() {
    names(
        "rewrite name exact.test target.test
         rewrite name EXACT Other.test New.test
         rewrite name prefix pre- post-
         rewrite name prefix lab. other.
         rewrite name prefix two.labels three.more.labels
         rewrite name prefix gone. \"\"
         rewrite name suffix .suf.test .sufto.test
         rewrite name suffix nodot.test dotless.test
         rewrite name suffix .strip.test \"\"
         rewrite name substring .in. .out.
         rewrite name substring mid mad
         rewrite name regex ^(.*)-(us-west-1)\\.rx\\.test\\.$ {1}.service.{2}.Consul.test
         rewrite name regex (.*)\\.loose\\.test tight.test
         rewrite name regex ^bad\\.lbl\\.test\\.$ a..b.test
         rewrite name regex ^all\\. {0}x",
        &[
            ("exact.test", "target.test."),
            ("EXACT.test", "target.test."),
            ("x.exact.test", "x.exact.test."),
            ("other.test", "new.test."),
            ("pre-a.test", "pre-a.test."),
            ("pre-.test", "post-.test."),
            ("lab.test", "other.test."),
            ("xlab.test", "xlab.test."),
            ("two.labels.test", "three.more.labels.test."),
            ("gone.test", "SERVFAIL rd"),
            ("www.suf.test", "www.sufto.test."),
            ("a.b.suf.test", "a.b.sufto.test."),
            ("suf.test", "suf.test."),
            ("www.suf.test.other", "www.suf.test.other."),
            ("x.nodot.test", "x.dotless.test."),
            ("xnodot.test", "xdotless.test."),
            ("nodot.test", "dotless.test."),
            ("a.strip.test", "a."),
            (r"a\.strip.test", r"a\.strip.test."),
            ("a.in.b.in.c.test", "a.out.b.out.c.test."),
            ("amid.test", "amad.test."),
            ("amidb.test", "amidb.test."),
            ("ftp-us-west-1.rx.test", "ftp.service.us-west-1.consul.test."),
            ("a.loose.test.more", "tight.test."),
            ("bad.lbl.test", "SERVFAIL rd"),
            ("all.x", "all.x."),
            ("plain.test", "plain.test."),
        ],
    );
}

#[test]
fn too_long_a_name_is_a_failure_and_the_question_comes_back() {
    let long = ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join(".");
    names(
        "rewrite continue name regex ^(.*)\\.first\\.$ {1}.second
         rewrite name suffix .second .ab.example.org
         rewrite name suffix .glue .glued
         rewrite name suffix x.test abcd.test",
        &[
            (&format!("{long}.first"), "SERVFAIL rd"),
            (&format!("{}x.test", "e".repeat(62)), "SERVFAIL rd"),
        ],
    );
    let fault = bench("rewrite name regex ^a a..b").exchange("a.test");
    let (mut x, bench) = (fault, bench("rewrite name regex ^a a..b"));
    bench.serve(&mut x);
    assert_eq!(x.detail(), "a rule makes no legal name of a.test.");
    assert_eq!(x.request().name.to_string(), "a.test.");
}

#[test]
fn rules_run_in_order_until_one_stops() {
    names(
        "rewrite continue name suffix .one.test .two.test
         rewrite name suffix .two.test .three.test
         rewrite stop name suffix .s1.test .s2.test
         rewrite name suffix .s2.test .s3.test
         rewrite CONTINUE {
            name regex (.*)\\.blk\\.test\\. {1}.blk2.test
         }
         rewrite name suffix .blk2.test .blk3.test
         rewrite continue type MX TXT
         rewrite name suffix .three.test .four.test",
        &[
            ("www.one.test", "www.three.test."),
            ("www.two.test", "www.three.test."),
            ("www.three.test", "www.four.test."),
            ("www.s1.test", "www.s2.test."),
            ("www.blk.test", "www.blk3.test."),
        ],
    );
}

#[test]
fn more_rules_than_bits_turn_back_rightly() {
    let mut rules = String::new();
    for number in 0..200 {
        rules.push_str(&format!(
            "rewrite continue name suffix .n{number}.test .n{}.test answer auto\n",
            number + 1
        ));
    }
    rules.push_str("rewrite name suffix .n200.test .int.test answer auto\n");
    all(
        &rules,
        &[(
            "www.n0.test",
            "NOERROR rd | www.n0.test. 60 A 198.51.100.1; www.n0.test. 60 A 198.51.100.2 | int.test. 3600 SOA ns1.n0.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.n0.test. | ns1.n0.test. 60 A 198.51.100.53",
        )],
    );
}

#[test]
fn types_and_classes_change_and_come_back() {
    all(
        "rewrite type MX a
         rewrite class CH IN",
        &[
            (
                "www.int.test MX",
                &format!(
                    "NOERROR rd | www.int.test. 60 A 198.51.100.1; www.int.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
            ("x.test CH TXT", "NOERROR rd | x.test. 60 TXT \"x.test.\""),
            ("x.test HS TXT", "NOERROR rd | x.test. 60 HS TXT \"x.test.\""),
        ],
    );
}

#[test]
fn without_answer_rules_only_exact_names_are_turned_back() {
    let a = "198.51.100.1; www.int.test. 60 A 198.51.100.2";
    all(
        "rewrite name suffix .plain.test .int.test",
        &[(
            "cn.plain.test",
            &format!(
                "NOERROR rd | cn.int.test. 60 CNAME www.int.test.; www.int.test. 60 A {a} | {REST}"
            ),
        )],
    );
    all(
        "rewrite name www.exact.test www.int.test
         rewrite name cn.exact.test int.test
         rewrite name srv.exact.test srv.int.test",
        &[
            (
                "www.exact.test",
                &format!(
                    "NOERROR rd | www.exact.test. 60 A 198.51.100.1; www.exact.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
            (
                "cn.exact.test",
                "NXDOMAIN rd |  | cn.exact.test. 3600 SOA ns1.cn.exact.test. hostmaster.int.test. 1 2 3 4 5; cn.exact.test. 5 NS ns1.cn.exact.test. | ns1.cn.exact.test. 60 A 198.51.100.53",
            ),
        ],
    );
}

#[test]
fn answer_auto_turns_owners_and_values_back() {
    let rest = "int.test. 3600 SOA ns1.auto.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.auto.test. | ns1.auto.test. 60 A 198.51.100.53";
    all(
        "rewrite stop {
            name suffix .auto.test .int.test answer auto
         }",
        &[
            (
                "cn.auto.test",
                &format!(
                    "NOERROR rd | cn.auto.test. 60 CNAME www.auto.test.; www.auto.test. 60 A 198.51.100.1; www.auto.test. 60 A 198.51.100.2 | {rest}"
                ),
            ),
            (
                "mx.auto.test MX",
                &format!("NOERROR rd | mx.auto.test. 60 MX 10 mail.auto.test. | {rest}"),
            ),
            (
                "srv.auto.test SRV",
                &format!("NOERROR rd | srv.auto.test. 60 SRV 0 0 80 www.auto.test. | {rest}"),
            ),
            (
                "ptr.auto.test PTR",
                &format!("NOERROR rd | ptr.auto.test. 60 PTR else.where. | {rest}"),
            ),
            ("nope.auto.test", &format!("NXDOMAIN rd |  | {rest}")),
        ],
    );
    // By prefix, substring and regex the very names are exchanged, and those below.
    all(
        "rewrite name prefix old www answer auto
         rewrite name substring .sub. .int. answer auto
         rewrite continue name regex ^(.*)\\.rx\\.test {1}.mid.test answer auto
         rewrite name regex ^(.*)\\.mid\\.test {1}.int.test answer auto",
        &[
            (
                "old.int.test",
                &format!(
                    "NOERROR rd | old.int.test. 60 A 198.51.100.1; old.int.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
            (
                "www.sub.test",
                &format!(
                    "NOERROR rd | www.sub.test. 60 A 198.51.100.1; www.sub.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
            (
                "www.rx.test",
                &format!(
                    "NOERROR rd | www.rx.test. 60 A 198.51.100.1; www.rx.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
            (
                "cn.rx.test",
                &format!(
                    "NOERROR rd | cn.rx.test. 60 CNAME www.int.test.; www.int.test. 60 A 198.51.100.1; www.int.test. 60 A 198.51.100.2 | {REST}"
                ),
            ),
        ],
    );
}

#[test]
fn answer_name_and_value_rewrite_by_regex() {
    all(
        "rewrite stop {
            name regex (.*)\\.rx\\.test {1}.int.test
            answer name (.*)\\.int\\.test {1}.own.test
            answer value (.*)\\.int\\.test {1}.val.test
         }",
        &[(
            "srv.rx.test SRV",
            "NOERROR rd | srv.own.test. 60 SRV 0 0 80 www.val.test. | int.test. 3600 SOA ns1.val.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.val.test. | ns1.own.test. 60 A 198.51.100.53",
        )],
    );
    // The second `answer` may be left out; later rules come first, `auto` last.
    all(
        "rewrite name suffix .val.test .int.test answer auto value www\\.int\\.test shown.test value (.*)\\.shown\\.test never.test",
        &[(
            "srv.val.test SRV",
            "NOERROR rd | srv.val.test. 60 SRV 0 0 80 shown.test. | int.test. 3600 SOA ns1.val.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.val.test. | ns1.val.test. 60 A 198.51.100.53",
        )],
    );
}

#[test]
fn answer_name_alone_rewrites_targets_and_the_additional_section_too() {
    let bench = bench(
        "rewrite continue edns0 local set 1 {qname}
         rewrite stop {
            name regex (.*)\\.edge\\.test {1}.int.test
            answer name (.*)\\.int\\.test {1}.edge.test
         }",
    );
    let rest = "int.test. 3600 SOA ns1.edge.test. hostmaster.int.test. 1 2 3 4 5; int.test. 5 NS ns1.edge.test. | ns1.edge.test. 60 A 198.51.100.53";
    for (name, rtype, want) in [
        (
            "sRv.eDGe.tESt",
            "SRV",
            format!("NOERROR rd | sRv.eDGe.tESt. 60 SRV 0 0 80 www.edge.test. | {rest}"),
        ),
        ("Nope.EDGE.test", "A", format!("NXDOMAIN rd |  | {rest}")),
        (
            "W.edge.test",
            "NULL",
            "NOERROR rd | w.edge.test. 60 TXT \"4096 1:572e656467652e746573742e\"".to_owned(),
        ),
    ] {
        let mut x = bench.exchange(&format!("{name} {rtype}"));
        // The question as its client spells it.
        let mut at = 12;
        for label in name.split('.') {
            x.query.wire[at + 1..=at + label.len()].copy_from_slice(label.as_bytes());
            at += 1 + label.len();
        }
        // The names below are compressed to the question's, whose case they take over.
        let shown = engine::testing::show(&bench.serve(&mut x));
        assert_eq!(shown.to_ascii_lowercase(), want.to_ascii_lowercase());
        assert_eq!(shown.contains(&format!("| {name}. 60 SRV")), rtype == "SRV", "{shown}");
    }
}

#[test]
fn naptr_replacements_are_turned_back() {
    let shown =
        bench("rewrite name suffix .auto.test .int.test answer auto").now("naptr.auto.test NAPTR");
    // 1 2 u s r www.auto.test.
    assert!(shown.contains("0001000201750173017203777777046175746f047465737400"), "{shown}");
}

#[test]
fn times_to_live_are_brought_into_a_range_in_all_sections() {
    for (range, ttls) in [
        ("30", [30, 30, 30, 30]),
        ("30-300", [60, 300, 30, 60]),
        ("100-", [100, 3600, 100, 100]),
        ("-50", [50, 50, 5, 50]),
    ] {
        let [answer, soa, ns, additional] = ttls;
        let want = format!(
            "NOERROR rd | www.int.test. {answer} A 198.51.100.1; www.int.test. {answer} A 198.51.100.2 | int.test. {soa} SOA ns1.int.test. hostmaster.int.test. 1 2 3 4 5; int.test. {ns} NS ns1.int.test. | ns1.int.test. {additional} A 198.51.100.53"
        );
        for form in [
            "www.int.test",
            "exact www.int.test",
            "prefix www",
            "suffix int.test",
            "substring int.test",
            "regex ^www",
        ] {
            all(&format!("rewrite ttl {form} {range}"), &[("www.int.test", &want)]);
        }
    }
    all(
        "rewrite ttl x.test 1",
        &[("www.int.test TXT", "NOERROR rd | www.int.test. 60 TXT \"www.int.test.\"")],
    );
}

#[test]
fn response_codes_change_with_and_without_records() {
    all(
        "rewrite rcode regex ^nope NXDOMAIN noerror
         rewrite rcode broken.a.test SERVFAIL 5
         rewrite rcode suffix .b.test 2 NXDOMAIN
         rewrite rcode broken.c.test REFUSED NXDOMAIN",
        &[
            ("nope.int.test", &format!("NOERROR rd |  | {REST}")),
            ("other.int.test", &format!("NXDOMAIN rd |  | {REST}")),
            ("broken.a.test +edns", "REFUSED rd | EDE 23 on purpose"),
            ("broken.b.test +edns", "NXDOMAIN rd"),
            ("broken.c.test", "SERVFAIL rd"),
        ],
    );
}

#[test]
fn rules_before_and_behind_a_failure_are_undone() {
    let bench = bench(
        "rewrite continue name a.test broken.a.test\n rewrite continue type A MX\n rewrite rcode broken.a.test SERVFAIL NOTIMP",
    );
    let mut x = bench.exchange("a.test");
    assert_eq!(engine::testing::show(&bench.serve(&mut x)), "NOTIMP rd");
    assert_eq!((x.request().name.to_string().as_str(), x.request().rtype), ("a.test.", rtype::A));
}

#[test]
fn an_aliases_target_is_replaced_and_looked_up() {
    let records = r#"backend {
        answer "a.test. 60 CNAME b.test."
        answer "b.test. 60 CNAME c.test."
        answer "c.test. 60 A 198.51.100.3"
        answer "new.test. 60 CNAME last.test."
        answer "last.test. 60 A 198.51.100.9"
        authority "test. 5 NS ns.test."
    }"#;
    let first = "NOERROR rd | a.test. 60 CNAME b.test.; b.test. 60 CNAME new.test.; new.test. 60 CNAME last.test.; last.test. 60 A 198.51.100.9 | test. 5 NS ns.test.";
    for rule in [
        "C.test new.test",
        "exact c.test new.test",
        "prefix c.t new.t",
        "suffix c.test. new.test.",
        "substring c. new.",
        r"regex ^C\.(\S+)\.$ new.{1}",
    ] {
        let bench = Bench::new(CHAIN, &format!("test {{\n rewrite cname {rule}\n {records}\n}}\n"));
        assert_eq!(bench.now("a.test"), first, "{rule}");
        assert_eq!(
            bench.now("c.test"),
            "NOERROR rd | c.test. 60 A 198.51.100.3 | test. 5 NS ns.test."
        );
    }
    // A look-up that fails leaves the reply as it was; so does a target that is no name.
    let whole = "NOERROR rd | a.test. 60 CNAME b.test.; b.test. 60 CNAME c.test.; c.test. 60 A 198.51.100.3 | test. 5 NS ns.test.";
    for rule in [
        "c.test broken.test",
        "c.test elsewhere.org",
        "prefix c.test. a..b.",
        "suffix c.test x.test",
    ] {
        let bench = Bench::new(CHAIN, &format!("test {{\n rewrite cname {rule}\n {records}\n}}\n"));
        assert_eq!(bench.now("a.test"), whole, "{rule}");
    }
    // The rules before it are undone after the look-up, which meets the rules itself.
    let rules = "rewrite continue name x.test a.test\n rewrite continue ttl a.test 7\n rewrite continue cname c.test new.test\n rewrite type MX A";
    let bench = Bench::new(CHAIN, &format!("test {{\n {rules}\n {records}\n}}\n"));
    assert_eq!(
        bench.now("x.test MX"),
        "NOERROR rd | x.test. 7 CNAME b.test.; b.test. 7 CNAME new.test.; new.test. 7 CNAME last.test.; last.test. 7 A 198.51.100.9 | test. 7 NS ns.test.",
    );
}

#[test]
fn options_are_set_appended_replaced_and_unset() {
    for (rule, line, want) in [
        ("local set 0xffee abcd", "", "4096 65518:61626364"),
        ("local set 0xffee abcd", "+bufsize=1232", "1232 65518:61626364"),
        ("LOCAL SET 65518 0x6162", "+opt=65518:0102", "1232 65518:6162"),
        ("local append 0o177756 0x6162", "", "4096 65518:6162"),
        ("local append 0xffee 0x6162", "+opt=65518:0102", "1232 65518:0102"),
        ("local replace 0xffee 0x6162", "", "4096"),
        ("local replace 0xffee 0x6162", "+opt=65518:0102", "1232 65518:6162"),
        ("local unset 0xffee", "+opt=65518:0102", "1232"),
        ("local set 0xffee {qname}", "", "4096 65518:772e746573742e"),
        ("local set 0xffee {qtype}", "", "4096 65518:000a"),
        ("local set 0xffee {client_ip}", "", "4096 65518:7f050607"),
        ("local set 0xffee {client_port}", "", "4096 65518:9c40"),
        ("local set 0xffee {protocol}", "+tcp", "4096 65518:746370"),
        ("local set 0xffee {server_ip}", "", "4096 65518:7f000001"),
        ("local set 0xffee {server_port}", "", "4096 65518:0035"),
        ("local set 0xffee {forward/none}", "", ""),
        ("nsid set", "", "4096 3:"),
        ("nsid set", "+opt=3:6162", "1232 3:"),
        ("nsid replace", "", "4096"),
        ("nsid unset", "+opt=3:", "1232"),
        ("subnet set 24 56", "", "4096 8:000118007f0506"),
        ("subnet set 20 56", "", "4096 8:000114007f0500"),
        ("subnet set 0 56", "", "4096 8:00010000"),
        ("subnet append 24 56", "+opt=8:00011800cb0071", "1232 8:00011800cb0071"),
        ("subnet replace 24 56", "+opt=8:00011800cb0071", "1232 8:000118007f0506"),
        ("subnet unset", "+opt=8:00011800cb0071", "1232"),
    ] {
        let mut bench = bench(&format!("rewrite edns0 {rule}"));
        bench.from([127, 5, 6, 7].into());
        let shown = bench.now(&format!("w.test NULL {line}"));
        let text = shown.split('"').nth(1).unwrap_or(&shown);
        assert_eq!(text, want, "{rule} {line}");
    }
    let mut bench =
        bench("rewrite continue edns0 subnet set 24 52\n rewrite edns0 local set 1 {client_ip}");
    bench.from("2001:db8:1:2345::1".parse().unwrap());
    let shown = bench.now("w.test NULL");
    assert!(shown.contains("8:0002340020010db8000120"), "{shown}");
    bench.from("::ffff:127.0.0.9".parse().unwrap());
    let shown = bench.now("w.test NULL");
    assert!(shown.contains("8:000118007f0000 1:7f000009"), "{shown}");
}

#[test]
fn options_of_the_reply_are_undone_on_demand_and_there_is_no_record_for_those_who_have_none() {
    for (rule, line, want) in [
        ("local set 0xffee ab", "", "NOERROR rd | w.test. 60 TXT \"4096 65518:6162\""),
        (
            "local set 0xffee ab",
            "+edns",
            "NOERROR rd | w.test. 60 TXT \"1232 65518:6162\" | OPT 65518 6162",
        ),
        ("local set 0xffee ab revert", "+edns", "NOERROR rd | w.test. 60 TXT \"1232 65518:6162\""),
        (
            "local set 0xffee ab revert",
            "+opt=65518:01",
            "NOERROR rd | w.test. 60 TXT \"1232 65518:6162\" | OPT 65518 01",
        ),
        ("nsid set revert", "+opt=3:ab", "NOERROR rd | w.test. 60 TXT \"1232 3:\" | OPT 3 ab"),
        ("subnet set 8 8 revert", "+edns", "NOERROR rd | w.test. 60 TXT \"1232 8:000108007f\""),
    ] {
        assert_eq!(
            bench(&format!("rewrite edns0 {rule}")).now(&format!("w.test NULL {line}")),
            want,
            "{rule} {line}"
        );
    }
}

#[test]
fn an_option_that_was_not_changed_lets_the_next_rule_run() {
    names(
        "rewrite edns0 local replace 1 a
         rewrite edns0 local set 1 {none/such}
         rewrite name a.test b.test",
        &[("a.test", "b.test.")],
    );
}

#[test]
fn wrong_rules_are_refused() {
    for (rule, wrong) in [
        ("", "Wrong argument count or unexpected line ending after 'rewrite'"),
        ("name", "Wrong argument count or unexpected line ending after 'name'"),
        ("name a", "Wrong argument count or unexpected line ending after 'a'"),
        ("continue", "Wrong argument count or unexpected line ending after 'continue'"),
        ("foo a b", "'foo' is no rule"),
        ("stop answer a b", "'answer' cannot begin a rule"),
        ("name exakt a b", "'exakt' is no way to match names"),
        ("name a b answer auto", "'a' is no way to match names"),
        ("name exact a b c d", "Wrong argument count: 'c' is one too many"),
        ("name exact a..b c", "'a..b' is not a domain name"),
        ("name suffix .a. ..", "'..' is not the end of a domain name"),
        ("name regex ( b", "'(' is no regular expression: unclosed group"),
        (
            "name regex (a) {2}",
            "'{2}' uses the group {2}, which the regular expression does not have",
        ),
        ("name suffix a b answer", "Wrong argument count or unexpected line ending after 'answer'"),
        ("name suffix a b answer foo", "'foo' is no way to rewrite an answer"),
        (
            "name suffix a b answer name x",
            "Wrong argument count or unexpected line ending after 'x'",
        ),
        ("name suffix a b answer name ( y", "'(' is no regular expression: unclosed group"),
        (
            "name suffix a b answer auto name x y",
            "'auto' excludes a rule 'answer name': take one of the two away",
        ),
        ("type BOGUS A", "'BOGUS' is no record type"),
        ("type A", "Wrong argument count or unexpected line ending after 'A'"),
        ("type A AAAA MX", "Wrong argument count: 'MX' is one too many"),
        ("class XX IN", "'XX' is no class"),
        ("ttl a.test -", "'-' is no time to live, and no range of them"),
        ("ttl a.test 300-30", "'300-30' is no time to live, and no range of them"),
        ("ttl a.test 1-2-3", "'1-2-3' is no time to live, and no range of them"),
        ("ttl a.test +5", "'+5' is no time to live, and no range of them"),
        ("ttl foo a.test 5", "'foo' is no way to match names"),
        ("ttl exact a.test 5 6", "Wrong argument count: '6' is one too many"),
        ("rcode a.test BOGUS NOERROR", "'BOGUS' is no response code"),
        ("rcode a.test 24 0", "'24' is no response code"),
        ("rcode a.test 1", "Wrong argument count or unexpected line ending after '1'"),
        ("cname a.test", "Wrong argument count or unexpected line ending after 'a.test'"),
        ("cname regex ( a", "'(' is no regular expression: unclosed group"),
        ("edns0 local", "Wrong argument count or unexpected line ending after 'local'"),
        ("edns0 local add 1 a", "'add' is nothing to do with an option"),
        ("edns0 foo set 1 a", "'foo' is no kind of option"),
        ("edns0 local set zz x", "'zz' is no option code"),
        ("edns0 local set 65536 x", "'65536' is no option code"),
        ("edns0 local set 1 0xabc", "'0xabc' is no hexadecimal number"),
        ("edns0 local set 1 {nope}", "'{nope}' is no variable"),
        ("edns0 local set 1 {/nope}", "'{/nope}' is no variable"),
        ("edns0 local unset 1 a", "Wrong argument count: 'a' is one too many"),
        ("edns0 local unset 1 revert", "Wrong argument count: 'revert' is one too many"),
        ("edns0 nsid set a", "Wrong argument count: 'a' is one too many"),
        ("edns0 subnet set 33 56", "'33' is no number of bits"),
        ("edns0 subnet set 24 129", "'129' is no number of bits"),
        ("edns0 subnet set 24", "Wrong argument count or unexpected line ending after '24'"),
    ] {
        let text = Bench::refused(CHAIN, &format!(". {{\n rewrite {rule}\n backend\n}}\n"));
        assert!(text.starts_with(&format!("plugin/rewrite: {wrong}")), "{rule}: {text}");
    }
}
