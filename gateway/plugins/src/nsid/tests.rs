//! The facts `nsid.*`.

use engine::testing::Bench;

#[test]
fn those_who_ask_get_the_identifier() {
    let bench = Bench::new(crate::CHAIN, "test {\n nsid edge gateway\n chaos\n}\n");
    let id = "OPT 3 656467652067617465776179";
    for (line, want) in [
        ("version.test CH TXT +opt=3:", format!("SERVFAIL rd | {id}")),
        ("a.test +opt=3:616263", format!("SERVFAIL rd | {id}")),
        ("a.test +edns", "SERVFAIL rd".to_owned()),
        ("a.test", "SERVFAIL rd".to_owned()),
        ("other +opt=3:", "REFUSED rd | EDE 20 no server block for the name".to_owned()),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    let bench = Bench::new(crate::CHAIN, ". {\n nsid \"Use The  Force\"\n any\n}\n");
    assert!(bench.now("a ANY +opt=3:").ends_with(" | OPT 3 557365205468652020466f726365"));
}

#[test]
fn without_words_it_is_the_machines_name() {
    let bench = Bench::new(crate::CHAIN, ". {\n nsid\n any\n}\n");
    let name = crate::shared::host::hostname();
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(bench.now("a ANY +opt=3:").ends_with(&format!(" | OPT 3 {hex}")));
}

#[test]
fn it_may_stand_in_a_block_once() {
    let text = Bench::refused(crate::CHAIN, ". {\n nsid a\n nsid b\n}\n");
    assert!(text.contains("can only be used once"), "{text}");
    let text = Bench::refused(crate::CHAIN, ". {\n nsid a {\n  b\n }\n}\n");
    assert!(text.contains("takes no block"), "{text}");
}
