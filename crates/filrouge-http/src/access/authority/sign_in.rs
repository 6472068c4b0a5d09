//! Sign-ins of browsers with an API key, or with a token of the issuer.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use filrouge_engine::caller::CallerRole;
use filrouge_types::{IdentityId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Authority, Shared};
use crate::access::browser::presented_sign_in;
use crate::access::credential::{Credential, Subject};

/// The maximum length of a sign-in in bytes. Browsers refuse cookies of more than 4,096 bytes.
const SIGN_IN_MAX: usize = 3_500;
/// The beginning of a sign-in with a token. No id of an API key has this character.
const TOKEN_MARK: char = '~';

impl Authority {
    /// Signs in with the text of an API key, or with a token of the issuer: returns the sign-in for the browser's
    /// cookie, and how long it is valid: `valid_for`, or until the key or the token expires. `None` if the text is
    /// neither, or not valid any more; also for a token whose claims do not fit into a cookie.
    pub async fn sign_in(&self, text: &str, valid_for: Duration) -> Option<(String, Duration)> {
        let shared = &self.0;
        let credential = shared.verify_text(&shared.keys(), text).await?;
        let now = self.now();
        let expires_at = credential.no_later_than(now.after(valid_for));
        let holder = match &credential.subject {
            Subject::Key(key_id) => key_id.to_string(),
            Subject::Token(name) => shared.token_holder(&credential, name)?,
            Subject::Local => return None,
        };
        let sign_in = shared.sign_ins.issue(&holder, expires_at);
        let left = expires_at.as_micros().saturating_sub(now.as_micros());
        let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
        (sign_in.len() <= SIGN_IN_MAX).then_some((sign_in, left))
    }
}

impl Shared {
    /// The credential with which a browser has signed in. It ends with the sign-in.
    pub(super) fn verify_sign_in(&self, headers: &HeaderMap) -> Option<Arc<Credential>> {
        let now = self.clock.now();
        let (holder, expires_at) = self.sign_ins.verify(presented_sign_in(headers)?, now)?;
        let credential = match holder.strip_prefix(TOKEN_MARK) {
            Some(encoded) => self.credential_of_token(encoded)?,
            None => {
                let keys = self.keys();
                let entry = keys.entry(holder).filter(|entry| entry.key.is_valid(now))?;
                Credential::clone(&entry.credential)
            }
        };
        Some(Arc::new(Credential {
            expires_at: Some(credential.no_later_than(expires_at)),
            ..credential
        }))
    }

    /// The holder of a token, as its sign-in names it.
    fn token_holder(&self, credential: &Credential, name: &str) -> Option<String> {
        let CallerRole::Role(role) = credential.holder else {
            return None;
        };
        let holder = TokenHolder {
            issuer: self.verifier.as_ref()?.issuer().to_owned(),
            tenant: credential.tenant.clone(),
            role: role.as_str().to_owned(),
            identity: credential.identity.clone(),
            name: name.to_owned(),
        };
        let json = serde_json::to_vec(&holder).ok()?;
        Some(format!("{TOKEN_MARK}{}", URL_SAFE_NO_PAD.encode(json)))
    }

    /// The credential of a token, from the sign-in with it; `None` if its issuer is not configured any more.
    fn credential_of_token(&self, encoded: &str) -> Option<Credential> {
        let json = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let holder: TokenHolder = serde_json::from_slice(&json).ok()?;
        if holder.issuer != self.verifier.as_ref()?.issuer() {
            return None;
        }
        Some(Credential {
            tenant: holder.tenant,
            holder: CallerRole::Role(holder.role.parse().ok()?),
            subject: Subject::Token(holder.name.into()),
            identity: holder.identity,
            expires_at: None,
        })
    }
}

impl Credential {
    /// When the credential expires, or `end` if that is earlier.
    fn no_later_than(&self, end: Timestamp) -> Timestamp {
        self.expires_at.map_or(end, |own| own.min(end))
    }
}

/// What a sign-in with a token says of its holder. The token itself is not kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenHolder {
    issuer: String,
    tenant: TenantId,
    role: String,
    identity: Option<IdentityId>,
    /// The name of the principal: the tenant and the subject, with a NUL in between.
    name: String,
}
