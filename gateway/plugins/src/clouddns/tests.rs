//! Managed zones from an API and a token server that a test plays.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use engine::testing::Bench;
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData as _};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::api::record_set;
use super::auth::{Credentials, Tokens};
use crate::CHAIN;
use crate::shared::cloud::stub::{Asked, Reply, Stub, Text};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Fetch, Kind};

/// A folder of a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("causeway-clouddns-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file.
    fn write(&self, name: &str, text: impl Into<Text>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text.into().0).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A record set.
fn set(name: &str, rtype: &str, data: &[&str]) -> Value {
    json!({"kind": "dns#resourceRecordSet", "name": name, "type": rtype, "ttl": 300, "rrdatas": data, "signatureRrdatas": []})
}

/// The SOA set of a zone.
fn soa() -> Value {
    set(
        "example.org.",
        "SOA",
        &[
            "ns-cloud-a1.googledomains.com. cloud-dns-hostmaster.google.com. 1 21600 3600 259200 300",
        ],
    )
}

/// The reply with a token.
fn token() -> Reply {
    Reply::ok(json!({"access_token": "tok3n", "expires_in": 3599, "token_type": "Bearer"}))
}

/// An API that has these sets of any zone, and gives tokens.
fn api(sets: impl Fn(&Asked) -> Value + Send + 'static) -> Stub {
    Stub::new(move |asked| match &*asked.path {
        "/token" => token(),
        path if path.contains("/rrsets?") => {
            Reply::ok(json!({"kind": "dns#resourceRecordSetsListResponse", "rrsets": sets(asked)}))
        }
        _ => Reply::ok(json!({"kind": "dns#managedZone", "name": "zone"})),
    })
}

/// Credentials of a person.
fn person(stub: &Stub) -> Value {
    json!({"type": "authorized_user", "client_id": "c", "client_secret": "s3cret", "refresh_token": "r3fresh", "token_uri": format!("{}/token", stub.url())})
}

/// A Corefile with these zones and lines of `clouddns`, whose API is this.
fn corefile(stub: &Stub, folder: &Folder, words: &str, lines: &str) -> String {
    let file = folder.write("person.json", person(stub));
    format!(
        "example.org {{\n clouddns {words} {{\n  credentials {file}\n  endpoint {}\n  {lines}\n }}\n \
         whoami\n}}\n\
         example.net {{\n template IN A {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.8\"\n }}\n}}",
        stub.url()
    )
}

/// A gateway that has started.
async fn started(text: &str) -> Bench {
    let bench = Bench::new(CHAIN, text);
    bench.built.waits.over().await.unwrap();
    bench
}

/// The facts `clouddns.form`, `clouddns.credentials`, `clouddns.answer`.
#[test]
fn words_are_checked() {
    let folder = Folder::new();
    let (text, odd) =
        (folder.write("text", "no json"), folder.write("odd", json!({"type": "magic"})));
    let bare =
        folder.write("bare", json!({"type": "service_account", "client_email": "a@example.org"}));
    for (line, wrong) in [
        ("clouddns".to_owned(), "needs a managed zone"),
        ("clouddns example.org".to_owned(), "is no managed zone"),
        ("clouddns example.org:p".to_owned(), "is no managed zone"),
        ("clouddns example.org:p:".to_owned(), "is no managed zone"),
        ("clouddns example.org::z".to_owned(), "is no managed zone"),
        ("clouddns :p:z".to_owned(), "is no managed zone"),
        ("clouddns a..b:p:z".to_owned(), "does not begin with a domain name"),
        ("clouddns example.org:p:z example.ORG.:p:z".to_owned(), "is stated twice"),
        ("clouddns example.org:p:z {\n wat\n }".to_owned(), "is not a property"),
        ("clouddns example.org:p:z {\n credentials\n }".to_owned(), "Wrong argument count"),
        ("clouddns example.org:p:z {\n credentials a b\n }".to_owned(), "Wrong argument count"),
        (
            "clouddns example.org:p:z {\n credentials /nonexistent\n }".to_owned(),
            "cannot read /nonexistent",
        ),
        (format!("clouddns example.org:p:z {{\n credentials {text}\n }}"), "is no JSON"),
        (
            format!("clouddns example.org:p:z {{\n credentials {odd}\n }}"),
            "type 'magic' is none of",
        ),
        (
            format!("clouddns example.org:p:z {{\n credentials {bare}\n }}"),
            "they have no private_key",
        ),
        (
            "clouddns example.org:p:z {\n endpoint http://dns.example.org\n }".to_owned(),
            "without encryption",
        ),
    ] {
        let told = Bench::refused(CHAIN, &format!("example.org {{\n {line}\n}}"));
        assert!(told.contains(wrong), "{line}: {told}");
    }
    let stub = Stub::new(|_| Reply::Close);
    for lines in ["upstream", "upstream 127.0.0.1", "fallthrough"] {
        Bench::new(CHAIN, &corefile(&stub, &folder, "example.org:example.com:p:z", lines));
    }
}

