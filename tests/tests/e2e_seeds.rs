//! Corefiles of published articles about CoreDNS start unchanged, where they were meant to run: on port 53, with the resolver file
//! of the machine and a pod's service account, in a network where the articles' addresses exist. And they do what the articles say.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::client::{self, dig, http_get};
use tests::{Cluster, Folder, Gateway, Namespace, Query, Reply, Upstream, gateway, until};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The address of the cluster's DNS service, which the gateway has.
const DNS: &str = "10.3.0.10:53";

/// A client that is no pod, which the log of an article shows.
const CLIENT: &str = "10.2.6.127";

/// What all tests of this file need. One at a time has the port, so they take turns.
struct Stage {
    /// Where the gateway and the cluster run.
    inside: Namespace,
    /// Where clients and upstream servers are.
    outside: Namespace,
    /// The cluster. Its services may have addresses in 10.3.0.0/24 and 10.96.0.0/12.
    cluster: Cluster,
    /// The upstream servers: that of the resolver file, a stub zone's, and that of everything else.
    upstreams: [Upstream; 3],
    /// The certificates of another name of the API server.
    certificates: Folder,
}

/// The stage, for one test at a time.
fn stage() -> MutexGuard<'static, Stage> {
    static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
    let stage = STAGE.get_or_init(|| Mutex::new(Stage::new()));
    // A test that failed leaves nothing behind that would make another one fail.
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    /// Sets everything up.
    fn new() -> Self {
        let (inside, outside) = (Namespace::new(), Namespace::new());
        let ip = |text: &str| text.parse().expect("an address");
        inside.link(&outside, ip("10.3.0.10"), ip(CLIENT), 8, 1500);
        inside.shell("for a in 10.96.0.10/32 192.168.1.174/24; do ip address add $a dev link0; done; ip route add 8.8.8.8/32 dev link0");
        outside.shell(
            "for a in 10.2.0.53/32 10.100.0.10/32 8.8.8.8/32 10.0.1.5/32 192.168.1.11/24; do ip address add $a dev link0; done",
        );
        let certificates = certificates();
        let at = certificates.path().display();
        let sni = format!("--apiserver-arg=--tls-sni-cert-key={at}/server.crt,{at}/server.key");
        let flags = ["--port=8443", "--service-cidr=10.3.0.0/24", &sni];
        let cluster = Cluster::within(&inside, &flags);
        cluster.add_multicluster();
        cluster.apply(OBJECTS);
        inside.service_account(&cluster.token(), cluster.ca());
        inside.resolv_conf("nameserver 10.2.0.53\n");
        inside.mount("/etc/hosts", "127.0.0.1 localhost k8s-endpoint\n");
        let upstream = |address: &str, records: &[&str]| {
            Upstream::within(&outside, address.parse().expect("an address"), records)
        };
        let upstreams = [
            upstream(
                "10.2.0.53:53",
                &["example.org. 60 IN SOA ns h 1 2 3 4 5", "www.example.org. 60 IN A 203.0.113.1"],
            ),
            upstream("10.100.0.10:53", &["www.example.local. 60 IN A 203.0.113.2"]),
            upstream("8.8.8.8:53", &["www.example.org. 60 IN A 203.0.113.3"]),
        ];
        Self { inside, outside, cluster, upstreams, certificates }
    }

    /// Starts a gateway with a Corefile as it was printed, and the environment that a pod has.
    fn start(&self, corefile: &str) -> Gateway {
        let gateway = self.builder(corefile).start();
        let up = || gateway_listens(&self.outside).then_some(());
        until(LIMIT, up).unwrap_or_else(|| panic!("port 53 is not served:\n{}", gateway.output()));
        gateway
    }

    /// The same, not yet started.
    fn builder(&self, corefile: &str) -> gateway::Builder<'_> {
        Gateway::new(corefile)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", "8443")
            .standard_port()
            .within(&self.inside)
    }

    /// Asks at the DNS service's address, as a client without a pod.
    fn ask(&self, query: impl Into<Query>) -> Reply {
        let query = query.into().from_address(CLIENT.parse().expect("an address"));
        self.outside.enter(|| client::ask(server(), query))
    }

    /// Asks as the pod with this address.
    fn ask_from(&self, ip: &str, query: &str) -> Reply {
        let query = Query::from(query).from_address(ip.parse().expect("an address"));
        self.outside.enter(|| client::ask(server(), query))
    }

    /// The addresses that a name has.
    fn addresses(&self, name: &str) -> Vec<String> {
        self.ask(name).addresses().iter().map(IpAddr::to_string).collect()
    }

    /// What a program prints that runs where the clients are, with a pod's resolver file.
    fn run_outside(&self, resolver: &str, line: &str) -> String {
        // A command may fail, as `host` does for a name that is not there: what it prints counts.
        self.outside.resolv_conf(resolver);
        self.outside.shell(&format!("{line} || true"))
    }
}

