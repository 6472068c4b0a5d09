//! The sections `[access]` and `[jwt]`: who is let in (DESIGN §8).

use std::path::PathBuf;
use std::time::Duration;

use filrouge_http::access::{AccessSettings, JwksSource, JwtAlgorithm, JwtSettings};
use filrouge_types::TenantId;
use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The section `[access]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessFile {
    require_session_token: Option<bool>,
}

/// The section `[jwt]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtFile {
    jwks: Option<String>,
    issuer: Option<String>,
    audience: Option<String>,
    tenant: Option<String>,
    tenant_claim: Option<String>,
    identity_claim: Option<String>,
    role_claim: Option<String>,
    leeway_s: Option<u64>,
    algorithms: Option<Vec<String>>,
}

/// Both sections, each member with where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct AccessConfig {
    require_session_token: Setting<bool>,
    jwks: Setting<Option<JwksSource>>,
    issuer: Setting<Option<String>>,
    audience: Setting<Option<String>>,
    tenant: Setting<Option<TenantId>>,
    tenant_claim: Setting<String>,
    identity_claim: Setting<String>,
    role_claim: Setting<Option<String>>,
    leeway: Setting<Duration>,
    algorithms: Setting<Vec<JwtAlgorithm>>,
    /// Whether the file has a section `[jwt]`, be it empty.
    has_section: bool,
}

/// More would make expired tokens good for too long.
const LEEWAY_MAX_S: u64 = 300;

fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is neither true nor false"))
}

fn source(text: &str) -> JwksSource {
    if text.starts_with("https://") || text.starts_with("http://") {
        JwksSource::Url(text.to_owned())
    } else {
        JwksSource::File(PathBuf::from(text))
    }
}

fn filled(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("an empty text names nothing".to_owned());
    }
    Ok(text.to_owned())
}

fn leeway(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 0..=LEEWAY_MAX_S) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!(
            "{text:?} is no number of seconds up to {LEEWAY_MAX_S}"
        )),
    }
}

fn algorithms(text: &str) -> Result<Vec<JwtAlgorithm>, String> {
    text.split(',')
        .map(|name| name.trim().parse().map_err(|e| format!("{e}")))
        .collect()
}

impl AccessConfig {
    pub(super) fn read(
        layers: &Layers<'_>,
        access: &AccessFile,
        jwt: Option<JwtFile>,
    ) -> Result<Self, Usage> {
        let has_section = jwt.is_some();
        let jwt = jwt.unwrap_or_default();
        let optional = |variable, in_file: Option<String>| {
            layers.pick(
                None,
                variable,
                in_file,
                || Ok(None),
                |t| filled(t).map(Some),
            )
        };
        let named = |variable, in_file: Option<String>, default: &str| {
            let default = default.to_owned();
            layers.pick(None, variable, in_file, || Ok(default), filled)
        };
        Ok(Self {
            require_session_token: layers.pick(
                None,
                "FILROUGE_REQUIRE_SESSION_TOKEN",
                access.require_session_token.map(|b| b.to_string()),
                || Ok(false),
                truth,
            )?,
            jwks: layers.pick(
                None,
                "FILROUGE_JWT_JWKS",
                jwt.jwks,
                || Ok(None),
                |t| filled(t).map(|t| Some(source(&t))),
            )?,
            issuer: optional("FILROUGE_JWT_ISSUER", jwt.issuer)?,
            audience: optional("FILROUGE_JWT_AUDIENCE", jwt.audience)?,
            tenant: layers.pick(
                None,
                "FILROUGE_JWT_TENANT",
                jwt.tenant,
                || Ok(None),
                |t| TenantId::new(t).map(Some).map_err(|e| e.to_string()),
            )?,
            tenant_claim: named("FILROUGE_JWT_TENANT_CLAIM", jwt.tenant_claim, "tenant")?,
            identity_claim: named("FILROUGE_JWT_IDENTITY_CLAIM", jwt.identity_claim, "sub")?,
            role_claim: optional("FILROUGE_JWT_ROLE_CLAIM", jwt.role_claim)?,
            leeway: layers.pick(
                None,
                "FILROUGE_JWT_LEEWAY_S",
                jwt.leeway_s.map(|s| s.to_string()),
                || Ok(Duration::from_secs(30)),
                leeway,
            )?,
            algorithms: layers.pick(
                None,
                "FILROUGE_JWT_ALGORITHMS",
                jwt.algorithms.map(|names| names.join(",")),
                || Ok(JwtAlgorithm::all()),
                algorithms,
            )?,
            has_section,
        })
    }

    /// What the server is told; `tenant` is the one of a server without keys.
    ///
    /// # Errors
    /// [`Usage`] when an issuer is described in part.
    pub(crate) fn settings(&self, tenant: &TenantId) -> Result<AccessSettings, Usage> {
        Ok(AccessSettings {
            tenant: tenant.clone(),
            require_session_token: self.require_session_token.value,
            jwt: self.jwt()?,
        })
    }

    fn jwt(&self) -> Result<Option<JwtSettings>, Usage> {
        let (jwks, issuer, audience) = (&self.jwks.value, &self.issuer.value, &self.audience.value);
        let (Some(jwks), Some(issuer), Some(audience)) = (jwks, issuer, audience) else {
            let described = jwks.is_some() || issuer.is_some() || audience.is_some();
            // A member that is forgotten must not leave a server open.
            if described || self.has_section {
                return Err(Usage::new(
                    "[jwt] needs jwks, issuer and audience: tokens of anybody would do otherwise",
                ));
            }
            return Ok(None);
        };
        Ok(Some(JwtSettings {
            jwks: jwks.clone(),
            issuer: issuer.clone(),
            audience: audience.clone(),
            tenant: self.tenant.value.clone(),
            tenant_claim: self.tenant_claim.value.clone(),
            identity_claim: self.identity_claim.value.clone(),
            role_claim: self.role_claim.value.clone(),
            leeway: self.leeway.value,
            algorithms: self.algorithms.value.clone(),
        }))
    }

    /// The rows of `config show`: name, value, origin.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        fn row<T>(
            name: &'static str,
            setting: &Setting<T>,
            text: String,
        ) -> (&'static str, String, String) {
            (name, text, setting.origin.to_string())
        }
        fn shown<T: ToString>(value: Option<&T>) -> String {
            value.map_or_else(|| "none".to_owned(), T::to_string)
        }
        let algorithms: Vec<_> = self
            .algorithms
            .value
            .iter()
            .map(ToString::to_string)
            .collect();
        vec![
            row(
                "access.require_session_token",
                &self.require_session_token,
                self.require_session_token.value.to_string(),
            ),
            row("jwt.jwks", &self.jwks, shown(self.jwks.value.as_ref())),
            row(
                "jwt.issuer",
                &self.issuer,
                shown(self.issuer.value.as_ref()),
            ),
            row(
                "jwt.audience",
                &self.audience,
                shown(self.audience.value.as_ref()),
            ),
            row(
                "jwt.tenant",
                &self.tenant,
                shown(self.tenant.value.as_ref()),
            ),
            row(
                "jwt.tenant_claim",
                &self.tenant_claim,
                self.tenant_claim.value.clone(),
            ),
            row(
                "jwt.identity_claim",
                &self.identity_claim,
                self.identity_claim.value.clone(),
            ),
            row(
                "jwt.role_claim",
                &self.role_claim,
                shown(self.role_claim.value.as_ref()),
            ),
            row(
                "jwt.leeway_s",
                &self.leeway,
                self.leeway.value.as_secs().to_string(),
            ),
            row("jwt.algorithms", &self.algorithms, algorithms.join(",")),
        ]
    }
}