/// The facts `clouddns.load`, `clouddns.parse`, `clouddns.answer`, `clouddns.zonekey`, `clouddns.upstreamcname`.
#[tokio::test]
async fn answers_are_those_of_a_zone() {
    let folder = Folder::new();
    let stub = Stub::new(|asked| {
        let page = |sets: Value, next: Value| {
            Reply::ok(
                json!({"kind": "dns#resourceRecordSetsListResponse", "rrsets": sets, "nextPageToken": next}),
            )
        };
        match &*asked.path {
            "/token" => token(),
            path if path.contains("pageToken=two%2F") => {
                page(json!([set("second.example.org.", "A", &["198.51.100.9"])]), Value::Null)
            }
            path if path.contains("/rrsets?") => page(
                json!([
                    soa(),
                    set("example.org.", "NS", &["ns-cloud-a1.googledomains.com."]),
                    set("www.example.org.", "A", &["198.51.100.1", "198.51.100.2"]),
                    set("*.wild.example.org.", "A", &["198.51.100.3"]),
                    set("alias.example.org.", "CNAME", &["www.example.org"]),
                    set("out.example.org.", "CNAME", &["www.example.net."]),
                    set("txt.example.org.", "TXT", &["\"v=spf1 -all\" \"two\""]),
                    set("https.example.org.", "HTTPS", &["1 . alpn=h2"]),
                    set("bad.example.org.", "A", &["no address"]),
                    set("new.example.org.", "NEWTYPE", &["x"]),
                    {"name": "policy.example.org.", "type": "A", "ttl": 1, "routingPolicy": {}},
                    {"type": "A"},
                ]),
                json!("two/"),
            ),
            _ => Reply::ok(json!({"name": "zone"})),
        }
    });
    let bench = started(&corefile(&stub, &folder, "Example.ORG:p1:z1", "")).await;
    let asked = stub.asked();
    let zone = "/dns/v1/projects/p1/managedZones/z1";
    let paths: Vec<&str> = asked.iter().map(|asked| &*asked.path).collect();
    let (first, second) = (
        format!("{zone}/rrsets?maxResults=1000"),
        format!("{zone}/rrsets?maxResults=1000&pageToken=two%2F"),
    );
    assert_eq!(paths, ["/token", zone, &first, &second]);
    assert_eq!(
        asked[0].body,
        "grant_type=refresh_token&client_id=c&client_secret=s3cret&refresh_token=r3fresh"
    );
    assert!(asked[1..].iter().all(|asked| asked.header("authorization") == "Bearer tok3n"));
    for (query, parts) in [
        ("www.example.org A", &["NOERROR", "aa", "198.51.100.1", "198.51.100.2"][..]),
        ("x.wild.example.org A", &["198.51.100.3"]),
        ("alias.example.org A", &["CNAME", "198.51.100.1"]),
        ("out.example.org A", &["CNAME", "203.0.113.8"]),
        ("second.example.org A", &["198.51.100.9"]),
        ("txt.example.org TXT", &["\"v=spf1 -all\" \"two\""]),
        ("https.example.org HTTPS", &["HTTPS 00010000010003026832"]),
        ("bad.example.org A", &["NXDOMAIN", "SOA"]),
        ("policy.example.org A", &["NXDOMAIN"]),
        ("www.example.org MX", &["NOERROR", "SOA"]),
    ] {
        let answer = bench.now(query);
        assert!(parts.iter().all(|part| answer.contains(part)), "{query}: {answer}");
    }
}

