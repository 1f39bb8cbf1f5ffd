//! Zones from an API and a token server that a test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::testing::Bench;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::api::record_set;
use super::auth::{Identity, Place, Tokens, Words};
use crate::CHAIN;
use crate::shared::cloud::stub::{Asked, Reply, Stub};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Fetch, Kind};
use crate::shared::testing::logged;

/// The client's secret.
const SECRET: &str = "s3cret/word";

/// A record set of a public zone.
fn set(name: &str, rtype: &str, records: &Value) -> Value {
    let fqdn = if name == "@" { "example.org.".to_owned() } else { format!("{name}.example.org.") };
    let mut properties = json!({"fqdn": fqdn, "TTL": 300, "provisioningState": "Succeeded"});
    for (key, value) in records.as_object().unwrap() {
        properties[key] = value.clone();
    }
    json!({"id": "x", "name": name, "type": format!("Microsoft.Network/dnszones/{rtype}"), "properties": properties})
}

/// The SOA set of a zone.
fn soa() -> Value {
    set(
        "@",
        "SOA",
        &json!({"SOARecord": {"host": "ns1-01.azure-dns.com.", "email": "azuredns-hostmaster.microsoft.com", "serialNumber": 1,
            "refreshTime": 3600, "retryTime": 300, "expireTime": 2419200, "minimumTTL": 300}}),
    )
}

/// A set of one address.
fn address(name: &str, address: &str) -> Value {
    set(name, "A", &json!({"ARecords": [{"ipv4Address": address}]}))
}

/// A reply with a token that is good for so many seconds.
fn token(number: usize, lives: u64) -> Reply {
    Reply::ok(
        json!({"token_type": "Bearer", "expires_in": lives, "access_token": format!("tok3n-{number}")}),
    )
}

/// An API that has these sets, and gives tokens.
fn api(sets: impl Fn(&Asked) -> Vec<Value> + Send + 'static) -> Stub {
    Stub::new(move |asked| {
        if asked.path.ends_with("/oauth2/v2.0/token") {
            return token(1, 3600);
        }
        Reply::ok(json!({"value": sets(asked)}))
    })
}

/// A Corefile with these zones and lines of `azure`, whose API is this.
fn corefile(stub: &Stub, words: &str, lines: &str) -> String {
    format!(
        "example.org {{\n azure {words} {{\n  tenant t1\n  client c1\n  secret {SECRET}\n  subscription s1\n  endpoint {}\n  {lines}\n }}\n \
         whoami\n}}",
        stub.url()
    )
}

/// A gateway that has started.
async fn started(text: &str) -> Bench {
    let bench = Bench::new(CHAIN, text);
    bench.built.waits.over().await.unwrap();
    bench
}

/// The facts `azure.form`, `azure.environment`, `azure.access`, `azure.creds`, `azure.interval`.
#[test]
fn words_are_checked() {
    for (line, wrong) in [
        ("azure", "needs a zone"),
        ("azure example.org", "is no zone of a resource group"),
        ("azure group:", "is no zone of a resource group"),
        ("azure :example.org", "is no zone of a resource group"),
        ("azure group:a..b", "does not begin with a domain name"),
        ("azure group:example.org group:EXAMPLE.org.", "is stated twice"),
        ("azure group:example.org {\n environment AZUREMOON\n }", "is no cloud"),
        ("azure group:example.org {\n access secret\n }", "is not known here"),
        ("azure group:example.org {\n tenant\n }", "Wrong argument count"),
        ("azure group:example.org {\n client a b\n }", "Wrong argument count"),
        ("azure group:example.org {\n secret a b\n }", "has wrong words"),
        ("azure group:example.org {\n secret\n }", "has wrong words"),
        ("azure group:example.org {\n subscription \"\"\n }", "is empty"),
        ("azure group:example.org {\n endpoint http://dns.example.org\n }", "without encryption"),
        ("azure group:example.org {\n refresh 1m\n }", "is not a property"),
        (
            "azure group:example.org {\n tenant t\n client c\n secret s\n }",
            "there is no subscription",
        ),
        (
            "azure group:example.org {\n subscription s\n client c\n secret s\n }",
            "there is no tenant",
        ),
        (
            "azure group:example.org {\n subscription s\n tenant t\n secret s\n }",
            "there is no client",
        ),
    ] {
        let told = Bench::refused(CHAIN, &format!("example.org {{\n {line}\n}}"));
        assert!(told.contains(wrong), "{line}: {told}");
    }
    for line in [
        "environment AZUREPUBLICCLOUD",
        "environment azurechinacloud",
        "environment AZUREUSGOVERNMENTCLOUD",
        "access private",
        "access public",
        "fallthrough",
    ] {
        Bench::new(
            CHAIN,
            &format!(
                "example.org {{\n azure group:example.org {{\n subscription s\n {line}\n }}\n}}"
            ),
        );
    }
}

