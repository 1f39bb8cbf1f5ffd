//! The grammar, in tables. Each row names the rule that it shows.

use super::*;
use std::collections::BTreeMap;

/// The variables of the tests.
fn variable(name: &str) -> Option<String> {
    let value = match name {
        "ZONE" => "env.test",
        "PATTERN" => "conf.d/*.conf",
        "WORD" => "two words",
        "NEST" => "{$ZONE}",
        "SELF" => "x{$SELF}",
        "BRACE" => "{",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Reads a text beside some files.
fn read(text: &str, files: &[(&str, &str)]) -> Result<Corefile, Vec<Diagnostic>> {
    parse(Path::new("etc/Corefile"), text, &variable, &files.iter().copied().collect::<Memory>())
}

/// Writes blocks so that tables can hold them: keys, then directives with their words quoted where they need it.
fn show(blocks: &[Block]) -> String {
    let keys = |block: &Block| -> Vec<String> {
        block
            .keys
            .iter()
            .map(|key| {
                let scheme =
                    if key.scheme_given { format!("{}://", key.scheme) } else { String::new() };
                let port = key.port.map(|port| format!(":{port}")).unwrap_or_default();
                scheme + &key.zone + &port
            })
            .collect()
    };
    let blocks: Vec<_> = blocks
        .iter()
        .map(|block| format!("{} [{}]", keys(block).join(" "), lines(&block.directives)))
        .collect();
    blocks.join(" ")
}

/// Writes lines.
fn lines(lines: &[Directive]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| {
            let words: Vec<_> = std::iter::once(&line.name)
                .chain(&line.args)
                .map(|word| {
                    let plain = !word.text.is_empty() && !word.text.contains([' ', '\n', ';']);
                    if plain { word.text.clone() } else { format!("<{}>", word.text) }
                })
                .collect();
            let block = line.block.as_deref().map(|block| format!(" {{{}}}", self::lines(block)));
            words.join(" ") + &block.unwrap_or_default()
        })
        .collect();
    lines.join("; ")
}

/// Checks a table of texts that are accepted.
fn accepted(table: &[(&str, &str, &str)]) {
    for (rule, text, expected) in table {
        match read(text, &[]) {
            Ok(corefile) => assert_eq!(show(&corefile.blocks), *expected, "{rule}: {text:?}"),
            Err(errors) => panic!("{rule}: {text:?} is refused: {errors:#?}"),
        }
    }
}

/// Checks a table of texts that are refused: `line:column what`, of each error the beginning, separated by `|`.
fn refused(table: &[(&str, &str, &str)]) {
    for (rule, text, expected) in table {
        let errors = read(text, &[]).expect_err(rule);
        same_errors(rule, &errors, expected);
    }
}

/// Compares errors with what a table says of them.
fn same_errors(rule: &str, errors: &[Diagnostic], expected: &str) {
    let expected: Vec<_> = expected.split(" | ").collect();
    assert_eq!(errors.len(), expected.len(), "{rule}: {errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        let place = error.place.as_ref().map(|place| format!("{}:{} ", place.line, place.column));
        let text = place.unwrap_or_default() + &error.what;
        assert!(text.starts_with(expected), "{rule}: {text:?} does not begin with {expected:?}");
    }
}

#[test]
fn words_are_split_as_in_coredns() {
    accepted(&[
        ("cf.tokens", ". {\n a  b\tc\u{b}d\u{a0}e\n}", ". [a b c d e]"),
        ("cf.tokens: quotes", ". {\n a \"b c\" d\"e f\"\n}", ". [a <b c> d\"e f\"]"),
        ("cf.tokens: a quote ends the word", ". {\n a \"b\"c\"d\"\n}", ". [a b c\"d\"]"),
        (
            "cf.tokens: only quotes are escaped",
            r#". {
 a "b\"c" "d\\e" "\n" f\"g
}"#,
            r#". [a b"c d\\e \n f\"g]"#,
        ),
        ("cf.tokens: quotes span lines", ". {\n a \"b\nc\" d\n e\n}", ". [a <b\nc> d; e]"),
        ("cf.tokens: single quotes", ". {\n a 'b c'\n}", ". [a 'b c']"),
        ("cf.comment", "# x\n. { # y\n a b#c d\n \"#e\" # f\n}", ". [a b; #e]"),
        ("cf.comment at the end", ". {\n a\n}\n# end", ". [a]"),
        ("cf.bom.cr", "\u{feff}.:53 {\r\n a b\rc\r\n}\r\n", ".:53 [a bc]"),
        ("cf.bom.cr in quotes", ". {\n a \"b\rc\"\n}", ". [a b\rc]"),
        ("cf.emptyword", "\"\" a.test \"\" {\n x \"\" y\n}", "a.test. [x <> y]"),
    ]);
}

