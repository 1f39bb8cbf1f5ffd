//! Expressions and their values, and those that are refused.

use std::net::SocketAddr;

use engine::{Begin, Exchange, ListenerId, Metadata, Transport};
use wire::{Edns, Flags, Name, Request, rtype};

use super::{Context, Program, Scope, Type, Value};

/// A query of 127.5.6.7 for `www.Example.org.` AAAA.
fn query(transport: Transport) -> Box<Exchange> {
    let mut x = Exchange::new(ListenerId(0), transport, SocketAddr::from(([127, 0, 0, 2], 53)));
    x.query.peer = SocketAddr::from(([127, 5, 6, 7], 40000));
    let edns = Edns { present: true, size: 1232, flags: Edns::DO, ..Edns::default() };
    let name = Name::parse("www.example.org").unwrap();
    let request =
        Request { name, rtype: rtype::AAAA, flags: Flags::RD, edns, ..Request::default() };
    wire::encode_query(&request, 0x2a2a, &mut x.query.wire);
    assert_eq!(x.begin(), Begin::Run);
    x
}

/// The value of an expression as text, or what is wrong.
fn value(text: &str) -> String {
    let mut scope = Scope::with_groups();
    scope.add("seven", Type::Int);
    scope.add("any", Type::Any);
    let program = match Program::compile(text, &scope) {
        Ok(program) => program,
        Err(wrong) => return format!("refused at {}: {}", wrong.at, wrong.what),
    };
    let x = query(Transport::Udp);
    let regex = regex::Regex::new("(?P<host>w+)\\.(e)?x?").unwrap();
    let groups = regex.captures("www.example.org.").unwrap();
    let vars = [Value::Int(7), Value::Str(super::Text::Borrowed("s"))];
    let metadata = Metadata::default();
    let context = Context { x: &x, metadata: &metadata, groups: Some(&groups), vars: &vars };
    match program.run(&context) {
        Ok(value) => value.to_string(),
        Err(wrong) => format!("failed: {wrong}"),
    }
}

/// Compares expressions with their values.
fn all(table: &[(&str, &str)]) {
    for (text, want) in table {
        assert_eq!(value(text), *want, "{text}");
    }
}

#[test]
fn functions_tell_of_the_query() {
    all(&[
        ("type()", "AAAA"),
        ("name()", "www.example.org."),
        ("class()", "IN"),
        ("proto()", "udp"),
        ("size()", "44"),
        ("client_ip()", "127.5.6.7"),
        ("port()", "40000"),
        ("id()", "10794"),
        ("opcode()", "0"),
        ("do()", "true"),
        ("bufsize()", "1232"),
        ("server_ip()", "127.0.0.2"),
        ("server_port()", "53"),
        ("incidr(client_ip(), '127.5.0.0/16')", "true"),
        ("incidr(client_ip(), '127.6.0.0/16')", "false"),
        ("incidr('2001:db8::1', '2001:db8::/32')", "true"),
        ("incidr(server_ip(), '127.0.0.0/' + '8')", "true"),
        ("incidr('x', '127.0.0.0/8')", "failed: x is no IP address"),
        (
            "incidr(client_ip(), name())",
            "failed: www.example.org. is no network such as 10.0.0.0/8 or 2001:db8::/32",
        ),
        ("metadata('view/name')", ""),
        ("group('host') + group(0) + group(1) + group('2') + group(9)", "wwwwww.exwwwe"),
        ("seven + 1", "8"),
        ("any == 's'", "true"),
    ]);
    let program =
        Program::compile("bufsize() == 65535 && proto() == 'tcp'", &Scope::default()).unwrap();
    let x = query(Transport::Tls);
    assert!(program.holds(&Context {
        x: &x,
        metadata: &Metadata::default(),
        groups: None,
        vars: &[]
    }));
}

