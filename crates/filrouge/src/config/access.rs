//! The sections `[access]` and `[jwt]`: which callers get access (DESIGN §8).

use std::time::Duration;

use filrouge_engine::Settings;
use filrouge_http::access::{AccessSettings, JwksSource, JwtAlgorithm, JwtSettings};
use filrouge_http::outgoing;
use filrouge_types::TenantId;

use super::layers::{Layers, ValueType, non_empty, parse};
use crate::exit::{Result, Usage};

/// The maximum of `leeway_s`: a longer leeway would accept expired tokens for too long.
const LEEWAY_MAX_S: u64 = 300;

/// The default of `kept_keys_s`: a day.
const KEPT_KEYS_S: u64 = 24 * 60 * 60;
/// The maximum of `kept_keys_s`: 30 days.
const KEPT_KEYS_MAX_S: u64 = 30 * KEPT_KEYS_S;

/// The access settings.
#[derive(Debug, Clone)]
pub(crate) struct AccessConfig {
    settings: AccessSettings,
    /// Whether `[jwt]` lacks a required member. A server then refuses to start, because without an issuer it might
    /// admit every caller.
    incomplete: bool,
    /// How long the API keys that this machine has seen are used while the store does not answer; zero: not at all.
    pub(crate) kept_keys: Duration,
}

/// Parses the location of the issuer's keys. An address with a credential is refused, because settings are shown.
fn parse_jwks_source(text: &str) -> Result<JwksSource, String> {
    let text = non_empty(text)?;
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return Ok(JwksSource::File(text.into()));
    }
    let address = outgoing::address(&text).map(JwksSource::Url);
    address.ok_or_else(|| "no http or https address without a user name and password".to_owned())
}

impl AccessConfig {
    /// These settings without an issuer of tokens.
    pub(crate) fn without_issuer(&self) -> Self {
        let mut settings = self.settings.clone();
        settings.jwt = None;
        Self {
            settings,
            incomplete: false,
            ..*self
        }
    }

    /// Reads both sections. `server_tenant` is the tenant of all callers while the server has no keys.
    /// Writes the settings of the engine to `engine`.
    pub(super) fn read(
        layers: &mut Layers<'_>,
        server_tenant: &TenantId,
        engine: &mut Settings,
    ) -> Result<Self> {
        let has_section = layers.has("jwt");
        engine.require_session_token = layers.boolean("access.require_session_token", false)?;
        let allowed_origins = layers.list("access.allowed_origins", Vec::new, parse)?;
        let kept_keys = Duration::from_secs(KEPT_KEYS_S);
        let kept_keys = layers.seconds("access.kept_keys_s", 0..=KEPT_KEYS_MAX_S, kept_keys)?;
        let jwks = layers.optional("jwt.jwks", parse_jwks_source)?;
        let issuer = layers.optional("jwt.issuer", non_empty)?;
        let audience = layers.optional("jwt.audience", non_empty)?;
        let incomplete = has_section || jwks.is_some() || issuer.is_some() || audience.is_some();
        let tenant = layers.optional("jwt.tenant", parse)?;
        let mut claim = |name, default_claim: &str| {
            let default = || Ok(default_claim.to_owned());
            layers.read((name, ValueType::Text), default, non_empty, String::clone)
        };
        let tenant_claim = claim("jwt.tenant_claim", "tenant")?;
        let identity_claim = claim("jwt.identity_claim", "sub")?;
        let role_claim = layers.optional("jwt.role_claim", non_empty)?;
        let leeway = Duration::from_secs(30);
        let leeway = layers.seconds("jwt.leeway_s", 0..=LEEWAY_MAX_S, leeway)?;
        let algorithms = layers.list("jwt.algorithms", JwtAlgorithm::all, parse)?;
        let jwt = match (jwks, issuer, audience) {
            (Some(jwks), Some(issuer), Some(audience)) => Some(JwtSettings {
                jwks,
                issuer,
                audience,
                tenant,
                tenant_claim,
                identity_claim,
                role_claim,
                leeway,
                algorithms,
            }),
            _ => None,
        };
        Ok(Self {
            incomplete: incomplete && jwt.is_none(),
            kept_keys,
            settings: AccessSettings {
                tenant: server_tenant.clone(),
                origins: allowed_origins,
                jwt,
                had_keys: None,
                kept: None,
            },
        })
    }

    /// The settings for a server.
    ///
    /// # Errors
    /// [`Usage`] when `[jwt]` lacks a required member.
    pub(crate) fn settings(&self) -> Result<AccessSettings> {
        if self.incomplete {
            return Err(Usage::new(
                "[jwt] needs jwks, issuer and audience: otherwise tokens of any issuer would be accepted",
            ));
        }
        Ok(self.settings.clone())
    }
}
