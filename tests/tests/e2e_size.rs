//! What a large cluster costs: the time and the processor until all of it is answered, and the memory that it takes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tests::{
    Api, Cluster, Folder, Gateway, Query, Relay, Reply, Watchman, api, stated, until, watchman,
};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Over how many namespaces the Services are spread.
const NAMESPACES: u32 = 100;

/// Addresses of an EndpointSlice.
const ENDPOINTS: u32 = 5;

/// The name of a Service.
fn name(i: u32) -> String {
    format!("svc-{i}.load-ns-{}.svc.cluster.local", i % NAMESPACES)
}

/// Whether a Service has no address of its own.
fn headless(i: u32) -> bool {
    i.is_multiple_of(10)
}

/// The cluster IP of a Service.
fn cluster_ip(i: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 100, 0, 0)) + i + 1)
}

/// The address of an endpoint.
fn endpoint(i: u32, number: u32) -> IpAddr {
    IpAddr::from(Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + i * ENDPOINTS + number))
}

/// The questions about a Service, with the right answers: its name, and that of an address.
fn questions(i: u32) -> Vec<(String, Vec<String>)> {
    let name = name(i);
    let addresses =
        |name: &str, all: Vec<IpAddr>| all.iter().map(|a| format!("{name}. 5 IN A {a}")).collect();
    if headless(i) {
        let pod = format!("pod-3.{name}");
        let all = (0..ENDPOINTS).map(|n| endpoint(i, n)).collect();
        let one = addresses(&pod, vec![endpoint(i, 3)]);
        return vec![(format!("{name} A"), addresses(&name, all)), (format!("{pod} A"), one)];
    }
    let ip = cluster_ip(i);
    let [a, b, c, d] = ip.octets();
    let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
    let pointer = format!("{reverse}. 5 IN PTR {name}.");
    vec![
        (format!("{name} A"), addresses(&name, vec![ip.into()])),
        (format!("{reverse} PTR"), vec![pointer]),
    ]
}

/// Whether a reply has these records and no others.
fn right(reply: &Reply, answers: &[String]) -> bool {
    let mut wanted = answers.to_vec();
    wanted.sort_unstable();
    reply.answers() == wanted
}

/// Asks for each `step`-th Service; panics at the first wrong answer, and gives how many names it asked for.
fn ask_all(gateway: &Gateway, services: u32, step: usize) -> usize {
    let all: Vec<_> = (0..services).step_by(step).flat_map(questions).collect();
    for (question, answers) in &all {
        let reply = gateway.ask(question.as_str());
        assert!(right(&reply, answers), "{question}: {reply:?}\nis not {answers:?}");
    }
    all.len()
}

/// How many lists were asked for, as such or as the beginning of a watch, of Services and EndpointSlices.
fn lists(cluster: &Cluster) -> usize {
    let list = |uri: &str| {
        let kind =
            ["/services?", "/endpointslices?"].iter().find_map(|k| Some(uri.split_once(k)?.1));
        kind.is_some_and(|rest| {
            !rest.contains("limit=")
                && (rest.contains("sendInitialEvents=true") || !rest.contains("watch=true"))
        })
    };
    let audit = cluster.audit();
    let reader = audit.iter().filter(|e| e["user"]["username"] == "reader");
    let mut requests: Vec<_> = reader
        .filter(|e| e["requestURI"].as_str().is_some_and(list))
        .map(|e| e["auditID"].to_string())
        .collect();
    requests.sort_unstable();
    requests.dedup();
    requests.len()
}

