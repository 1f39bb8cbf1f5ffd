//! Clusters out of manifests.

use std::net::IpAddr;

use crate::{
    Address, ImportKind, Keep, Protocol, ServiceKind, from_yaml,
    manifests::{Folder, Look},
    resolve::Filter,
    store_from_yaml,
};

/// Keeps everything.
fn all() -> Keep {
    Keep {
        endpoints: true,
        pods: true,
        multicluster: true,
        pod_names: true,
        pod_labels: true,
        zones: true,
        ..Keep::default()
    }
}

#[test]
fn a_folder_s_worth_of_documents_becomes_a_cluster() {
    let (_writer, store) = store_from_yaml(include_str!("cluster.yaml"), all()).unwrap();
    assert!(store.synced());
    let reader = store.read();
    assert!(
        reader.namespace(b"shop") && reader.namespace(b"implied") && !reader.namespace(b"absent")
    );

    let web = reader.service(b"\x03web\x04shop").unwrap();
    assert_eq!(web.kind(), ServiceKind::ClusterIp);
    let ips: Vec<_> = web.cluster_ips().collect();
    assert_eq!(ips, ["198.51.100.10".parse::<IpAddr>().unwrap(), "2001:db8::10".parse().unwrap()]);
    let ports: Vec<_> = web.ports().map(|port| (port.name, port.protocol, port.number)).collect();
    assert_eq!(ports, [(&b"http"[..], Protocol::Tcp, 80), (b"dns", Protocol::Udp, 53)]);
    assert!(web.has_ready_endpoints() && web.has_selector());
    let found: Vec<_> = web
        .endpoints()
        .map(|endpoint| {
            (endpoint.ip().unwrap(), endpoint.ready(), endpoint.zone(), endpoint.pod_name())
        })
        .collect();
    assert_eq!(
        found,
        [
            (IpAddr::from([203, 0, 113, 1]), true, &b"zone-a"[..], &b"web-0"[..]),
            (IpAddr::from([203, 0, 113, 2]), false, b"", b""),
        ]
    );

    let db = reader.service(b"\x02db\x04shop").unwrap();
    assert_eq!(db.kind(), ServiceKind::Headless);
    assert!(db.cluster_ips().is_empty());
    let mut found: Vec<_> = db
        .endpoints()
        .map(|endpoint| (endpoint.ip().unwrap(), endpoint.hostname(), endpoint.ready()))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            (IpAddr::from([203, 0, 113, 20]), &b"db-0"[..], true),
            (IpAddr::from([203, 0, 113, 21]), b"", false),
            ("2001:db8::20".parse().unwrap(), b"db-0", true),
        ]
    );
    let ports: Vec<_> = db.endpoints().next().unwrap().ports().map(|port| port.number).collect();
    assert_eq!(ports, [5432]);

    let outside = reader.service(b"\x07outside\x04shop").unwrap();
    assert_eq!(
        (outside.kind(), outside.external_name()),
        (ServiceKind::ExternalName, &b"db.example.org"[..])
    );
    let lb = reader.service(b"\x02lb\x07implied").unwrap();
    assert_eq!(lb.cluster_ips().count(), 1, "an address was chosen");
    assert_eq!(lb.load_balancer().ips().collect::<Vec<_>>(), [IpAddr::from([203, 0, 113, 7])]);
    assert_eq!(lb.load_balancer().hostnames().collect::<Vec<_>>(), [b"lb.example.org"]);
    assert_eq!(reader.services_by_external_ip([203, 0, 113, 8].into()).count(), 1);
    let node = reader.service(b"\x04node\x04shop").unwrap();
    assert_eq!(node.endpoints().next().unwrap().address(), Address::Name(b"node.example.org"));

    let pod = reader.pod_by_ip([203, 0, 113, 20].into()).unwrap();
    assert_eq!(
        (pod.namespace(), pod.name(), pod.label(b"app")),
        (&b"shop"[..], &b"db-0"[..], Some(&b"db"[..]))
    );
    assert!(reader.pod_by_ip([203, 0, 113, 29].into()).is_none(), "it has ended");

    let import = reader.import(b"\x03far\x04shop").unwrap();
    assert_eq!((import.kind(), import.ips().count()), (ImportKind::Headless, 0));
    let endpoint = import.endpoints().next().unwrap();
    assert_eq!((endpoint.cluster(), endpoint.hostname()), (&b"c1"[..], &b"far-0"[..]));
    let exported = reader.import(b"\x03web\x04shop").unwrap();
    assert_eq!((exported.kind(), exported.ips().count()), (ImportKind::ClusterSetIp, 2));
    assert!(exported.endpoints().all(|endpoint| endpoint.cluster() == b"desk"));
}

