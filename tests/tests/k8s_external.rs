//! Addresses outside with a real API server: *k8s_external*, whose records, transfers and selectors follow them as they appear,
//! change and go, and `reach`, by which one name gives different clients different ones.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::client::dig;
use tests::{Cluster, Gateway, Query, Reply};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A load balancer's service with labels and what its status says.
fn balancer(namespace: &str, name: &str, labels: &str, ingress: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n\
         spec: {{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{{name: https, port: 443}}]}}\n\
         status: {{loadBalancer: {{ingress: [{ingress}]}}}}\n"
    )
}

/// A gateway for the cluster, with what *kubernetes* and *k8s_external* are told.
fn gateway(cluster: &Cluster, kubernetes: &str, external: &str) -> Gateway {
    let kubeconfig = cluster.kubeconfig("reader");
    let corefile = format!(
        "cluster.local:@PORT@ example.org:@PORT@ 113.0.203.in-addr.arpa:@PORT@ {{\n bind 127.0.0.1\n errors\n transfer {{\n  to *\n }}\n \
         kubernetes cluster.local {{\n  kubeconfig {}\n  {kubernetes}\n }}\n \
         k8s_external example.org 113.0.203.in-addr.arpa {{\n  {external}\n }}\n}}\n\
         up.test:@PORT@ {{\n bind 127.0.0.1\n hosts {{\n  203.0.113.200 lb.up.test\n }}\n}}\n",
        kubeconfig.display()
    );
    Gateway::new(&corefile).start()
}

/// The serial of the zone.
fn serial(gateway: &Gateway) -> u32 {
    let soa = gateway.ask("example.org SOA").answers().remove(0);
    soa.split(' ').nth(6).unwrap().parse().unwrap()
}

#[test]
fn addresses_outside_follow_a_real_cluster() {
    let cluster = Cluster::start();
    cluster.apply(
        &("{apiVersion: v1, kind: Namespace, metadata: {name: edge, labels: {open: 'yes'}}}\n---\n\
           {apiVersion: v1, kind: Namespace, metadata: {name: inner}}\n"
            .to_owned()
            + &balancer("edge", "lb", "tier: front", "{ip: 203.0.113.7}, {ip: '2001:db8::7'}")
            + &balancer("edge", "named", "tier: front", "{hostname: lb.up.test}")
            + &balancer("edge", "back", "tier: back", "{ip: 203.0.113.8}")
            + &balancer("inner", "lb", "tier: front", "{ip: 203.0.113.9}")),
    );
    let all = gateway(&cluster, "", "");
    all.ask_until("lb.inner.example.org A", LIMIT, |reply| !reply.addresses().is_empty());
    for (query, want) in [
        ("lb.edge.example.org A", &["lb.edge.example.org. 5 IN A 203.0.113.7"][..]),
        ("lb.edge.example.org AAAA", &["lb.edge.example.org. 5 IN AAAA 2001:db8::7"]),
        (
            "named.edge.example.org A",
            &[
                "named.edge.example.org. 5 IN CNAME lb.up.test.",
                "lb.up.test. 3600 IN A 203.0.113.200",
            ],
        ),
        (
            "_https._tcp.lb.edge.example.org SRV",
            &["_https._tcp.lb.edge.example.org. 5 IN SRV 0 50 443 lb.edge.example.org."],
        ),
        (
            "7.113.0.203.in-addr.arpa PTR",
            &["7.113.0.203.in-addr.arpa. 5 IN PTR lb.edge.example.org."],
        ),
    ] {
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(all.ask(query).answers(), want, "{query}");
    }
    // Namespaces and labels that *kubernetes* leaves out are not there.
    for (kubernetes, hidden) in [
        ("namespaces edge", "lb.inner.example.org A"),
        ("namespace_labels open=yes", "lb.inner.example.org A"),
        ("labels tier=front", "back.edge.example.org A"),
    ] {
        let some = gateway(&cluster, kubernetes, "");
        some.ask_until("lb.edge.example.org A", LIMIT, |reply| !reply.addresses().is_empty());
        assert_eq!(some.ask(hidden).rcode(), ResponseCode::NXDomain, "{kubernetes}");
    }
    // Another address is another serial, and what is gone is gone.
    let before = serial(&all);
    std::thread::sleep(Duration::from_millis(1100));
    cluster.apply(&balancer("edge", "lb", "tier: front", "{ip: 203.0.113.17}"));
    let changed = |reply: &Reply| reply.answers() == ["lb.edge.example.org. 5 IN A 203.0.113.17"];
    all.ask_until("lb.edge.example.org A", LIMIT, changed);
    // Changes are gathered for a while before they are published.
    assert!(tests::until(LIMIT, || (serial(&all) > before).then_some(())).is_some());
    assert_eq!(all.ask("7.113.0.203.in-addr.arpa PTR").rcode(), ResponseCode::NXDomain);
    let copied = dig(all.address(), "example.org AXFR +tcp +onesoa");
    for line in
        ["203.0.113.17", "lb.up.test.", "203.0.113.8", "203.0.113.9", "ns1.dns.example.org."]
    {
        assert!(copied.contains(line), "{line}:\n{copied}");
    }
    cluster.apply(&balancer("edge", "lb", "tier: front", ""));
    all.ask_until("lb.edge.example.org A", LIMIT, |reply| reply.rcode() == ResponseCode::NXDomain);
}

