//! The facts `timeouts.*`.

use std::time::Duration;

use engine::testing::Bench;

#[test]
fn each_value_is_that_of_the_last_line_that_states_it() {
    let corefile = "a.test {\n timeouts {\n  read 1m\n  write 24h\n  maxtcpqueries 128\n }\n timeouts {\n  read 7\n }\n whoami\n}\n\
        b.test {\n timeouts {\n  idle 1h30m\n  maxtcpqueries -1\n }\n whoami\n}\n\
        c.test:5353 {\n whoami\n}\n";
    let bench = Bench::new(crate::CHAIN, corefile);
    let live = bench.gateway.live();
    let spec = |port| live.groups().find(|group| group.key.port == port).unwrap().spec.clone();
    let times = spec(53).timeouts();
    assert_eq!(times.read, Duration::from_secs(7));
    assert_eq!(times.write, Duration::from_secs(24 * 3600));
    assert_eq!(times.idle, Duration::from_secs(5400));
    assert_eq!(spec(53).max_queries, Some(0));
    let times = spec(5353).timeouts();
    assert_eq!([times.read, times.write, times.idle].map(|time| time.as_secs()), [3, 5, 10]);
    assert_eq!(spec(5353).max_queries, None);
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("timeouts", "has no timeout in its block"),
        ("timeouts {\n }", "write at least one of: read, write, idle, maxtcpqueries"),
        ("timeouts 5s", "Wrong argument count"),
        ("timeouts 5s {\n read 5s\n }", "Wrong argument count"),
        ("timeouts {\n connect 1s\n }", "'connect' is not a property"),
        ("timeouts {\n read\n }", "Wrong argument count"),
        ("timeouts {\n read 1s 2s\n }", "Wrong argument count"),
        ("timeouts {\n read soon\n }", "not a duration"),
        ("timeouts {\n read 0\n }", "needs to be between 1 second and 24 hours"),
        ("timeouts {\n idle 999ms\n }", "needs to be between 1 second and 24 hours"),
        ("timeouts {\n write 25h\n }", "needs to be between 1 second and 24 hours"),
        ("timeouts {\n maxtcpqueries 0\n }", "write 1 or more, or -1 for no limit"),
        ("timeouts {\n maxtcpqueries -2\n }", "is no number of queries"),
        ("timeouts {\n maxtcpqueries many\n }", "is no number of queries"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
