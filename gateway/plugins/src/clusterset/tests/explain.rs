//! What `causeway explain` says.

use std::time::Duration;

use engine::Step;
use k8s::Standing;
use wire::{Name, Request, rtype};

use super::super::member::unix_time;
use super::conflicts::{HEADLESS, OLD, PORTS};
use super::exports::{EAST, WEST};
use super::{TWO, made, refuse, stand};

#[test]
fn a_name_is_explained_cluster_by_cluster() {
    let set = made(&[("east", Some(EAST)), ("west", Some(WEST))], TWO);
    let said = |name: &str| {
        let name = Name::parse(&format!("{name}.clusterset.local")).unwrap();
        let request = Request { name, rtype: rtype::A, ..Request::default() };
        set.explain(&request, Step::Done).unwrap().json()
    };
    for (name, want) in [
        (
            "db.shop.svc",
            r#""why":"shop/db exported by east, west; headless, as the eldest export has it, that of east""#,
        ),
        (
            "db.shop.svc",
            r#","resource_version":"4711","exported":"headless","exported_at":1767225600,"ready_endpoints":2}"#,
        ),
        ("db.shop.svc", r#"{"cluster":"east","share":"live","age_seconds":"#),
        ("idle.shop.svc", r#""why":"shop/idle exported by east; not headless""#),
        ("_x._tcp.db.shop.svc", "it has no such port or ready endpoint"),
        ("own.shop.svc", r#""why":"no cluster exports shop/own; east has such a service""#),
        ("other.shop.svc", r#""why":"no cluster exports shop/other""#),
        ("other.svc", "no cluster of the set has this namespace"),
        ("shop.svc", "a namespace that a cluster of the set has"),
        ("svc", "a name that others are below"),
        ("x", "no name of this form is in a cluster set"),
        ("dns-version", "the version of the specification"),
    ] {
        let json = said(name);
        assert!(json.contains(want), "{name}: {json}");
        assert!(!json.contains("conflicts"), "{name}: {json}");
    }
    stand("east", Standing::Away { since: unix_time() - 95 });
    let kept = said("db.shop.svc");
    let want = r#","resource_version":"4711","away_seconds":9"#;
    assert!(kept.contains(r#""share":"kept","age_seconds":"#) && kept.contains(want), "{kept}");
    stand("east", Standing::Away { since: unix_time() - 9999 });
    let gone = said("idle.shop.svc");
    assert!(
        gone.contains(
            "no cluster that is there exports shop/idle; east has been away for too long"
        ),
        "{gone}"
    );
    stand("east", Standing::Unsynced);
    let unknown = said("idle.shop.svc");
    assert!(unknown.contains("cluster east: its objects are not known yet"), "{unknown}");
}

#[test]
fn exports_that_do_not_go_together_are_explained() {
    let ports = "exports of shop/web by new, old differ in ports: they are united, and of two for one name or number that of the elder counts; the eldest is that of old";
    let kinds = "exports of shop/web by new, old differ in type: it is not headless, as the eldest has it, that of old";
    for (new, want) in [(PORTS, ports), (HEADLESS, kinds)] {
        let clusters = [("new", Some(new)), ("old", Some(OLD))];
        let set = made(&clusters, "clusterset.local {\n clusterset {\n  cluster new old\n }\n}\n");
        let name = Name::parse("web.shop.svc.clusterset.local").unwrap();
        let request = Request { name, rtype: rtype::A, ..Request::default() };
        let said = set.explain(&request, Step::Done).unwrap().json();
        assert!(said.ends_with(&format!(r#","conflicts":["{want}"]}}"#)), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_missing_are_explained() {
    let corefile = TWO.replace(" west", "\n  namespaces shop");
    let set = made(&[("east", Some(EAST))], &corefile);
    refuse("east", "shop");
    tokio::time::advance(Duration::from_secs(11)).await;
    let name = Name::parse("db.shop.svc.clusterset.local").unwrap();
    let request = Request { name, rtype: rtype::A, ..Request::default() };
    let said = set.explain(&request, Step::Done).unwrap().json();
    for want in [
        r#""share":"kept""#,
        r#""rights_missing":true,"known_from_seconds_ago":"#,
        r#","kept_for_seconds":3600"#,
    ] {
        assert!(said.contains(want), "{said}");
    }
    assert!(!said.contains("away"), "{said}");
}