#[test]
fn blocks_have_braces_or_none() {
    accepted(&[
        (
            "cf.block",
            "a.test b.test {\n x\n y z\n}\nc.test {\n}",
            "a.test. b.test. [x; y z] c.test. []",
        ),
        ("cf.block: brace on the next line", "a.test\n\n{\n x\n}", "a.test. [x]"),
        ("cf.block: directive behind the brace", "a.test { x\n}", "a.test. [x]"),
        ("cf.block: empty on one line", "a.test { } b.test { }", "a.test. [] b.test. []"),
        ("cf.block.nobrace", "a.test b.test\nx y\nz {\n w\n}\n", "a.test. b.test. [x y; z {w}]"),
        ("cf.key.only", "a.test b.test", "a.test. b.test. []"),
        ("cf.directive.repeat", ". {\n a 1\n b\n a 2\n}", ". [a 1; b; a 2]"),
        (
            "cf.subblock",
            ". {\n a b {\n  c d\n  e\n }\n f { g\n }\n h { }\n}",
            ". [a b {c d; e}; f {g}; h {}]",
        ),
        ("cf.subblock: on one line", ". {\n a b { c d }\n e\n}", ". [a b {c d}; e]"),
        ("cf.subblock: shared brace", ". {\n a {\n  b c }\n}", ". [a {b c}]"),
        ("cf.subblock in a block", ". {\n a {\n  b {\n   c\n  }\n  d\n }\n}", ". [a {b {c}; d}]"),
        (
            "cf.subblock: names of lines are free",
            ". {\n hosts {\n  203.0.113.1 a b\n }\n}",
            ". [hosts {203.0.113.1 a b}]",
        ),
        ("a block without keys is left out", "{\n a\n}\nb.test {\n c\n}", "b.test. [c]"),
    ]);
    refused(&[
        ("cf.block: one line", ". { whoami }", "1:12 Unexpected '}' behind 'whoami'"),
        ("cf.block: open", ". {\n whoami\n", "1:3 Unexpected EOF, expecting '}'"),
        ("cf.block: not open", ".\n whoami\n}\n", "3:1 Unexpected '}': no block is open"),
        (
            "cf.block: glued brace",
            ".:53{\n whoami\n}",
            "1:1 '.:53{' is no zone | 3:1 Unexpected '}'",
        ),
        (
            "cf.subblock: open",
            ". {\n a {\n b\n",
            "2:4 Unexpected EOF, expecting '}': the block of 'a' | 1:3 Unexpected EOF",
        ),
        (
            "cf.subblock: next line",
            ". {\n a\n {\n b\n }\n}",
            "3:2 Unexpected token '{': the block of 'a' opens on another line",
        ),
        (
            "cf.subblock: two braces",
            ". {\n a {\n  b\n } }\n",
            "4:4 Unexpected token '}' behind the block of 'a'",
        ),
        (
            "cf.subblock: words behind",
            ". {\n a {\n  b\n } c d\n e\n}",
            "4:4 Unexpected token 'c' behind the block of 'a'",
        ),
        (
            "cf.opensyntax",
            ". {\n {\n a\n }\n b\n}",
            "2:2 Syntax error: Unexpected token '{', expecting a directive",
        ),
        (
            "cf.opensyntax",
            ". {\n a {\n  {\n  }\n }\n}",
            "3:3 Syntax error: Unexpected token '{', expecting a property of 'a'",
        ),
        ("cf.tokens: open quote", ". {\n a \"b\n}\n", "2:4 Unexpected EOF: the quote"),
        ("cf.tokens: open quote", ".\na \"b", "2:3 Unexpected EOF: the quote"),
    ]);
}

