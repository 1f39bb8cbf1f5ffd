//! The facts `any.*`.

use engine::testing::Bench;

#[test]
fn any_gets_one_hinfo_and_nothing_behind_it_is_asked() {
    let bench = Bench::new(crate::CHAIN, ". {\n any\n chaos\n acl {\n  block\n }\n}\n");
    let hinfo = "8482 HINFO 0d414e59206f62736f6c657465640c5365652052464320383438";
    for (line, want) in [
        ("example.org ANY", format!("NOERROR rd | example.org. {hinfo}32")),
        ("example.org ANY +do", format!("NOERROR rd | example.org. {hinfo}32")),
        (". ANY +tcp +norec +cd", format!("NOERROR cd | . {hinfo}32")),
        // `any.class`: the record's class is IN.
        ("example.org CH ANY", format!("NOERROR rd | example.org. {hinfo}32")),
        ("example.org A", "REFUSED rd".to_owned()),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [("any x", "Wrong argument count"), ("any {\n }", "takes no block")] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
