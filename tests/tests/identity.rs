//! Who asks, over every transport, with the clients that people use. The names of tests begin with the IDs of the
//! requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use hickory_proto::rr::RecordType;
use plugins::identity::{Minted, mint};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tests::pki::{Leaf, Pair};
use tests::quic::{Client, exchange, query};
use tests::{Gateway, Pki, Query, until};

/// The secret of the key `branch.key`.
const KEY: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";

/// How long a change of the file may take to count.
const SOON: Duration = Duration::from_secs(20);

/// A gateway that tells clients who they are, and what they need.
struct Place {
    pki: Pki,
    gateway: Gateway,
    alice: Minted,
    bob: Minted,
}

impl Place {
    /// One with the secrets of alice, who is in the group staff, and bob.
    fn new() -> Self {
        let pki = Pki::new();
        let server = pki.server("server", &["dns.example.org", "*.dns.example.org", "127.0.0.1"]);
        let alice = mint("alice", &["staff".to_owned()]).unwrap();
        let bob = mint("bob", &[]).unwrap();
        let corefile = format!(
            r#"dns://.:@PORT@ tls://.:@PORT:tls@ quic://.:@PORT:tls@ https://.:@PORT:https@ https3://.:@PORT:https@ {{
    bind 127.0.0.1
    tls {server} {{
        client_auth request
    }}
    tsig {{
        secret branch.key. {KEY}
    }}
    identity {{
        certificates {}
        secrets @DIR@/secrets
        names *.dns.example.org
        networks office 127.0.0.9 staff
        tsig branch.key. branch
    }}
    debug
    errors
    log . "{{/identity/name}} in {{/identity/groups}} asks {{name}} {{rcode}}"
    prometheus 127.0.0.1:@PORT:metrics@
    cache
    template IN TXT who.test {{
        answer "{{{{ .Name }}}} 60 IN TXT \"{{{{ .Meta \"identity/name\" }}}} by {{{{ .Meta \"identity/method\" }}}}\""
    }}
    template IN A all.test {{
        answer "{{{{ .Name }}}} 60 IN A 127.0.0.80"
    }}
}}
"#,
            pki.ca().display(),
        );
        let secrets = [alice.lines.join("\n"), bob.lines.join("\n")].join("\n");
        let gateway = Gateway::new(&corefile).file("secrets", &secrets).start();
        Self { pki, gateway, alice, bob }
    }

    /// Runs a client; what it wrote.
    fn run(&self, line: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.gateway.folder())
            .env("CA", self.pki.ca())
            .env("DNS", self.gateway.address().port().to_string())
            .env("TLS", self.gateway.address_of("tls").port().to_string())
            .env("HTTPS", self.gateway.address_of("https").port().to_string())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// What kdig says who asks, with more words; `+quic` has to be the last of them, or kdig 3.2 crashes.
    fn kdig(&self, words: &str) -> String {
        let line = format!(
            "kdig @127.0.0.1 -p $TLS +tls-ca=$CA +timeout=5 +retry=0 {words} who.test TXT +short"
        );
        self.run(&line).trim().trim_matches('"').to_owned()
    }

    /// What curl gets for the file `query`, with more words; the moment of the response is taken out.
    fn curl(&self, words: &str) -> String {
        let line = format!(
            "curl -sS -i --max-time 20 --cacert $CA --resolve *:$HTTPS:127.0.0.1 \
             -H 'content-type: application/dns-message' {words}"
        );
        // curl 7 takes a response that comes before it has sent the body for an error of HTTP/2.
        let page = || Some(self.run(&line)).filter(|page| !page.starts_with("curl: (92)"));
        let page = (0..20).find_map(|_| page()).unwrap();
        let lines = page.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Writes the secrets of some.
    fn only(&mut self, lines: &[&str]) {
        self.gateway.write("secrets", &lines.join("\n"));
    }
}

/// TLS of a client that trusts `ca`, with a certificate of its own.
fn tls(ca: &Path, own: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca).unwrap() {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_file_iter(&own.chain).unwrap();
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
        }
    })
}