#[test]
fn keys_have_schemes_zones_and_ports() {
    accepted(&[
        ("cf.key.form", "Example.ORG example.com.:54 {\n}", "example.org. example.com.:54 []"),
        ("cf.key.form: root", ". {\n}\n:53 {\n}\ndns://:54 {\n}", ". [] .:53 [] dns://.:54 []"),
        (
            "cf.key.form: schemes",
            "dns://a tls://b quic://c grpc://d https://e https3://f:1 unix://g {\n}",
            "dns://a. tls://b. quic://c. grpc://d. https://e. https3://f.:1 unix://g. []",
        ),
        ("cf.key.form: no number is no port", "a.test:abc {\n}", "a.test:abc. []"),
        ("cf.key.form: escapes", "a\\.b.test \\065.test {\n}", "a\\.b.test. \\065.test. []"),
        (
            "cf.key.form: underscores and stars",
            "_x.test *.test xn--bcher-kva.test {\n}",
            "_x.test. *.test. xn--bcher-kva.test. []",
        ),
        ("cf.key.form: an address is a name", "10.0.0.1 {\n}", "10.0.0.1. []"),
        (
            "cf.keys.comma",
            "a.test:1,\nb.test,c.test, d.test {\n x\n}",
            "a.test.:1 b.test,c.test. d.test. [x]",
        ),
        ("cf.keys.comma: empty word", "a.test, \"\"\nb.test {\n}", "a.test. b.test. []"),
        ("cf.key.cidr", "10.0.0.0/8:53 {\n}", "10.in-addr.arpa.:53 []"),
        ("cf.key.cidr: port", "10.0.0.0/24:1053 {\n}", "0.0.10.in-addr.arpa.:1053 []"),
        (
            "cf.key.cidr: more zones stand behind",
            "tls://10.0.0.0/15:53 b.test {\n}",
            "tls://0.10.in-addr.arpa.:53 b.test. tls://1.10.in-addr.arpa.:53 []",
        ),
        ("cf.key.cidr: host bits", "10.1.2.3/24 {\n}", "2.1.10.in-addr.arpa. []"),
        ("cf.key.cidr: six", "2001:db8::/32:53 {\n}", "8.b.d.0.1.0.0.2.ip6.arpa.:53 []"),
        ("cf.key.cidr: too long a prefix is a name", "10.0.0.0/33 {\n}", "10.0.0.0/33. []"),
        ("clusters", "cluster://Prod-1 {\n kubeconfig x\n}", "cluster://Prod-1 [kubeconfig x]"),
    ]);
    refused(&[
        ("cf.key.form: colon", "a.test: {\n}", "1:1 'a.test:' ends with a colon"),
        ("cf.key.form: scheme alone", "dns:// {\n}", "1:1 'dns://' is no key"),
        ("cf.key.form: port", ".:99999 {\n}", "1:1 '.:99999' has a wrong port"),
        ("cf.key.form: port", ".:-1 {\n}", "1:1 '.:-1' has a wrong port"),
        ("cf.key.form: name", ".:abc {\n}", "1:1 '.:abc' is no zone: it has an empty label"),
        ("cf.key.form: label", &format!("{}.test {{\n}}", "a".repeat(64)), "1:1 'aaa"),
        ("cf.key.form: length", &format!("{} {{\n}}", "a.".repeat(128)), "1:1 'a.a."),
        ("cf.key.form: scheme", "ftp://a.test {\n}", "1:1 'ftp://' is no scheme"),
        (
            "cf.key.form: letters",
            "b\u{fc}cher.test {\n}",
            "1:1 'b\u{fc}cher.test' is no zone: it has letters outside ASCII",
        ),
        ("cf.key.cidr: everything", "0.0.0.0/0 {\n}", "1:1 '0.0.0.0/0' stands for no reverse zone"),
        (
            "cf.key.cidr: short six",
            "::/8 0:1::/32 {\n}",
            "1:1 '::/8' stands for no | 1:6 '0:1::/32' stands for no",
        ),
        ("cf.keys.comma: brace", "a.test, {\n x\n}", "1:1 Unexpected token '{' after the comma"),
        ("cf.keys.comma: end", "a.test,", "1:1 Unexpected EOF after the comma"),
        ("cf.keys.comma: alone", "a.test , b.test {\n}", "1:8 '' is no key"),
        ("clusters", "cluster://a:53 {\n}", "1:1 'cluster://a:53' names no cluster"),
        ("clusters", "cluster:// {\n}", "1:1 'cluster://' names no cluster"),
        ("clusters", "cluster://a b.test {\n}", "1:1 'cluster://a' does not stand alone"),
        ("clusters", "cluster://a cluster://b {\n}", "1:1 'cluster://a' does not stand alone"),
    ]);
}

