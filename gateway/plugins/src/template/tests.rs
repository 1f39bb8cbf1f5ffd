//! Templates, each with the reply that it makes.

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Plugin, Step};

use crate::shared::testing::ANSWERS;

/// Turns metadata on, and gives `meta/label`.
static METADATA: Descriptor = Descriptor {
    name: "meta",
    readme: "",
    setup: |setup| {
        setup.enable_metadata(setup.zones().to_vec());
        setup.provide(Label);
        setup.install(Nothing);
        Ok(())
    },
};

/// Does nothing.
#[derive(Debug)]
struct Nothing;

impl Plugin for Nothing {
    fn query(&self, _: &mut Exchange) -> Step {
        Step::Next
    }
}

/// A label.
#[derive(Debug)]
struct Label;

impl engine::Provider for Label {
    fn metadata(&self, _: &Exchange, label: &str, out: &mut String) -> Option<()> {
        (label == "label").then(|| out.push_str("value"))
    }
}

/// Lets all classes in.
static CLASSES: Descriptor = Descriptor {
    name: "classes",
    readme: "",
    setup: |setup| {
        setup.allow_classes();
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&CLASSES, &METADATA, &super::PLUGIN, &ANSWERS];

/// Asks each question of a table.
fn all(block: &str, table: &[(&str, &str)]) {
    let bench = Bench::new(CHAIN, &format!(". {{\n{block}\n}}\n"));
    for (line, want) in table {
        assert_eq!(bench.now(line), *want, "{line}\n{block}");
    }
}

#[test]
fn records_are_made_from_groups_names_and_numbers() {
    all(
        r#"template IN A example {
            match (^|[.])ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$
            answer "{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
            fallthrough
        }
        template IN MX example {
            match ^ip-10-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$
            answer "{{ .Name }} 60 IN MX 10 {{ .Name }}"
            authority "example. 60 IN NS ns0.example."
            additional "{{ .Name }} 60 IN A 10.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
            fallthrough
        }
        template IN A hex {
            match "^ip0a(?P<b>[a-f0-9]{2})(?P<c>[a-f0-9]{2})(?P<d>[a-f0-9]{2})[.]hex[.]$"
            answer "{{ .Name }} 60 IN A 10.{{ parseInt .Group.b 16 8 }}.{{ parseInt .Group.c 16 8 }}.{{ parseInt .Group.d 16 8 }}"
        }
        template IN A two {
            match "^a(?P<n>[0-9])[.]two[.]$" "^b(?P<n>[0-9])[.]two[.]$"
            answer "{{ .Name }} 1 IN A 198.51.100.{{ .Group.n }}" "{{ .Name }} 1 IN A 203.0.113.{{ index .Match 1 }}"
            fallthrough
        }
        template IN A dflt {
            answer "{{ .Name }} IN A 198.51.100.1"
        }
        template IN SRV cond {
            answer "{{ if eq .Name \"a.cond.\" }}{{ .Name }} 7 IN SRV 1 2 3 t.cond{{ end }}"
        }
        answers"#,
        &[
            ("ip-10-1-2-3.example", "NOERROR aa rd | ip-10-1-2-3.example. 60 A 10.1.2.3"),
            ("foo.ip-10-1-2-3.example", "NOERROR aa rd | foo.ip-10-1-2-3.example. 60 A 10.1.2.3"),
            (
                "ip-10-1-2-3.example MX",
                "NOERROR aa rd | ip-10-1-2-3.example. 60 MX 10 ip-10-1-2-3.example. | example. 60 NS ns0.example. | ip-10-1-2-3.example. 60 A 10.1.2.3",
            ),
            ("ip0a010aff.hex", "NOERROR aa rd | ip0a010aff.hex. 60 A 10.1.10.255"),
            ("a1.two", "NOERROR aa rd | a1.two. 1 A 198.51.100.1; a1.two. 1 A 203.0.113.1"),
            ("b2.two", "NOERROR aa rd | b2.two. 1 A 198.51.100.2; b2.two. 1 A 203.0.113.2"),
            ("x.dflt", "NOERROR aa rd | x.dflt. 3600 A 198.51.100.1"),
            ("a.cond SRV", "NOERROR aa rd | a.cond. 7 SRV 1 2 3 t.cond."),
            ("b.cond SRV", "NOERROR aa rd"),
            ("x.cond", "NOERROR aa rd | x.cond. 30 A 198.51.100.1"),
        ],
    );
}

