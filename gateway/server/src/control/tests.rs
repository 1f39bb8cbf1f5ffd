//! What is asked, as it is read.

use super::*;

#[test]
fn questions_are_read_from_the_query() {
    for (query, args, json) in [
        ("", &[][..], false),
        ("json", &[], true),
        ("arg=a&x=y&arg=%2d%2Db%zz%4", &["a", "--b%zz%4"], false),
        ("json&arg=", &[""], true),
    ] {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        assert_eq!(Question::read(query), Question { args, json }, "{query}");
    }
}

#[test]
fn what_differs_counts_more_than_what_can_not_be_known() {
    let good = || Ok(Report::new(1_u32));
    let bad = || Ok(Report::new(2_u32).bad());
    let unknown = || Ok(Report::new(3_u32).unknown());
    let failed = || Err("not followed yet".to_owned());
    for (found, status) in [
        (vec![good(), good()], 200),
        (vec![good(), bad()], 409),
        (vec![failed(), good()], 503),
        (vec![good(), unknown()], 503),
        (vec![unknown(), bad(), failed()], 409),
    ] {
        let report = of_all(["east", "west", "north"].into_iter().zip(found.clone()));
        assert_eq!(told(&report, true).status, status, "{found:?}");
    }
    let report = of_all([("east", good()), ("west", failed())].into_iter());
    assert_eq!(report.to_text(), "east:\n  1\nwest:\n  error  not followed yet\n");
}
