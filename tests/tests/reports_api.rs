//! Faults of comparable servers that their users reported: an API server that is not there yet, forgets, or wants other
//! credentials.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RData;
use serde_json::{Value, json};
use tests::api::head;
use tests::{Cluster, Gateway, Relay, until};

/// How long a change may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A Service with a cluster IP.
fn service(name: &str, ip: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: default}}, \
         spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}\n"
    )
}

// The process waited for the API server before it opened its sockets, or denied all names of the cluster until it was there.
#[test]
fn b22_a_start_without_the_api_server_serves_what_needs_none() {
    let cluster = Cluster::start();
    cluster.apply(&service("web", "10.96.40.1"));
    let mut relay = Relay::start(cluster.address());
    relay.close();
    // A server that takes connections and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let silent = silent.local_addr().map(|a| (silent, a)).expect("it has an address");
    let start = |address: SocketAddr| {
        let corefile = ".:@PORT@ {\n errors\n ready 127.0.0.1:@PORT:ready@\n health 127.0.0.1:@PORT:health@\n \
             hosts {\n  203.0.113.1 router.lan\n  fallthrough\n }\n \
             kubernetes cluster.local {\n  kubeconfig kubeconfig\n }\n}";
        let text = cluster.kubeconfig_at("reader", address);
        Gateway::new(corefile).file("kubeconfig", &text).start()
    };
    // Building it is no part of the start.
    tests::gateway::binary();
    let begin = Instant::now();
    let (late, mute) = std::thread::scope(|scope| {
        let [late, mute] = [relay.address(), silent.1].map(|a| scope.spawn(move || start(a)));
        (late.join().expect("it starts"), mute.join().expect("it starts"))
    });
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    for gateway in [&late, &mute] {
        assert_eq!(gateway.ask("router.lan A").answers().len(), 1);
        let reply = gateway.ask("web.default.svc.cluster.local A");
        assert_eq!(reply.rcode(), ResponseCode::ServFail, "{reply:?}");
        assert_eq!(gateway.get("health", "/health").map(|p| p.0), Some(200));
        assert_eq!(gateway.get("ready", "/ready").map(|p| p.0), Some(503));
    }
    relay.open();
    late.ask_until("web.default.svc.cluster.local A", LIMIT, |r| {
        // Nothing is said from a half-filled store.
        assert!(r.rcode() == ResponseCode::ServFail || r.addresses().len() == 1, "{r:?}");
        r.rcode() == ResponseCode::NoError
    });
    until(LIMIT, || (late.get("ready", "/ready")?.0 == 200).then_some(())).expect("it is ready");
}

/// What an API server says to a request.
enum Say {
    /// An object with this status.
    Object(u16, Value),
    /// Events, and then nothing more for ever.
    Watch,
    /// Events, and the end.
    Events(Vec<Value>),
}

/// A list of objects.
fn list(items: &[Value], version: u64) -> Say {
    let metadata = json!({"resourceVersion": version.to_string()});
    Say::Object(200, json!({"metadata": metadata, "items": items}))
}

/// What is said when a version is too old.
fn expired() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "expired"})
}