#[test]
fn variables_are_filled_in() {
    accepted(&[
        ("cf.env: keys", "{$ZONE}:53 a.{%ZONE%} {\n}", "env.test.:53 a.env.test. []"),
        (
            "cf.env: directives and words",
            ". {\n x{$ZONE} \"a {$ZONE}\" b{$ZONE}c{%ZONE%}d\n}",
            ". [xenv.test <a env.test> benv.testcenv.testd]",
        ),
        ("cf.env: blocks", ". {\n a {\n  {$ZONE} b{%ZONE%}\n }\n}", ". [a {env.test benv.test}]"),
        ("cf.env: unset", ". {\n a {$UNSET} b{%UNSET%}c\n}", ". [a <> bc]"),
        ("cf.env: not split", ". {\n a {$WORD}\n}", ". [a <two words>]"),
        ("cf.env: values are filled in too", ". {\n a {$NEST}\n}", ". [a env.test]"),
        ("cf.env: empty name", ". {\n a {$}{$ZONE} {%%} {$ZONE\n}", ". [a {$}{$ZONE} {%%} {$ZONE]"),
        ("cf.env: no default", ". {\n a {$UNSET:x}\n}", ". [a <>]"),
        ("cf.env: templates", ". {\n a \"{{$v}}\"\n}", ". [a {}]"),
        ("cf.env: a brace in a value is a word", ". {\n a {$BRACE} b\n}", ". [a { b]"),
    ]);
    refused(&[(
        "cf.env: endless",
        ". {\n a {$SELF}\n}",
        "2:4 the environment variables in '{$SELF}'",
    )]);
}