#[test]
fn an_outage_of_the_cluster_changes_no_address() {
    let mut cluster = Cluster::start();
    cluster.apply(
        &("{apiVersion: v1, kind: Namespace, metadata: {name: edge}}\n".to_owned()
            + &balancer("edge", "lb", "", "{ip: 203.0.113.7}")),
    );
    let gateway = gateway(&cluster, "", "");
    gateway.ask_until("lb.edge.example.org A", LIMIT, |reply| !reply.addresses().is_empty());
    cluster.kill();
    for _ in 0..5 {
        assert_eq!(gateway.ask("lb.edge.example.org A").addresses().len(), 1);
        std::thread::sleep(Duration::from_millis(200));
    }
    cluster.restart();
    cluster.apply(&balancer("edge", "new", "", "{ip: 203.0.113.70}"));
    gateway.ask_until("new.edge.example.org A", LIMIT, |reply| !reply.addresses().is_empty());
}

/// Services of which one has an address of each kind, one nothing but a cluster IP, and one endpoints beside.
const REACHED: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, clusterIP: 10.96.10.10, externalIPs: [203.0.113.9], ports: [{name: http, port: 80, targetPort: 8080}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: shop}
spec: {clusterIP: 10.96.10.14, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: pods, namespace: shop}
spec: {clusterIP: 10.96.10.15, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pods-1, namespace: shop, labels: {kubernetes.io/service-name: pods}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [172.16.1.1], conditions: {ready: true}}]
";

/// The clients of the views `vpn` and `office`, and one that no view is for.
const CLIENTS: [[u8; 4]; 3] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];

/// What a client is told.
fn told(gateway: &Gateway, client: [u8; 4], name: &str) -> Reply {
    let name = format!("{name}.shop.svc.cluster.local");
    gateway.ask(Query::from(&*name).bufsize(1232).from_address(IpAddr::from(client)))
}

#[test]
fn one_name_leads_each_view_to_what_its_clients_reach() {
    let cluster = Cluster::start();
    cluster.apply(REACHED);
    let kubeconfig = cluster.kubeconfig("reader");
    let block = |view: &str, reach: &str| {
        format!(
            "cluster.local:@PORT@ {{\n bind 127.0.0.1\n errors\n {view}\n kubernetes {{\n  kubeconfig {}\n  {reach}\n }}\n}}\n",
            kubeconfig.display()
        )
    };
    let view = |name: &str, [a, b, c, d]: [u8; 4]| {
        format!("view {name} {{\n  expr client_ip() == '{a}.{b}.{c}.{d}'\n }}")
    };
    let gateway = Gateway::new(
        &(block(&view("vpn", CLIENTS[0]), "reach loadbalancer endpoints")
            + &block(&view("office", CLIENTS[1]), "reach externalip")
            + &block("", "")),
    )
    .start();
    gateway.ask_until("plain.shop.svc.cluster.local", LIMIT, |r| !r.addresses().is_empty());
    // Each client's address, or what it is told that was looked for.
    let lacks =
        |kinds: &str| format!("the service is there, but has none of these addresses: {kinds}");
    let table = |web: [&str; 3]| {
        let outside = (lacks("loadbalancer, endpoints"), lacks("externalip"));
        for (name, want) in [
            ("web", web),
            ("plain", [&*outside.0, &outside.1, "10.96.10.14"]),
            ("pods", ["172.16.1.1", &outside.1, "10.96.10.15"]),
        ] {
            for (client, want) in CLIENTS.into_iter().zip(want) {
                let reply = told(&gateway, client, name);
                assert_eq!(reply.rcode(), ResponseCode::NoError, "{name} {client:?}: {reply:?}");
                let addresses: Vec<String> =
                    reply.addresses().iter().map(ToString::to_string).collect();
                let (found, error) = match want.parse::<IpAddr>() {
                    Ok(_) => (vec![want.to_owned()], None),
                    Err(_) => (Vec::new(), Some((0, want.to_owned()))),
                };
                assert_eq!(addresses, found, "{name} {client:?}");
                assert_eq!(reply.extended(), error, "{name} {client:?}");
            }
        }
    };
    table(["203.0.113.7", "203.0.113.9", "10.96.10.10"]);
    // Ports are those of the address that it is.
    for (client, want) in CLIENTS.into_iter().zip([Some("8080"), None, Some("80")]) {
        let query = Query::from("_http._tcp.pods.shop.svc.cluster.local SRV");
        let reply = gateway.ask(query.from_address(IpAddr::from(client)));
        let port = reply.answers().first().and_then(|one| Some(one.split(' ').nth(6)?.to_owned()));
        assert_eq!(port.as_deref(), want, "{client:?}: {reply:?}");
    }
    // What changes is another answer for those whom it concerns.
    let moved = REACHED.replace("203.0.113.7", "203.0.113.77");
    cluster.apply(&moved);
    let query = Query::from("web.shop.svc.cluster.local").from_address(IpAddr::from(CLIENTS[0]));
    let new = IpAddr::from([203, 0, 113, 77]);
    gateway.ask_until(query, LIMIT, |reply| reply.addresses() == [new]);
    table(["203.0.113.77", "203.0.113.9", "10.96.10.10"]);
}
