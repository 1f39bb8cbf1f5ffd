//! One order: a domain is shown to be ours, and a certificate comes back.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};

use super::answers::{Answers, Challenge, Proof, Showing};
use super::failure::Failure;
use super::shared::{self, NOTICE, Written};
use super::storage::Storage;

/// How long the CA may take to look, and to issue.
const POLL: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// Obtains a certificate: chain and key in PEM.
pub(super) async fn order(
    account: &Account,
    domain: &str,
    challenge: Challenge,
    answers: &Arc<Answers>,
    storage: &Storage,
) -> Result<(String, String), Failure> {
    let identifiers = [Identifier::Dns(domain.to_owned())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    let shown = prove(&mut order, domain, challenge, answers, storage).await?;
    match order.poll_ready(&POLL).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Ok(_) => return Err(why(&mut order, "the CA does not believe it").await),
        Err(error) => {
            let known = Failure::from(error);
            return Err(if known.refused {
                why(&mut order, &known.to_string()).await
            } else {
                known
            });
        }
    }
    drop(shown);
    let (request, key) = request(domain)?;
    order.finalize_csr(&request).await?;
    Ok((order.poll_certificate(&POLL).await?, key))
}

/// Shows what the CA asks for, and tells it to look.
async fn prove(
    order: &mut Order,
    domain: &str,
    challenge: Challenge,
    answers: &Arc<Answers>,
    storage: &Storage,
) -> Result<Vec<(Showing, Written)>, Failure> {
    let kind = match challenge {
        Challenge::Dns => ChallengeType::Dns01,
        Challenge::Http => ChallengeType::Http01,
        Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
    };
    let mut shown = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let what = format!("the CA's authorization for {domain} is {other:?}");
                return Err(Failure::refused(what.to_lowercase()));
            }
        }
        let Some(mut asked) = authorization.challenge(kind.clone()) else {
            let what = format!("the CA does not offer {} for {domain}", challenge.name());
            return Err(Failure::refused(what));
        };
        let text = asked.key_authorization();
        let (digest, encoded) = (text.digest(), text.dns_value());
        let proof = Proof {
            challenge,
            domain: domain.strip_prefix("*.").unwrap_or(domain),
            token: &asked.token,
            text: text.as_str(),
            digest: digest.as_ref(),
            encoded: &encoded,
        };
        let showing = answers.show(&proof)?;
        let (folder, name) = storage.challenges(domain);
        shown.push((showing, shared::write(&folder, &name, &proof)?));
        tokio::time::sleep(NOTICE).await;
        asked.set_ready().await?;
    }
    Ok(shown)
}

/// What the CA says of its challenges, which tells more than what it says of the order.
async fn why(order: &mut Order, known: &str) -> Failure {
    let mut all = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await {
            let errors = state.challenges.iter().filter_map(|one| one.error.as_ref());
            all.extend(errors.filter_map(|error| error.detail.clone()));
        }
    }
    Failure::refused(if all.is_empty() { known.to_owned() } else { all.join("; ") })
}

/// A request for a certificate in DER, and the key that is made for it in PEM.
fn request(domain: &str) -> Result<(Vec<u8>, String), Failure> {
    let wrong = |error: rcgen::Error| Failure::new(format!("no request can be made: {error}"));
    let mut params = CertificateParams::new(vec![domain.to_owned()]).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(wrong)?;
    let request = params.serialize_request(&key).map_err(wrong)?;
    Ok((request.der().to_vec(), key.serialize_pem()))
}
