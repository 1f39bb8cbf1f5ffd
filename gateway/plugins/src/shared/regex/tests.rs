//! Patterns of Go's syntax, and what they find.

use super::{MAX, compile};

#[test]
fn patterns_find_what_go_finds() {
    for (pattern, text, want) in [
        (r"\.example\.org\.$", "www.example.org.", Some(".example.org.")),
        (r"(a|ab)(c|bcd)", "abcd", Some("abcd")),
        (r"^\d+$", "\u{663}", None),
        (r"\w+", "\u{e9}a_1\u{e9}", Some("a_1")),
        (r"[\w-]+", "a-b.c", Some("a-b")),
        (r"\W", "a\u{e9}", Some("\u{e9}")),
        (r"[\D]+", "12ab", Some("ab")),
        (r"[^\S]", "a\u{b}\u{a0} b", Some(" ")),
        (r"\bb", "\u{e9}b", Some("b")),
        (r"a\Bb", "ab", Some("ab")),
        (r"\Qa.b*\E+", "a.b**", Some("a.b**")),
        (r"\Q[x", "[x", Some("[x")),
        ("a{,2}", "a{,2}", Some("a{,2}")),
        ("a{b", "a{b", Some("a{b")),
        ("x{y}", "x{y}", Some("x{y}")),
        ("a{2}", "aaa", Some("aa")),
        ("a{1,2}b", "aab", Some("aab")),
        ("a{2,}", "aaa", Some("aaa")),
        (r"\141\x62\x{63}", "abc", Some("abc")),
        (r"\a\f\t\n\r\v\-\<\>\_", "\x07\x0c\t\n\r\x0b-<>_", Some("\x07\x0c\t\n\r\x0b-<>_")),
        ("[a&&b]+", "&&ab", Some("&&ab")),
        ("[a~~b]+", "~ab", Some("~ab")),
        ("[[ab]+", "[ab", Some("[ab")),
        ("[]a]+", "a]", Some("a]")),
        ("[^]a]+", "]b", Some("b")),
        (r"[a\]b]+", "a]b", Some("a]b")),
        ("[+--]+", "+,-.", Some("+,-")),
        ("[a-c-]+", "d-b", Some("-b")),
        ("[[:alpha:]_]+", "1a_", Some("a_")),
        ("[[:^digit:]]+", "1ab", Some("ab")),
        (r"\pL+", "1\u{e9}", Some("\u{e9}")),
        (r"\p{Greek}[\p{Lu}x]", "\u{3b1}x", Some("\u{3b1}x")),
        ("(?i)AB(?-i)c", "abc", Some("abc")),
        ("(?i:A)b", "ab", Some("ab")),
        ("(?P<n>a)(?<m>b)(?:c)", "abc", Some("abc")),
        ("(?U)a+", "aa", Some("a")),
        ("(?s).", "\n", Some("\n")),
        ("(?m)^b$", "a\nb", Some("b")),
        ("a$", "a\n", None),
        ("", "x", Some("")),
        ("<a>#b c", "<a>#b c", Some("<a>#b c")),
    ] {
        let regex = compile(pattern).unwrap_or_else(|wrong| panic!("{pattern}: {wrong}"));
        assert_eq!(regex.find(text).map(|found| found.as_str()), want, "{pattern} in {text}");
    }
}

#[test]
fn what_go_refuses_is_refused() {
    for (pattern, wrong) in [
        ("(", "unclosed group"),
        (")", "unopened group"),
        ("[a", "a bracket is not closed"),
        ("[b-a]", "invalid character class range, the start must be <= the end"),
        (r"[a-\d]", "a range ends in a class"),
        ("*", "repetition operator missing expression"),
        ("a\\", "a backslash stands at the end"),
        (r"(a)\1", r"\1: there are no backreferences"),
        (r"\C", r"\C is not known"),
        (r"\x4", r"\x takes two hexadecimal digits, or some in braces"),
        (r"\x{110000}", r"\x takes two hexadecimal digits, or some in braces"),
        ("(?x)a", "(?x…) is not known"),
        ("(?=a)", "(?=…) is not known"),
        ("a{1001}", "a repetition counts to 1000 at most"),
        ("a{0,99999999999}", "a repetition counts to 1000 at most"),
        ("((a{1000}){1000}){1000}", "the pattern is too large"),
    ] {
        assert_eq!(
            compile(pattern).map_err(|wrong| wrong.to_string()).err().as_deref(),
            Some(wrong),
            "{pattern}"
        );
    }
    let long = "a".repeat(MAX);
    assert!(compile(&long).is_ok());
    assert!(compile(&(long + "a")).is_err());
}