#[test]
fn imports_are_put_in_their_place() {
    let files = [
        ("etc/common.conf", "hosts {\n 203.0.113.1 a\n}\n"),
        ("etc/words.conf", "c d\ne"),
        ("etc/keys.txt", "k1.test k2.test"),
        ("etc/conf.d/20-b.conf", "b.test {\n import ../nested/one.conf\n}"),
        ("etc/conf.d/10-a.conf", "a.test {\n x\n}"),
        ("etc/conf.d/other.txt", "no"),
        ("etc/nested/one.conf", "import two.conf"),
        ("etc/nested/two.conf", "deep"),
        ("etc/snippets.conf", "(from_file) {\n y {\n  z\n }\n}"),
        ("etc/s", "the_file"),
        ("etc/open.conf", "a {\n b"),
        ("top.conf", "top"),
        ("/abs/x.conf", "abs"),
    ];
    let table = [
        (
            "cf.import.file",
            ". {\n a\n import common.conf\n b\n}",
            ". [a; hosts {203.0.113.1 a}; b]",
        ),
        (
            "cf.import.file: in a block",
            ". {\n a {\n  b\n  import words.conf\n  f\n }\n}",
            ". [a {b; c d; e; f}]",
        ),
        (
            "cf.import.file: only at a line's start",
            ". {\n a import words.conf\n}",
            ". [a import words.conf]",
        ),
        (
            "cf.import.file: above",
            ". {\n import ../top.conf\n import /abs/x.conf\n}",
            ". [top; abs]",
        ),
        ("cf.import.file: dots", ". {\n import ./nested/../nested/one.conf\n}", ". [deep]"),
        ("cf.import.file: keys", "import keys.txt\n{\n x\n}", "k1.test. k2.test. [x]"),
        (
            "cf.import.file: keys behind a comma",
            "a.test,\nimport keys.txt\n{\n x\n}",
            "a.test. k1.test. k2.test. [x]",
        ),
        ("cf.import.file: half a block", ". {\n import open.conf\n }\n c\n}", ". [a {b}; c]"),
        ("cf.import.file: twice", ". {\n import s\n import s\n}", ". [the_file; the_file]"),
        (
            "cf.import.glob",
            "import conf.d/*.conf\nc.test {\n}",
            "a.test. [x] b.test. [deep] c.test. []",
        ),
        (
            "cf.import.glob: one sign",
            ". {\n import conf.d/1?-a.tx*\n import words.con?\n}",
            ". [c d; e]",
        ),
        ("cf.import.glob: directories", ". {\n import neste?/two.c*\n}", ". [deep]"),
        ("cf.env: patterns", "import {$PATTERN}", "a.test. [x] b.test. [deep]"),
        ("cf.snippet", "(s) {\n a {\n  b\n }\n c\n}\n. {\n import s\n d\n}", ". [a {b}; c; d]"),
        (
            "cf.snippet: nested",
            "(i) {\n a\n}\n(o) {\n import i\n b\n}\n. {\n import o\n}",
            ". [a; b]",
        ),
        (
            "cf.snippet: lines above each other",
            "(a) {\n x\n}\n(b) {\n y\n}\n. {\n import b\n import a\n z\n}",
            ". [y; x; z]",
        ),
        (
            "cf.snippet: in a block",
            "(s) {\n b c\n}\n. {\n a {\n  import s\n  d\n }\n}",
            ". [a {b c; d}]",
        ),
        (
            "cf.snippet: whole blocks",
            "(s) {\n a.test {\n  x\n }\n}\nimport s\nb.test {\n y\n}",
            "a.test. [x] b.test. [y]",
        ),
        ("cf.snippet: before a file", "(s) {\n a\n}\n. {\n import s\n}", ". [a]"),
        ("cf.snippet: from a file", "import snippets.conf\n. {\n import from_file\n}", ". [y {z}]"),
        ("cf.snippet: unused", "(s) {\n a\n}\n. {\n}", ". []"),
        ("cf.snippet: empty", "(s) {\n}\n. {\n a\n import s\n b\n}", ". [a; b]"),
    ];
    for (rule, text, expected) in table {
        match read(text, &files) {
            Ok(corefile) => assert_eq!(show(&corefile.blocks), expected, "{rule}: {text:?}"),
            Err(errors) => panic!("{rule}: {text:?} is refused: {errors:#?}"),
        }
    }
    let table = [
        ("cf.import.file: empty", ". {\n import \"\"\n}", "2:9 import needs a name"),
        (
            "cf.import.file: none",
            ". {\n import\n a\n}",
            "2:2 Wrong argument count or unexpected line ending after 'import'",
        ),
        (
            "cf.import.file: missing",
            ". {\n import missing.conf\n}",
            "2:9 'missing.conf' is neither",
        ),
        (
            "cf.import.glob: directory",
            ". {\n import conf.d\n}",
            "2:9 cannot import etc/conf.d: is a directory",
        ),
        (
            "cf.import.glob: stars",
            ". {\n import */*.conf\n}",
            "2:9 '*/*.conf' has too many wildcards",
        ),
        (
            "cf.import.glob: signs",
            ". {\n import w?r?s.conf\n}",
            "2:9 'w?r?s.conf' has too many wildcards",
        ),
        (
            "cf.import.glob: sets",
            ". {\n import [a-z].conf\n}",
            "2:9 '[a-z].conf' has too many wildcards",
        ),
        ("cf.import.glob: half a set", ". {\n import [a.conf\n}", "2:9 '[a.conf' is no pattern"),
        (
            "cf.import.args",
            "(s) {\n a\n}\n. {\n import s x y\n}",
            "5:11 Wrong argument count: import takes one word",
        ),
        (
            "cf.snippet: after use",
            ". {\n import s2\n}\n(s2) {\n a\n}",
            "2:9 's2' is neither a snippet",
        ),
        ("cf.snippet: twice", "(s) {\n a\n}\n(s) {\n b\n}\n. {\n}", "4:1 '(s)' is declared twice"),
        (
            "cf.snippet: itself",
            "(s) {\n a\n import s\n}\n. {\n}",
            "3:9 the snippet '(s)' imports itself",
        ),
        (
            "cf.snippet: cycle",
            "(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n}",
            "5:9 'a' imports itself",
        ),
        (
            "cf.snippet: no braces",
            "(s)\n a\n",
            "1:1 Syntax error: Unexpected token 'a', expecting '{'",
        ),
        ("cf.snippet: end", "(s)", "1:1 Unexpected EOF, expecting '{'"),
        ("cf.snippet: open", "(s) {\n a {\n }\n", "1:5 Unexpected EOF, expecting '}'"),
    ];
    for (rule, text, expected) in table {
        same_errors(rule, &read(text, &files).expect_err(rule), expected);
    }
}

