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