#[test]
fn what_is_not_matched_falls_through_or_fails_at_once() {
    let block = |fallthrough: &str| {
        format!(
            "template IN A lan.test {{
                match \"^host-(?P<n>[0-9]+)[.]lan[.]test[.]$\"
                answer \"{{{{ .Name }}}} 60 IN A 198.51.100.{{{{ .Group.n }}}}\"
                {fallthrough}
            }}
            answers"
        )
    };
    all(
        &block(""),
        &[
            ("host-7.lan.test", "NOERROR aa rd | host-7.lan.test. 60 A 198.51.100.7"),
            ("foo.lan.test", "SERVFAIL rd"),
            ("host-999.lan.test", "SERVFAIL rd"),
            // Another type, class or zone is none of its business.
            ("refused.lan.test AAAA", "REFUSED rd"),
            ("refused.test", "REFUSED rd"),
        ],
    );
    all(
        &block("fallthrough"),
        &[("refused.lan.test", "REFUSED rd"), ("host-999.lan.test", "SERVFAIL rd")],
    );
    all(
        &block("fallthrough sub.lan.test"),
        &[("refused.sub.lan.test", "REFUSED rd"), ("refused.lan.test", "SERVFAIL rd")],
    );
    // Behind the last there is nothing.
    let bench = Bench::new(CHAIN, ". {\n template IN A a.test {\n match x\n fallthrough\n }\n}\n");
    assert_eq!(bench.now("b.a.test"), "SERVFAIL rd");
}

#[test]
fn the_name_is_matched_in_lower_case_and_echoed_as_it_came() {
    let bench = Bench::new(
        CHAIN,
        ". {\n template IN TXT {\n match ^host-(.)[.]\n answer \"{{ .Name }} 5 IN TXT {{ index .Match 1 }} {{ .Question.Name }}\"\n }\n}\n",
    );
    let mut x = bench.exchange("host-a.test TXT");
    x.query.wire[13..19].copy_from_slice(b"HOST-A");
    assert_eq!(
        engine::testing::show(&bench.serve(&mut x)),
        "NOERROR aa rd | HOST-A.test. 5 TXT \"a\" \"HOST-A.test.\""
    );
}

#[test]
fn fields_tell_of_the_query() {
    all(
        r#"meta
        template ANY ANY a.test {
            match "^(?P<x>[a-z]+)[.](b)?"
            answer "{{ .Name }} 5 CH TXT \"{{ .Zone }}|{{ .Class }}|{{ .Type }}|{{ .Remote }}|{{ .Regex }}|{{ .Match }}|{{ .Group }}|{{ .Group.x }}{{ index .Group \"2\" }}|{{ .Question.Qtype }} {{ .Question.Qclass }}\""
        }
        template IN TXT b.test {
            answer "{{ .Name }} 5 IN TXT {{ .Message.Id }} {{ .Message.RecursionDesired }} {{ .Message.CheckingDisabled }} {{ (index .Message.Question 0).Name }} {{ .Meta \"meta/label\" }}{{ .Meta \"no/such\" }}"
        }
        classes"#,
        &[
            (
                "www.a.test HS MX",
                "NOERROR aa rd | www.a.test. 5 CH TXT \"a.test.|HS|MX|127.0.0.1|^(?P<x>[a-z]+)[.](b)?|[www. www ]|map[0:www. 1:www 2: x:www]|www|15 4\"",
            ),
            (
                "www.a.test CLASS255 ANY",
                "NOERROR aa rd | www.a.test. 5 CH TXT \"a.test.|ANY|ANY|127.0.0.1|^(?P<x>[a-z]+)[.](b)?|[www. www ]|map[0:www. 1:www 2: x:www]|www|255 255\"",
            ),
            (
                "x.b.test TXT +cd",
                "NOERROR aa rd cd | x.b.test. 5 TXT \"10794\" \"true\" \"true\" \"x.b.test.\" \"value\"",
            ),
            (
                "x.b.test ANY",
                "NOERROR aa rd | x.b.test. 5 TXT \"10794\" \"true\" \"false\" \"x.b.test.\" \"value\"",
            ),
        ],
    );
}

