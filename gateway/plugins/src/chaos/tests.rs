//! The facts `chaos.*`.

use engine::testing::Bench;

#[test]
fn names_of_class_ch_are_answered() {
    let bench = Bench::new(
        crate::CHAIN,
        ". {\n chaos Gateway-1.2 author-b author-a author-b\n whoami\n}\n",
    );
    let host = crate::shared::host::hostname();
    for (line, want) in [
        ("version.bind CH TXT", "NOERROR rd | version.bind. 0 CH TXT \"Gateway-1.2\"".to_owned()),
        (
            "VERSION.server CH TXT",
            "NOERROR rd | version.server. 0 CH TXT \"Gateway-1.2\"".to_owned(),
        ),
        (
            "authors.bind CH TXT",
            "NOERROR rd | authors.bind. 0 CH TXT \"author-a\"; authors.bind. 0 CH TXT \"author-b\""
                .to_owned(),
        ),
        ("hostname.bind CH TXT", format!("NOERROR rd | hostname.bind. 0 CH TXT \"{host}\"")),
        ("id.server CH TXT +tcp", format!("NOERROR rd | id.server. 0 CH TXT \"{host}\"")),
        ("version.bind CH A", "NOERROR aa rd".to_owned()),
        ("other.bind CH TXT", "NOERROR aa rd".to_owned()),
        ("version.bind HS TXT", "REFUSED rd".to_owned()),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    assert!(bench.now("version.bind TXT").contains("_udp.version.bind."), "class IN goes on");
}

#[test]
fn the_class_belongs_to_the_listener_and_the_names_to_the_block() {
    let corefile = "bind:53 {\n chaos v9\n}\nserver:53 {\n whoami\n}\ntest:5353 {\n whoami\n}\n";
    let bench = Bench::new(crate::CHAIN, corefile);
    for (line, want) in [
        ("version.bind CH TXT", "NOERROR rd | version.bind. 0 CH TXT \"v9\""),
        ("x.bind CH TXT", "SERVFAIL rd"),
        ("version.server CH TXT", "NOERROR aa rd"),
        ("a.test CH TXT +port=5353", "REFUSED rd"),
        ("example.org CH TXT", "REFUSED rd"),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

#[test]
fn defaults_are_the_programs_own_and_texts_are_cut() {
    let bench = Bench::new(crate::CHAIN, ". {\n chaos\n}\n");
    let version = bench.process().program();
    let want = format!("NOERROR rd | version.bind. 0 CH TXT \"{version}\"");
    assert_eq!(bench.now("version.bind CH TXT"), want);
    assert!(bench.now("authors.bind CH TXT").contains("The Causeway Authors"));
    let long = "é".repeat(150);
    let bench = Bench::new(crate::CHAIN, &format!(". {{\n chaos {long} {long}\n}}\n"));
    for name in ["version.bind", "authors.bind"] {
        let reply = bench.now(&format!("{name} CH TXT +tcp"));
        assert!(reply.ends_with(&format!("TXT \"{}\"", "é".repeat(127))), "{reply}");
    }
    assert!(Bench::refused(crate::CHAIN, ". {\n chaos a {\n }\n}\n").contains("takes no block"));
}