/// The facts `azure.load`, `azure.answer`, `azure.start.probe`: all types, all pages.
#[tokio::test]
async fn answers_are_those_of_a_zone() {
    let stub = Stub::new(|_| Reply::Close);
    let next = format!("{}/page/two?token=x", stub.url());
    stub.answer(move |asked| {
        if asked.path.ends_with("/token") {
            return token(1, 3600);
        }
        if asked.path.starts_with("/page/two") {
            return Reply::ok(json!({"value": [address("second", "198.51.100.9")]}));
        }
        let sets = json!([
            soa(),
            set("@", "NS", &json!({"NSRecords": [{"nsdname": "ns1-01.azure-dns.com."}]})),
            set("@", "MX", &json!({"MXRecords": [{"preference": 10, "exchange": "mail.example.org"}]})),
            set("@", "CAA", &json!({"caaRecords": [{"flags": 0, "tag": "issue", "value": "ca.example.org; a=\"b\""}]})),
            address("www", "198.51.100.1"),
            address("*.wild", "198.51.100.2"),
            set("six", "AAAA", &json!({"AAAARecords": [{"ipv6Address": "2001:db8::1"}]})),
            set("alias", "CNAME", &json!({"CNAMERecord": {"cname": "www.example.org"}})),
            set("ptr", "PTR", &json!({"PTRRecords": [{"ptrdname": "www.example.org"}]})),
            set("_sip._tcp", "SRV", &json!({"SRVRecords": [{"priority": 1, "weight": 2, "port": 5060, "target": "www.example.org"}]})),
            set("txt", "TXT", &json!({"TXTRecords": [{"value": ["a \"b\" \\c", "é"]}]})),
            set("new", "NEWTYPE", &json!({})),
            set("bad", "A", &json!({"ARecords": [{"ipv4Address": "no"}, {"ipv4Address": "198.51.100.3"}]})),
            {"name": "worse"},
            set("apart", "MX", &json!({"MXRecords": [{"exchange": "mail.example.org"}]})),
            set("nothing", "A", &json!({"targetResource": {"id": "y"}})),
        ]);
        Reply::ok(json!({"value": sets, "nextLink": next}))
    });
    let bench = started(&corefile(&stub, "example_group:example.org", "")).await;
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/t1/oauth2/v2.0/token");
    assert_eq!(
        asked[0].body,
        "grant_type=client_credentials&client_id=c1&scope=https%3A%2F%2Fmanagement.azure.com%2F.default&client_secret=s3cret%2Fword"
    );
    let listing = "/subscriptions/s1/resourceGroups/example_group/providers/Microsoft.Network/dnsZones/example.org/recordsets?api-version=2018-05-01";
    let paths: Vec<&str> = asked[1..].iter().map(|asked| &*asked.path).collect();
    assert_eq!(paths, [listing, listing, "/page/two?token=x"]);
    assert!(asked[1..].iter().all(|asked| asked.header("authorization") == "Bearer tok3n-1"));
    for (query, parts) in [
        ("www.example.org A", &["NOERROR", "aa", "198.51.100.1"][..]),
        ("x.wild.example.org A", &["198.51.100.2"]),
        ("second.example.org A", &["198.51.100.9"]),
        ("six.example.org AAAA", &["2001:db8::1"]),
        ("alias.example.org A", &["CNAME", "198.51.100.1"]),
        ("example.org MX", &["10 mail.example.org."]),
        ("example.org NS", &["ns1-01.azure-dns.com."]),
        ("example.org SOA", &["azuredns-hostmaster.microsoft.com. 1 3600 300 2419200 300"]),
        ("example.org CAA", &["CAA 0005697373756563612e6578616d706c652e6f72673b20613d226222"]),
        ("ptr.example.org PTR", &["www.example.org."]),
        ("_sip._tcp.example.org SRV", &["1 2 5060 www.example.org."]),
        ("txt.example.org TXT", &["\"a \"b\" \\c\" \"é\""]),
        ("bad.example.org A", &["198.51.100.3"]),
        ("new.example.org A", &["NXDOMAIN", "SOA"]),
        ("nothing.example.org A", &["NXDOMAIN"]),
    ] {
        let answer = bench.now(query);
        assert!(parts.iter().all(|part| answer.contains(part)), "{query}: {answer}");
    }
}

