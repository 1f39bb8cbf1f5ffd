//! The tools of this crate do what the other tests count on.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::client::{self, Query, Stream};
use tests::pki::{Leaf, Pki};
use tests::{Cluster, Folder, Gateway, Namespace, Process, Upstream, free_port, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(20);

const RECORDS: &[&str] = &[
    "example.org. 60 IN SOA ns.example.org. host.example.org. 1 2 3 4 5",
    "www.example.org. 60 IN A 203.0.113.1",
];

#[test]
fn folders_are_written_by_rename_and_go_away() {
    let folder = Folder::new("tools");
    let file = folder.write("a/b.txt", "x");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    drop(folder);
    assert!(!file.exists());
}

#[test]
fn an_authority_issues_what_it_is_told() {
    let pki = Pki::new();
    let verify = |pair: &tests::pki::Pair, words: &[&str]| {
        let done = Command::new("openssl")
            .args(["verify", "-CAfile"])
            .arg(pki.ca())
            .args(words)
            .arg("-untrusted")
            .args([&pair.chain, &pair.chain])
            .output()
            .unwrap();
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    let names = ["dns.example.org", "*.dns.example.org", "127.0.0.1", "::1"];
    let server = pki.server("server", &names);
    for good in [
        ["-verify_hostname", "dns.example.org"],
        ["-verify_hostname", "x.dns.example.org"],
        ["-verify_ip", "::1"],
        ["-purpose", "sslserver"],
    ] {
        assert!(verify(&server, &good).ends_with(": OK\n"), "{good:?}");
    }
    assert!(verify(&server, &["-verify_ip", "127.0.0.2"]).contains("IP address mismatch"));
    assert!(verify(&server, &["-purpose", "sslclient"]).contains("purpose"));
    let client = Leaf::client("laptop", &["laptop@example.org", "spiffe://example.org/laptop"]);
    let client = pki.issue("client", client.unit("staff"));
    assert!(verify(&client, &["-purpose", "sslclient"]).ends_with(": OK\n"));
    assert!(verify(&client, &["-verify_email", "laptop@example.org"]).ends_with(": OK\n"));
    let late = pki.issue("late", Leaf::server(&names).expired());
    assert!(verify(&late, &[]).contains("certificate has expired"));
    let early = pki.issue("early", Leaf::server(&names).early());
    assert!(verify(&early, &[]).contains("not yet valid"));
    let stranger = Pki::new().server("server", &names);
    assert!(!verify(&stranger, &[]).contains("OK"));
}

#[test]
fn ports_are_given_once() {
    let ports: std::collections::BTreeSet<u16> = (0..100).map(|_| free_port()).collect();
    assert_eq!(ports.len(), 100);
}

#[test]
fn a_process_is_heard_and_ended() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo out; echo err >&2; exec sleep infinity"]);
    let mut process = Process::start("shell", shell);
    assert_eq!(process.line("err", LIMIT), "err");
    assert!(process.output().contains("out"));
    assert!(process.running());
    let status = process.stop(LIMIT);
    assert!(!status.success() && !process.running());
}

#[test]
fn an_upstream_answers_over_udp_and_tcp_and_remembers() {
    let mut upstream = Upstream::start(RECORDS);
    let reply = client::ask(upstream.address(), "www.example.org A");
    assert_eq!(reply.answers(), ["www.example.org. 60 IN A 203.0.113.1"]);
    assert_eq!(reply.flags(), "qr aa rd ra");
    assert_eq!(reply.addresses(), ["203.0.113.1".parse::<IpAddr>().unwrap()]);
    let nothing = client::ask(upstream.address(), Query::from("nope.example.org AAAA").tcp());
    assert_eq!(nothing.rcode(), ResponseCode::NXDomain);
    assert_eq!(nothing.authorities().len(), 1);
    let mut stream = Stream::open(upstream.address(), Some("127.0.0.7".parse().unwrap())).unwrap();
    for _ in 0..2 {
        stream.send(&Query::from("www.example.org"));
        assert_eq!(stream.receive(LIMIT).unwrap().answers().len(), 1);
    }
    let asked = until(LIMIT, || Some(upstream.queries()).filter(|q| q.len() == 4))
        .unwrap_or_else(|| panic!("{:?}", upstream.queries()));
    assert_eq!(asked[0], "127.0.0.1 www.example.org. A IN");
    assert_eq!(asked[3], "127.0.0.7 www.example.org. A IN");
    upstream.stop();
    assert!(Query::from("www.example.org").ask(upstream.address()).is_none());
    upstream.restart();
    assert_eq!(client::ask(upstream.address(), "www.example.org").answers().len(), 1);
}

#[test]
fn namespaces_have_a_network_and_a_resolver_file_of_their_own() {
    let (near, far) = (Namespace::new(), Namespace::new());
    near.resolv_conf("nameserver 127.0.0.1\n");
    assert_eq!(near.shell("cat /etc/resolv.conf"), "nameserver 127.0.0.1\n");
    assert_ne!(
        std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
        "nameserver 127.0.0.1\n"
    );
    let (mine, theirs) = ("198.51.100.1".parse().unwrap(), "198.51.100.2".parse().unwrap());
    near.link(&far, mine, theirs, 24, 1500);
    let server = far.enter(|| std::net::UdpSocket::bind((theirs, 53)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            let (length, peer) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(peer.ip(), mine);
            server.send_to(&buffer[..length], peer).unwrap();
        });
        let echo = near.enter(|| client::exchange((theirs, 53).into(), None, b"hello", LIMIT));
        assert_eq!(echo.as_deref(), Some(&b"hello"[..]));
    });
}

