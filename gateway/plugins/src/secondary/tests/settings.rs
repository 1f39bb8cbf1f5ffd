//! What a Corefile may say.

use super::*;
use crate::CHAIN;

/// The facts `secondary.form`, `secondary.err`, `secondary.scoped`, and bad names of `secondary.catalog`.
#[tokio::test]
async fn wrong_words_are_refused_with_a_remedy() {
    for (block, want) in [
        ("secondary", "says no server that the zone is copied from"),
        ("secondary {\n catalog\n }", "says no server that the zone is copied from"),
        ("secondary {\n transfer\n }", "transfer from ADDRESS..."),
        ("secondary {\n transfer from\n }", "transfer from ADDRESS..."),
        ("secondary {\n transfer to 198.51.100.1\n }", "is not known here"),
        ("secondary {\n transfer from *\n }", "is no address of a server"),
        ("secondary {\n transfer from ns1.example.org\n }", "is no address of a server"),
        ("secondary {\n transfer from https://198.51.100.1\n }", "is no address of a server"),
        ("secondary {\n transfer from 198.51.100.1%ns1.example.org\n }", "has a server name"),
        ("secondary {\n transfer from fe80::1%nosuch\n }", "names an interface that is not there"),
        ("secondary {\n transfer from 198.51.100.1\n catalog a..b\n }", "is not a domain name"),
        ("secondary {\n transfer from 198.51.100.1\n key\n }", "key NAME [ALGORITHM]"),
        ("secondary {\n transfer from 198.51.100.1\n key k\n }", "is none of the keys"),
        (
            "tsig {\n secret k AAAA\n }\n secondary {\n transfer from 198.51.100.1\n key k hmac-md5\n }",
            "is no algorithm of signatures",
        ),
        ("secondary {\n transfer from tls://198.51.100.1\n tls a b c d\n }", "one too many"),
        ("secondary {\n transfer from tls://198.51.100.1\n tls nowhere.pem\n }", "tls: "),
        ("secondary {\n transfer from 198.51.100.1\n upstream\n }", "'upstream' is not a property"),
    ] {
        let refused = Bench::refused(CHAIN, &format!("example.org {{\n {block}\n}}\n"));
        assert!(refused.contains(want), "{block}: {refused}");
    }
    for block in [
        "secondary {\n transfer from 198.51.100.1 2001:db8::1\n transfer from [2001:db8::2]:5353\n }",
        "secondary {\n transfer from fe80::1%1\n catalog\n }",
        "tsig {\n secret K.test AAAA\n }\n secondary {\n transfer from 198.51.100.1\n key k.TEST.\n }",
    ] {
        Bench::new(CHAIN, &format!("example.org {{\n {block}\n}}\n"));
    }
}
