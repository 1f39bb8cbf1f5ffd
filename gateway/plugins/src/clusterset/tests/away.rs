//! Clusters that are away, or not known yet.

use std::time::Duration;

use engine::testing::Bench;
use k8s::Standing;

use super::super::member::unix_time;
use super::exports::{EAST, WEST};
use super::{NXDOMAIN, TWO, ask, bench, refuse, stand, table};

/// Asks with EDNS and gives the reply's first part and its extended errors.
fn told(bench: &Bench, name: &str) -> (String, String) {
    let reply = ask(bench, &format!("{name}.shop.svc.clusterset.local A +do"));
    let (code, _) = reply.split_once(' ').unwrap();
    let ede = reply.find("EDE").map_or("", |at| &reply[at..]);
    (code.to_owned(), ede.to_owned())
}

#[test]
fn the_share_of_a_cluster_that_is_away_is_kept_for_its_time() {
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    let both = "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.1.1.1; db.shop.svc.clusterset.local. 5 A 10.1.1.2; db.shop.svc.clusterset.local. 5 A 10.2.1.1";
    let now = unix_time();
    stand("east", Standing::Away { since: now - 95 });
    table(&bench, &[("db.shop.svc.clusterset.local A", both)]);
    let (code, ede) = told(&bench, "db");
    assert!(
        code == "NOERROR" && ede.starts_with("EDE 3 cluster east: not heard of for 9"),
        "{ede}"
    );
    let (code, ede) = told(&bench, "nothing");
    assert!(
        code == "NXDOMAIN" && ede.starts_with("EDE 19 cluster east: not heard of for 9"),
        "{ede}"
    );
    let reply = ask(&bench, "db-0.west.db.shop.svc.clusterset.local A +do");
    assert!(reply.contains("10.2.1.1"), "{reply}");

    stand("east", Standing::Snapshot { taken: now - 3599 });
    table(&bench, &[("db.shop.svc.clusterset.local A", both)]);

    stand("east", Standing::Away { since: now - 3700 });
    table(
        &bench,
        &[
            (
                "db.shop.svc.clusterset.local A",
                "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.2.1.1",
            ),
            ("db-0.east.db.shop.svc.clusterset.local A", NXDOMAIN),
            ("idle.shop.svc.clusterset.local A", NXDOMAIN),
            ("empty.svc.clusterset.local A", NXDOMAIN),
        ],
    );
    assert_eq!(told(&bench, "db"), ("NOERROR".to_owned(), String::new()));
    assert_eq!(told(&bench, "nothing"), ("NXDOMAIN".to_owned(), String::new()));

    // Nobody is left who could deny a name.
    stand("west", Standing::Snapshot { taken: now - 3700 });
    assert_eq!(told(&bench, "db").0, "SERVFAIL");
    assert_eq!(told(&bench, "nothing").0, "SERVFAIL");
    stand("west", Standing::Live);

    stand("east", Standing::Live);
    table(&bench, &[("db.shop.svc.clusterset.local A", both)]);
    assert_eq!(told(&bench, "db"), ("NOERROR".to_owned(), String::new()));
}

#[test]
fn what_a_cluster_that_is_not_known_may_have_is_no_denial() {
    let bench = bench(&[("east", None), ("west", Some(WEST))], TWO);
    table(
        &bench,
        &[(
            "db.shop.svc.clusterset.local A",
            "NOERROR aa rd | db.shop.svc.clusterset.local. 5 A 10.2.1.1",
        )],
    );
    assert_eq!(
        told(&bench, "nothing"),
        ("SERVFAIL".to_owned(), "EDE 14 cluster east: its objects are not known yet".to_owned())
    );
    assert_eq!(told(&bench, "db-0.east.db").0, "SERVFAIL");
    let reply = ask(&bench, "other.svc.clusterset.local A");
    assert!(reply.starts_with("SERVFAIL"), "{reply}");
    assert!(ask(&bench, "pod.clusterset.local A").starts_with("NXDOMAIN"));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_rights_is_said_to_be_that_and_not_away() {
    let corefile = TWO.replace(" west", " west\n  namespaces shop other");
    let bench = bench(&[("east", Some(EAST)), ("west", Some(WEST))], &corefile);
    refuse("east", "shop");
    // Rights that are back within ten seconds are no trouble.
    assert_eq!(told(&bench, "db"), ("NOERROR".to_owned(), String::new()));
    tokio::time::advance(Duration::from_secs(11)).await;
    let said = "cluster east: the rights are missing, known from ";
    for (name, code, ede) in [("db", "NOERROR", "EDE 3"), ("nothing", "NXDOMAIN", "EDE 19")] {
        let (told, text) = told(&bench, name);
        assert!(told == code && text.starts_with(&format!("{ede} {said}")), "{told} {text}");
    }
    let reply = ask(&bench, "nothing.other.svc.clusterset.local A +do");
    assert!(!reply.contains("EDE"), "{reply}");
}
