//! Sign-ins of browsers with an API key.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;

use super::{Authority, Shared};
use crate::access::browser::presented_sign_in;
use crate::access::credential::{Credential, Subject};

impl Authority {
    /// Signs in with the text of an API key: returns the sign-in for the browser's cookie. `None` if the key is unknown
    /// or not valid any more.
    pub fn sign_in(&self, key: &str, valid_for: Duration) -> Option<String> {
        let credential = self.0.verify_key(&self.0.keys(), key, self.now())?;
        let Subject::Key(key_id) = &credential.subject else {
            return None;
        };
        let expires_at = self.now().after(valid_for);
        Some(self.0.sign_ins.issue(key_id, expires_at))
    }
}

impl Shared {
    /// The credential of the API key with which a browser has signed in. It ends with the sign-in.
    pub(super) fn verify_sign_in(&self, headers: &HeaderMap) -> Option<Arc<Credential>> {
        let now = self.clock.now();
        let (key_id, expires_at) = self.sign_ins.verify(presented_sign_in(headers)?, now)?;
        let keys = self.keys();
        let entry = keys.entry(key_id).filter(|entry| entry.key.is_valid(now))?;
        let credential = Credential {
            expires_at: Some(
                entry
                    .key
                    .expires_at
                    .map_or(expires_at, |end| end.min(expires_at)),
            ),
            ..Credential::clone(&entry.credential)
        };
        Some(Arc::new(credential))
    }
}
