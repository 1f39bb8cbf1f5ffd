//! Knot, NSD and BIND follow a real cluster: by NOTIFY and IXFR, signed, while it changes.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::nameserver::{KEY, Make, Nameserver, Terms, records, serial};
use tests::{Cluster, Gateway, Query, free_port, stated, until};

/// How long a zone may take to go from one server to another; a slow machine under load is no reason to fail.
const LIMIT: Duration = Duration::from_secs(300);
/// The zone of names.
const ZONE: &str = "cluster.local";
/// The zone of addresses, of all that there are: those of endpoints change.
const REVERSE: &str = "in-addr.arpa";
/// All zones.
const ZONES: [&str; 2] = [ZONE, REVERSE];

/// A gateway for the cluster at an address, which tells these secondaries of changes.
fn gateway(cluster: &Cluster, at: SocketAddr, secondaries: &[(Make, Nameserver)]) -> Gateway {
    let to: Vec<String> = secondaries.iter().map(|(_, one)| one.address().to_string()).collect();
    let (key, secret) = KEY;
    Gateway::new(&format!(
        "{} {{\n tsig {{\n  secret {key} {secret}\n  require AXFR IXFR\n }}\n transfer {{\n  to {}\n  key {key}\n }}\n \
         kubernetes {{\n  kubeconfig {}\n }}\n prometheus 127.0.0.1:@PORT:metrics@\n}}",
        ZONES.map(|zone| format!("{zone}:{}", at.port())).join(" "),
        to.join(" "),
        cluster.kubeconfig("reader").display()
    ))
    .start()
}

/// Waits until all have the zones as the gateway has them now; gives their records.
fn settled(gateway: &Gateway, at: SocketAddr, secondaries: &[(Make, Nameserver)]) -> Vec<String> {
    let key = format!("hmac-sha256:{}:{}", KEY.0, KEY.1);
    let words = ["-y", &*key];
    let begun = Instant::now();
    // The last change is published within a second or so.
    sleep(Duration::from_secs(2));
    for ((make, secondary), zone) in
        secondaries.iter().flat_map(|one| ZONES.map(|zone| (one, zone)))
    {
        let come = until(LIMIT, || {
            let now = serial(at, zone);
            (now.is_some() && serial(secondary.address(), zone) == now).then_some(())
        });
        assert!(
            come.is_some(),
            "{}: {zone}: {:?}, not {:?}\n{}\n{}",
            make.name(),
            serial(secondary.address(), zone),
            serial(at, zone),
            secondary.output(),
            gateway.output()
        );
    }
    let all = |server, words: &[&str]| -> Vec<String> {
        ZONES.iter().flat_map(|zone| records(server, zone, words)).collect()
    };
    let own = all(at, &words);
    for (make, secondary) in secondaries {
        let theirs = all(secondary.address(), &[]);
        let missing: Vec<_> =
            own.iter().filter(|record| !theirs.contains(record)).take(9).collect();
        let more: Vec<_> = theirs.iter().filter(|record| !own.contains(record)).take(9).collect();
        assert!(own == theirs, "{}: {missing:#?} missing, {more:#?} more", make.name());
    }
    println!(
        "all have {} records {:.1} s after the last change",
        own.len(),
        begun.elapsed().as_secs_f64()
    );
    own
}

/// How many transfers the gateway sent, whole ones and changes alone.
fn sent(gateway: &Gateway) -> (u32, u32) {
    let metrics = gateway.metrics("metrics");
    let of = |kind: &str| {
        let name = format!("causeway_transfer_sent_total{{kind=\"{kind}\"}}");
        metrics.get(&name).copied().unwrap_or_default() as u32
    };
    (of("axfr"), of("ixfr"))
}

