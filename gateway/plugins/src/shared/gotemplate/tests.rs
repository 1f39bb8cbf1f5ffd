//! Templates and the text that Go's own engine makes of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Data, Fail, Template};
use crate::shared::expr::{Text, Value};

/// The data of these tests, with the shape of a query's.
struct Query;

/// A string as a value.
fn text(text: &str) -> Value<'static> {
    Value::Str(Text::Own(text.as_bytes().into()))
}

/// A map of values.
fn map<const N: usize>(pairs: [(&str, Value<'static>); N]) -> Value<'static> {
    Value::Map(Rc::new(
        pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect::<BTreeMap<_, _>>(),
    ))
}

impl<'a> Data<'a> for Query {
    fn get(&self, path: &[String], args: &[Value<'a>]) -> Result<(Value<'a>, usize), Fail> {
        let groups =
            || [("0", "host-7.lan"), ("1", "host"), ("2", "7"), ("host", "host"), ("n", "7")];
        let question = || {
            map([
                ("Name", text("Host-7.lan.test.")),
                ("Qtype", Value::Int(1)),
                ("Qclass", Value::Int(1)),
            ])
        };
        let value = match (&*path[0], args) {
            ("Meta", [Value::Str(label)]) => {
                text(if label.as_str() == "a/b" { "meta" } else { "" })
            }
            (_, [_, ..]) => return Err(Fail::new("has arguments")),
            ("Zone", _) => text("lan.test."),
            ("Name", _) => text("host-7.lan.test."),
            ("Regex", _) => text("^(?P<host>h)"),
            ("Class", _) => text("IN"),
            ("Type", _) => text("A"),
            ("Remote", _) => text("127.5.6.7"),
            ("Match", _) => {
                Value::Array(Rc::new(vec![text("host-7.lan"), text("host"), text("7")]))
            }
            ("Group", _) if path.len() > 1 => {
                let found = groups().into_iter().find(|(name, _)| *name == path[1]);
                return Ok((found.map_or(Value::Nil, |(_, value)| text(value)), 2));
            }
            ("Group", _) => map(groups().map(|(name, value)| (name, text(value)))),
            ("Question", _) => question(),
            ("Message", _) => map([
                ("Id", Value::Int(10794)),
                ("RecursionDesired", Value::Bool(true)),
                ("Question", Value::Array(Rc::new(vec![question()]))),
            ]),
            ("Var", _) => map([("n", Value::Int(7)), ("s", text("str")), ("b", Value::Bool(true))]),
            (other, _) => return Err(Fail::new(format!("no field {other}"))),
        };
        Ok((value, 1))
    }
}

/// Runs a template.
fn run(template: &str) -> Result<String, String> {
    let known = |path: &[String]| match &*path[0] {
        "Foo" => Err("there is no field .Foo".to_owned()),
        _ => Ok(()),
    };
    let template =
        Template::parse(template, &known).map_err(|wrong| format!("{}: {wrong}", wrong.at))?;
    let mut out = String::new();
    template.run(&Query, &mut out).map_err(|wrong| wrong.to_string())?;
    Ok(out)
}

#[test]
fn the_text_is_that_of_go() {
    for (template, want) in [
        ("plain {{ .Name }} text", "plain host-7.lan.test. text"),
        (
            "{{.Zone}}|{{.Class}}|{{.Type}}|{{.Remote}}|{{.Regex}}",
            "lan.test.|IN|A|127.5.6.7|^(?P<host>h)",
        ),
        ("{{ .Group.host }}-{{ .Group.n }}-{{ .Group.nope }}|", "host-7-<no value>|"),
        ("{{ index .Group \"0\" }}{{ .Group.host | printf \"%s!\" }}", "host-7.lanhost!"),
        ("{{ index .Match 1 }} {{ len .Match }} {{ .Match }}", "host 3 [host-7.lan host 7]"),
        ("{{ .Group }}", "map[0:host-7.lan 1:host 2:7 host:host n:7]"),
        ("{{ .Meta \"a/b\" }}{{ .Meta \"x/y\" }}", "meta"),
        (
            "{{ .Question.Name }} {{ .Question.Qtype }} {{ .Message.Id }} {{ .Message.RecursionDesired }} {{ (index .Message.Question 0).Name }}",
            "Host-7.lan.test. 1 10794 true Host-7.lan.test.",
        ),
        ("{{ if eq .Name \"host-7.lan.test.\" }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if eq .Type \"A\" \"AAAA\" }}addr{{ end }}", "addr"),
        ("{{ if and .Zone (ne .Zone \"x\") }}a{{ else if true }}b{{ end }}", "a"),
        ("{{ if not .Group.nope }}empty{{ end }}", "empty"),
        ("{{ if .Group.nope }}1{{ else if eq 1 2 }}2{{ else }}3{{ end }}", "3"),
        ("{{ with .Group.host }}[{{ . }}{{ $.Name }}]{{ end }}", "[hosthost-7.lan.test.]"),
        ("{{ with .Group.nope }}x{{ else }}none{{ end }}", "none"),
        ("{{ with .Group.nope }}x{{ else with .Zone }}{{ . }}{{ end }}", "lan.test."),
        ("{{ range .Match }}<{{ . }}>{{ end }}", "<host-7.lan><host><7>"),
        ("{{ range $i, $m := .Match }}{{ $i }}={{ $m }};{{ end }}", "0=host-7.lan;1=host;2=7;"),
        ("{{ range $m := .Match }}{{ $m }},{{ end }}", "host-7.lan,host,7,"),
        (
            "{{ range $k, $v := .Group }}{{ $k }}:{{ $v }} {{ end }}",
            "0:host-7.lan 1:host 2:7 host:host n:7 ",
        ),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        (
            "{{ range .Match }}{{ if eq . \"7\" }}{{ break }}{{ end }}{{ . }} {{ end }}",
            "host-7.lan host ",
        ),
        (
            "{{ range .Match }}{{ if eq . \"7\" }}{{ continue }}{{ end }}{{ . }} {{ end }}",
            "host-7.lan host ",
        ),
        ("{{ range .Var.none }}x{{ else }}nothing{{ end }}", "nothing"),
        ("{{ $x := .Zone }}{{ $x }}{{ $x = \"b\" }}{{ $x }}", "lan.test.b"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("a {{- \" b \" -}} c", "a b c"),
        ("a   {{- /* gone */ -}}   c", "ac"),
        ("{{/* c */}}x", "x"),
        ("{{ \"q\\\"\\\\\\n\\x41\\u00e9\" }}|{{ `raw\\n` }}|{{ 'a' }}", "q\"\\\nA\u{e9}|raw\\n|97"),
        (
            "{{ 1 }} {{ -2 }} {{ 0x1F }} {{ 1.5 }} {{ 1e3 }} {{ 0b11 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }} {{ 1e21 }} {{ 1e-7 }}",
            "1 -2 31 1.5 1000 3 15 15 1000 1e+21 1e-07",
        ),
        ("{{ true }} {{ false }}", "true false"),
        ("{{ and 1 0 2 }} {{ or 0 \"\" \"x\" \"y\" }} {{ and 1 2 }} {{ or 0 0 }}", "0 x 2 0"),
        ("{{ or true (index .Match 9) }}", "true"),
        (
            "{{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1 2 }} {{ ne 1 1 }}",
            "true true true false false",
        ),
        ("{{ eq 1 2 3 1 }}", "true"),
        ("{{ len \"h\u{e9}y\" }} {{ len .Group }}", "4 5"),
        ("{{ index .Match 0 }}", "host-7.lan"),
        (
            "{{ slice .Name 0 4 }} {{ slice .Name 5 }} {{ slice .Match 1 2 }}",
            "host 7.lan.test. [host]",
        ),
        ("{{ print 1 2 \"a\" \"b\" 3 4 }}", "1 2ab3 4"),
        ("{{ println \"a\" 1 }}", "a 1\n"),
        (
            "{{ printf \"%d|%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%b|%c|%q|%U\" 42 42 42 42 42 255 255 255 8 5 65 65 65 }}",
            "42|   42|42   |00042|+42|ff|FF|0xff|10|101|A|'A'|U+0041",
        ),
        (
            "{{ printf \"%s|%10s|%-10s|%.2s|%q|%x|%v|%T\" \"abc\" \"abc\" \"abc\" \"abc\" \"a\\\"b\" \"az\" \"v\" \"t\" }}",
            "abc|       abc|abc       |ab|\"a\\\"b\"|617a|v|string",
        ),
        (
            "{{ printf \"%f|%.2f|%8.3f|%e|%g|%v|%G\" 1.5 1.005 3.14159 1234.5678 0.00001 2.0 1e100 }}",
            "1.500000|1.00|   3.142|1.234568e+03|1e-05|2|1E+100",
        ),
        ("{{ printf \"%t %v %d%%\" true false 5 }}", "true false 5%"),
        (
            "{{ printf \"%d\" \"x\" }} {{ printf \"%s\" 5 }} {{ printf \"%d\" }} {{ printf \"a\" 1 \"b\" }} {{ printf \"%z\" 1 }} {{ printf \"%\" }}",
            "%!d(string=x) %!s(int=5) %!d(MISSING) a%!(EXTRA int=1, string=b) %!z(int=1) %!(NOVERB)",
        ),
        ("{{ printf \"%03d\" (parseInt \"7f\" 16 8) }}", "127"),
        ("{{ printf \"%*d|%-*d|\" 5 42 5 42 }}", "   42|42   |"),
        ("{{ printf \"%v %s\" .Match .Match }}", "[host-7.lan host 7] [host-7.lan host 7]"),
        (
            "{{ printf \"%6.2f|%06.2f|%+.1f|% d|%x\" 1.234 -1.234 2.0 7 -255 }}",
            "  1.23|-01.23|+2.0| 7|-ff",
        ),
        ("{{ printf \"%.3d|%8.3d|%08.3d\" 7 7 7 }}", "007|     007|     007"),
        ("{{ printf \"%.3g|%.10g|%g\" 1234.5 1234.5 1e21 }}", "1.23e+03|1234.5|1e+21"),
        ("{{ printf \"%v\" nil }}", "<nil>"),
        ("{{ .Name | printf \"%s %s\" \"a\" | len }}", "18"),
        ("{{ \"a\" | print | printf \"%s\" }}", "a"),
        (
            "{{ html \"<a href='x'>&\\\"\" }} {{ js \"it's <\\\"x\\\">\\\\=&\" }} {{ urlquery \"a b&c=d/\u{e9}~\" }}",
            "&lt;a href=&#39;x&#39;&gt;&amp;&#34; it\\'s \\u003C\\\"x\\\"\\u003E\\\\\\u003D\\u0026 a+b%26c%3Dd%2F%C3%A9~",
        ),
        (
            "{{ parseInt \"0a\" 16 8 }}.{{ parseInt \"ff\" 16 8 }} {{ parseInt \"0x10\" 0 64 }}",
            "10.255 16",
        ),
        ("{{ .Var.n }} {{ .Var.s }} {{ .Var.none }} {{ .Var.b }}", "7 str <no value> true"),
        (
            "{{ define \"tt\" }}<{{ . }}>{{ end }}{{ template \"tt\" .Zone }}{{ template \"tt\" 5 }}",
            "<lan.test.><5>",
        ),
        ("{{ block \"b\" .Name }}[{{ . }}]{{ end }}", "[host-7.lan.test.]"),
        ("{{ define \"u\" }}{{ if . }}{{ . }}{{ end }}{{ end }}{{ template \"u\" }}|", "|"),
        (
            "{{ template \"v\" . }}{{ define \"v\" }}{{ .Zone }}{{ $.Name }}{{ end }}",
            "lan.test.host-7.lan.test.",
        ),
        ("{{ index .Zone 0 }}", "108"),
        ("{{ not 0 }} {{ not \"a\" }}", "true false"),
        ("{{ $v := .Group.n }}{{ if eq $v \"7\" }}seven{{ end }}", "seven"),
        ("{{ with $x := .Zone }}{{ $x }}{{ end }}", "lan.test."),
        ("{{ if $x := .Group.host }}{{ $x }}{{ else }}{{ $x }}none{{ end }}", "host"),
        ("{{ (printf \"%s\" .Name) | len }}", "16"),
        ("{{ .Match | len | printf \"%02d\" }}", "03"),
        ("{{- \"x\" -}}", "x"),
        (" {{- if true }} a {{ end -}} ", " a "),
        ("{{if true}}a{{end}}{{if false}}b{{end}}", "a"),
        ("{{ range .Match }}{{ $.Zone }}{{ end }}", "lan.test.lan.test.lan.test."),
        (
            "{{ range $i, $m := .Match }}{{ range $j, $n := $.Match }}{{ if eq $m $n }}{{ $i }}{{ $j }} {{ end }}{{ end }}{{ end }}",
            "00 11 22 ",
        ),
        (
            "{{ if .Group.nope }}x{{ end }}{{ .Group.nope }}{{ printf \"%v\" .Group.nope }}",
            "<no value><nil>",
        ),
        ("{{ with $.Group }}{{ .host }}{{ .nope }}{{ end }}", "host<no value>"),
        ("{{ (index .Match 1) }}{{ (.Meta \"a/b\") | printf \"%q\" }}", "host\"meta\""),
        ("{{- /* a */ -}} x {{- /* b */ -}}", "x"),
        ("{{ printf \"%s.%s\" (index .Match 1) .Group.n }}", "host.7"),
        (
            "{{ if or (eq .Type \"A\") (eq .Type \"AAAA\") }}{{ .Name }} 60 {{ .Class }} {{ .Type }}{{ end }}",
            "host-7.lan.test. 60 IN A",
        ),
        ("{{ $a := slice .Name 0 4 }}{{ $b := len $a }}{{ $a }}{{ $b }}", "host4"),
        ("{{ eq .Name \"a\" \"b\" .Name }}", "true"),
        ("{{ index .Var \"n\" }} {{ index .Var \"zz\" }} {{ eq .Var.n 7 }}", "7 <no value> true"),
    ] {
        assert_eq!(run(template).as_deref(), Ok(want), "{template}");
    }
}

#[test]
fn what_go_refuses_is_refused() {
    for template in [
        "{{ parseInt \"100\" 16 8 }}",
        "{{ parseInt \"gg\" 16 8 }}",
        "{{ index .Match 5 }}",
        "{{ eq 1 \"a\" }}",
        "{{ lt 1 1.5 }}",
        "{{ eq .Match .Match }}",
        "{{ lt true false }}",
        "{{ slice .Name 4 2 }}",
        "{{ slice .Name 0 100 }}",
        "{{ len 3 }}",
        "{{ .Name.Foo }}",
        "{{ and }}",
        "{{ foo 1 }}",
        "{{ .Name \"x\" }}",
        "{{ $y }}",
        "{{ end }}",
        "{{ if true }}x",
        "{{ else }}",
        "{{ if }}x{{ end }}",
        "{{ \"a\" \"b\" }}",
        "{{ 1 | 2 }}",
        "{{ (.Name }}",
        "{{ break }}",
        "{{ template \"nope\" }}",
        "{{ }}",
        "{{ \"a }}",
        "{{ 'ab' }}",
        "{{ 1x }}",
        "{{ .Name",
        "{{ /* a */ }}",
        "{{ range $a, $b, $c := .Match }}{{ end }}",
        "{{ $a, $b := .Match }}",
        "{{ if true }}{{ else }}{{ else }}{{ end }}",
        "{{ not }}",
        "{{ not 1 2 }}",
        "{{ eq 1 }}",
        "{{ parseInt \"1\" }}",
        "{{ define \"x\" }}",
        "{{ define x }}{{ end }}",
        "{{ .Name.}}",
        "{{ nil }}",
        "{{ nil | printf \"%v\" }}",
        "{{ range \"abc\" }}x{{ end }}",
        "{{ range 2.5 }}x{{ end }}",
    ] {
        assert!(run(template).is_err(), "{template}: {:?}", run(template));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let loops = "{{ range 100000 }}{{ range 100000 }}x{{ end }}{{ end }}";
    let recursion = "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}";
    for (template, want) in [
        ("ab {{ foo 1 }}", "6: function \"foo\" not defined"),
        ("{{ .Foo }}", "3: there is no field .Foo"),
        ("{{ $.Foo }}", "3: there is no field .Foo"),
        ("{{ with .Zone }}{{ $.Foo }}{{ end }}", "19: there is no field .Foo"),
        ("{{ if true }}x", "3: there is no end to this"),
        ("{{ .Name", "0: braces are not closed"),
        ("{{ not }}", "3: wrong number of args for not: want 1 got 0"),
        ("{{ .Name.x }}", "can't evaluate field x in type string"),
        ("{{ index .Match 5 }}", "error calling index: index out of range: 5"),
        (
            "{{ parseInt \"gg\" 16 8 }}",
            "error calling parseInt: strconv.ParseUint: parsing \"gg\": invalid syntax",
        ),
        (
            "{{ parseInt \"100\" 16 8 }}",
            "error calling parseInt: strconv.ParseUint: parsing \"100\": value out of range",
        ),
        ("{{ . }}", "the data as a whole is no text"),
        (loops, "the template takes too many steps"),
        ("{{ range 100000000000 }}x{{ end }}", "the template takes too many steps"),
        (
            "{{ $x := .Name }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
            "error calling print: the text is too long",
        ),
        (recursion, "templates use one another too deeply"),
        (
            "{{ printf \"%99999999999999999999d\" 1 }}",
            "error calling printf: a width or precision is too large",
        ),
    ] {
        assert_eq!(run(template).err().as_deref(), Some(want), "{template}");
    }
    let deep = format!("{}{}", "{{ if true }}".repeat(200), "{{ end }}".repeat(200));
    assert!(run(&deep).is_err_and(|wrong| wrong.ends_with("nested too deeply")));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(200), ")".repeat(200));
    assert!(run(&deep).is_err_and(|wrong| wrong.ends_with("nested too deeply")));
    let chain = format!("{{{{ if false }}}}{}{{{{ end }}}}", "{{ else if false }}".repeat(200));
    assert!(run(&chain).is_err_and(|wrong| wrong.ends_with("nested too deeply")));
}
