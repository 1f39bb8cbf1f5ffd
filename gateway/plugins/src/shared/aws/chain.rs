//! Where credentials and the region come from, one place after the other, as Amazon's own libraries look for them.

use std::path::PathBuf;
use std::time::Duration;

use k8s::program::{Failed, print};
use tokio::process::Command;

use super::profile::{Profile, Profiles};
use super::sts::{RoleWish, by_credentials, by_token, made};
use super::{Credentials, metadata};
use crate::shared::cloud::Made;
use crate::shared::environment::Environment;
use crate::shared::fetch::{Failure, Fetch};

/// How many profiles may lead to one another.
const DEEPEST: usize = 8;
/// How long a program that gives credentials may take.
const PROGRAM: Duration = Duration::from_secs(30);

/// Where the Corefile says to look.
#[derive(Debug)]
pub(crate) enum Choice {
    /// Here.
    Stated(Credentials),
    /// In a profile, whose credentials stand in this file, or in the usual one.
    Profile(String, Option<PathBuf>),
    /// In all the usual places.
    Usual,
}

/// The places where credentials and the region are looked for.
#[derive(Debug)]
pub(crate) struct Chain {
    choice: Choice,
    env: Environment,
}

/// A part of Amazon's world that has APIs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// What the names of its servers end in.
    pub(crate) suffix: &'static str,
    /// Where Route 53 is there, which has one server for all regions,
    pub(crate) route53: &'static str,
    /// and the region that its requests are signed for.
    pub(crate) region: &'static str,
}

/// The partition of a region.
pub(crate) fn partition(region: &str) -> Partition {
    let (suffix, route53, region) = match region.split_once('-') {
        Some(("cn", _)) => ("amazonaws.com.cn", "route53.amazonaws.com.cn", "cn-northwest-1"),
        Some(("us", rest)) if rest.starts_with("gov-") => {
            ("amazonaws.com", "route53.us-gov.amazonaws.com", "us-gov-west-1")
        }
        Some(("us", rest)) if rest.starts_with("iso-") => {
            ("c2s.ic.gov", "route53.c2s.ic.gov", "us-iso-east-1")
        }
        Some(("us", rest)) if rest.starts_with("isob-") => {
            ("sc2s.sgov.gov", "route53.sc2s.sgov.gov", "us-isob-east-1")
        }
        _ => ("amazonaws.com", "route53.amazonaws.com", "us-east-1"),
    };
    Partition { suffix, route53, region }
}

impl Chain {
    /// One that begins with what the Corefile says.
    pub(crate) fn new(choice: Choice, env: Environment) -> Self {
        Self { choice, env }
    }

    /// The environment.
    pub(crate) fn env(&self) -> &Environment {
        &self.env
    }