/// Compares what the secondaries answer with what was changed last.
fn compare(changes: &[tests::cluster::Change], secondaries: &[(Make, Nameserver)]) {
    let last: BTreeMap<_, _> = changes
        .iter()
        .map(|change| ((&change.service, &change.namespace), &change.addresses))
        .collect();
    for ((service, namespace), addresses) in last.into_iter().take(20) {
        let mut want = addresses.clone();
        want.sort_unstable();
        for (make, secondary) in secondaries {
            let query = Query::from(&*format!("{service}.{namespace}.svc.{ZONE} A"));
            let mut got: Vec<String> = query
                .ask(secondary.address())
                .unwrap()
                .addresses()
                .iter()
                .map(ToString::to_string)
                .collect();
            got.sort_unstable();
            assert_eq!(got, want, "{} {service}.{namespace}", make.name());
        }
    }
}

#[test]
fn knot_nsd_and_bind_follow_a_cluster() {
    let cluster = Cluster::start();
    let services = stated("SECONDARY_SERVICES", 100.0).to_string();
    let load = ["-services", &services, "-namespaces", "4", "-headless-every", "1"];
    tests::process::run(cluster.command("load").args(load));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let terms = Terms { gateway: Some(at), signed: true, also: &[REVERSE], ..Terms::default() };
    let mut secondaries = Make::ALL.map(|make| (make, Nameserver::secondary(make, ZONE, &terms)));
    let mut first = gateway(&cluster, at, &secondaries);
    let before = settled(&first, at, &secondaries);
    let whole = sent(&first).0;

    // All but one follow, and that one comes back in the middle of it.
    let rate = stated("SECONDARY_RATE", 100.0);
    let seconds = stated("SECONDARY_CHANGES", 1000.0) / rate;
    secondaries[0].1.process().signal(Signal::STOP);
    let changes = std::thread::scope(|scope| {
        let churn = scope.spawn(|| cluster.churn(rate, seconds * 0.7));
        sleep(Duration::from_secs_f64(seconds * 0.35));
        secondaries[0].1.process().signal(Signal::CONT);
        churn.join().unwrap()
    });
    let after = settled(&first, at, &secondaries);
    compare(&changes, &secondaries);
    assert!(after.iter().filter(|record| !before.contains(record)).count() > 50);
    let pointers: Vec<_> = after.iter().filter(|record| record.contains(" ptr ")).collect();
    let of = |end: &str| pointers.iter().filter(|record| record.contains(end)).count();
    assert_eq!(of("1.0.96.10.in-addr.arpa. "), 1, "the API server's own service: {pointers:#?}");
    assert!(of(".168.192.in-addr.arpa. ") > 50, "endpoints that have come: {pointers:#?}");
    let (all, some) = sent(&first);
    println!("{} changes by {some} incremental transfers, {all} whole ones", changes.len());
    // These are the test's own.
    let own = ZONES.len() as u32;
    assert_eq!(all, whole + own, "changes went as whole zones:\n{}", first.output());
    assert!(some >= 9, "{some}:\n{}", first.output());
    for (make, secondary) in &secondaries {
        let (says, log) = (make.name(), secondary.output());
        let incremental = match make {
            Make::Knot => log.matches("IXFR, incoming").count(),
            // It tells of transfers, not of their kind.
            Make::Nsd => log.matches("xfrd: zone cluster.local committed").count(),
            Make::Bind => log.matches("transfer of 'cluster.local/IN' from").count(),
        };
        assert!(incremental > 2, "{says} says nothing of it:\n{log}");
    }

    // A gateway that was restarted begins with a later serial and goes on.
    let last = serial(at, ZONE).unwrap();
    first.stop();
    drop(first);
    let second = gateway(&cluster, at, &secondaries);
    settled(&second, at, &secondaries);
    let now = serial(at, ZONE).unwrap();
    assert!(now.wrapping_sub(last) as i32 > 0, "{last} {now}");
    let whole = sent(&second).0;
    let changes = cluster.churn(rate, seconds * 0.3);
    let end = settled(&second, at, &secondaries);
    compare(&changes, &secondaries);
    assert_ne!(end, after);
    let (all, some) = sent(&second);
    assert_eq!(all, whole + own, "changes went as whole zones:\n{}", second.output());
    assert!(some >= 3, "{some}:\n{}", second.output());
    let answered = "causeway_transfer_notices_total{result=\"answered\"}";
    assert!(second.metrics("metrics").get(answered).is_some_and(|count| *count >= 6.0));
}
