//! The facts `cancel.*`.

use std::time::Duration;

use engine::testing::Bench;

#[test]
fn the_deadline_is_that_of_the_last_line() {
    for (lines, want) in [
        ("cancel", Duration::from_millis(5001)),
        ("cancel 500ms", Duration::from_millis(500)),
        ("cancel 1s\n cancel 1h30m", Duration::from_secs(5400)),
    ] {
        let bench = Bench::new(crate::CHAIN, &format!("test {{\n {lines}\n whoami\n}}\n"));
        let live = bench.gateway.live();
        assert_eq!(live.sites()[0].timeout, Some(want), "{lines}");
        let mut x = bench.exchange("a.test");
        bench.serve(&mut x);
        assert_eq!(x.deadline, Some(x.now() + want), "{lines}");
    }
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("cancel 0", "is no time to answer in (write a duration above zero, such as 5s)"),
        ("cancel -1s", "cannot be negative"),
        ("cancel 5", "a duration needs a unit"),
        ("cancel soon", "not a duration"),
        ("cancel 1s 2s", "Wrong argument count"),
        ("cancel {\n }", "takes no block"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