#[test]
fn a_large_cluster_is_known_soon_and_held_in_little_memory() {
    let services = stated("SIZE_SERVICES", 300.0) as u32;
    let step = stated("SIZE_EVERY", 7.0) as usize;
    let mut cluster = Cluster::loaded(services, NAMESPACES, &["--audit"]);
    // It is built before anything is measured.
    tests::gateway::binary();

    let mut relay = Relay::start(cluster.address());
    let folder = Folder::new("kubeconfig");
    let kubeconfig = folder.write("kubeconfig", cluster.kubeconfig_at("reader", relay.address()));

    let begin = Instant::now();
    let gateway = Gateway::new(&format!(
        "cluster.local:@PORT@ 10.96.0.0/12:@PORT@ {{\n errors\n kubernetes {{\n  kubeconfig {}\n }}\n}}",
        kubeconfig.display()
    ))
    .launch();
    // Of each sort the last, whichever of the two kinds of objects comes later.
    for (question, answers) in (0..services).rev().take(10).flat_map(questions) {
        Query::from(question.as_str()).patience(Duration::from_millis(500)).ask_until(
            gateway.address(),
            LIMIT,
            |r| right(r, &answers),
        );
    }
    let (wall, cpu) = (begin.elapsed(), gateway.usage().processor_time());
    let asked = ask_all(&gateway, services, step);
    let resident = gateway.resident();

    // An API server that is restarted does not remember what changed before: all is listed again, beside what is known.
    let before = lists(&cluster);
    let names: Vec<String> =
        [1, 10, services - 1].iter().flat_map(|&i| questions(i)).map(|(q, _)| q).collect();
    let watchman = Watchman::start(vec![watchman::steady(gateway.address(), &names)]);
    relay.close();
    let services_path = "/api/v1/namespaces/load-ns-2/services";
    let slice_path = "/apis/discovery.k8s.io/v1/namespaces/load-ns-20/endpointslices/svc-20-abcde";
    let service = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fresh"}, "spec": {"type": "ExternalName", "externalName": "www.example.org"}}"#;
    let slice = r#"{"endpoints": [{"addresses": ["172.30.0.1"]}]}"#;
    let mut session = Api::new(&cluster, "admin").session();
    for (method, path, kind, body) in [
        ("POST", services_path, "application/json", service),
        ("PATCH", slice_path, api::MERGE, slice),
    ] {
        let (status, object) = session.send(method, path, kind, body);
        assert!((200..300).contains(&status), "{path}: {status} {object}");
    }
    drop(session);
    cluster.kill();
    cluster.restart();
    gateway.usage().forget_peak();
    relay.open();
    let fresh = "fresh.load-ns-2.svc.cluster.local CNAME";
    gateway.ask_until(fresh, LIMIT, |r| r.aliases().len() == 1);
    let moved = IpAddr::from([172, 30, 0, 1]);
    gateway.ask_until(name(20).as_str(), LIMIT, |r| r.addresses() == [moved]);
    let peak = gateway.usage().size("VmHWM");
    let again = until(LIMIT, || (lists(&cluster) >= before + 2).then_some(()));
    again.unwrap_or_else(|| {
        panic!("{before} lists before, {} after:\n{}", lists(&cluster), gateway.output())
    });
    let meanwhile = watchman.end(&gateway);

    let mib = |octets: u64| octets as f64 / f64::from(1 << 20);
    println!(
        "{services} services, {} endpoints: {:.2} s and {:.2} s of processor time to the last answer; {:.0} MiB resident, \
         {:.0} MiB at most while all is listed again; {asked} names right, and {meanwhile} answers in the meantime",
        services * ENDPOINTS,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        mib(resident),
        mib(peak)
    );
    for (what, value, limit) in [
        ("seconds", wall.as_secs_f64(), stated("SIZE_SECONDS", 30.0)),
        ("seconds of processor time", cpu.as_secs_f64(), stated("SIZE_CPU_SECONDS", 10.0)),
        ("MiB resident", mib(resident), stated("SIZE_RESIDENT_MIB", 200.0)),
        ("MiB at most", mib(peak), stated("SIZE_PEAK_MIB", 250.0)),
    ] {
        assert!(value <= limit, "{value:.2} {what}, more than {limit}:\n{}", gateway.output());
    }
}
