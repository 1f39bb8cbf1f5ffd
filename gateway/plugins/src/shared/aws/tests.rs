//! The chain of credentials, place by place.

use std::path::PathBuf;

use secrecy::ExposeSecret as _;

use super::{Chain, Choice, Credentials, partition};
use crate::shared::cloud::stub::{Reply, Stub};
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch};

/// The environment of a test.
#[derive(Clone, Default)]
struct Vars(Vec<(&'static str, String)>);

impl Vars {
    /// The same with a variable.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// As plugins see it.
    fn env(self) -> Environment {
        Environment::new(move |name| {
            self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
        })
    }
}

/// A folder with files of profiles.
fn home(label: &str, config: &str, credentials: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("causeway-aws-{label}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join(".aws")).unwrap();
    std::fs::write(folder.join(".aws/config"), config).unwrap();
    std::fs::write(folder.join(".aws/credentials"), credentials).unwrap();
    folder
}

/// What a chain finds: key, secret and token.
async fn found(choice: Choice, vars: Vars) -> Result<(String, String, String), Failure> {
    let fetch = Fetch::new(&certs::ClientTls::new(None, None).unwrap());
    let made = Chain::new(choice, vars.env()).credentials(&fetch).await?;
    let Credentials { id, secret, token } = made.value;
    let token = token.map(|token| token.expose_secret().to_owned()).unwrap_or_default();
    Ok((id, secret.expose_secret().to_owned(), token))
}

/// What it finds in all the usual places, and how long that is good.
async fn usual(vars: Vars) -> Result<(String, String, String), Failure> {
    found(Choice::Usual, vars).await
}

/// Three words.
fn three(a: &str, b: &str, c: &str) -> (String, String, String) {
    (a.to_owned(), b.to_owned(), c.to_owned())
}

/// A reply of the Security Token Service.
fn sts() -> Reply {
    Reply::ok(
        "<R><Credentials><AccessKeyId>AR</AccessKeyId><SecretAccessKey>SR</SecretAccessKey><SessionToken>TR</SessionToken>\
         <Expiration>2199-01-01T00:00:00Z</Expiration></Credentials></R>",
    )
}

/// The fact `route53.keys`: environment, files and roles.
#[tokio::test]
async fn credentials_come_from_environment_and_files() {
    let env = Vars::default()
        .with("AWS_ACCESS_KEY_ID", "AE")
        .with("AWS_SECRET_ACCESS_KEY", "SE")
        .with("AWS_SESSION_TOKEN", "TE");
    assert_eq!(usual(env.clone()).await, Ok(three("AE", "SE", "TE")));
    let stub = Stub::new(|_| sts());
    let folder = home(
        "files",
        "[default]\nregion = eu-west-1\n[profile role]\nrole_arn = arn:r\nsource_profile = keys\nexternal_id = x\n\
         [profile chained]\nrole_arn = arn:c\nsource_profile = role\n[profile env]\nrole_arn = arn:e\ncredential_source = Environment\n\
         [profile round]\nrole_arn = a\nsource_profile = trip\n[profile trip]\nrole_arn = b\nsource_profile = round\n\
         [profile bare]\nrole_arn = a\n[profile program]\ncredential_process = printf '{\"Version\": 1, \"AccessKeyId\": \"AP\", \"SecretAccessKey\": \"SP\"}'\n\
         [profile failing]\ncredential_process = false\n[profile endless]\ncredential_process = yes\n",
        "[default]\naws_access_key_id = AD\naws_secret_access_key = SD\n[keys]\naws_access_key_id = AK\naws_secret_access_key = SK\n",
    );
    let files = Vars::default()
        .with("HOME", folder.display().to_string())
        .with("AWS_ENDPOINT_URL_STS", stub.url());
    assert_eq!(usual(files.clone()).await, Ok(three("AD", "SD", "")));
    let profile = |name: &str| Choice::Profile(name.to_owned(), None);
    assert_eq!(found(profile("keys"), files.clone()).await, Ok(three("AK", "SK", "")));
    assert_eq!(usual(files.clone().with("AWS_PROFILE", "keys")).await, Ok(three("AK", "SK", "")));
    assert_eq!(found(profile("program"), files.clone()).await, Ok(three("AP", "SP", "")));
    assert_eq!(found(profile("role"), files.clone()).await, Ok(three("AR", "SR", "TR")));
    let asked = stub.asked();
    assert!(asked[0].body.contains("Action=AssumeRole&") && asked[0].body.contains("ExternalId=x"));
    assert!(
        asked[0].header("authorization").contains("Credential=AK/")
            && asked[0].header("authorization").contains("/us-east-1/sts/")
    );
    assert_eq!(found(profile("chained"), files.clone()).await, Ok(three("AR", "SR", "TR")));
    let asked = stub.asked();
    assert!(
        asked[0].body.contains("RoleArn=arn%3Ar&") && asked[1].body.contains("RoleArn=arn%3Ac&")
    );
    assert!(asked[1].header("authorization").contains("Credential=AR/"));
    assert_eq!(asked[1].header("x-amz-security-token"), "TR");
    let both = Vars([files.0.clone(), env.0.clone()].concat());
    assert_eq!(found(profile("env"), both).await, Ok(three("AR", "SR", "TR")));
    for wrong in ["none", "round", "bare", "failing", "env"] {
        let failure = found(profile(wrong), files.clone()).await.unwrap_err();
        assert!(!failure.what.contains("SK"), "{failure}");
    }
    let endless = found(profile("endless"), files.clone()).await.unwrap_err();
    assert!(endless.what.ends_with("was ended: it printed more than 1 MiB"), "{endless}");
    let own = Choice::Profile("keys".to_owned(), Some(folder.join("absent")));
    assert!(found(own, files.clone()).await.unwrap_err().what.contains("cannot read"));
    std::fs::write(folder.join("token"), "w3b\n").unwrap();
    let web = files
        .clone()
        .with("AWS_ROLE_ARN", "arn:w")
        .with("AWS_WEB_IDENTITY_TOKEN_FILE", folder.join("token").display().to_string());
    stub.asked();
    assert_eq!(usual(web.clone()).await, Ok(three("AR", "SR", "TR")));
    let asked = stub.asked();
    assert!(
        asked[0].body.contains("AssumeRoleWithWebIdentity")
            && asked[0].body.contains("WebIdentityToken=w3b")
    );
    assert_eq!(asked[0].header("authorization"), "");
    stub.answer(|_| {
        Reply::Status(
            400,
            "<E><Code>InvalidIdentityToken</Code><Message>w3b is bad</Message></E>".to_owned(),
        )
    });
    let failure = usual(web).await.unwrap_err();
    assert!(failure.what.contains("InvalidIdentityToken: … is bad"), "{failure}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The facts `route53.keys`, `route53.region`: the container and the machine.
#[tokio::test]
async fn credentials_come_from_container_and_machine() {
    let keys = "{\"Code\": \"Success\", \"AccessKeyId\": \"AM\", \"SecretAccessKey\": \"SM\", \"Token\": \"TM\", \"Expiration\": \"2199-01-01T00:00:00Z\"}";
    let stub = Stub::new(move |asked| match (&*asked.method, &*asked.path) {
        ("PUT", "/latest/api/token")
            if asked.header("x-aws-ec2-metadata-token-ttl-seconds") == "21600" =>
        {
            Reply::ok("s3ssion")
        }
        _ if asked.header("x-aws-ec2-metadata-token") != "s3ssion"
            && asked.header("authorization") != "c0ntainer" =>
        {
            Reply::Status(401, String::new())
        }
        ("GET", "/latest/meta-data/iam/security-credentials/") => Reply::ok("role\n"),
        ("GET", "/latest/meta-data/iam/security-credentials/role" | "/container") => {
            Reply::ok(keys)
        }
        ("GET", "/latest/meta-data/placement/region") => Reply::ok("cn-north-1"),
        _ => Reply::Status(404, String::new()),
    });
    let machine = Vars::default().with("AWS_EC2_METADATA_SERVICE_ENDPOINT", stub.url());
    assert_eq!(usual(machine.clone()).await, Ok(three("AM", "SM", "TM")));
    let fetch = Fetch::new(&certs::ClientTls::new(None, None).unwrap());
    let region = |vars: Vars| Chain::new(Choice::Usual, vars.env());
    assert_eq!(
        region(machine.clone()).region_or_machine(&fetch).await.as_deref(),
        Ok("cn-north-1")
    );
    let named = machine.clone().with("AWS_REGION", "eu-west-1");
    assert_eq!(region(named).region_or_machine(&fetch).await.as_deref(), Ok("eu-west-1"));
    let disabled = machine.with("AWS_EC2_METADATA_DISABLED", "true");
    assert!(usual(disabled).await.unwrap_err().what.contains("AWS_EC2_METADATA_DISABLED"));
    let container = Vars::default()
        .with("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", stub.url()))
        .with("AWS_CONTAINER_AUTHORIZATION_TOKEN", "c0ntainer");
    assert_eq!(usual(container).await, Ok(three("AM", "SM", "TM")));
    let far = Vars::default().with("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://198.51.100.1/");
    assert!(usual(far).await.unwrap_err().what.contains("neither https nor"));
    for text in [
        "",
        "no",
        "{}",
        "{\"AccessKeyId\": \"A\"}",
        "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", \"Expiration\": \"soon\"}",
    ] {
        stub.answer(move |_| Reply::ok(text));
        let container =
            Vars::default().with("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/x", stub.url()));
        assert!(usual(container).await.is_err(), "{text}");
    }
}

/// The fact `route53.region`.
#[test]
fn regions_have_their_own_servers() {
    for (region, server, signed) in [
        ("eu-central-1", "route53.amazonaws.com", "us-east-1"),
        ("us-west-2", "route53.amazonaws.com", "us-east-1"),
        ("cn-north-1", "route53.amazonaws.com.cn", "cn-northwest-1"),
        ("us-gov-east-1", "route53.us-gov.amazonaws.com", "us-gov-west-1"),
        ("us-iso-west-1", "route53.c2s.ic.gov", "us-iso-east-1"),
        ("us-isob-east-1", "route53.sc2s.sgov.gov", "us-isob-east-1"),
        ("", "route53.amazonaws.com", "us-east-1"),
    ] {
        let found = partition(region);
        assert_eq!((found.route53, found.region), (server, signed), "{region}");
    }
}