/// The DNS service.
fn server() -> SocketAddr {
    DNS.parse().expect("an address")
}

/// Whether something answers on the DNS service's address.
fn gateway_listens(outside: &Namespace) -> bool {
    let probe = Query::from("version.bind TXT").patience(Duration::from_millis(200));
    outside.enter(|| probe.ask(server()).is_some())
}

/// An authority, and a certificate of it for the API server's name in an article.
fn certificates() -> Folder {
    let folder = Folder::new("certificates");
    let lines = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt\n\
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=k8s-endpoint -keyout server.key -out server.csr\n\
         printf 'subjectAltName=DNS:k8s-endpoint\\nbasicConstraints=CA:FALSE\\n' >extensions\n\
         openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.crt";
    tests::process::run(
        std::process::Command::new("sh").args(["-ec", lines]).current_dir(folder.path()),
    );
    folder
}

/// What the articles' clusters have.
const OBJECTS: &str = r#"
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: more}
spec: {cidrs: [10.96.0.0/12]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bar, labels: {istio-injection: enabled}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: test}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: staging}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: prod}}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.3.0.10, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: foo, namespace: bar}
spec: {clusterIP: 10.96.60.147, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: test, labels: {environment: staging, application: nginx}}
spec: {clusterIP: 10.3.0.21, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: staging, labels: {environment: qa, application: nginx}}
spec: {clusterIP: 10.3.0.22, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: prod}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints:
- {addresses: [10.0.1.7], zone: us-west-2a, hostname: db-0}
- {addresses: [10.0.1.8], zone: corp.example.com, targetRef: {kind: Pod, namespace: prod, name: db-pod}}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: test}
spec: {containers: [{name: c, image: "registry.example/dnstools:1"}]}
status: {phase: Running, podIP: 10.0.1.5, podIPs: [{ip: 10.0.1.5}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: shared, namespace: prod}
spec: {type: ClusterSetIP, ips: [10.112.0.7], ports: [{name: http, port: 80, protocol: TCP}]}
"#;

/// "CoreDNS for Kubernetes service discovery, take 2", 2017.
const TAKE_2: &str = "\
.:53 {
    errors
    log
    health
    kubernetes cluster.local 10.3.0.0/24
    forward . /etc/resolv.conf
    cache 30
}
";

/// The log's line of a query, in the common format, without what differs each time: address and port, ID, flags, size and time.
fn logged(gateway: &Gateway, question: &str) -> String {
    let line = gateway.line(question);
    let (before, after) = line.split_once(" - ").unwrap_or_else(|| panic!("{line}"));
    let remote = before.strip_prefix("[INFO] ").and_then(|r| r.rsplit_once(':'));
    let (remote, port) = remote.unwrap_or_else(|| panic!("{line}"));
    assert!(port.parse::<u16>().is_ok(), "{line}");
    let (id, rest) = after.split_once(" \"").unwrap_or_else(|| panic!("{line}"));
    assert!(id.parse::<u16>().is_ok(), "{line}");
    let (quoted, rest) = rest.split_once("\" ").unwrap_or_else(|| panic!("{line}"));
    let [rcode, flags, size, time] = rest.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    assert!(flags.starts_with("qr,aa,rd") && size.parse::<u32>().is_ok_and(|s| s > 40), "{line}");
    assert!(time.strip_suffix('s').is_some_and(|t| t.parse::<f64>().is_ok()), "{line}");
    format!("{remote} \"{quoted}\" {rcode}")
}

