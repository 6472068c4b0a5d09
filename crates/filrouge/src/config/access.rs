//! The sections `[access]` and `[jwt]`: who is let in (DESIGN §8).

use std::path::PathBuf;
use std::time::Duration;

use filrouge_http::AllowedOrigin;
use filrouge_http::access::{AccessSettings, JwksSource, JwtAlgorithm, JwtSettings};
use filrouge_types::TenantId;

use super::layers::{Form, Layers, filled, joined};
use crate::exit::Usage;

/// More would make expired tokens good for too long.
const LEEWAY_MAX_S: u64 = 300;

/// The sections `[access]` and `[jwt]`.
#[derive(Debug, Clone)]
pub(crate) struct AccessConfig {
    pub(crate) require_session_token: bool,
    allowed_origins: Vec<AllowedOrigin>,
    jwt: Option<JwtSettings>,
    /// Whether an issuer is described in part: a member that is forgotten must not leave a server open.
    incomplete: bool,
}

fn source(text: &str) -> Result<JwksSource, String> {
    let text = filled(text)?;
    Ok(
        match text.starts_with("https://") || text.starts_with("http://") {
            true => JwksSource::Url(text),
            false => JwksSource::File(PathBuf::from(text)),
        },
    )
}

fn origins(text: &str) -> Result<Vec<AllowedOrigin>, String> {
    text.split(',')
        .map(|origin| origin.trim().parse().map_err(|e| format!("{e}")))
        .collect()
}

fn algorithms(text: &str) -> Result<Vec<JwtAlgorithm>, String> {
    text.split(',')
        .map(|name| name.trim().parse().map_err(|e| format!("{e}")))
        .collect()
}

impl AccessConfig {
    pub(super) fn read(layers: &mut Layers<'_>) -> Result<Self, Usage> {
        let has_section = layers.has("jwt");
        let require_session_token = layers.truth("access.require_session_token", false)?;
        let allowed_origins = layers.read(
            ("access.allowed_origins", Form::List),
            || Ok(Vec::new()),
            origins,
            |origins| joined(origins),
        )?;
        let jwks = layers.optional("jwt.jwks", source)?;
        let issuer = layers.optional("jwt.issuer", filled)?;
        let audience = layers.optional("jwt.audience", filled)?;
        let incomplete = has_section || jwks.is_some() || issuer.is_some() || audience.is_some();
        let tenant = layers.optional("jwt.tenant", |text| {
            TenantId::new(text).map_err(|e| e.to_string())
        })?;
        let mut claim = |name, usual: &str| {
            let default = || Ok(usual.to_owned());
            layers.read((name, Form::Text), default, filled, String::clone)
        };
        let tenant_claim = claim("jwt.tenant_claim", "tenant")?;
        let identity_claim = claim("jwt.identity_claim", "sub")?;
        let role_claim = layers.optional("jwt.role_claim", filled)?;
        let leeway = Duration::from_secs(30);
        let leeway = layers.seconds("jwt.leeway_s", 0..=LEEWAY_MAX_S, leeway)?;
        let all = || Ok(JwtAlgorithm::all());
        let setting = ("jwt.algorithms", Form::List);
        let algorithms = layers.read(setting, all, algorithms, |names| joined(names))?;
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
            require_session_token,
            allowed_origins,
            incomplete: incomplete && jwt.is_none(),
            jwt,
        })
    }

    /// What the server is told; `tenant` is the one of a server without keys.
    ///
    /// # Errors
    /// [`Usage`] when an issuer is described in part.
    pub(crate) fn settings(&self, tenant: &TenantId) -> Result<AccessSettings, Usage> {
        if self.incomplete {
            return Err(Usage::new(
                "[jwt] needs jwks, issuer and audience: tokens of anybody would do otherwise",
            ));
        }
        Ok(AccessSettings {
            tenant: tenant.clone(),
            origins: self.allowed_origins.clone(),
            jwt: self.jwt.clone(),
        })
    }
}