#[test]
fn literals_are_read() {
    all(&[
        ("0x1F + 0b11 + 0o17 + 1_000", "1049"),
        ("1.5 + .5", "2"),
        ("1e3", "1000"),
        ("1.5e-7", "1.5e-07"),
        ("-5", "-5"),
        (r"'a\n\t\\\'\x41\u00e9\U0001F600\101'", "a\n\t\\'A\u{e9}\u{1f600}A"),
        (r#""it's""#, "it's"),
        (r"`a\n`", r"a\n"),
        ("[1, 'a', nil, true]", "[1 a <nil> true]"),
        ("{a: 1, 'b c': [2], (type()): 3}", "map[AAAA:3 a:1 b c:[2]]"),
        ("1 // comment", "1"),
        ("/* a */ 1 /* b */ + 1", "2"),
        ("[1, 2,]", "[1 2]"),
    ]);
}

#[test]
fn operators_have_their_strength() {
    all(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 2 - 3", "5"),
        ("2 ** 3 ** 2", "512"),
        ("2 ^ 10", "1024"),
        ("-2 ** 2", "-4"),
        ("7 / 2", "3.5"),
        ("7 % 4", "3"),
        ("-7 % 4", "-3"),
        ("7 % 0", "failed: a division by zero"),
        ("1 / 0", "+Inf"),
        ("1 < 2 && 2 < 3 || false", "true"),
        ("true || false && false", "true"),
        ("not true or true", "true"),
        ("!false and not false", "true"),
        ("not (true or true)", "false"),
        ("1 < 2 < 3", "true"),
        ("1 < 3 < 2", "false"),
        ("3 >= 3 > 2 >= 2", "true"),
        ("1 == 1.0", "true"),
        ("1 != 2", "true"),
        ("'a' < 'b'", "true"),
        ("'a' + 'b' == 'ab'", "true"),
        ("nil == nil", "true"),
        ("any == nil", "false"),
        ("9223372036854775807 + 1", "-9223372036854775808"),
        ("true ? 1 : 2", "1"),
        ("false ? 1 : true ? 2 : 3", "2"),
        ("do() ?: false", "true"),
        ("if 1 > 2 { 'a' } else if true { 'b' } else { 'c' }", "b"),
        ("nil ?? 'x'", "x"),
        ("{a: 1}.b ?? 2", "2"),
        ("'x' ?? 'y' + 'z'", "xz"),
        ("let a = 2; let b = a * 3; a + b", "8"),
        ("1; 2", "2"),
        ("1..4", "[1 2 3 4]"),
        ("4..1", "[]"),
        ("2 in 1..4", "true"),
    ]);
}

#[test]
fn strings_arrays_and_maps_are_looked_into() {
    all(&[
        ("type() in ['A', 'AAAA']", "true"),
        ("type() not in ['A', 'AAAA']", "false"),
        ("not (type() in ['A'])", "true"),
        ("'a' in {a: 1}", "true"),
        ("'b' in {a: 1}", "false"),
        ("1 in any", "failed: an array or a map is needed, this is of type string"),
        ("type() in [1, 'AAAA']", "true"),
        ("2 in filter([1, 2], # > 1)", "true"),
        ("name() matches '^w+\\\\.example'", "true"),
        ("name() matches 'x$'", "false"),
        ("name() not matches 'x$'", "true"),
        ("name() matches ('^' + 'www')", "true"),
        ("name() matches (name() + '(')", "failed: unclosed group"),
        ("name() contains 'example'", "true"),
        ("name() startsWith 'www.'", "true"),
        ("name() endsWith '.org.' and name() not endsWith 'www.'", "true"),
        ("[1, 2, 3][0]", "1"),
        ("[1, 2, 3][-1]", "3"),
        ("[1, 2, 3][3]", "failed: there is no member 3 of 3"),
        ("[1, 2, 3][1:]", "[2 3]"),
        ("[1, 2, 3][:-1]", "[1 2]"),
        ("[1, 2, 3][2:1]", "[]"),
        ("name()[0:3]", "www"),
        ("name()[-5:]", ".org."),
        ("{a: {b: 1}}.a.b", "1"),
        ("{a: {b: 1}}['a']?.b", "1"),
        ("{a: 1}.b?.c", "<nil>"),
        ("{a: 1}.b?.['c']", "<nil>"),
    ]);
}

