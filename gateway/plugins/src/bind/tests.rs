//! The facts `bind.*`.

use engine::testing::Bench;

/// The listeners of a Corefile, as labels.
fn servers(corefile: &str) -> Vec<String> {
    let bench = Bench::new(crate::CHAIN, corefile);
    bench.gateway.live().groups().map(|group| group.key.to_string()).collect()
}

#[test]
fn lines_add_up_and_interfaces_stand_for_their_addresses() {
    let lo = crate::shared::host::interfaces().unwrap();
    let lo: Vec<String> = lo
        .iter()
        .filter(|one| one.name == "lo")
        .map(|one| format!("dns://{}", one.bind_addr().at(53)))
        .collect();
    assert!(lo.iter().any(|one| one == "dns://127.0.0.1:53"), "{lo:?}");
    let without: Vec<String> =
        lo.iter().filter(|one| *one != "dns://127.0.0.1:53").cloned().collect();
    for (lines, want) in [
        ("bind 127.0.0.1 ::1", vec!["dns://127.0.0.1:53".to_owned(), "dns://[::1]:53".to_owned()]),
        (
            "bind 127.0.0.1\n bind 127.0.0.2",
            vec!["dns://127.0.0.1:53".to_owned(), "dns://127.0.0.2:53".to_owned()],
        ),
        (
            "bind 127.0.0.1 127.0.0.5 {\n except 127.0.0.5\n }",
            vec!["dns://127.0.0.1:53".to_owned()],
        ),
        (
            "bind 127.0.0.1 {\n except 127.0.0.5\n }\n bind 127.0.0.5",
            vec!["dns://127.0.0.1:53".to_owned(), "dns://127.0.0.5:53".to_owned()],
        ),
        ("bind fe80::1%1", vec!["dns://[fe80::1%1]:53".to_owned()]),
        ("bind fe80::1%lo", vec!["dns://[fe80::1%1]:53".to_owned()]),
        ("bind 0.0.0.0 ::", vec!["dns://0.0.0.0:53".to_owned(), "dns://[::]:53".to_owned()]),
        ("bind 127.0.0.1 {\n except lo\n }", vec![]),
        ("bind lo", lo),
        ("bind lo {\n except 127.0.0.1\n }", without),
    ] {
        let found = servers(&format!("test {{\n {lines}\n whoami\n}}\n"));
        assert_eq!(found, want, "{lines}");
    }
}

#[test]
fn a_block_without_addresses_is_said_to_listen_nowhere() {
    let corefile = "test {\n bind lo {\n except lo\n }\n whoami\n}\nother {\n whoami\n}\n";
    let bench = Bench::new(crate::CHAIN, corefile);
    assert!(bench.built.warnings[0].what.contains("listens nowhere"));
    assert_eq!(servers(corefile), ["dns://:53"]);
    assert_eq!(bench.now("a.test"), "REFUSED rd");
}

#[test]
fn the_same_zone_cannot_be_served_twice_at_one_address() {
    for (corefile, want) in [
        (
            "test {\n bind 127.0.0.1 127.0.0.1\n}\n",
            "cannot serve dns://127.0.0.1:53 for test. - it is already defined",
        ),
        ("test {\n bind 127.0.0.1 lo\n}\n", "it is already defined"),
        ("test {\n bind 127.0.0.1\n}\ntest {\n bind 127.0.0.1\n}\n", "it is already defined"),
        ("test {\n bind 127.0.0.1\n}\ntest {\n whoami\n}\n", "zone overlap listener capacity"),
        ("test {\n bind 0.0.0.0\n}\ntest {\n whoami\n}\n", "zone overlap listener capacity"),
        ("test test {\n whoami\n}\n", "cannot serve dns://:53 for test. - it is already defined"),
    ] {
        let text = Bench::refused(crate::CHAIN, corefile);
        assert!(text.contains(want), "{corefile}: {text}");
    }
    let corefile = "test {\n bind 127.0.0.1\n whoami\n}\ntest {\n bind 127.0.0.2\n whoami\n}\nother {\n whoami\n}\n";
    assert_eq!(servers(corefile).len(), 3);
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("bind", "at least one address or interface name is expected"),
        ("bind {\n except 127.0.0.1\n }", "needs an address"),
        ("bind nolan0", "'nolan0' is no address and no interface (interfaces here: lo"),
        ("bind 127.0.0.1:53", "is no address and no interface"),
        ("bind 127.0.0.1%lo", "is no address and no interface"),
        ("bind fe80::1%nolan0", "is no address and no interface"),
        ("bind lo {\n except\n }", "Wrong argument count"),
        ("bind lo {\n except nolan0\n }", "is no address and no interface"),
        ("bind lo {\n only ::1\n }", "'only' is not a property"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