#[test]
fn take_2_prints_what_host_prints_there_and_logs_what_is_logged_there() {
    let stage = stage();
    let gateway = stage.start(TAKE_2);
    let resolver = "nameserver 10.3.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";
    for (words, wanted) in [
        ("kubernetes", "kubernetes.default.svc.cluster.local has address 10.3.0.1\n"),
        ("kube-dns.kube-system", "kube-dns.kube-system.svc.cluster.local has address 10.3.0.10\n"),
        (
            "10.3.0.1",
            "1.0.3.10.in-addr.arpa domain name pointer kubernetes.default.svc.cluster.local.\n",
        ),
        (
            "10.3.0.10",
            "10.0.3.10.in-addr.arpa domain name pointer kube-dns.kube-system.svc.cluster.local.\n",
        ),
    ] {
        let printed = stage.run_outside(resolver, &format!("host {words}"));
        assert_eq!(printed, wanted, "{}", gateway.output());
    }
    let client = stage
        .outside
        .shell("ip -4 -o route get 10.3.0.10")
        .split("src ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    for (question, rcode) in [
        ("A IN kubernetes.default.svc.cluster.local. udp 54 false 512", "NOERROR"),
        ("AAAA IN kubernetes.default.svc.cluster.local. udp 54 false 512", "NOERROR"),
        ("MX IN kubernetes.default.svc.cluster.local. udp 54 false 512", "NOERROR"),
        ("A IN kube-dns.kube-system.default.svc.cluster.local. udp 64 false 512", "NXDOMAIN"),
        ("A IN kube-dns.kube-system.svc.cluster.local. udp 56 false 512", "NOERROR"),
        ("AAAA IN kube-dns.kube-system.svc.cluster.local. udp 56 false 512", "NOERROR"),
        ("MX IN kube-dns.kube-system.svc.cluster.local. udp 56 false 512", "NOERROR"),
        ("PTR IN 1.0.3.10.in-addr.arpa. udp 39 false 512", "NOERROR"),
        ("PTR IN 10.0.3.10.in-addr.arpa. udp 40 false 512", "NOERROR"),
    ] {
        assert_eq!(
            logged(&gateway, &format!("\"{question}\"")),
            format!("{client} \"{question}\" {rcode}")
        );
    }
    // What is not the cluster's goes to the machine's own resolver, and stays in the cache.
    let before = stage.upstreams[0].queries().len();
    for _ in 0..2 {
        assert_eq!(stage.addresses("www.example.org"), ["203.0.113.1"]);
    }
    assert_eq!(stage.upstreams[0].queries().len(), before + 1);
    // Outside of the reverse zone nothing is taken from the upstream server.
    assert_eq!(stage.ask("1.0.3.11.in-addr.arpa PTR").rcode(), ResponseCode::NXDomain);
    let health = stage.inside.enter(|| http_get("127.0.0.1:8080".parse().unwrap(), "/health"));
    assert_eq!(health, Some((200, "OK".to_owned())));
}

/// The cluster's own configuration in "How CoreDNS works".
const CONFIG_MAP: &str = "\
.:53 {
   errors
   health {
      lameduck 5s
   }
   ready
   kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
      ttl 30
   }
   prometheus :9153
   forward . /etc/resolv.conf {
      max_concurrent 1000
   }
   cache 30
   loop
   reload
   loadbalance
}
";