#[test]
fn functions_of_expr_lang_are_there() {
    all(&[
        ("trim('  a ') + trim('__b_', '_')", "ab"),
        ("trimPrefix(name(), 'www.')", "example.org."),
        ("trimSuffix(name(), '.')", "www.example.org"),
        ("upper('a') + lower('B')", "Ab"),
        ("split(name(), '.')", "[www example org ]"),
        ("split('a,b,c', ',', 2)", "[a b,c]"),
        ("splitAfter('a,b', ',')", "[a, b]"),
        ("split('abc', '')", "[a b c]"),
        ("replace('aba', 'a', 'x')", "xbx"),
        ("repeat('ab', 3)", "ababab"),
        ("indexOf('abcb', 'b') * 10 + lastIndexOf('abcb', 'b')", "13"),
        ("indexOf('a', 'b')", "-1"),
        ("hasPrefix('ab', 'a') and hasSuffix('ab', 'b')", "true"),
        ("max(1, 3, 2) + min([4, 2.5])", "5.5"),
        ("mean(1, 2, 3) + median([3, 1, 2, 10])", "4.5"),
        ("abs(-3) + ceil(1.2) + floor(1.8) + round(2.5)", "9"),
        ("int('42') + int(1.9)", "43"),
        ("int('x')", "failed: 'x' is no whole number"),
        ("float('1.5')", "1.5"),
        ("string(1) + string(true)", "1true"),
        ("len('h\u{e9}') + len([1, 2]) + len({a: 1})", "5"),
        ("get({a: 1}, 'b')", "<nil>"),
        ("get([1], 3)", "<nil>"),
        ("first([1, 2]) + last([3, 4])", "5"),
        ("first([])", "<nil>"),
        ("take([1, 2, 3], 2)", "[1 2]"),
        ("reverse(sort([2, 3, 1]))", "[3 2 1]"),
        ("sort(['b', 'a'], 'desc')", "[b a]"),
        ("sort([1, 'a'])", "failed: int and string are not compared"),
        ("uniq([1, 2, 1])", "[1 2]"),
        ("concat([1], [2, 3])", "[1 2 3]"),
        ("flatten([1, [2, [3]]])", "[1 2 3]"),
        ("join(['a', 'b'], '-') + join(['c'])", "a-bc"),
        ("keys({a: 1, b: 2})", "[a b]"),
        ("values({a: 1, b: 2})", "[1 2]"),
        ("fromPairs(toPairs({a: 1}))", "map[a:1]"),
        ("toBase64('hello') + fromBase64('aGk=')", "aGVsbG8=hi"),
        ("fromBase64('a')", "failed: 'a' is no Base 64"),
        ("bitand(6, 3) + bitor(4, 1) + bitxor(6, 3) + bitnot(-1)", "12"),
        ("bitshl(1, 4) + bitshr(-8, 1) + bitushr(-1, 63) + bitnand(7, 2)", "18"),
        (
            "toJSON([1, 2.5, 3.0, 'a<b', nil, true])",
            "[\n  1,\n  2.5,\n  3,\n  \"a\\u003cb\",\n  null,\n  true\n]",
        ),
        ("toJSON({b: [], a: {c: 1}})", "{\n  \"a\": {\n    \"c\": 1\n  },\n  \"b\": []\n}"),
        ("fromJSON('{\"a\": [1, \"x\", null]}').a", "[1 x <nil>]"),
        ("fromJSON('[1') ", "failed: no JSON: EOF while parsing a list at line 1 column 2"),
        ("$env.seven + 1", "8"),
        ("$env['any']", "s"),
        ("'seven' in $env and not ('eight' in $env) and $env?.eight == nil", "true"),
        ("name() | split('.') | first()", "www"),
        ("'a' | upper | len", "refused at 12: unexpected '|', where '(' should stand"),
    ]);
}

#[test]
fn predicates_run_over_arrays() {
    all(&[
        ("all([1, 2], # > 0)", "true"),
        ("all([], {# > 0})", "true"),
        ("any([1, 2], {# > 1})", "true"),
        ("none([1, 2], # > 2) and one([1, 2], # == 2)", "true"),
        ("filter(split(name(), '.'), len(#) == 3)", "[www org]"),
        ("map([{a: 1}, {a: 2}], .a)", "[1 2]"),
        ("map([{a: 1}], {#.a + #index})", "[1]"),
        ("map(1..3, # * #)", "[1 4 9]"),
        ("map([[1, 2], [3]], map(#, # + 1))", "[[2 3] [4]]"),
        ("count([1, 2, 3], # > 1) + count([true, false])", "3"),
        ("sum([1, 2]) + sum([1, 2], # * 2)", "9"),
        ("find([1, 2, 3], # > 1) * 10 + findLast([1, 2, 3], # > 1)", "23"),
        ("findIndex([1, 2], # > 5)", "<nil>"),
        ("findLastIndex([1, 2], # > 0)", "1"),
        ("find([1], # > 5)", "<nil>"),
        ("groupBy([1, 2, 3], # % 2 == 0 ? 'even' : 'odd')", "map[even:[2] odd:[1 3]]"),
        ("sortBy([{a: 2}, {a: 1}], .a)", "[map[a:1] map[a:2]]"),
        ("sortBy([1, 3, 2], #, 'desc')", "[3 2 1]"),
        ("reduce(1..4, #acc + #)", "10"),
        ("reduce([1, 2], #acc + #, 10)", "13"),
        ("let x = 5; filter([1, 9], # > x)", "[9]"),
    ]);
}