/// The fact `clouddns.fallthrough`.
#[tokio::test]
async fn several_zones_of_a_name_are_tried_in_their_order() {
    let folder = Folder::new();
    let stub = api(|asked| {
        let two = asked.path.contains("/z2/");
        let address = if two { "198.51.100.2" } else { "198.51.100.1" };
        let own = if two { "two.example.org." } else { "one.example.org." };
        json!([soa(), set("both.example.org.", "A", &[address]), set(own, "A", &[address])])
    });
    let bench = started(&corefile(
        &stub,
        &folder,
        "example.org:p:z1 example.org:p:z2",
        "fallthrough next.example.org",
    ))
    .await;
    for (query, part) in [
        ("both.example.org A", "198.51.100.1"),
        ("one.example.org A", "198.51.100.1"),
        ("two.example.org A", "198.51.100.2"),
        ("next.example.org A", "_udp."),
        ("none.example.org A", "NXDOMAIN"),
    ] {
        let answer = bench.now(query);
        assert!(answer.contains(part), "{query}: {answer}");
    }
}

/// The fact `clouddns.load`: what the API or the token server refuses stops the start, and shows no secret.
#[tokio::test]
async fn a_start_that_is_refused_says_why() {
    let folder = Folder::new();
    let denied =
        json!({"error": "invalid_grant", "error_description": "r3fresh is no token of s3cret"})
            .to_string();
    let forbidden = json!({"error": {"code": 403, "message": "tok3n may not", "errors": [{"reason": "forbidden"}]}}).to_string();
    for (of_token, of_api, told) in [
        (
            Reply::Status(400, denied),
            Reply::Close,
            "no Google token: the API says 400 Bad Request: invalid_grant: … is no token of …",
        ),
        (token(), Reply::Status(403, forbidden), "403 Forbidden: forbidden: … may not"),
        (token(), Reply::Status(404, "<html>".to_owned()), "404 Not Found"),
    ] {
        let stub =
            Stub::new(
                move |asked| if asked.path == "/token" { of_token.clone() } else { of_api.clone() },
            );
        let bench = Bench::new(CHAIN, &corefile(&stub, &folder, "example.org:p:z", ""));
        let wrong = bench.built.waits.over().await.unwrap_err();
        assert!(wrong.contains(told), "{wrong}");
        assert!(
            !wrong.contains("s3cret") && !wrong.contains("r3fresh") && !wrong.contains("tok3n"),
            "{wrong}"
        );
    }
}

/// What gives tokens by these credentials.
fn tokens(folder: &Folder, value: &Value, vars: Vec<(&'static str, String)>) -> Tokens {
    let file = folder.write("credentials.json", value.clone());
    let env = Environment::new(move |name| {
        vars.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
    });
    let credentials = Credentials::find(Some(file.as_ref()), &env).unwrap();
    Tokens::new(credentials, Some(file.into()), env, fetch())
}

/// A client.
fn fetch() -> Fetch {
    Fetch::new(&certs::ClientTls::new(None, None).unwrap())
}

/// The fact `clouddns.credentials`: a service account signs what it claims.
#[tokio::test]
async fn service_accounts_sign() {
    let folder = Folder::new();
    let stub = Stub::new(|_| token());
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let mut value = json!({"type": "service_account", "client_email": "dns@p.example.org", "private_key_id": "k1", "private_key": key.serialize_pem()});
    value["token_uri"] = json!(format!("{}/token", stub.url()));
    value["quota_project_id"] = json!("payer");
    let tokens = tokens(&folder, &value, Vec::new());
    assert_eq!(tokens.get().await.unwrap().expose_secret(), "tok3n");
    assert_eq!(tokens.quota().as_deref(), Some("payer"));
    let asked = &stub.asked()[0];
    let assertion = asked.body.split("assertion=").nth(1).unwrap();
    let parts: Vec<&str> = assertion.split('.').collect();
    let part = |number: usize| BASE64_URL_SAFE_NO_PAD.decode(parts[number]).unwrap();
    let claims: Value = serde_json::from_slice(&part(1)).unwrap();
    assert_eq!(
        (&claims["iss"], &claims["aud"]),
        (&json!("dns@p.example.org"), &value["token_uri"])
    );
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/ndev.clouddns.readonly");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    let header: Value = serde_json::from_slice(&part(0)).unwrap();
    assert_eq!((&header["alg"], &header["kid"]), (&json!("RS256"), &json!("k1")));
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.der_bytes());
    public.verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &part(2)).unwrap();
}