#[test]
fn codes_and_extended_errors_are_set() {
    all(
        r#"template ANY ANY invalid {
            rcode NXDOMAIN
            authority "invalid. 60 {{ .Class }} SOA ns.invalid. hostmaster.invalid. (1 60 60 60 60)"
            ederror 21 "Blocked"
        }
        template IN A servfail {
            rcode SERVFAIL
            answer "{{ .Name }} A 198.51.100.1"
        }
        template IN A refused {
            rcode refused
            ederror 15
        }"#,
        &[
            (
                "a.invalid MX",
                "NXDOMAIN aa rd |  | invalid. 60 SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60",
            ),
            (
                "a.invalid +edns",
                "NXDOMAIN aa rd |  | invalid. 60 SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60 | EDE 21 Blocked",
            ),
            ("a.servfail", "SERVFAIL rd"),
            ("a.refused +edns", "REFUSED aa rd | EDE 15 "),
        ],
    );
}

#[test]
fn conditions_and_variables_decide_and_fill_in() {
    all(
        r#"template IN A a.test {
            match ^(?P<n>[0-9]+)[.]
            var number int(group('n'))
            var half number / 2
            expr number > 1
            expr number < 100
            answer "{{ .Name }} 5 IN A 198.51.100.{{ .Var.number }}"
            answer "{{ .Name }} 5 IN A 198.51.101.{{ printf \"%.0f\" .Var.half }}"
            fallthrough
        }
        template IN A a.test {
            match .*
            expr int(group(0)) > 0
            answer "{{ .Name }} 5 IN A 198.51.100.1"
            fallthrough
        }
        answers"#,
        &[
            (
                "10.a.test",
                "NOERROR aa rd | 10.a.test. 5 A 198.51.100.10; 10.a.test. 5 A 198.51.101.5",
            ),
            // The condition of the first does not hold, that of the second cannot be found out.
            ("1.a.test", "SERVFAIL rd"),
        ],
    );
}

#[test]
fn targets_of_aliases_are_looked_up_for_addresses() {
    let block = r#"template IN ANY alias {
            answer "{{ .Name }} 60 IN CNAME a1.two." "x.alias. 60 IN CNAME a2.two." "x.alias. 60 IN A 198.51.100.9"
            authority "alias. 5 IN NS ns.alias."
        }
        template IN A two {
            match ^a(.)
            answer "{{ .Name }} 1 IN A 203.0.113.{{ index .Match 1 }}"
        }
        template IN A lost {
            answer "{{ .Name }} 60 IN CNAME nowhere.two."
        }
        template IN A loop {
            answer "{{ .Name }} 60 IN CNAME x.loop."
        }
        "#;
    let bench = Bench::new(CHAIN, &format!("alias two lost loop {{\n{block}\n}}\n"));
    for (line, want) in [
        (
            "q.alias",
            "NOERROR aa rd | q.alias. 60 CNAME a1.two.; x.alias. 60 CNAME a2.two.; x.alias. 60 A 198.51.100.9; a1.two. 1 A 203.0.113.1; a2.two. 1 A 203.0.113.2 | alias. 5 NS ns.alias.",
        ),
        (
            "q.alias TXT",
            "NOERROR aa rd | q.alias. 60 CNAME a1.two.; x.alias. 60 CNAME a2.two.; x.alias. 60 A 198.51.100.9 | alias. 5 NS ns.alias.",
        ),
        ("q.lost", "NOERROR aa rd | q.lost. 60 CNAME nowhere.two."),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    // A loop ends.
    assert!(bench.now("q.loop").starts_with("NOERROR aa rd | q.loop. 60 CNAME x.loop."));
}

