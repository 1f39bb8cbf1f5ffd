//! The account at the CA.

use instant_acme::{Account, AccountCredentials, NewAccount};

use super::client::Client;
use super::failure::Failure;
use super::storage::Storage;
use crate::{file, store};

/// Sets the account aside that is kept.
pub(super) fn forget(storage: &Storage) -> Result<(), Failure> {
    let path = storage.account();
    let renamed = std::fs::rename(&path, path.with_extension("old"));
    renamed.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The account that is kept, or a new one, which is kept then. To be called with the lock.
pub(super) async fn account(
    storage: &Storage,
    client: &Client,
    directory: &str,
    email: Option<&str>,
) -> Result<Account, Failure> {
    let path = storage.account();
    let builder = Account::builder_with_http(Box::new(client.clone()));
    if path.exists() {
        let text = file::read(&path)?;
        let Ok(known) = serde_json::from_slice::<AccountCredentials>(&text) else {
            let what = "is no account of ACME; move it away, and there will be a new one";
            return Err(crate::Error::of(path, what).into());
        };
        return Ok(builder.from_credentials(known).await?);
    }
    let contact = email.map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let wanted = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let (account, credentials) = builder.create(&wanted, directory.to_owned(), None).await?;
    let text = serde_json::to_vec(&credentials)
        .map_err(|_| Failure::new("the account cannot be written down"))?;
    // The CA counts accounts too, so the next attempt is not soon.
    store::write(&path, &text).map_err(|error| Failure::refused(error.to_string()))?;
    Ok(account)
}
