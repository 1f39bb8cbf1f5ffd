//! The facts `multisocket.*`.

use engine::testing::Bench;

#[test]
fn the_first_block_of_an_address_that_says_so_decides() {
    for (corefile, want) in [
        ("a.test {\n multisocket 2\n}\nb.test {\n multisocket 3\n}\n", Some(2)),
        ("a.test {\n whoami\n}\nb.test {\n multisocket 1024\n}\n", Some(1024)),
        // The process of the bench has one thread.
        ("a.test {\n multisocket\n}\n", Some(1)),
        ("a.test {\n whoami\n}\n", None),
    ] {
        let bench = Bench::new(crate::CHAIN, corefile);
        let live = bench.gateway.live();
        assert_eq!(live.groups().next().unwrap().spec.sockets, want, "{corefile}");
    }
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("multisocket 0", "write 1 to 1024"),
        ("multisocket -1", "is no number of sockets"),
        ("multisocket 1025", "is no number of sockets"),
        ("multisocket two", "is no number of sockets"),
        ("multisocket 1 2", "Wrong argument count"),
        ("multisocket {\n }", "takes no block"),
        ("multisocket\n multisocket", "can only be used once"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