/// An API server without initial events, which answers by the path and by how many requests of the same kind there were.
fn api(services: impl Fn(&str, usize) -> Say + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    let services = Arc::new(services);
    let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let (services, counts) = (Arc::clone(&services), Arc::clone(&counts));
            spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a socket is shared"));
                while let Some((_, text)) = head(&mut reader) {
                    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                    let what = if path.contains("watch=true") { "watch" } else { "list" };
                    let say = if path.contains("sendInitialEvents") {
                        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                        Say::Object(
                            422,
                            json!({"kind": "Status", "code": 422, "reason": "Invalid", "message": why}),
                        )
                    } else if path.contains("/services") {
                        let before = {
                            let mut counts = counts.lock().expect("nobody panics with it");
                            let count = counts.entry(what.to_owned()).or_default();
                            *count += 1;
                            *count - 1
                        };
                        services(what, before)
                    } else if what == "watch" {
                        Say::Watch
                    } else if path.contains("/namespaces") {
                        list(&[json!({"metadata": {"name": "default", "resourceVersion": "1"}})], 1)
                    } else {
                        list(&[], 1)
                    };
                    if answer(&stream, &say).is_none() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Writes a response.
fn answer(mut stream: &TcpStream, say: &Say) -> Option<()> {
    let kind = "Content-Type: application/json";
    match say {
        Say::Object(status, object) => {
            let body = object.to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .ok()
        }
        Say::Watch => {
            write!(stream, "HTTP/1.1 200 OK\r\n{kind}\r\nTransfer-Encoding: chunked\r\n\r\n").ok()
        }
        Say::Events(events) => {
            answer(stream, &Say::Watch)?;
            for event in events {
                let line = format!("{event}\n");
                write!(stream, "{:x}\r\n{line}\r\n", line.len()).ok()?;
            }
            write!(stream, "0\r\n\r\n").ok()
        }
    }
}

// An expired version ended the watch for good; elsewhere what was deleted during a disconnection stayed.
#[test]
fn b23_an_expired_version_leads_to_a_new_list_without_a_gap() {
    std::thread::scope(|scope| {
        for by_status in [false, true] {
            scope.spawn(move || an_expired_version(by_status));
        }
    });
}

/// The test, where the server says so by an event of the watch or by the status of its response.
fn an_expired_version(by_status: bool) {
    let item = |name: &str, last: u8| {
        json!({"metadata": {"name": name, "namespace": "default", "resourceVersion": "90"},
            "spec": {"clusterIP": format!("10.96.41.{last}"), "ports": [{"port": 80}]}})
    };
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Mutex::new(wait);
    let address = api(move |what, before| match (what, before) {
        ("list", 0) => list(&[item("a", 1), item("b", 2)], 100),
        ("list", _) => {
            sleep(Duration::from_secs(3));
            list(&[item("b", 2), item("c", 3)], 250)
        }
        ("watch", 0) => {
            // Until the first answers were seen.
            wait.lock().expect("nobody panics with it").recv().expect("the test says when");
            if by_status {
                Say::Object(410, expired())
            } else {
                Say::Events(vec![json!({"type": "ERROR", "object": expired()})])
            }
        }
        _ => Say::Watch,
    });
    let corefile = format!(
        ".:@PORT@ {{\n ready 127.0.0.1:@PORT:ready@\n kubernetes cluster.local {{\n  endpoint http://{address}\n }}\n}}"
    );
    let gateway = Gateway::new(&corefile).start();
    let known = |name: &str| {
        let reply = gateway.ask(format!("{name}.default.svc.cluster.local A").as_str());
        assert!(reply.rcode() != ResponseCode::ServFail, "{reply:?}");
        reply.rcode() == ResponseCode::NoError
    };
    let serial = || {
        let reply = gateway.ask("cluster.local SOA");
        match reply.message.answers.first().map(|r| &r.data) {
            Some(RData::SOA(soa)) => soa.serial,
            _ => panic!("{reply:?}"),
        }
    };
    assert_eq!(["a", "b", "c"].map(known), [true, true, false]);
    let (begin, first) = (Instant::now(), serial());
    go.send(()).expect("the server waits");
    loop {
        // `c` first: where it is not there yet, the old list still held when `a` was asked for before that.
        let [a, b, c] = ["a", "b", "c"].map(known);
        assert!(b, "what both lists have is never away");
        assert!(a || c, "the old names go when the new ones are there");
        assert_eq!(gateway.get("ready", "/ready").map(|p| p.0), Some(200));
        if c {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "{}", gateway.output());
        sleep(Duration::from_millis(50));
    }
    assert!(begin.elapsed() >= Duration::from_secs(3), "the list takes so long");
    until(LIMIT, || (!known("a")).then_some(())).expect("what was deleted goes");
    assert!(serial() > first, "{} is above {first}", serial());
}

// Certificates that a program hands out were used beyond their end, and a program that failed took the cluster with it.
#[test]
fn b24_a_credential_program_is_run_again_in_time_and_may_fail() {
    let cluster = Cluster::with(&["--audit"]);
    cluster.apply(&service("web", "10.96.42.1"));
    let relay = Relay::start(cluster.address());
    let text = cluster.kubeconfig_at("reader", relay.address());
    let (before, _) = text.split_once("users:").expect("it has users");
    let kubeconfig = format!(
        "{before}users:\n- name: reader\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      \
         command: sh\n      args: [\"@DIR@/cred.sh\"]\n      interactiveMode: Never\n"
    );
    // The first run gives the certificate of one user, the others that of another; one run at a time.
    let print = |user: &str| {
        let pem = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("it is there");
        let status = json!({"clientCertificateData": pem(cluster.certificate(user)), "clientKeyData": pem(cluster.key(user)), "expirationTimestamp": "@END@"});
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}).to_string()
    };
    let script = "cd @DIR@ || exit 1\nmkdir running || touch twice\necho run >>runs\n[ ! -e broken ] || { rmdir running; echo broken >>failed; exit 1; }\n\
         end=$(date -u -d '+6 seconds' +%Y-%m-%dT%H:%M:%SZ)\nfile=later.json\n[ \"$(wc -l <runs)\" -gt 1 ] || file=first.json\n\
         sed \"s/@END@/$end/\" $file\nrmdir running\n";
    let corefile =
        ".:@PORT@ {\n errors\n kubernetes cluster.local {\n  kubeconfig kubeconfig\n }\n}";
    let gateway = Gateway::new(corefile)
        .file("kubeconfig", &kubeconfig)
        .file("cred.sh", script)
        .file("first.json", &print("reader"))
        .file("later.json", &print("reader-nopods"))
        .start();
    let web = || gateway.ask("web.default.svc.cluster.local A").addresses().len();
    let folder = gateway.folder();
    let lines =
        |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default().lines().count();
    let users = |wanted: &str| {
        let asked = cluster.audit();
        asked.iter().filter(|e| e["verb"] == "watch" && e["user"]["username"] == wanted).count()
    };
    assert_eq!((web(), lines("runs")), (1, 1), "{}", gateway.output());

    // When the time is over, connections that are made anew have the new certificate.
    let renewed = until(LIMIT, || {
        relay.cut();
        sleep(Duration::from_millis(500));
        (lines("runs") > 1 && users("reader-nopods") > 0).then_some(())
    });
    renewed.unwrap_or_else(|| panic!("{}", gateway.output()));
    cluster.apply(&service("second", "10.96.42.2"));
    gateway.ask_until("second.default.svc.cluster.local A", LIMIT, |r| r.addresses().len() == 1);

    std::fs::write(folder.join("broken"), "").expect("the folder is there");
    let told = until(LIMIT, || {
        relay.cut();
        assert_eq!(web(), 1);
        sleep(Duration::from_millis(500));
        gateway.output().contains("failed: exit status: 1").then_some(())
    });
    told.unwrap_or_else(|| panic!("{}", gateway.output()));
    // It is tried again, but not in a storm.
    let (failed, begin) = (lines("failed"), Instant::now());
    // Connections that hold with the credentials of before need no new ones, so they are broken again.
    let again = until(LIMIT, || {
        relay.cut();
        sleep(Duration::from_millis(500));
        (lines("failed") > failed).then_some(())
    });
    again.expect("it is run again");
    let runs = f64::from(u32::try_from(lines("failed")).expect("they are few"));
    assert!(runs < 10.0 + 4.0 * begin.elapsed().as_secs_f64(), "{runs} runs");
    assert_eq!(web(), 1);
    std::fs::remove_file(folder.join("broken")).expect("it is there");
    cluster.apply(&service("third", "10.96.42.3"));
    gateway.ask_until("third.default.svc.cluster.local A", LIMIT, |r| r.addresses().len() == 1);
    assert!(!folder.join("twice").exists(), "two ran at once");
    for secret in ["BEGIN", "PRIVATE", "MII"] {
        assert!(!gateway.output().contains(secret), "{}", gateway.output());
    }
}
