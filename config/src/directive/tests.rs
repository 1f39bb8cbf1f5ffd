//! Words taken one by one.

use crate::Directive;
use crate::corefile::directive;
use std::time::Duration;

/// Reads one directive.
fn line(text: &str) -> Directive {
    directive(text).expect(text)
}

#[test]
fn words_are_taken_one_by_one() {
    let line = line("cache 30 1m30s 90 rest of it");
    let mut words = line.words();
    assert_eq!((words.name().text.as_str(), words.len(), words.is_empty()), ("cache", 6, false));
    assert_eq!(words.peek().map(|word| word.text.as_str()), Some("30"));
    assert_eq!(words.parsed::<u32>(), Ok(30));
    assert_eq!(words.duration(), Ok(Duration::from_secs(90)));
    assert_eq!(words.seconds(), Ok(Duration::from_secs(90)));
    assert_eq!(words.maybe().map(|word| word.text.as_str()), Some("rest"));
    assert!(
        words.end().is_err_and(|wrong| wrong.what == "Wrong argument count: 'of' is one too many")
    );
    assert_eq!(words.rest().len(), 2);
    assert_eq!(words.end(), Ok(()));
    let missing = words.one().expect_err("no word is left");
    assert_eq!(
        missing.what, "Wrong argument count or unexpected line ending after 'it'",
        "cf.opensyntax"
    );
    assert_eq!(missing.place.map(|place| (place.line, place.column)), Some((2, 27)));
    assert_eq!(words.maybe(), None);
}

#[test]
fn wrong_words_say_what_is_right() {
    let line = line("cache thirty 30 90s -1m off");
    let mut words = line.words();
    let wrong = [
        words.parsed::<u32>().expect_err("no number"),
        words.duration().expect_err("no unit"),
        words.seconds().expect_err("a unit"),
        words.duration().expect_err("negative"),
        words.choice(&[("on", true), ("of", false)]).expect_err("no choice"),
    ];
    let texts = wrong
        .map(|wrong| wrong.what + &wrong.help.map(|help| format!(" ({help})")).unwrap_or_default());
    assert_eq!(
        texts,
        [
            "'thirty' is wrong: invalid digit found in string",
            "'30' is wrong: a duration needs a unit, such as 30s or 5m",
            "'90s' is wrong: not a number of whole seconds, such as 30",
            "'-1m' is wrong: a duration cannot be negative here",
            "'off' is not known here (did you mean 'of'? (known: on, of))",
        ]
    );
    let mut again = line.words();
    assert_eq!(again.rest().len(), 5);
    assert_eq!(
        again.choice::<u8>(&[]).map_err(|wrong| wrong.what),
        Err("Wrong argument count or unexpected line ending after 'off'".to_owned())
    );
}

#[test]
fn blocks_and_words_can_be_refused() {
    assert_eq!(line("whoami").no_words(), Ok(()));
    assert_eq!(line("whoami").no_block(), Ok(()));
    assert!(line("whoami x").no_words().is_err());
    assert!(line("whoami \"\"").no_words().is_err(), "cf.emptyword");
    assert!(
        line("whoami { }").no_block().is_err_and(|wrong| wrong.what == "'whoami' takes no block")
    );
    assert_eq!(line("whoami { }").lines(), []);
    assert_eq!(line("whoami").lines(), []);
}

#[test]
fn fingerprints_are_equal_for_equal_meanings() {
    let print = |text: &str| line(text).fingerprint();
    assert_eq!(
        print("a b {\n c d\n}"),
        print("  a   \"b\" { # x\n\n c \"d\" }".replace(" }", "\n}").as_str())
    );
    let different = [
        "a",
        "a b",
        "a \"b c\"",
        "a b c",
        "a \"\"",
        "a { }",
        "a {\n b\n}",
        "a {\n b\n c\n}",
        "a {\n b c\n}",
        "a {\n b {\n c\n }\n}",
        "a \"b\\\" \\\"c\"",
        "\"a b\"",
    ];
    for (index, one) in different.iter().enumerate() {
        for other in &different[index + 1..] {
            assert_ne!(print(one), print(other), "{one} and {other}");
        }
    }
}