#[test]
fn the_cluster_configuration_of_how_coredns_works_does_what_it_says() {
    let stage = stage();
    let mut gateway = stage.start(CONFIG_MAP);
    let printed =
        stage.run_outside("nameserver 10.96.0.10\n", "nslookup -type=a foo.bar.svc.cluster.local");
    let lines: Vec<String> = printed
        .lines()
        // Newer ones remark that nobody offers recursion.
        .filter(|l| !l.is_empty() && !l.starts_with(";;"))
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "Server: 10.96.0.10",
            "Address: 10.96.0.10#53",
            "Name: foo.bar.svc.cluster.local",
            "Address: 10.96.60.147"
        ]
    );
    assert_eq!(
        stage.ask("foo.bar.svc.cluster.local").answers(),
        ["foo.bar.svc.cluster.local. 30 IN A 10.96.60.147"]
    );
    assert_eq!(stage.addresses("10-244-0-2.bar.pod.cluster.local"), ["10.244.0.2"]);
    assert_eq!(stage.ask("147.60.96.10.in-addr.arpa PTR").answers().len(), 1);
    // Reverse names that the cluster has not go to the machine's resolver; other names of the cluster do not.
    let before = stage.upstreams[0].queries().len();
    stage.ask("4.4.8.8.in-addr.arpa PTR");
    stage.ask("nothing.bar.svc.cluster.local");
    let asked = stage.upstreams[0].queries();
    assert_eq!(asked.len(), before + 1, "{asked:?}");
    assert!(asked[before].contains("4.4.8.8.in-addr.arpa"), "{asked:?}");
    let get = |port: u16, path: &str| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        stage.inside.enter(|| http_get(address, path)).unwrap_or_else(|| panic!("port {port}"))
    };
    assert_eq!(get(8080, "/health"), (200, "OK".to_owned()));
    assert_eq!(get(8181, "/ready"), (200, "OK".to_owned()));
    let metrics = get(9153, "/metrics").1;
    for name in [
        "coredns_dns_requests_total{",
        "coredns_cache_entries{",
        "coredns_forward_max_concurrent_rejects_total",
        "coredns_reload_version_info{",
    ] {
        assert!(metrics.contains(name), "{name}:\n{metrics}");
    }
    // Told to stop, it serves for five seconds more.
    let begin = std::time::Instant::now();
    gateway.signal(rustix::process::Signal::TERM);
    gateway.line("Going into lameduck mode for 5s");
    assert_eq!(get(8080, "/health"), (200, "OK".to_owned()));
    assert_eq!(get(8181, "/ready").0, 503);
    assert_eq!(stage.addresses("foo.bar.svc.cluster.local"), ["10.96.60.147"]);
    let status = gateway.process().wait(LIMIT).expect("it ends");
    assert!(status.success() && begin.elapsed() >= Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn the_annotated_directive_of_how_coredns_works_starts() {
    let stage = stage();
    let directive = "\
 kubernetes cluster.local in-addr.arpa ip6.arpa { #1
    pods insecure #2
    fallthrough in-addr.arpa ip6.arpa #3
    ttl 30 #4
 }
";
    let _gateway = stage.start(&format!(".:53 {{\n{directive}}}\n"));
    assert_eq!(
        stage.ask("foo.bar.svc.cluster.local").answers(),
        ["foo.bar.svc.cluster.local. 30 IN A 10.96.60.147"]
    );
    assert_eq!(stage.addresses("10-244-0-2.bar.pod.cluster.local"), ["10.244.0.2"]);
}

#[test]
fn without_a_corefile_whoami_tells_the_client_where_it_is() {
    let stage = stage();
    let folder = Folder::new("no-corefile");
    let mut command = stage.inside.command(gateway::binary());
    command.arg("-dns.port=1053").current_dir(folder.path()).env_clear();
    let process = tests::Process::start("causeway", command);
    until(LIMIT, || process.ports().contains(&1053).then_some(()))
        .unwrap_or_else(|| panic!("{}", process.output()));
    process.line(".:1053", LIMIT);
    let text = stage
        .outside
        .enter(|| dig("192.168.1.174:1053".parse().unwrap(), "-b 192.168.1.11 example.com"));
    assert!(
        text.contains("status: NOERROR")
            && text
                .contains(";; flags: qr aa rd; QUERY: 1, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 3"),
        "{text}"
    );
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    let found = |words: &[&str]| lines.iter().any(|l| l.starts_with(words));
    assert!(found(&["example.com.", "0", "IN", "A", "192.168.1.11"]), "{text}");
    assert!(found(&["_udp.example.com.", "0", "IN", "SRV", "0", "0"]), "{text}");
    process.line("\"A IN example.com. udp", LIMIT);
}

