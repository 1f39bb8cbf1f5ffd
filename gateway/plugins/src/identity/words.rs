//! Names and groups: which words may be one, and how others are shown.

use std::fmt::Write as _;

/// The most octets that a name or a group has.
const LONGEST: usize = 255;

/// Why a word can be no name and no group; none if it can.
pub(super) fn unfit(word: &str) -> Option<&'static str> {
    if word.is_empty() {
        Some("is empty")
    } else if word.len() > LONGEST {
        Some("is longer than 255 octets")
    } else if word == "-" || word == "*" {
        Some("has a meaning of its own")
    } else if !word.chars().all(is_plain) {
        Some("has a comma, a quote, a backslash or a character that cannot be seen")
    } else {
        None
    }
}

/// A name or a group as a certificate has it, made one that can be: what is not plain becomes `\DDD`, as in domain names
/// (RFC 1035 §5.1), and what is too long ends early.
pub(super) fn fitted(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let before = out.len();
        if is_plain(c) {
            out.push(c);
        } else {
            let mut octets = [0; 4];
            for byte in c.encode_utf8(&mut octets).bytes() {
                // Writing to a string cannot fail.
                let _unfailing = write!(out, "\\{byte:03}");
            }
        }
        if out.len() > LONGEST {
            out.truncate(before);
            break;
        }
    }
    out
}

/// Whether a character is what it looks like, and stands in lists and quotes without harm: no controls, those of the writing
/// direction among them.
fn is_plain(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !c.is_control() && !is_hidden && !matches!(c, ',' | '"' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_01_names_are_plain() {
        for (text, want) in [
            ("alice@example.org", "alice@example.org"),
            ("Jane Doe", "Jane Doe"),
            ("J\u{fc}rgen", "J\u{fc}rgen"),
            ("a,b", "a\\044b"),
            ("a\r\n\u{1b}[31m", "a\\013\\010\\027[31m"),
            ("\"q\" \\", "\\034q\\034 \\092"),
            ("x\u{202e}y", "x\\226\\128\\174y"),
        ] {
            assert_eq!(fitted(text), want);
            assert_eq!(unfit(text).is_none(), text == want, "{text:?}");
        }
        for text in ["", "-", "*", &"x".repeat(256)] {
            assert!(unfit(text).is_some(), "{text}");
        }
        assert_eq!(fitted(&"\u{7}".repeat(300)).len(), 252);
    }
}