/// The fact `clouddns.credentials`: accounts that another stands for, of other clouds, and of the machine.
#[tokio::test]
async fn tokens_come_from_all_kinds_of_credentials() {
    let folder = Folder::new();
    let stub = Stub::new(|asked| match &*asked.path {
        "/impersonate" => {
            Reply::ok(json!({"accessToken": "imp3rsonated", "expireTime": "2030-01-01T00:00:00Z"}))
        }
        "/subject" => Reply::ok(json!({"id": "subj3ct"})),
        path if path.starts_with("/computeMetadata/") => token(),
        _ => token(),
    });
    let impersonated = json!({"type": "impersonated_service_account", "delegates": ["d"], "source_credentials": person(&stub),
        "service_account_impersonation_url": format!("{}/impersonate", stub.url())});
    let given = tokens(&folder, &impersonated, Vec::new());
    assert_eq!(given.get().await.unwrap().expose_secret(), "imp3rsonated");
    let asked = stub.asked();
    assert_eq!(asked[1].header("authorization"), "Bearer tok3n");
    assert!(asked[1].body.contains("ndev.clouddns.readonly") && asked[1].body.contains("[\"d\"]"));
    let external = |source: Value| {
        json!({"type": "external_account", "audience": "//iam.example.org/a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("{}/token", stub.url()), "credential_source": source})
    };
    let program = folder
        .write("program", "#!/bin/sh\necho '{\"success\": true, \"id_token\": \"subj3ct\"}'\n");
    let allowed = vec![("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1".to_owned())];
    let json_form = json!({"type": "json", "subject_token_field_name": "id"});
    let command =
        json!({"executable": {"command": format!("/bin/sh {program}"), "timeout_millis": 20_000}});
    for (source, vars) in [
        (json!({"file": folder.write("subject", "subj3ct\n")}), Vec::new()),
        (
            json!({"file": folder.write("subject.json", json!({"id": "subj3ct"})), "format": json_form}),
            Vec::new(),
        ),
        (
            json!({"url": format!("{}/subject", stub.url()), "headers": {"X-One": "1"}, "format": json_form}),
            Vec::new(),
        ),
        (command.clone(), allowed),
    ] {
        let given = tokens(&folder, &external(source), vars);
        assert_eq!(given.get().await.unwrap().expose_secret(), "tok3n");
        let asked = stub.asked();
        let body = &asked.last().unwrap().body;
        assert!(
            body.contains("subject_token=subj3ct") && body.contains("token-exchange"),
            "{body}"
        );
    }
    let forbidden = tokens(&folder, &external(command), Vec::new()).get().await.unwrap_err();
    assert!(
        forbidden.kind == Kind::Refused && forbidden.what.contains("ALLOW_EXECUTABLES"),
        "{forbidden}"
    );
    // Without any file, the machine's own.
    let host = stub.url().replace("http://", "");
    let env = Environment::new(move |name| (name == "GCE_METADATA_HOST").then(|| host.clone()));
    let machine = Tokens::new(Credentials::find(None, &env).unwrap(), None, env, fetch());
    stub.asked();
    assert_eq!(machine.get().await.unwrap().expose_secret(), "tok3n");
    let asked = &stub.asked()[0];
    assert!(
        asked
            .path
            .starts_with("/computeMetadata/v1/instance/service-accounts/default/token?scopes=")
    );
    assert_eq!(asked.header("metadata-flavor"), "Google");
}

/// A file of credentials that breaks while running: what it said before counts, until it can be read again.
#[tokio::test]
async fn a_broken_file_of_credentials_changes_nothing() {
    let folder = Folder::new();
    let stub = Stub::new(|_| token());
    let tokens = tokens(&folder, &person(&stub), Vec::new());
    folder.write("credentials.json", "broken");
    assert!(tokens.get().await.is_ok());
    tokens.forget().await;
    let mut other = person(&stub);
    other["client_id"] = json!("other");
    folder.write("credentials.json", other);
    assert!(tokens.get().await.is_ok());
    let bodies: Vec<String> = stub.asked().into_iter().map(|asked| asked.body).collect();
    assert!(
        bodies[0].contains("client_id=c&") && bodies[1].contains("client_id=other"),
        "{bodies:?}"
    );
}

/// The fact `clouddns.parse`: a set that cannot be read is told.
#[test]
fn sets_that_cannot_be_read_are_told() {
    for odd in [
        json!({}),
        json!({"name": "a."}),
        json!({"name": "a.", "type": "A", "rrdatas": ["198.51.100.1"]}),
        json!({"name": "a.", "type": "A", "ttl": 1, "rrdatas": [1]}),
    ] {
        assert!(record_set(&odd).is_err(), "{odd}");
    }
    assert!(
        record_set(&json!({"name": "a.", "type": "A", "routingPolicy": {}}))
            .unwrap()
            .data
            .is_empty()
    );
}