#[test]
fn a_network_and_verified_pods_are_served_with_their_reverse_names() {
    let stage = stage();
    let _gateway = stage
        .start("10.0.0.0/17 cluster.local {\n    kubernetes {\n        pods verified\n    }\n}\n");
    assert_eq!(stage.addresses("10-0-1-5.test.pod.cluster.local"), ["10.0.1.5"]);
    assert_eq!(stage.ask("10-0-1-6.test.pod.cluster.local").rcode(), ResponseCode::NXDomain);
    let answers = stage.ask("7.1.0.10.in-addr.arpa PTR").answers();
    assert_eq!(answers, ["7.1.0.10.in-addr.arpa. 5 IN PTR db-0.db.prod.svc.cluster.local."]);
    // 10.0.128.0 and above are somebody else's.
    assert_eq!(stage.ask("7.128.0.10.in-addr.arpa PTR").rcode(), ResponseCode::Refused);
}

#[test]
fn chosen_namespaces_are_served_and_no_others() {
    let stage = stage();
    let directive = "kubernetes cluster.local {\n    namespaces test staging\n}\n";
    let _gateway = stage.start(&format!(".:53 {{\n{directive}}}\n"));
    assert_eq!(stage.addresses("web.test.svc.cluster.local"), ["10.3.0.21"]);
    assert_eq!(stage.addresses("web.staging.svc.cluster.local"), ["10.3.0.22"]);
    assert_eq!(stage.ask("foo.bar.svc.cluster.local").rcode(), ResponseCode::NXDomain);
}

#[test]
fn label_expressions_choose_namespaces_and_objects() {
    let stage = stage();
    {
        let _gateway = stage.start(".:53 {\nkubernetes cluster.local {\n    namespace_labels istio-injection=enabled\n}\n}\n");
        assert_eq!(stage.addresses("foo.bar.svc.cluster.local"), ["10.96.60.147"]);
        assert_eq!(stage.ask("web.test.svc.cluster.local").rcode(), ResponseCode::NXDomain);
    }
    let _gateway = stage.start(".:53 {\nkubernetes cluster.local {\n    labels environment in (staging, qa),application=nginx\n}\n}\n");
    assert_eq!(stage.addresses("web.test.svc.cluster.local"), ["10.3.0.21"]);
    assert_eq!(stage.addresses("web.staging.svc.cluster.local"), ["10.3.0.22"]);
    assert_eq!(stage.ask("foo.bar.svc.cluster.local").rcode(), ResponseCode::NXDomain);
}

#[test]
fn a_remote_cluster_is_reached_by_its_endpoint_and_three_files() {
    let stage = stage();
    let directive = "kubernetes cluster.local {\n    endpoint https://k8s-endpoint:8443\n    tls cert key cacert\n}\n";
    let text = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let gateway = Gateway::new(&format!(".:53 {{\n{directive}}}\n"))
        .file("cert", &text(&stage.cluster.certificate("reader")))
        .file("key", &text(&stage.cluster.key("reader")))
        .file("cacert", &text(&stage.certificates.path().join("ca.crt")))
        .within(&stage.inside)
        .start();
    stage.ask("foo.bar.svc.cluster.local");
    assert_eq!(
        stage.addresses("foo.bar.svc.cluster.local"),
        ["10.96.60.147"],
        "{}",
        gateway.output()
    );
}

#[test]
fn a_cluster_set_stands_beside_the_cluster() {
    let stage = stage();
    let directive =
        "kubernetes cluster.local clusterset.local {\n    multicluster clusterset.local\n}\n";
    let _gateway = stage.start(&format!(".:53 {{\n{directive}}}\n"));
    assert_eq!(stage.addresses("shared.prod.svc.clusterset.local"), ["10.112.0.7"]);
    assert_eq!(stage.addresses("web.test.svc.cluster.local"), ["10.3.0.21"]);
    assert_eq!(stage.ask("web.test.svc.clusterset.local").rcode(), ResponseCode::NXDomain);
}

#[test]
fn stub_domains_and_upstream_name_servers_get_what_is_theirs() {
    let stage = stage();
    let corefile = "\
cluster.local:53 {
    kubernetes cluster.local
}
example.local {
    forward . 10.100.0.10:53
}
. {
    forward . 8.8.8.8:53
}
";
    let _gateway = stage.start(corefile);
    assert_eq!(stage.addresses("web.test.svc.cluster.local"), ["10.3.0.21"]);
    assert_eq!(stage.addresses("www.example.local"), ["203.0.113.2"]);
    assert_eq!(stage.addresses("www.example.org"), ["203.0.113.3"]);
    for (upstream, theirs) in [(1, "example.local"), (2, "www.example.org")] {
        let asked = stage.upstreams[upstream].queries();
        assert!(
            !asked.is_empty() && asked.iter().all(|q| !q.contains("cluster.local")),
            "{asked:?}"
        );
        assert!(asked.iter().any(|q| q.contains(theirs)), "{asked:?}");
        let other = if upstream == 1 { "example.org" } else { "example.local" };
        assert!(asked.iter().all(|q| !q.contains(other)), "{asked:?}");
    }
}

