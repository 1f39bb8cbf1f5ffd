//! How diagnostics look.

use super::*;
use std::sync::Arc;

/// A diagnostic at a place.
fn at(line: u32, column: u32, span: usize) -> Diagnostic {
    let place = Place { file: Arc::from(Path::new("Corefile")), line, column };
    Diagnostic { place: Some(place), span, ..Diagnostic::new("'x' is wrong") }
}

/// Shows it beside a text.
fn shown(diagnostic: &Diagnostic, text: &str) -> String {
    diagnostic.render(&|path| (path == Path::new("Corefile")).then(|| text.to_owned()))
}

#[test]
fn the_line_is_shown_with_carets() {
    let help = at(10, 4, 3).help("write y");
    let text = "\n".repeat(9) + " a xyz\r\n";
    assert_eq!(
        shown(&help, &text),
        "Corefile:10 - Error during parsing: 'x' is wrong\n  --> Corefile:10:4\n   |\n10 |  a xyz\n   |    ^^^\n   = help: write y"
    );
}

#[test]
fn odd_places_do_not_harm() {
    assert_eq!(
        shown(&at(3, 1, 1), "one line"),
        "Corefile:3 - Error during parsing: 'x' is wrong\n --> Corefile:3:1"
    );
    assert!(shown(&at(1, 999, 5), "short").ends_with("1 | short\n  |      ^"));
    assert!(shown(&at(1, 1, 999), "short").ends_with("1 | short\n  | ^^^^^"));
    assert!(shown(&at(1, 0, 0), "").ends_with("1 | \n  | ^"));
    assert!(shown(&at(0, 0, 0), "a").ends_with("--> Corefile:0:0"));
    assert!(shown(&at(1, 2, 1), "\u{feff}ab").ends_with("1 | ab\n  |  ^"), "cf.bom.cr");
    assert!(
        shown(&at(1, 2, 1), "\tx\u{1b}[31m").ends_with("1 |  x\u{fffd}[31m\n  |  ^"),
        "no control characters reach a terminal"
    );
    let none = at(1, 1, 1).render(&|_| None);
    assert_eq!(none, "Corefile:1 - Error during parsing: 'x' is wrong\n --> Corefile:1:1");
}

#[test]
fn long_lines_are_cut_around_the_word() {
    let text = "a".repeat(1_000) + "WRONG" + &"b".repeat(1_000);
    let shown = shown(&at(1, 1_001, 5), &text);
    let lines: Vec<_> = shown.lines().collect();
    let (line, carets) = (lines[3].trim_start_matches("1 | "), lines[4].trim_start_matches("  | "));
    assert_eq!(line.len(), WIDTH);
    assert_eq!(line.find("WRONG"), carets.find("^^^^^"));
}

#[test]
fn words_without_end_and_control_characters_are_not_shown() {
    let what = format!("'{}' is wrong", "\0".repeat(1_000_000));
    let wrong = Diagnostic { what, ..at(1, 1, 1) }.help("not \u{1b}[31m".repeat(100_000));
    for shown in [shown(&wrong, "x"), wrong.render_warning(&|_| None), wrong.to_string()] {
        assert!(shown.len() < 6_000 && shown.contains("' is wrong"), "{shown}");
        assert!(!shown.contains(['\0', '\u{1b}']), "{shown}");
    }
}

#[test]
fn one_line_has_the_form_of_coredns() {
    assert_eq!(
        at(3, 1, 1).to_string(),
        "Corefile:3 - Error during parsing: 'x' is wrong",
        "cf.opensyntax"
    );
    let syntax = Diagnostic {
        what: "Syntax error: Unexpected token '}', expecting '{'".to_owned(),
        ..at(3, 1, 1)
    };
    assert_eq!(
        syntax.to_string(),
        "Corefile:3 - Syntax error: Unexpected token '}', expecting '{'",
        "cf.opensyntax"
    );
    let plugin = Diagnostic { what: "plugin/acl: 'x' is wrong: y".to_owned(), ..at(3, 1, 1) };
    assert_eq!(
        plugin.to_string(),
        "plugin/acl: Corefile:3 - Error during parsing: 'x' is wrong: y",
        "xc.err.prefix"
    );
    let placeless = Diagnostic::new("no file").help("make one");
    assert_eq!(placeless.to_string(), "no file");
    assert_eq!(shown(&placeless, ""), "no file\n = help: make one");
}