#[test]
fn a_cluster_keeps_its_objects_and_ports_over_a_crash() {
    let mut cluster = Cluster::with(&["--audit"]);
    cluster.apply(include_str!("../testbed/manifests/10-base.yaml"));
    cluster.add_multicluster();
    cluster.apply(include_str!("../testbed/manifests/20-mcs.yaml"));
    let changes = cluster.churn(20.0, 1.0);
    assert_eq!(changes.len(), 20);
    assert!(changes.iter().all(|c| c.acknowledged > 0 && !c.addresses.is_empty()), "{changes:?}");
    assert!(cluster.audit().iter().any(|e| e["verb"] == "update"));
    assert!(cluster.kubeconfig("reader").exists() && cluster.token_kubeconfig("nobody").exists());
    assert!(
        cluster.certificate("reader").exists()
            && cluster.key("reader").exists()
            && cluster.token_file("reader").exists()
    );
    assert!(cluster.ca().exists() && !cluster.token().is_empty());
    let url = cluster.url().to_owned();
    cluster.kill();
    cluster.restart();
    assert_eq!(cluster.url(), url);
    cluster.delete("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}");
    cluster.delete_namespace("infra");
    let mut watch = cluster.command("watch");
    let seen = tests::process::run(watch.args(["-resource", "services"]));
    // default/kubernetes, shop/db and shop/outside are left.
    assert!(seen.split_whitespace().any(|w| w == "3"), "{seen}");
    cluster.stop();
}

#[test]
fn a_gateway_is_started_asked_and_stopped() {
    let mut gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n.:@PORT:second@ {\n whoami\n}").start();
    let reply = gateway.ask("www.example.org A");
    assert_eq!((reply.rcode(), reply.flags().as_str()), (ResponseCode::NoError, "qr aa rd"));
    assert_ne!(gateway.address(), gateway.address_of("second"));
    let second = gateway.ask_at("second", Query::from("www.example.org").tcp().bufsize(1232));
    assert!(
        second.message.edns.is_some() && second.additionals().iter().any(|r| r.contains("_tcp.")),
        "{second:?}"
    );
    assert!(gateway.resident() > 1 << 20 && gateway.folder().join("Corefile").exists());
    assert!(gateway.stop().success(), "{}", gateway.output());
    assert!(
        Query::from("www.example.org")
            .patience(Duration::from_millis(200))
            .ask(gateway.address())
            .is_none()
    );
}

#[test]
fn a_corefile_may_be_refused() {
    let (status, output) = Gateway::new(".:@PORT@ {\n nosuchplugin\n}").refused();
    assert!(!status.success() && output.contains("nosuchplugin"), "{output}");
}

#[test]
fn a_gateway_in_a_namespace_may_have_port_53() {
    let namespace = Namespace::new();
    let _gateway = Gateway::new(".:53 {\n whoami\n}").within(&namespace).start();
    let seen = namespace.enter(|| client::ask("127.0.0.1:53".parse().unwrap(), "example.org A"));
    assert_eq!(seen.rcode(), ResponseCode::NoError);
}
