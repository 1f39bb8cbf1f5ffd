//! What is known of credentials, and what is said of their ends.

use serde_json::json;

use super::*;

/// A certificate that is good from the beginning of 2026 to that of 2036, in PEM.
const CERTIFICATE: &str = include_str!("certificate.pem");
/// When that is, in Unix seconds.
const LIFE: (u64, u64) = (1_767_225_600, 2_082_758_400);

/// A token with these claims.
fn token(claims: &serde_json::Value) -> String {
    let part = |value: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2lnbmF0dXJl", part(&json!({"alg": "RS256"})), part(claims))
}

#[test]
fn the_ends_of_credentials_are_read() {
    assert_eq!(token_life(&token(&json!({"iat": 10, "exp": 20}))), Some((10, 20)));
    for odd in ["", "a.b.c", "opaque", &token(&json!({"sub": "x"})), &token(&json!({"exp": "x"}))] {
        assert_eq!(token_life(odd), None, "{odd}");
    }
    let source = Source::Kubeconfig { file: "/etc/kubeconfig".into(), context: None };
    let auth = AuthInfo {
        client_certificate_data: Some(BASE64_STANDARD.encode(CERTIFICATE)),
        token: Some(token(&json!({"iat": 10, "exp": 20})).into()),
        ..AuthInfo::default()
    };
    let place = "the kubeconfig /etc/kubeconfig";
    let one = |kind, from: &str, life| Credential { kind, from: from.to_owned(), life };
    let der = Pem::iter_from_buffer(CERTIFICATE.as_bytes()).next().unwrap().unwrap().contents;
    assert_eq!(
        credentials(&source, &auth, None, Some(&[der, b"no certificate".to_vec()])),
        [
            one("client_certificate", place, Some(LIFE)),
            one("token", place, Some((10, 20))),
            one("ca", place, Some(LIFE)),
        ]
    );
    let issued = credentials(&source, &auth, Some(("login", None)), None);
    assert_eq!(issued, [one("exec", "the credential program \"login\"", Some(LIFE))]);
    let password = AuthInfo { username: Some("me".to_owned()), ..AuthInfo::default() };
    assert_eq!(credentials(&source, &password, None, None), [one("password", place, None)]);
    assert!(credentials(&source, &AuthInfo::default(), None, None).is_empty());
}

#[test]
fn the_log_warns_once_before_an_end_and_once_after_it() {
    let one = Credential { kind: "token", from: "the file t".to_owned(), life: Some((0, 1000)) };
    let mut warned = Warned::default();
    let from = "the credential program \"login\"".to_owned();
    let credentials = [one.clone(), Credential { kind: "exec", from, ..one }];
    assert_eq!(warned.tell(&credentials, 899), [""; 0]);
    let near =
        "the token of the file t ends in 100 s: replace it, it is taken over without a restart";
    assert_eq!(warned.tell(&credentials, 900), [near]);
    assert_eq!(warned.tell(&credentials, 950), [""; 0]);
    let over = [
        "the token of the file t has ended: replace it, it is taken over without a restart",
        "what the credential program \"login\" issued has ended, and it has issued nothing newer: see that it can sign in, it is asked again without a restart",
    ];
    assert_eq!(warned.tell(&credentials, 1000), over);
    assert_eq!(warned.tell(&credentials, 1001), [""; 0]);
    // Another one is another matter.
    let next = Credential { life: Some((1000, 2000)), ..one };
    assert_eq!(warned.tell(std::slice::from_ref(&next), 1500), [""; 0]);
    assert_eq!(warned.tell(&[next], 1950).len(), 1);
}

#[test]
fn ends_are_told_in_the_largest_unit() {
    for (seconds, want) in
        [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
    {
        assert_eq!(span(seconds), want);
    }
}

#[test]
fn a_file_that_changes_is_seen() {
    let folder = std::env::temp_dir().join(format!("causeway-keeper-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (one, two) = (folder.join("one"), folder.join("two"));
    std::fs::write(&one, "a").unwrap();
    let mut files = Files::default();
    files.add(&one);
    files.add(&two);
    assert_eq!(files.now(), files);
    std::fs::write(&two, "b").unwrap();
    assert_eq!(files.now().changed(&files), [two.as_path()]);
    std::fs::write(&one, "").unwrap();
    assert_eq!(files.now().changed(&files), [one.as_path(), two.as_path()]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_files_of_a_context_are_found() {
    let config: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://198.51.100.1", "certificate-authority": "/ca"}}],
        "users": [
            {"name": "u", "user": {"client-certificate": "/crt", "client-key": "/key", "tokenFile": "/token"}},
            {"name": "v", "user": {}},
        ],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "d", "user": "v"}},
        ],
        "current-context": "x",
    }))
    .unwrap();
    let all = ["/ca", "/crt", "/key", "/token"].map(PathBuf::from);
    assert_eq!(named(&config, None), all);
    assert!(named(&config, Some("y")).is_empty());
    assert!(named(&config, Some("z")).is_empty());
}