/// A connection over TLS.
struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// Opens one for a name.
    fn open(server: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self(StreamOwned::new(connection, stream))
    }

    /// Asks; the octets of the reply, none if the connection is closed.
    fn ask(&mut self, name: &str) -> Option<Vec<u8>> {
        let message = Query::new(name, RecordType::TXT).encode();
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        self.0.write_all(&[&length[..], &message].concat()).ok()?;
        self.0.flush().ok()?;
        let mut length = [0; 2];
        self.0.read_exact(&mut length).ok()?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.0.read_exact(&mut message).ok()?;
        Some(message)
    }

    /// Waits for its end without asking.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Whether a reply has these octets in it.
fn has(reply: Option<Vec<u8>>, text: &str) -> bool {
    reply.is_some_and(|reply| reply.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[test]
fn tls_07_clients_are_known_over_every_transport() {
    let place = Place::new();
    let (alice, bob) = (&place.alice, &place.bob);
    let carol =
        place.pki.issue("carol", Leaf::client("carol", &["carol@example.org"]).unit("staff"));
    let stranger = Pki::new();
    let eve = stranger.issue("eve", Leaf::client("eve", &[]));
    let late = place.pki.issue("late", Leaf::client("late", &[]).expired());
    let shows = |pair: &Pair| {
        format!("+tls-certfile={} +tls-keyfile={}", pair.chain.display(), pair.key.display())
    };
    let named = |label: &str| format!("+tls-hostname={label}.dns.example.org");
    for transport in ["+tls", "+quic"] {
        for (words, want) in [
            (named(&alice.label), "alice by name"),
            (named(&bob.label), "bob by name"),
            (shows(&carol), "carol@example.org by certificate"),
            (
                format!("{} {}", shows(&carol), named(&bob.label)),
                "carol@example.org by certificate",
            ),
            ("+tls-hostname=dns.example.org".to_owned(), ""),
        ] {
            assert_eq!(place.kdig(&format!("{words} {transport}")), want, "{transport} {words}");
        }
        for words in [
            named("wrong"),
            named(&alice.token),
            shows(&eve),
            shows(&late),
            format!("{} {}", shows(&eve), named(&alice.label)),
        ] {
            let text = place.kdig(&format!("{words} {transport}"));
            assert!(!text.contains(" by ") && !text.is_empty(), "{transport} {words}: {text}");
        }
    }
    // DoH by path, header, TLS name and certificate.
    std::fs::write(
        place.gateway.folder().join("query"),
        Query::new("who.test", RecordType::TXT).encode(),
    )
    .unwrap();
    let here = "https://dns.example.org:$HTTPS/dns-query";
    let post = "--data-binary @query -o -";
    for version in ["--http1.1", "--http2"] {
        for (words, want) in [
            (format!("{here}/{}", alice.token), "alice by path"),
            (format!("{here} -H 'authorization: Bearer {}'", bob.token), "bob by authorization"),
            (format!("{here} -u anybody:{}", bob.token), "bob by authorization"),
            (format!("{here}/{} -u :{}", alice.token, bob.token), "bob by authorization"),
            (format!("https://{}.dns.example.org:$HTTPS/dns-query", alice.label), "alice by name"),
            (
                format!("{here} --cert {} --key {}", carol.chain.display(), carol.key.display()),
                "carol@example.org by certificate",
            ),
        ] {
            let page = place.curl(&format!("{version} {post} {words}"));
            assert!(page.contains(want), "{version} {words}: {page}");
            // What depends on who asks is for no shared cache (DOH-10).
            let control =
                page.lines().find(|line| line.to_ascii_lowercase().starts_with("cache-control"));
            assert!(control.unwrap().contains("private"), "{page}");
        }
        let page = place.curl(&format!("{version} {post} {here}"));
        assert!(page.lines().next().unwrap().contains("404"), "{page}");
    }
    let kdig = |words: &str| {
        place.run(&format!("kdig @127.0.0.1 -p $HTTPS +tls-ca=$CA +tls-hostname=dns.example.org {words} who.test TXT +short"))
    };
    assert!(kdig(&format!("+https=/dns-query/{}", alice.token)).contains("alice by path"));
    assert!(
        kdig(&format!("+https-get +https=/dns-query/{}", alice.token)).contains("alice by path")
    );
    // Addresses, and keys.
    let server = place.gateway.address();
    let from = |address: &str, query: Query| {
        query.from_address(address.parse().unwrap()).ask(server).unwrap()
    };
    let who = || Query::new("who.test", RecordType::TXT);
    assert!(from("127.0.0.9", who()).answers().concat().contains("office by network"));
    assert!(from("127.0.0.9", who().tcp()).answers().concat().contains("office by network"));
    assert_eq!(from("127.0.0.8", who()).rcode().to_str(), "Query Refused");
    let dig = |key: &str| {
        place.run(&format!("dig @127.0.0.1 -p $DNS -b 127.0.0.9 -y {key} who.test TXT +tries=1"))
    };
    let good = dig(&format!("hmac-sha256:branch.key:{KEY}"));
    assert!(good.contains("branch by tsig") && !good.contains("Couldn't verify"), "{good}");
    for key in [KEY.replace("No", "nO"), KEY.to_owned()] {
        let name = if key == KEY { "other.key" } else { "branch.key" };
        let bad = dig(&format!("hmac-sha256:{name}:{key}"));
        assert!(bad.contains("NOTAUTH") && !bad.contains(" by "), "{bad}");
    }
}

#[test]
fn a_wrong_secret_gets_what_a_missing_page_gets() {
    let place = Place::new();
    std::fs::write(
        place.gateway.folder().join("query"),
        Query::new("who.test", RecordType::TXT).encode(),
    )
    .unwrap();
    let base = "https://dns.example.org:$HTTPS";
    let (token, label) = (&place.alice.token, &place.alice.label);
    for version in ["--http1.1", "--http2"] {
        for method in [
            "--data-binary @query",
            "-G --data-urlencode dns=AAABAAABAAAAAAAAA3d3dwAAAQAB",
            "--head",
            "-X OPTIONS",
            "-X DELETE",
            "-X PUT --data-binary nonsense -H 'content-type: text/plain'",
            "-H 'accept: application/dns-json' -G -d name=who.test",
        ] {
            let missing = place.curl(&format!("{version} {method} {base}/missing"));
            assert!(missing.lines().next().unwrap().contains("404"), "{method}: {missing}");
            for wrong in [
                format!("{base}/dns-query/wrong"),
                format!("{base}/dns-query/{label}"),
                format!("{base}/dns-query/{token}/"),
                format!("{base}/dns-query/{token}x"),
                format!("{base}/dns-query/{token} -H 'authorization: Bearer wrong'"),
                format!("{base}/dns-query -H 'authorization: Bearer wrong'"),
                format!("{base}/dns-query -H 'authorization: Bearer {label}'"),
                format!("{base}/dns-query -H 'authorization: nonsense'"),
                format!("{base}/dns-query -u {token}:wrong"),
            ] {
                let got = place.curl(&format!("{version} {method} {wrong}"));
                assert_eq!(got, missing, "{version} {method} {wrong}");
            }
        }
    }
}

#[tokio::test]
async fn http_3_is_no_different() {
    let place = Place::new();
    let client = Client::new(place.pki.ca(), &["h3"]);
    let connection = client.connect(place.gateway.address_of("https")).await.unwrap();
    let made = h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    let (mut driver, mut sender) = made;
    let driver = tokio::spawn(async move { driver.wait_idle().await.to_string() });
    let mut send = async |path: &str, authorization: &str| {
        let request = http::Request::post(format!("https://dns.example.org{path}"));
        let mut request = request.header("content-type", "application/dns-message");
        if !authorization.is_empty() {
            request = request.header("authorization", authorization);
        }
        let mut stream = sender.send_request(request.body(()).unwrap()).await.unwrap();
        let message = Query::new("who.test", RecordType::TXT).encode();
        // A server that does not want it says so.
        drop(stream.send_data(Bytes::from(message)).await);
        drop(stream.finish().await);
        let head = stream.recv_response().await.unwrap();
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await.unwrap() {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        let mut headers = head.headers().clone();
        headers.remove("date");
        (head.status(), headers, body)
    };
    let (alice, bob) = (&place.alice.token, &place.bob.token);
    for (path, authorization, want) in [
        (format!("/dns-query/{alice}"), String::new(), "alice by path"),
        ("/dns-query".to_owned(), format!("Bearer {bob}"), "bob by authorization"),
    ] {
        let (status, headers, body) = send(&path, &authorization).await;
        assert!(status == 200 && has(Some(body), want), "{path} {authorization}");
        assert!(headers["cache-control"].to_str().unwrap().contains("private"));
    }
    let missing = send("/missing", "").await;
    assert_eq!(missing.0, 404);
    assert_eq!(send("/dns-query", "").await.0, 404);
    for (path, authorization) in [
        ("/dns-query/wrong".to_owned(), ""),
        (format!("/dns-query/{alice}"), "Bearer wrong"),
        ("/dns-query".to_owned(), "Basic d3Jvbmc="),
    ] {
        assert_eq!(send(&path, authorization).await, missing, "{path} {authorization}");
    }
    driver.abort();
}

#[test]
fn tls_03_a_line_taken_out_ends_connections_and_resumption() {
    let mut place = Place::new();
    let server = place.gateway.address_of("tls");
    let name = |minted: &Minted| format!("{}.dns.example.org", minted.label);
    let config = tls(place.pki.ca(), None);
    let mut alice = Connection::open(server, &config, &name(&place.alice));
    let mut bob = Connection::open(server, &config, &name(&place.bob));
    assert!(has(alice.ask("who.test"), "alice by name") && has(bob.ask("who.test"), "bob by name"));
    // With a session to resume.
    let mut again = Connection::open(server, &config, &name(&place.alice));
    assert!(has(again.ask("who.test"), "alice by name"));
    assert_eq!(again.0.conn.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
    let bobs = place.bob.lines.clone();
    place.only(&bobs.each_ref().map(String::as_str));
    assert!(alice.is_closed() && again.is_closed(), "{}", place.gateway.output());
    assert!(has(bob.ask("who.test"), "bob by name"));
    for config in [&config, &tls(place.pki.ca(), None)] {
        let mut late = Connection::open(server, config, &name(&place.alice));
        assert_eq!(late.ask("who.test"), None);
    }
    // A broken line is no reason to close anything.
    place.only(&["carol path:sha256:nonsense"]);
    place.gateway.line("secrets:1: the hash has not 64 hexadecimal digits");
    assert!(has(bob.ask("who.test"), "bob by name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_connections_over_tls_and_quic() {
    let mut place = Place::new();
    let pair = place.pki.issue("carol", Leaf::client("carol", &[]));
    let config = tls(place.pki.ca(), Some(&pair));
    let server = place.gateway.address_of("tls");
    let mut stream = Connection::open(server, &config, "dns.example.org");
    assert!(has(stream.ask("who.test"), "carol by certificate"));
    let client = Client::with_certificate(place.pki.ca(), &["doq"], &pair);
    let connection = client.connect(server).await.unwrap();
    let reply = exchange(&connection, &query("who.test TXT")).await.reply();
    assert!(reply.answers().concat().contains("carol by certificate"));
    let der = CertificateDer::from_pem_file(&pair.chain).unwrap();
    let print: String = certs::fingerprint(&der).iter().map(|byte| format!("{byte:02x}")).collect();
    place.only(&[&format!("- sha256:{print}")]);
    assert!(stream.is_closed(), "{}", place.gateway.output());
    tokio::time::timeout(SOON, connection.closed()).await.unwrap();
    let mut late = Connection::open(server, &config, "dns.example.org");
    assert_eq!(late.ask("who.test"), None);
}

#[test]
fn tls_07_a_certificate_that_ends_counts_no_more() {
    let place = Place::new();
    let short = Leaf::client("carol", &[]).ends_in(Duration::from_secs(4));
    let config = tls(place.pki.ca(), Some(&place.pki.issue("carol", short)));
    let server = place.gateway.address_of("tls");
    let mut stream = Connection::open(server, &config, "dns.example.org");
    assert!(has(stream.ask("who.test"), "carol by certificate"));
    let ended = || (!has(stream.ask("who.test"), "carol by certificate")).then_some(());
    assert!(until(SOON, ended).is_some());
}

#[test]
fn the_secrets_of_a_path_and_a_header_count_no_more_at_once() {
    let mut place = Place::new();
    std::fs::write(
        place.gateway.folder().join("query"),
        Query::new("who.test", RecordType::TXT).encode(),
    )
    .unwrap();
    let path = format!(
        "--http2 --data-binary @query https://dns.example.org:$HTTPS/dns-query/{} -o -",
        place.alice.token
    );
    let header = format!(
        "--http2 --data-binary @query https://dns.example.org:$HTTPS/dns-query -u :{} -o -",
        place.alice.token
    );
    assert!(place.curl(&path).contains("alice") && place.curl(&header).contains("alice"));
    let lines = place.alice.lines.clone();
    place.only(&[&lines[1]]);
    let gone = until(SOON, || place.curl(&path).contains("404").then_some(()));
    assert!(gone.is_some() && place.curl(&header).contains("alice"));
}

#[test]
fn log_01_no_secret_is_written_anywhere() {
    let mut place = Place::new();
    std::fs::write(
        place.gateway.folder().join("query"),
        Query::new("who.test", RecordType::TXT).encode(),
    )
    .unwrap();
    let (alice, bob) = (&place.alice, &place.bob);
    let here = "https://dns.example.org:$HTTPS/dns-query";
    let guess = "guessed4guessed4guessed4gu";
    for words in [
        format!("+tls-hostname={}.dns.example.org +tls", alice.label),
        format!("+tls-hostname={}.dns.example.org +quic", bob.label),
        format!("+tls-hostname={guess}.dns.example.org +tls"),
        format!("+tls-hostname={guess}.dns.example.org +quic"),
    ] {
        place.kdig(&words);
    }
    for version in ["--http1.1", "--http2"] {
        for words in [
            format!("{here}/{}", alice.token),
            format!("{here}/{guess}"),
            format!("{here} -u :{}", bob.token),
            format!("{here} -u :{guess}"),
            format!("{here}/{}/../{}", alice.token, bob.token),
            format!("{here}/{} --data-binary nonsense", alice.token),
            format!("https://{guess}.dns.example.org:$HTTPS/dns-query"),
        ] {
            place.curl(&format!("{version} --data-binary @query -o - {words}"));
        }
    }
    let (alices, bobs) = (alice.lines.clone(), bob.lines.clone());
    // Lines that are broken in such ways that the secret is where something else should be.
    for (broken, told) in [
        (format!("alice path:sha256:{}", alice.token), "secrets:1: the hash has not 64"),
        (format!("{} {}", bob.token, bobs[0]), "secrets:1: a secret is written NAME"),
    ] {
        place.only(&[&broken]);
        place.gateway.line(told);
    }
    let binary = tests::gateway::binary().display();
    let told = [
        place.run(&format!("{binary} check Corefile")),
        place.run(&format!("{binary} config")),
        place.run(&format!("{binary} -conf Corefile")),
    ];
    assert!(told[2].contains("secrets:1: "), "the broken file is refused at a start: {}", told[2]);
    let metrics = place.gateway.get("metrics", "/metrics").unwrap().1;
    assert!(metrics.contains("causeway_identity_admissions_total"));
    let output = place.gateway.output();
    assert!(output.contains("alice in staff asks who.test. NOERROR"), "{output}");
    let all = [told.concat(), metrics, output].concat();
    let (alice, bob) = (&place.alice, &place.bob);
    let hashes = alices.iter().chain(&bobs).map(|line| line.rsplit(':').next().unwrap());
    let hashes = hashes.map(|rest| rest.split(' ').next().unwrap());
    for secret in hashes.chain([&*alice.token, &*alice.label, &*bob.token, &*bob.label, guess]) {
        let line = all.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[test]
fn secrets_are_made_by_the_program() {
    let binary = tests::gateway::binary();
    let made = Command::new(binary).args(["secret", "dave", "staff", "ops"]).output().unwrap();
    assert!(made.status.success());
    let lines = String::from_utf8(made.stdout).unwrap();
    let shown = String::from_utf8(made.stderr).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(
        lines.lines().all(|line| line.starts_with("dave ") && line.ends_with(" staff ops")),
        "{lines}"
    );
    let token =
        shown.split("/dns-query/").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(token.len() == 26 && !lines.contains(token), "{shown}");
    let gateway = Gateway::new(
        ".:@PORT@ {\n bind 127.0.0.1\n identity {\n secrets secrets\n networks here 127.0.0.1\n }\n whoami\n}\n",
    );
    let gateway = gateway.file("secrets", &lines).start();
    assert_eq!(gateway.ask("a.test A").rcode().to_str(), "No Error");
    for (words, want) in [(&["secret"][..], "needs a name"), (&["secret", "a,b"], "has a comma")] {
        let refused = Command::new(binary).args(words).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && text.contains(want), "{text}");
    }
}