#[test]
fn what_cannot_be_is_refused_at_its_place() {
    for (text, wrong) in [
        ("", "refused at 0: the expression ends too soon"),
        ("1 +", "refused at 3: the expression ends too soon"),
        ("1 2", "refused at 2: unexpected 2"),
        ("(1", "refused at 2: the expression ends too soon, where ')' should stand"),
        ("'a", "refused at 0: a string is not closed"),
        (r"'\.'", r"refused at 0: '\.' is no escape: write '\\.' for a backslash"),
        ("/* a", "refused at 0: a comment is not closed"),
        ("9223372036854775808", "refused at 0: '9223372036854775808' is no number of 64 bits"),
        ("0xg", "refused at 0: '0xg' is no whole number of 64 bits"),
        ("a \u{e4}", "refused at 2: '\u{e4}' has no meaning here"),
        ("nme()", "refused at 0: unknown function nme"),
        ("name", "refused at 0: unknown name name"),
        ("seven()", "refused at 0: seven is no function"),
        ("now()", "refused at 0: the function now of expr-lang is not there"),
        ("name(1)", "refused at 0: name takes no argument, here are 1"),
        ("incidr('a')", "refused at 0: incidr takes 2 arguments, here are 1"),
        ("max()", "refused at 0: max takes 1 arguments or more, here are 0"),
        ("trim('a', 'b', 'c')", "refused at 0: trim takes 1 to 2 arguments, here are 3"),
        ("metadata('x')", "refused at 9: 'x' is no metadata label"),
        (
            "incidr(client_ip(), '1.2.3.4')",
            "refused at 20: '1.2.3.4' is no network such as 10.0.0.0/8 or 2001:db8::/32",
        ),
        ("type() == 1", "refused at 7: '==' does not go between the types string and int"),
        ("type() in [1, 2]", "refused at 7: 'in' does not go between the types string and int"),
        ("1 && true", "refused at 0: a bool is needed, this is of type int"),
        ("'a' < 1", "refused at 4: '<' does not go between the types string and int"),
        ("[1] + [2]", "refused at 4: '+' does not go between the types []int and []int"),
        ("1 in nil", "refused at 2: 'in' does not go between the types int and nil"),
        ("'a' - 'b'", "refused at 4: '-' does not go between the types string and string"),
        ("1 matches 'a'", "refused at 2: 'matches' does not go between the types int and string"),
        ("name() matches '('", "refused at 15: '(' is no regular expression: unclosed group"),
        ("not 1", "refused at 4: a bool is needed, this is of type int"),
        ("-'a'", "refused at 1: a number is needed, this is of type string"),
        ("1 ? 2 : 3", "refused at 0: a bool is needed, this is of type int"),
        ("upper(1)", "refused at 6: upper takes a string here, this is of type int"),
        ("filter(1, # > 1)", "refused at 7: filter takes an array, this is of type int"),
        (
            "filter([1], # + 1)",
            "refused at 14: the predicate of filter gives true or false, this is of type int",
        ),
        ("all(['a'], # > 1)", "refused at 13: '>' does not go between the types string and int"),
        ("# > 1", "refused at 0: unexpected '#'"),
        ("filter([1], #x > 1)", "refused at 12: unknown name #x"),
        ("name().x", "refused at 7: a value of type string has no member of type string"),
        ("'a'.upper()", "refused at 4: values have no functions such as 'upper'"),
        ("let name = 1; name", "refused at 0: 'name' has a meaning already"),
        ("let seven = 1; seven", "refused at 0: 'seven' has a meaning already"),
        ("$environment", "refused at 0: unknown name $environment"),
        ("$env()", "refused at 0: unknown function $env"),
        ("$", "refused at 0: unexpected '$'"),
        ("in", "refused at 0: unexpected in"),
    ] {
        assert_eq!(value(text), wrong, "{text}");
    }
    for (part, between) in
        [("incidr(client_ip(), '198.51.100.0/24')", " || "), ("true", " and "), ("1", " <= ")]
    {
        let long = vec![part; 5000].join(between);
        assert!(!value(&long).starts_with("refused"), "{between}");
    }
    for (part, between) in
        [("1", " + "), ("1", " ** "), ("true", " == "), ("any", "."), ("any", " ?? ")]
    {
        let long = vec![part; 5000].join(between);
        assert!(value(&long).ends_with("the expression is nested too deeply"), "{between}");
    }
    for open in ["(true ?: ", "(1 < ", "[", "if true {", "let a = (", "-", "any["] {
        assert!(value(&open.repeat(5000)).contains("too deeply"), "{open}");
    }
    let piped = format!("'a'{}", " | upper()".repeat(5000));
    assert!(value(&piped).ends_with("the expression is nested too deeply"));
    let deep = format!("{}1{}", "(".repeat(200), ")".repeat(200));
    assert!(value(&deep).ends_with("the expression is nested too deeply"));
    assert!(value(&"not ".repeat(5000)).ends_with("the expression is nested too deeply"));
}

#[test]
fn running_is_bounded() {
    let much = "failed: the expression takes too many steps or too much memory";
    all(&[
        ("1..1000000000", much),
        ("len(1..100000)", "100000"),
        ("repeat('a', 1000000000000)", much),
        ("map(1..1000, map(1..1000, #))", much),
        ("reduce(1..30, #acc + #acc, 'aaaaaaaaaaaaaaaa')", much),
        ("repeat('a', -1)", "failed: nothing is repeated less than never"),
    ]);
}