#[test]
fn failures_are_counted_and_told() {
    let bench = Bench::new(
        CHAIN,
        r#"zone.count:1053 {
            template IN ANY zone.count {
                match ^ok
                answer "{{ .Name }} 60 IN TXT ok"
                fallthrough
            }
            template IN TXT zone.count {
                match ^index
                answer "{{ index .Match 5 }}"
                fallthrough
            }
            template IN TXT zone.count {
                additional "{{ .Name }} 60 IN A x"
            }
        }"#,
    );
    for (line, want) in [
        ("ok.zone.count TXT", "NOERROR aa rd | ok.zone.count. 60 TXT \"ok\""),
        ("ok.zone.count TYPE65300", "NOERROR aa rd | ok.zone.count. 60 TXT \"ok\""),
        ("ok.zone.count TYPE65301", "NOERROR aa rd | ok.zone.count. 60 TXT \"ok\""),
        ("index.zone.count TXT", "SERVFAIL rd"),
        ("record.zone.count TXT", "SERVFAIL rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    let metrics = engine::metrics::render();
    for line in [
        r#"coredns_template_matches_total{class="IN",server="dns://:1053",type="TXT",view="",zone="zone.count."} 3"#,
        r#"coredns_template_matches_total{class="IN",server="dns://:1053",type="other",view="",zone="zone.count."} 2"#,
        r#"coredns_template_template_failures_total{class="IN",section="answer",server="dns://:1053",template="{{ index .Match 5 }}",type="TXT",view="",zone="zone.count."} 1"#,
        r#"coredns_template_rr_failures_total{class="IN",section="additional",server="dns://:1053",template="{{ .Name }} 60 IN A x",type="TXT",view="",zone="zone.count."} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let mut x = bench.exchange("record.zone.count TXT");
    bench.serve(&mut x);
    assert_eq!(
        x.detail(),
        "additional record 'record.zone.count. 60 IN A x': A: 'x' is no IPv4 address"
    );
}

#[test]
fn wrong_templates_are_refused() {
    for (template, wrong) in [
        (
            "template",
            "Wrong argument count or unexpected line ending after 'template' (write: template CLASS TYPE [ZONES…] { … })",
        ),
        ("template IN", "Wrong argument count or unexpected line ending after 'IN'"),
        ("template XX A", "'XX' is no class"),
        ("template IN BOGUS", "'BOGUS' is no record type"),
        ("template IN A {\n foo\n }", "'foo' is not a property"),
        (
            "template IN A {\n match\n }",
            "Wrong argument count or unexpected line ending after 'match' (write: match REGEX…)",
        ),
        ("template IN A {\n match (\n }", "'(' is no regular expression: unclosed group"),
        (
            "template IN A {\n answer\n }",
            "Wrong argument count or unexpected line ending after 'answer'",
        ),
        (
            "template IN A {\n answer \"{{ .Name\"\n }",
            "the template of the answer is wrong at character 1: braces are not closed",
        ),
        (
            "template IN A {\n answer \"x {{ nofunc 1 }}\"\n }",
            "the template of the answer is wrong at character 6: function \"nofunc\" not defined",
        ),
        (
            "template IN A {\n authority \"{{ .Nmae }}\"\n }",
            "the template of the authority is wrong at character 4: there is no field .Nmae, did you mean .Name?",
        ),
        (
            "template IN A {\n answer \"{{ .Question.Nmae }}\"\n }",
            "the template of the answer is wrong at character 4: there is no field .Question.Nmae",
        ),
        (
            "template IN A {\n answer \"{{ .Var.x }}\"\n }",
            "the template of the answer is wrong at character 4: there is no variable x",
        ),
        ("template IN A {\n rcode FOO\n }", "'FOO' is no response code"),
        (
            "template IN A {\n rcode\n }",
            "Wrong argument count or unexpected line ending after 'rcode'",
        ),
        (
            "template IN A {\n ederror 99999\n }",
            "'99999' is wrong: number too large to fit in target type",
        ),
        ("template IN A {\n ederror 1 a b\n }", "Wrong argument count: 'b' is one too many"),
        (
            "template IN A {\n expr name()\n }",
            "the expression gives a value of type string, which is never true",
        ),
        ("template IN A {\n expr x > 1\n }", "unknown name x in the expression x > 1"),
        ("template IN A {\n var name 1\n }", "'name' cannot be the name of a variable"),
        ("template IN A {\n var in 1\n }", "'in' cannot be the name of a variable"),
        ("template IN A {\n var 1x 1\n }", "'1x' cannot be the name of a variable"),
        ("template IN A {\n var x\n }", "Wrong argument count or unexpected line ending after 'x'"),
        (
            "template IN A {\n var x group('a') + 1\n }",
            "'+' does not go between the types string and int",
        ),
    ] {
        let text = Bench::refused(CHAIN, &format!(". {{\n {template}\n}}\n"));
        assert!(text.starts_with(&format!("plugin/template: {wrong}")), "{template}: {text}");
    }
}

#[test]
fn an_old_word_is_passed_over() {
    for line in ["upstream", "upstream 127.0.0.1:53 ::1"] {
        let block = format!(
            "template IN A a.test {{\n answer \"{{{{ .Name }}}} 5 IN A 198.51.100.1\"\n {line}\n }}"
        );
        all(&block, &[("x.a.test", "NOERROR aa rd | x.a.test. 5 A 198.51.100.1")]);
    }
}