#[test]
fn a_glob_without_match_only_warns() {
    let corefile = read(". {\n import missing*.conf\n whoami\n}", &[]).expect("cf.import.glob");
    assert_eq!(show(&corefile.blocks), ". [whoami]");
    assert_eq!(corefile.warnings[0].what, "No files matching import glob pattern: missing*.conf");
    assert_eq!(
        corefile.render_warning(&corefile.warnings[0]),
        "[WARNING] No files matching import glob pattern: missing*.conf\n --> etc/Corefile:2:9\n  |\n2 |  import missing*.conf\n  |         ^^^^^^^^^^^^^"
    );
}

#[test]
fn keys_that_look_like_something_else_are_warned_of() {
    for (text, expected) in [
        ("10.0.0.1 {\n}", "for its reverse zone write 10.0.0.1/32"),
        ("a.test:dns {\n}", "a port is a number"),
        ("10.0.0.0/33 {\n}", "a network is written 10.0.0.0/8 or 2001:db8::/32"),
        ("{$WORD} {\n}", "each key is one word; an environment variable is not split at spaces"),
        ("{\n}\na.test {\n}", "write a zone before its '{'"),
    ] {
        let corefile = read(text, &[]).expect(text);
        assert_eq!(
            corefile.warnings.first().and_then(|odd| odd.help.as_deref()),
            Some(expected),
            "{text}"
        );
    }
    assert!(read("a.test 10.0.0.0/8 _x.test {\n}", &[]).expect("right keys").warnings.is_empty());
}

#[test]
fn files_that_import_each_other_are_refused() {
    let files = [("etc/a", "x\nimport b"), ("etc/b", "import a"), ("etc/self", "import *elf")];
    let errors = read(". {\n import a\n}", &files).expect_err("a cycle");
    same_errors("cf.limits: files", &errors, "1:8 'a' imports etc/a, which imports this");
    let errors = read(". {\n import self\n}", &files).expect_err("a cycle");
    same_errors("cf.limits: patterns", &errors, "1:8 '*elf' imports etc/self, which imports this");
    let errors =
        read("import Corefile", &[("etc/Corefile", "import Corefile")]).expect_err("a cycle");
    same_errors(
        "cf.limits: the main file",
        &errors,
        "1:8 'Corefile' imports etc/Corefile, which imports this",
    );
}

#[test]
fn what_is_put_in_is_bounded() {
    // Fourteen snippets, each of which puts in the one before twice: 16,384 expansions.
    let mut text = "(s0) {\n a\n}\n".to_owned();
    for level in 1..=14 {
        let before = level - 1;
        text.push_str(&format!("(s{level}) {{\n import s{before}\n import s{before}\n}}\n"));
    }
    text.push_str(". {\n import s14\n}\n");
    let errors = read(&text, &[]).expect_err("too many snippets");
    assert!(errors[0].what.starts_with("more than 10000 snippets"), "cf.limits: {errors:?}");
    assert_eq!(errors.len(), 1);

    // 9,999 expansions are fine.
    let text = format!("(s) {{\n a\n}}\n. {{\n{}}}\n", "import s\n".repeat(9_999));
    assert_eq!(read(&text, &[]).expect("cf.limits").blocks[0].directives.len(), 9_999);

    // Seventeen files, each of which puts in the one before twice.
    let mut files: Vec<_> = vec![("etc/f0".to_owned(), "a\n".to_owned())];
    for level in 1..=17 {
        files.push((format!("etc/f{level}"), format!("import f{0}\nimport f{0}\n", level - 1)));
    }
    let files: Memory = files.into_iter().collect();
    let errors = parse(Path::new("etc/Corefile"), ". {\n import f17\n}\n", &|_| None, &files)
        .expect_err("too many files");
    assert!(errors[0].what.starts_with("more than 100000 files"), "cf.limits: {errors:?}");

    // A long file that is put in again and again ends at the number of words.
    let files = [("etc/long", &*"a b c d e f g h\n".repeat(1_000))];
    let text = format!(". {{\n{}}}\n", "import long\n".repeat(1_000));
    let errors = read(&text, &files).expect_err("too many words");
    assert!(errors[0].what.starts_with("more than 2000000 words"), "{errors:?}");

    // As does a single text.
    let errors = read(&"a ".repeat(2_000_001), &[]).expect_err("too many words");
    assert!(errors[0].what.starts_with("there are too many words"), "{:?}", errors[0]);
}