    /// The region, if the environment or the profile states one.
    pub(crate) fn region(&self) -> Option<String> {
        let env = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| self.env.get(name));
        env.or_else(|| {
            let profiles = self.profiles().ok()?;
            profiles.get(&self.profile())?.get("region").cloned()
        })
    }

    /// The same, or that of the machine.
    pub(crate) async fn region_or_machine(&self, fetch: &Fetch) -> Result<String, Failure> {
        match self.region() {
            Some(region) => Ok(region),
            None => metadata::region(&self.env, fetch).await,
        }
    }

    /// The name of the profile.
    fn profile(&self) -> String {
        match &self.choice {
            Choice::Profile(name, _) => name.clone(),
            _ => self.env.get("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
        }
    }

    /// All profiles.
    fn profiles(&self) -> Result<Profiles, Failure> {
        let file = match &self.choice {
            Choice::Profile(_, file) => file.as_deref(),
            _ => None,
        };
        Profiles::read(&self.env, file)
    }

    /// Finds credentials.
    pub(super) async fn credentials(&self, fetch: &Fetch) -> Result<Made<Credentials>, Failure> {
        match &self.choice {
            Choice::Stated(credentials) => {
                return Ok(Made { value: credentials.clone(), lives: None });
            }
            Choice::Profile(..) => return self.of_profile(fetch).await,
            Choice::Usual => {}
        }
        if let Some(found) = self.of_environment() {
            return Ok(found);
        }
        if let (Some(arn), Some(path)) =
            (self.env.get("AWS_ROLE_ARN"), self.env.get("AWS_WEB_IDENTITY_TOKEN_FILE"))
        {
            let session = self.env.get("AWS_ROLE_SESSION_NAME");
            let role = RoleWish { arn, session, ..RoleWish::default() };
            return by_token(&self.env, fetch, self.region().as_deref(), &role, &path).await;
        }
        let is_named = self.env.get("AWS_PROFILE").is_some();
        if is_named || self.profiles()?.get("default").is_some_and(has_credentials) {
            return self.of_profile(fetch).await;
        }
        if let Some(found) = metadata::container(&self.env, fetch).await {
            return found.map_err(|failure| failure.while_doing("container"));
        }
        metadata::machine(&self.env, fetch).await.map_err(|failure| {
            failure.while_doing("none in the environment and in ~/.aws, and of the machine")
        })
    }

    /// Those of the environment.
    fn of_environment(&self) -> Option<Made<Credentials>> {
        let id = self.env.get("AWS_ACCESS_KEY_ID").or_else(|| self.env.get("AWS_ACCESS_KEY"))?;
        let secret =
            self.env.get("AWS_SECRET_ACCESS_KEY").or_else(|| self.env.get("AWS_SECRET_KEY"))?;
        let token = self.env.get("AWS_SESSION_TOKEN");
        Some(made(&id, &secret, token.as_deref(), None))
    }

    /// Those of the profile, by way of the profiles that it names.
    async fn of_profile(&self, fetch: &Fetch) -> Result<Made<Credentials>, Failure> {
        let profiles = self.profiles()?;
        let (mut name, mut roles) = (self.profile(), Vec::new());
        let mut found = loop {
            let profile = profiles
                .get(&name)
                .ok_or_else(|| Failure::refused(format!("there is no profile '{name}'")))?;
            let get = |key: &str| profile.get(key).filter(|value| !value.is_empty());
            let role = get("role_arn").map(|arn| RoleWish {
                arn: arn.clone(),
                session: get("role_session_name").cloned(),
                external: get("external_id").cloned(),
                duration: get("duration_seconds").cloned(),
            });
            let Some(role) = role else { break self.of_section(&name, profile).await? };
            if let Some(path) = get("web_identity_token_file") {
                break by_token(&self.env, fetch, self.region().as_deref(), &role, path).await?;
            }
            if roles.len() >= DEEPEST {
                return Err(Failure::refused("profiles lead to one another too often"));
            }
            roles.push(role);
            match (get("source_profile"), get("credential_source").map(String::as_str)) {
                // It may have both a role and the key to take it by.
                (Some(source), _) if *source == name => {
                    break self.of_section(&name, profile).await?;
                }
                (Some(source), _) => name.clone_from(source),
                (None, Some("Environment")) => {
                    break self.of_environment().ok_or_else(|| {
                        Failure::refused("the environment has no AWS_ACCESS_KEY_ID")
                    })?;
                }
                (None, Some("EcsContainer")) => {
                    let container = metadata::container(&self.env, fetch).await;
                    break container
                        .unwrap_or_else(|| Err(Failure::refused("this is no container of ECS")))?;
                }
                (None, Some("Ec2InstanceMetadata")) => {
                    break metadata::machine(&self.env, fetch).await?;
                }
                (None, _) => {
                    return Err(Failure::refused(format!(
                        "the profile '{name}' has a role_arn, and no source_profile, credential_source or web_identity_token_file"
                    )));
                }
            }
        };
        while let Some(role) = roles.pop() {
            let region = self.region();
            found =
                by_credentials(&self.env, fetch, region.as_deref(), &role, &found.value).await?;
        }
        Ok(found)
    }

    /// Those that stand in a profile, or that a program gives which it names.
    async fn of_section(
        &self,
        name: &str,
        profile: &Profile,
    ) -> Result<Made<Credentials>, Failure> {
        let get = |key: &str| profile.get(key).filter(|value| !value.is_empty());
        if let (Some(id), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) {
            let token = get("aws_session_token").map(String::as_str);
            return Ok(made(id, secret, token, None));
        }
        match get("credential_process") {
            Some(program) => of_program(program)
                .await
                .map_err(|failure| failure.while_doing(format!("profile '{name}'"))),
            None => Err(Failure::refused(format!("the profile '{name}' has no credentials"))),
        }
    }
}

/// Whether a profile says where credentials are.
fn has_credentials(profile: &Profile) -> bool {
    ["aws_access_key_id", "role_arn", "credential_process"]
        .iter()
        .any(|key| profile.get(*key).is_some_and(|value| !value.is_empty()))
}

/// Runs a program that gives credentials.
async fn of_program(line: &str) -> Result<Made<Credentials>, Failure> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    let text = print(&mut command, PROGRAM).await.map_err(|why| {
        let text = format!("credential_process {why}");
        match why {
            Failed::Unusable(_) => Failure::refused(text),
            _ => Failure::away(text),
        }
    })?;
    metadata::read(&String::from_utf8_lossy(&text))
}