#[test]
fn addresses_are_chosen_the_same_way_each_time() {
    let one = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}\n";
    let two = "{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {ipFamilyPolicy: RequireDualStack}}\n";
    let address = |text: &str, key: &[u8]| {
        let (_writer, store) = store_from_yaml(text, all()).unwrap();
        let reader = store.read();
        reader.service(key).unwrap().cluster_ips().collect::<Vec<_>>()
    };
    let both = format!("{one}---\n{two}");
    assert_eq!(address(one, b"\x01a\x07default"), address(&both, b"\x01a\x07default"));
    let dual = address(&both, b"\x01b\x07default");
    assert!(
        dual[0].to_string().starts_with("10.96.")
            && dual[1].to_string().starts_with("fd00:10:96::")
    );
}

#[test]
fn errors_name_their_line_and_what_is_wrong() {
    for (text, line, what) in [
        (
            "kind: Service\napiVersion: v1\nmetadata:\n  name: Web\n",
            1,
            "\"Web\" is not a DNS label",
        ),
        (
            "# comment\n---\nkind: Service\napiVersion: v1\nmetadata: {name: a}\nspec:\n  clusterIP: 10.0.0\n",
            7,
            "10.0.0",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 99999}]}\n",
            4,
            "\"port\" is no whole number from 0 to 65535",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - name: x\n    port: many\n",
            7,
            "\"port\" is no whole number from 0 to 65535",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports: 7\n",
            5,
            "\"ports\": ",
        ),
        ("---\nfoo: bar\n", 2, "no `kind`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [\n", 4, ""),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: A}\n", 1, "namespace \"A\""),
        (
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\nendpoints: [{addresses: [x]}]\n",
            1,
            "\"x\" is not an IP address",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: A}}\n",
            1,
            "\"A\"",
        ),
    ] {
        let problems = from_yaml(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{text}");
        assert!(problems[0].what.contains(what), "{text}: {}", problems[0]);
        assert!(problems[0].line == line || what.is_empty(), "{text}: {}", problems[0]);
    }
}

#[test]
fn kinds_that_do_not_matter_are_passed_over() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: X}\n---\n---\n# nothing\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n...\n";
    let (_writer, store) = store_from_yaml(text, all()).unwrap();
    assert_eq!(store.read().namespaces().count(), 1);
}

#[test]
fn a_list_is_read_as_its_items() {
    let text = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"clusterIP\":\"198.51.100.1\",\"ports\":null}}]}";
    let (_writer, store) = store_from_yaml(text, all()).unwrap();
    assert!(store.read().service(b"\x01a\x07default").is_some());
}

#[test]
fn exports_are_read_as_such_where_they_are_kept() {
    let text = concat!(
        include_str!("cluster.yaml"),
        "---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\n",
        "metadata: {name: db, namespace: shop, creationTimestamp: '2026-01-02T03:04:05Z'}\n",
        "status: {conditions: [{type: Valid, status: 'False'}, {type: Conflict, status: 'True'}]}\n",
    );
    let keep = Keep { exports: true, ..all() };
    let (_writer, store) = store_from_yaml(text, keep).unwrap();
    let reader = store.read();
    assert!(reader.import(b"\x03web\x04shop").is_none(), "no import is made of an export");
    assert!(reader.import(b"\x03far\x04shop").is_some());
    let web = reader.export(b"\x03web\x04shop").unwrap();
    assert_eq!((web.created(), web.invalid(), web.conflict()), (0, false, false));
    assert_eq!(web.service().unwrap().name(), b"web");
    let db = reader.export(b"\x02db\x04shop").unwrap();
    assert_eq!((db.created(), db.invalid(), db.conflict()), (1_767_323_045, true, true));
    assert_eq!(reader.exports().count(), 2);

    let (_writer, store) = store_from_yaml(text, all()).unwrap();
    assert_eq!(store.read().exports().count(), 0);
}

#[test]
fn selectors_apply_to_documents() {
    let folder = Scratch::new("selectors");
    folder.write("a.yaml", concat!(
        "{apiVersion: v1, kind: Namespace, metadata: {name: in, labels: {dns: 'on'}}}\n---\n",
        "{apiVersion: v1, kind: Service, metadata: {name: yes, namespace: in, labels: {app: web}}}\n---\n",
        "{apiVersion: v1, kind: Service, metadata: {name: no, namespace: in}}\n---\n",
        "{apiVersion: v1, kind: Service, metadata: {name: yes, namespace: out, labels: {app: web}}}\n",
    ));
    let mut source = Folder::new(
        folder.path.clone(),
        Filter {
            namespaces: Some("dns=on".parse().unwrap()),
            objects: Some("app=web".parse().unwrap()),
            ..Filter::default()
        },
    );
    let (mut writer, store) = crate::Writer::new(all(), std::sync::Arc::new(crate::Quiet));
    source.look().unwrap().events.unwrap().iter().for_each(|event| writer.apply(event));
    let reader = store.read();
    assert!(reader.service(b"\x03yes\x02in").is_some());
    assert!(reader.service(b"\x02no\x02in").is_none());
    assert!(reader.service(b"\x03yes\x03out").is_none());
}