#[test]
fn the_search_path_of_a_pod_is_completed_on_the_server() {
    let stage = stage();
    let _gateway = stage.start("cluster.local {\n    autopath @kubernetes\n    kubernetes {\n        pods verified\n    }\n}\n");
    let reply = stage.ask_from("10.0.1.5", "foo.bar.test.svc.cluster.local");
    assert_eq!(reply.rcode(), ResponseCode::NoError, "{reply:?}");
    assert_eq!(reply.aliases(), ["foo.bar.test.svc.cluster.local. -> foo.bar.svc.cluster.local."]);
    assert_eq!(reply.addresses(), ["10.96.60.147".parse::<IpAddr>().unwrap()]);
    assert_eq!(stage.ask("foo.bar.test.svc.cluster.local").rcode(), ResponseCode::NXDomain);
}

#[test]
fn topology_zones_and_names_of_pods_are_answered() {
    let stage = stage();
    let _gateway = stage
        .start(".:53 {\nkubernetes cluster.local {\n    zonal\n    endpoint_pod_names\n}\n}\n");
    assert_eq!(stage.addresses("us-west-2a.pin._zone.db.prod.svc.cluster.local"), ["10.0.1.7"]);
    assert_eq!(
        stage.addresses("corp.example.com.pin._zone.db.prod.svc.cluster.local"),
        ["10.0.1.8"]
    );
    assert_eq!(stage.addresses("db-pod.db.prod.svc.cluster.local"), ["10.0.1.8"]);
    let drained = stage.ask("us-west-2z.pin._zone.db.prod.svc.cluster.local");
    assert_eq!((drained.rcode(), drained.answers().len()), (ResponseCode::NoError, 0));
    assert_eq!(stage.addresses("us-west-2z.prefer._zone.db.prod.svc.cluster.local").len(), 2);
}

#[test]
fn what_the_articles_say_is_refused_is_refused() {
    let stage = stage();
    for (block, said) in [
        (
            "namespaces foo bar\n namespace_labels istio-injection=enabled",
            "namespaces cannot both be set",
        ),
        ("pods sometimes", "verified"),
        ("ttl 3601", "ttl must be in range [0, 3600]"),
        ("zonal\n noendpoints", "noendpoints"),
        ("multicluster clusterset.local", "is not authoritative for"),
        ("apiserver_qps -1", "apiserver_qps"),
    ] {
        let corefile = format!(".:53 {{\n kubernetes cluster.local {{\n {block}\n }}\n}}\n");
        let (status, output) = stage.builder(&corefile).refused();
        assert!(!status.success() && output.contains(said), "{block}: {output}");
    }
    let (_, output) = stage
        .builder(".:53 {\n kubernetes cluster.local\n kubernetes cluster.local\n}\n")
        .refused();
    assert!(output.contains("kubernetes") && output.contains("once"), "{output}");
}

#[test]
fn a_pods_token_is_read_again_when_it_is_rotated() {
    let stage = stage();
    let token = |text: &str| {
        stage
            .inside
            .shell(&format!("printf %s '{text}' >/run/secrets/kubernetes.io/serviceaccount/token"));
    };
    token("expired");
    let gateway =
        stage.start(".:53 {\n kubernetes cluster.local {\n  startup_timeout 200ms\n }\n}\n");
    gateway.line("the credentials are not accepted (401");
    assert_eq!(stage.ask("foo.bar.svc.cluster.local").rcode(), ResponseCode::ServFail);
    token(&stage.cluster.token());
    let known = until(LIMIT, || {
        (stage.addresses("foo.bar.svc.cluster.local") == ["10.96.60.147"]).then_some(())
    });
    assert!(known.is_some(), "{}", gateway.output());
}