/// The facts `azure.private`, `azure.access`, `azure.answer`.
#[tokio::test]
async fn private_zones_have_their_own_list() {
    let stub = api(|asked| {
        let private = asked.path.contains("privateDnsZones");
        let mut sets = vec![soa()];
        if private {
            let mut own = json!({"name": "www", "type": "Microsoft.Network/privateDnsZones/A"});
            own["properties"] = json!({"fqdn": "www.example.org.", "ttl": 10, "aRecords": [{"ipv4Address": "198.51.100.7"}]});
            let mut apex = json!({"name": "@", "type": "Microsoft.Network/privateDnsZones/SOA"});
            apex["properties"] = json!({"fqdn": "example.org.", "ttl": 3600, "soaRecord": {"host": "azureprivatedns.net", "email": "azureprivatedns-host.microsoft.com",
                "serialNumber": 1, "refreshTime": 3600, "retryTime": 300, "expireTime": 2419200, "minimumTtl": 10}});
            sets = vec![
                own,
                apex,
                set("@", "NS", &json!({"NSRecords": [{"nsdname": "ns.example.org."}]})),
            ];
        } else {
            sets.push(address("public", "198.51.100.8"));
        }
        sets
    });
    let private = started(&corefile(&stub, "g:example.org", "access private")).await;
    assert!(
        stub.asked()[1].path.ends_with("/privateDnsZones/example.org/ALL?api-version=2020-06-01")
    );
    assert!(private.now("www.example.org A").contains("198.51.100.7"));
    assert!(private.now("example.org SOA").contains("azureprivatedns.net."));
    assert!(private.now("example.org NS").contains("SOA"));
    // Two groups, then whoever is next.
    let both =
        started(&corefile(&stub, "g:example.org h:example.org", "fallthrough next.example.org"))
            .await;
    assert!(both.now("public.example.org A").contains("198.51.100.8"));
    assert!(both.now("next.example.org A").contains("_udp."));
    assert!(both.now("none.example.org A").contains("NXDOMAIN"));
}

/// The fact `azure.load`: what the API or the token server refuses stops the start, and shows no secret.
#[tokio::test]
async fn a_start_that_is_refused_says_why() {
    let denied = json!({"error": "invalid_client", "error_description": format!("AADSTS7000215: the secret {SECRET} is wrong.\r\nTrace")});
    let forbidden = json!({"error": {"code": "AuthorizationFailed", "message": "tok3n-1 may not"}});
    for (of_token, of_api, told) in [
        (
            Reply::Status(401, denied.to_string()),
            Reply::Close,
            "no Azure token: the API says 401 Unauthorized: invalid_client: AADSTS7000215: the secret … is wrong.",
        ),
        (
            token(1, 3600),
            Reply::Status(403, forbidden.to_string()),
            "403 Forbidden: AuthorizationFailed: … may not",
        ),
        (token(1, 3600), Reply::Status(404, String::new()), "404 Not Found"),
        (token(1, 3600), Reply::ok(json!({"value": []})), "no SOA record"),
    ] {
        let stub = Stub::new(move |asked| {
            if asked.path.ends_with("/token") { of_token.clone() } else { of_api.clone() }
        });
        let bench = Bench::new(CHAIN, &corefile(&stub, "g:example.org", ""));
        let wrong = bench.built.waits.over().await.unwrap_err();
        assert!(wrong.contains(told), "{wrong}");
        assert!(!wrong.contains(SECRET) && !wrong.contains("tok3n"), "{wrong}");
    }
}