#[test]
fn a_bad_file_keeps_its_last_good_state_and_the_others_are_served() {
    let folder = Scratch::new("lastgood");
    let service =
        |name: &str| format!("{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}}}\n");
    folder.write("a.yaml", &service("a"));
    folder.write("b.yaml", &(service("b") + "---\nkind: [\n"));
    folder.write(".hidden.yaml", "kind: [\n");
    folder.write("notes.txt", "kind: [\n");
    let mut source = Folder::new(folder.path.clone(), Filter::default());
    let (mut writer, store) = crate::Writer::new(all(), std::sync::Arc::new(crate::Quiet));
    let mut look = source.look().unwrap();
    look.events.take().unwrap().iter().for_each(|event| writer.apply(event));
    assert_eq!(look.problems.len(), 1);
    assert!(
        look.problems[0].file.ends_with("b.yaml") && look.problems[0].line >= 3,
        "{}",
        look.problems[0]
    );
    let end = |look: &Look| {
        let (_, end) = look.problems[0].what.rsplit_once("; ").unwrap();
        end.to_owned()
    };
    assert_eq!(end(&look), "what is good in it is served");
    assert_eq!(store.read().services().len(), 2, "the good documents of a bad file are served");
    assert!(source.look().unwrap().events.is_none(), "nothing changed");

    folder.write("a.yaml", "kind: Service\napiVersion: v1\nmetadata: {name: 'A A'}\n");
    let look = source.look().unwrap();
    assert_eq!((look.events.is_none(), look.problems.len()), (true, 1));
    assert_eq!(end(&look), "what it said before is served on");
    assert!(store.read().service(b"\x01a\x07default").is_some());

    folder.write("new.yaml", "kind: [\n");
    assert_eq!(end(&source.look().unwrap()), "nothing of it is served");
    std::fs::remove_file(folder.path.join("new.yaml")).unwrap();
    std::fs::remove_file(folder.path.join("a.yaml")).unwrap();
    folder.write("b.yaml", &(service("c") + "---\n" + &service("d")));
    source.look().unwrap().events.unwrap().iter().for_each(|event| writer.apply(event));
    let names: Vec<_> =
        store.read().services().iter().map(|service| service.name().to_vec()).collect();
    assert_eq!(names, [b"c", b"d"]);

    std::fs::remove_dir_all(&folder.path).unwrap();
    assert!(source.look().is_err());
}

/// A folder that goes away with its owner.
struct Scratch {
    path: std::path::PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("causeway-k8s-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path.join(name), text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may be gone already.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

#[tokio::test]
async fn a_watch_set_of_manifests_follows_its_folder() {
    let folder = Scratch::new("set");
    folder.write("a.yaml", "{apiVersion: v1, kind: Service, metadata: {name: a}}");
    let config = crate::Config::new(crate::Source::Manifests(folder.path.clone()));
    let handle = tokio::runtime::Handle::current();
    let set = crate::WatchSet::start(&config, std::sync::Arc::new(crate::Quiet), &handle);
    assert!(set.wait_synced(std::time::Duration::from_secs(5)).await);
    assert!(set.store().read().service(b"\x01a\x07default").is_some());
    folder.write("b.yaml", "{apiVersion: v1, kind: Service, metadata: {name: b}}");
    let start = std::time::Instant::now();
    while set.store().read().service(b"\x01b\x07default").is_none() {
        assert!(start.elapsed().as_secs() < 5);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn equal_configurations_have_equal_keys_and_others_do_not() {
    let config = || crate::Config::new(crate::Source::InCluster);
    let mut others = [config(), config(), config(), config(), config()];
    others[1].keep.pods = true;
    others[2].labels = Some("app=web".parse().unwrap());
    others[3].limits.qps = 20.0;
    others[4].source = crate::Source::Manifests("m".into());
    let keys: std::collections::BTreeSet<_> = others.iter().map(crate::Config::key).collect();
    assert_eq!(keys.len(), others.len());
    assert_eq!(config().key(), others[0].key());
}
