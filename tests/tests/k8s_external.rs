//! *k8s_external* with a real API server: addresses outside appear, change and go, and transfers and selectors follow.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::client::dig;
use tests::{Cluster, Gateway};

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
    let changed =
        |reply: &tests::Reply| reply.answers() == ["lb.edge.example.org. 5 IN A 203.0.113.17"];
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
