//! Blocks read by tables.

use super::*;
use crate::corefile::directive;

/// What the table sets.
#[derive(Debug, Default, PartialEq)]
struct Cache {
    capacity: u32,
    zones: Vec<String>,
    inner: Vec<String>,
    flag: bool,
}

/// The table.
const PROPS: &[Prop<Cache>] = &[
    Prop {
        name: "success",
        words: "CAPACITY",
        set: |cache, words| {
            cache.capacity = words.parsed()?;
            Ok(())
        },
    },
    Prop {
        name: "zones",
        words: "[ZONE…]",
        set: |cache, words| {
            cache.zones.extend(words.rest().iter().map(|word| word.text.clone()));
            Ok(())
        },
    },
    Prop {
        name: "inner",
        words: "{ … }",
        set: |cache, words| {
            cache.inner.extend(words.line().lines().iter().map(|line| line.name.text.clone()));
            Ok(())
        },
    },
    Prop {
        name: "flag",
        words: "",
        set: |cache, _| {
            cache.flag = true;
            Ok(())
        },
    },
];

/// What another table sets.
const OTHERS: &[Prop<u32>] = &[Prop {
    name: "depth",
    words: "NUMBER",
    set: |depth, words| words.parsed().map(|number| *depth = number),
}];

#[test]
fn a_block_of_two_tables() {
    let both = |text: &str| {
        let (mut cache, mut depth) = (Cache::default(), 0);
        let line = directive(text).expect(text);
        let read = line.read_block_of((PROPS, &mut cache), (OTHERS, &mut depth));
        read.map(|()| (cache.capacity, depth)).map_err(|wrong| wrong.apart())
    };
    assert_eq!(both("cache {\n success 5\n depth 7\n flag\n}"), Ok((5, 7)));
    let wrong = both("cache {\n dept 5\n depth x\n success\n}").expect_err("wrong");
    let helps: Vec<_> = wrong.iter().map(|one| one.help.as_deref().unwrap_or_default()).collect();
    let known = "did you mean 'depth'? (known: success, zones, inner, flag, depth)";
    assert_eq!(helps, [known, "write: depth NUMBER", "write: success CAPACITY"]);
}

/// Reads a directive's block.
fn read(text: &str) -> Result<Cache, String> {
    let mut cache = Cache::default();
    let line = directive(text).expect(text);
    match line.read_block(PROPS, &mut cache) {
        Ok(()) => Ok(cache),
        Err(wrong) => Err(format!("{wrong} ({})", wrong.help.as_deref().unwrap_or_default())),
    }
}

#[test]
fn each_line_sets_its_property() {
    let expected = Cache {
        capacity: 12,
        zones: vec!["a".into(), "b".into()],
        inner: vec!["x".into(), "y".into()],
        flag: true,
    };
    assert_eq!(
        read(
            "cache {\n success 10\n zones a b\n inner {\n  x\n  y\n }\n zones\n flag\n success 12\n}"
        ),
        Ok(expected)
    );
    assert_eq!(read("cache"), Ok(Cache::default()));
    assert_eq!(read("cache { }"), Ok(Cache::default()));
}

#[test]
fn wrong_lines_are_refused_with_the_right_form() {
    for (text, expected) in [
        (
            "cache {\n succes 1\n}",
            "Corefile:3 - Error during parsing: 'succes' is not a property (did you mean 'success'? (known: success, zones, inner, flag))",
        ),
        (
            "cache {\n x\n}",
            "Corefile:3 - Error during parsing: 'x' is not a property (known: success, zones, inner, flag)",
        ),
        (
            "cache {\n success\n}",
            "Corefile:3 - Error during parsing: Wrong argument count or unexpected line ending after 'success' (write: success CAPACITY)",
        ),
        (
            "cache {\n success x\n}",
            "Corefile:3 - Error during parsing: 'x' is wrong: invalid digit found in string (write: success CAPACITY)",
        ),
        (
            "cache {\n success 1 2\n}",
            "Corefile:3 - Error during parsing: Wrong argument count: '2' is one too many (write: success CAPACITY)",
        ),
        (
            "cache {\n flag x\n}",
            "Corefile:3 - Error during parsing: Wrong argument count: 'x' is one too many (write: flag)",
        ),
        (
            "cache {\n flag {\n  x\n }\n}",
            "Corefile:3 - Error during parsing: 'flag' takes no block (take the braces away)",
        ),
    ] {
        assert_eq!(read(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn all_wrong_lines_are_told() {
    let lines = "cache {\n success many\n flag\n nosuch\n flag 1\n}";
    let wrong = directive(lines).expect("a directive").read_block(PROPS, &mut Cache::default());
    let wrong = wrong.expect_err("three lines are wrong").apart();
    let places: Vec<_> = wrong.iter().map(|one| one.place.as_ref().map(|at| at.line)).collect();
    assert_eq!(places, [Some(3), Some(5), Some(6)], "{wrong:?}");
    assert!(wrong.iter().all(|one| one.also.is_empty()));
}

#[test]
fn a_line_can_be_read_alone() {
    let hosts = directive("hosts {\n 198.51.100.1 a\n success 3\n}").expect("a directive");
    let mut cache = Cache::default();
    assert!(hosts.lines()[0].read_line(PROPS, &mut cache).is_err());
    assert_eq!(hosts.lines()[1].read_line(PROPS, &mut cache), Ok(()));
    assert_eq!(cache.capacity, 3);
}

#[test]
fn a_block_on_one_line_ends_behind_a_fixed_number_of_words() {
    let capacity = |text| read(text).map(|cache| (cache.capacity, cache.flag));
    assert_eq!(capacity("cache { success 12 }"), Ok((12, false)));
    assert_eq!(capacity("cache {\n success 12\n flag }"), Ok((12, true)));
    // The brace is no word either where words are missing or too many.
    for (text, expected) in [
        ("cache { success }", "Wrong argument count or unexpected line ending after 'success'"),
        ("cache { success 1 2 }", "Wrong argument count: '2' is one too many"),
        (
            "cache { zones a }",
            "Unexpected '}' behind 'zones': a closing brace stands on a line of its own",
        ),
        ("cache { inner }", "Unexpected '}' behind 'inner'"),
    ] {
        let wrong = read(text).expect_err(text);
        assert!(wrong.contains("Corefile:2 ") && wrong.contains(expected), "{text}: {wrong}");
    }
}