#[test]
fn malformed_text_neither_panics_nor_runs_away() {
    let deep = format!(". {{\n{}", "a {\n".repeat(100_000));
    let errors = read(&deep, &[]).expect_err("deep blocks");
    assert!(errors[0].what.starts_with("more than 32 blocks"), "{:?}", errors[0]);
    for text in [
        "{",
        "}",
        "{ {",
        "} }",
        "\"",
        "\\",
        "\"\\",
        ",",
        "(",
        "()",
        "() {",
        "import",
        "import import",
        "a {\nimport\n",
        "{$",
        "\u{0}",
        ". {\n}}",
    ] {
        let _outcome: Result<_, _> = read(text, &[]);
    }
    // Every text of four pieces of grammar.
    let pieces = ["{", "}", "\n", "a", "import", "\"", "(s)", ",", "#", "{$SELF}", "a,"];
    for mut number in 0..pieces.len().pow(4) {
        let mut text = String::new();
        for _ in 0..4 {
            text.push_str(pieces[number % pieces.len()]);
            text.push(' ');
            number /= pieces.len();
        }
        let _outcome: Result<_, _> = read(&text, &[("etc/a", "import a"), ("etc/import", "{")]);
    }
    // A right text with one sign taken out, doubled, or replaced by each sign of the grammar.
    let right = "\u{feff}(s) {\n a \"b\\\"\" {$ZONE}\n}\na.test:53,\n10.0.0.0/15 {\r\n import s # c\n x {\n  y\n }\n}\n";
    assert!(read(right, &[]).is_ok());
    let signs: Vec<char> = right.chars().collect();
    for at in 0..signs.len() {
        for put in ["", "{", "}", "\"", "\n", "#", "\\", "\u{0}", "\u{fc}", "{$SELF}", "aa"] {
            let text: String = signs[..at].iter().collect::<String>()
                + put
                + &signs[at + 1..].iter().collect::<String>();
            let _outcome: Result<_, _> = read(&text, &[]);
        }
    }
    let junk = "\u{fffd}\u{0}{\"\\}\n#".repeat(10_000);
    assert!(read(&junk, &[]).is_err());
    assert_eq!(read(&"} ".repeat(1_000), &[]).expect_err("braces").len(), 100);
}