/// A token that ends is replaced, and so is one that is not taken; a page elsewhere gets none.
#[tokio::test]
async fn tokens_are_replaced_and_kept_from_others() {
    let (count, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let stub = Stub::new(move |asked| {
        if asked.path.ends_with("/token") {
            return token(counted.fetch_add(1, Ordering::Relaxed) + 1, 3600);
        }
        served.fetch_add(1, Ordering::Relaxed);
        match asked.header("authorization") {
            "Bearer tok3n-1" => Reply::Status(
                401,
                json!({"error": {"code": "ExpiredAuthenticationToken"}}).to_string(),
            ),
            _ => Reply::ok(json!({"value": [soa()]})),
        }
    });
    started(&corefile(&stub, "g:example.org", "")).await;
    assert_eq!(count.load(Ordering::Relaxed), 2);
    let other = Stub::new(|_| Reply::Close);
    let elsewhere = format!("{}/next", other.url());
    let stub = Stub::new(move |asked| {
        if asked.path.ends_with("/token") {
            token(1, 3600)
        } else {
            Reply::ok(json!({"value": [soa()], "nextLink": elsewhere}))
        }
    });
    let text = corefile(&stub, "g:example.org", "");
    let bench = Bench::new(CHAIN, &text);
    logged();
    drop(tokio::time::timeout(std::time::Duration::from_secs(2), bench.built.waits.over()).await);
    assert!(other.asked().is_empty());
}

/// What the machine has: nothing.
fn tokens(stub: &Stub, words: Words, vars: Vec<(&'static str, String)>) -> Result<Tokens, String> {
    let env = Environment::new(move |name| {
        vars.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
    });
    let identity = Identity::of(words, &env)?;
    let place = Place {
        management: stub.url(),
        authority: stub.url(),
        audience: "https://management.azure.com".to_owned(),
    };
    let tls = certs::ClientTls::new(None, None).unwrap();
    Ok(Tokens::new(identity, place, env, Fetch::new(&tls)))
}

/// The fact `azure.creds`.
#[tokio::test]
async fn tokens_come_from_what_the_environment_has() {
    let folder = std::env::temp_dir().join(format!("causeway-azure-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let federated = file("token", "f3derated\n");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let pair = file("pair.pem", &(certificate.pem() + &key.serialize_pem()));
    let both = || vec![("AZURE_TENANT_ID", "t".to_owned()), ("AZURE_CLIENT_ID", "c".to_owned())];
    let stub = Stub::new(|_| token(1, 3600));
    let with = |more: Vec<(&'static str, String)>| [both(), more].concat();
    for (vars, path, parts) in [
        (
            with(vec![("AZURE_CLIENT_SECRET", SECRET.to_owned())]),
            "/t/oauth2/v2.0/token",
            &["client_id=c", "client_secret=s3cret%2Fword"][..],
        ),
        (
            with(vec![("AZURE_FEDERATED_TOKEN_FILE", federated)]),
            "/t/oauth2/v2.0/token",
            &["jwt-bearer", "client_assertion=f3derated"],
        ),
        (
            with(vec![("AZURE_CLIENT_CERTIFICATE_PATH", pair)]),
            "/t/oauth2/v2.0/token",
            &["jwt-bearer", "client_assertion=eyJ"],
        ),
        (
            vec![
                ("IDENTITY_ENDPOINT", format!("{}/msi", stub.url())),
                ("IDENTITY_HEADER", "h".to_owned()),
            ],
            "/msi?resource=https%3A%2F%2Fmanagement.azure.com%2F&api-version=2019-08-01",
            &[],
        ),
        (
            vec![
                ("AZURE_POD_IDENTITY_AUTHORITY_HOST", stub.url()),
                ("AZURE_CLIENT_ID", "c".to_owned()),
            ],
            "/metadata/identity/oauth2/token?resource=https%3A%2F%2Fmanagement.azure.com%2F&client_id=c&api-version=2018-02-01",
            &[],
        ),
    ] {
        let tokens = tokens(&stub, Words::default(), vars).unwrap();
        assert_eq!(tokens.get().await.unwrap().expose_secret(), "tok3n-1");
        let asked = stub.asked();
        assert_eq!(asked.len(), 1, "{path}");
        assert_eq!(asked[0].path, path);
        assert!(parts.iter().all(|part| asked[0].body.contains(part)), "{}", asked[0].body);
        // The token is kept.
        tokens.get().await.unwrap();
        assert!(stub.asked().is_empty());
    }
    // What the Corefile says counts first.
    let words = Words { tenant: Some("own".to_owned()), client: None, secret: Some("x".into()) };
    tokens(&stub, words, both()).unwrap().get().await.unwrap();
    assert_eq!(stub.asked()[0].path, "/own/oauth2/v2.0/token");
    assert!(
        tokens(&stub, Words { secret: Some("x".into()), ..Words::default() }, Vec::new()).is_err()
    );
    let absent = with(vec![("AZURE_FEDERATED_TOKEN_FILE", "/nonexistent".to_owned())]);
    let failure = tokens(&stub, Words::default(), absent).unwrap().get().await.unwrap_err();
    assert_eq!(failure.kind, Kind::Refused);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The fact `azure.load`: a set that cannot be read is told.
#[test]
fn sets_that_cannot_be_read_are_told() {
    for odd in [
        json!({}),
        json!({"name": "a", "type": "x/A"}),
        json!({"name": "a", "type": "x/A", "properties": {"fqdn": "a.", "ARecords": []}}),
        json!({"name": "a", "type": "x/A", "properties": {"TTL": 1, "ARecords": []}}),
        json!({"name": "a", "type": "x/A", "properties": {"fqdn": "a.", "TTL": 1, "ARecords": [{}]}}),
        json!({"name": "a", "type": "x/TXT", "properties": {"fqdn": "a.", "TTL": 1, "TXTRecords": [{"value": []}]}}),
        json!({"name": "a", "type": "x/SOA", "properties": {"fqdn": "a.", "TTL": 1, "SOARecord": {"host": "b"}}}),
        json!({"name": "a", "type": "x/HINFO", "properties": {"fqdn": "a.", "TTL": 1}}),
    ] {
        assert!(record_set(&odd, false).is_err(), "{odd}");
    }
    assert_eq!(record_set(&address("a", "x"), false).unwrap().unwrap().ttl, 300);
}
