//! The principal: the caller that the credentials of a request prove.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use filrouge_engine::caller::Caller;
use filrouge_types::{ErrorCode, IdentityId};

use super::authority::Authority;
use super::credential::{Credential, Subject};
use crate::problem::Problem;

/// The caller of a request.
#[derive(Clone)]
pub struct Principal {
    credential: Arc<Credential>,
    authority: Authority,
}

impl Principal {
    pub(super) const fn new(credential: Arc<Credential>, authority: Authority) -> Self {
        Self {
            credential,
            authority,
        }
    }

    /// The name by which the holder's requests and streams are counted: a key's id, or a token's tenant and subject; it
    /// contains no secret. `None` while the server needs no credentials.
    pub fn name(&self) -> Option<&str> {
        match &self.credential.subject {
            Subject::Local => None,
            Subject::Key(name) | Subject::Token(name) => Some(name),
        }
    }

    /// Whether the credentials are still accepted. A long request should wait for [`Self::wait_until_ended`] as well.
    pub fn is_valid(&self) -> bool {
        self.authority.accepts(&self.credential)
    }

    /// Waits until the credentials are no longer accepted.
    pub async fn wait_until_ended(&self) {
        let mut changes = self.authority.changes();
        while self.is_valid() {
            let expired = async {
                match self.expires_in() {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
                () = expired => {}
            }
        }
    }

    /// The problem to report for a request whose credentials stopped being accepted while it waited.
    pub fn credentials_ended() -> Problem {
        let detail = "the credentials stopped being valid while the request waited";
        Problem::new(ErrorCode::Unauthenticated, detail)
    }

    pub(super) fn expires_in(&self) -> Option<Duration> {
        let left = self.credential.expires_at?.as_micros() - self.authority.now().as_micros();
        Some(Duration::from_micros(u64::try_from(left).unwrap_or(0)))
    }

    /// Returns the end user on whose behalf the request is made: the holder of the credentials if it is an end user,
    /// otherwise the identity in the header `Filrouge-Identity`. `None` if there is neither.
    ///
    /// # Errors
    /// `invalid` if the header is not one identity, `forbidden` if the holder is an end user other than the one in the
    /// header.
    pub fn end_user(&self, headers: &HeaderMap) -> Result<Option<IdentityId>, Problem> {
        let requested = identity_header(headers)?;
        match (&self.credential.identity, requested) {
            (Some(own), Some(requested)) if *own != requested => Err(Problem::new(
                ErrorCode::Forbidden,
                "these credentials belong to another end user than Filrouge-Identity names",
            )),
            (Some(own), _) => Ok(Some(own.clone())),
            (None, requested) => Ok(requested),
        }
    }

    /// Returns the caller to pass to services. It acts for the end user `identity`, if there is one.
    pub fn caller(&self, identity: Option<IdentityId>) -> Caller {
        let credential = &self.credential;
        let name = match &credential.subject {
            Subject::Local => None,
            Subject::Key(name) | Subject::Token(name) => Some(name.clone()),
        };
        Caller::new(credential.tenant.clone(), credential.holder, identity).with_name(name)
    }
}

fn identity_header(headers: &HeaderMap) -> Result<Option<IdentityId>, Problem> {
    let mut values = headers.get_all("filrouge-identity").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let invalid = |what: String| Problem::new(ErrorCode::Invalid, what);
    if values.next().is_some() {
        return Err(invalid("there are several Filrouge-Identity".to_owned()));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| invalid("Filrouge-Identity is not UTF-8".to_owned()))?;
    IdentityId::new(text)
        .map(Some)
        .map_err(|e| invalid(format!("Filrouge-Identity: {e}")))
}