#[test]
fn nothing_configured_answers_with_whoami() {
    for text in ["", "# nothing\n", "(s) {\n a\n}\n", "import none*.conf", "{\n a\n}"] {
        let corefile = read(text, &[]).expect("cf.default");
        assert_eq!(show(&corefile.blocks), ". [whoami; log]", "cf.default: {text:?}");
        assert_eq!(corefile.blocks[0].keys[0].port, None, "the port is that of the settings");
        assert!(corefile.warnings.iter().any(|odd| odd.what.contains("has no block")));
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let text =
        "a.test: {\n import none\n a {\n  import\n  {\n  }\n }\n}\nb.test {\n x }\nc.test,\n";
    let errors = read(text, &[]).expect_err("errors");
    let expected = "1:1 'a.test:' ends | 2:9 'none' is | 4:3 Wrong argument | 5:3 Syntax error | 10:4 Unexpected '}' | 11:1 Unexpected EOF";
    same_errors("all", &errors, expected);
}

#[test]
fn texts_are_kept_for_rendering_and_reload() {
    let files = [("etc/a.conf", "x\n"), ("etc/b.conf", "import a.conf\n")];
    let text = ". {\n import b.conf\n import a.conf\n}\n";
    let corefile = read(text, &files).expect("imports");
    let names: Vec<_> = corefile
        .files
        .iter()
        .map(|(path, text)| (path.to_str().unwrap_or(""), text.as_str()))
        .collect();
    assert_eq!(
        names,
        [("etc/Corefile", text), ("etc/b.conf", "import a.conf\n"), ("etc/a.conf", "x\n")]
    );
    let place = &corefile.blocks[0].directives[0].name.place;
    assert_eq!(place.to_string(), "etc/a.conf:1:1");
    assert_eq!(corefile.blocks[0].place.to_string(), "etc/Corefile:1:1");
}

#[test]
fn errors_show_the_line() {
    let errors = read("a.test {\n\tforward . 127.0.0.1 }\n", &[]).expect_err("cf.opensyntax");
    let text = "a.test {\n\tforward . 127.0.0.1 }\n";
    assert_eq!(
        errors[0].render(&|_| Some(text.to_owned())),
        "etc/Corefile:2 - Error during parsing: Unexpected '}' behind 'forward': a closing brace stands on a line of its own\n \
         --> etc/Corefile:2:22\n  |\n2 |  forward . 127.0.0.1 }\n  |                      ^\n  = help: begin a new line before the brace"
    );
}

#[test]
fn the_corefile_is_read_from_disk_or_a_pipe() {
    let directory = std::env::temp_dir().join(format!("causeway-config-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("conf.d")).expect("a directory");
    let write =
        |name: &str, octets: &[u8]| std::fs::write(directory.join(name), octets).expect("a file");
    write("Corefile", b"import conf.d/*.conf\n");
    write("conf.d/b.conf", b"b.test {\n y\n}\n");
    write("conf.d/a.conf", b"\xef\xbb\xbfa.test {\n x \xff\n}\n");
    let corefile = load(&Source::File(directory.join("Corefile"))).expect("cli.conf");
    assert_eq!(show(&corefile.blocks), "a.test. [x \u{fffd}] b.test. [y]");
    assert_eq!(corefile.files.len(), 3);

    let missing = directory.join("missing");
    let failure = load(&Source::File(missing.clone())).expect_err("cli.conf");
    assert!(
        failure
            .to_string()
            .starts_with(&format!("the Corefile {} cannot be read: ", missing.display()))
    );
    write("Corefile", b"import conf.d\n");
    let failure = load(&Source::File(directory.join("Corefile"))).expect_err("cf.import.glob");
    assert!(failure.to_string().contains("conf.d: is a directory"), "{failure}");
    assert!(failure.to_string().contains("1 | import conf.d\n  |        ^^^^^^"), "{failure}");

    let corefile = load(&Source::Stdin(". {\n whoami\n}".to_owned())).expect("cli.conf");
    assert_eq!(corefile.blocks[0].place.to_string(), "stdin:1:1");
    std::fs::remove_dir_all(directory).expect("cleared");
}

#[test]
fn one_directive_can_be_read_alone() {
    let forward = directive("forward . 127.0.0.1 {\n max_fails 2\n}").expect("a directive");
    assert_eq!(lines(&[forward]), "forward . 127.0.0.1 {max_fails 2}");
    assert!(directive("a\nb").is_err());
    assert!(directive("").is_err());
}

#[test]
fn memory_lists_like_a_disk() {
    let files: Memory = BTreeMap::from([("a/b/c", "1"), ("a/d", "2")]).into_iter().collect();
    assert_eq!(files.list(Path::new("a")).expect("a listing"), ["b", "d"]);
    assert!(files.exists(Path::new("a/b")) && !files.exists(Path::new("a/c")));
    let found = |pattern: &str| files.glob(Path::new(pattern)).expect("a pattern").len();
    assert_eq!(
        (found("a/*"), found("a/?"), found("a/*/c"), found("x/*"), found("a/d")),
        (2, 2, 1, 0, 1)
    );
    assert_eq!(found("a/\\d"), 1);
}
