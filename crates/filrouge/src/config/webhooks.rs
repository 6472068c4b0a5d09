//! The sections `[[webhooks]]`: who is told of changes (DESIGN §10).

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_server::{
    WebhookFeed, WebhookName, WebhookSecrets, WebhookSettings, WebhookStart, WebhookUrl,
};
use filrouge_store::read::ChangeKind;
use filrouge_types::TenantId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::layers::Layers;
use crate::exit::Usage;

/// Most changes of a message, as of a page of the feed.
const BATCH_MAX: usize = 500;
/// The longest that a receiver may take, in milliseconds.
const TIMEOUT_MAX_MS: u64 = 60_000;
const KINDS: [(&str, ChangeKind); 6] = [
    ("created", ChangeKind::Created),
    ("items", ChangeKind::Items),
    ("patched", ChangeKind::Patched),
    ("erased", ChangeKind::Erased),
    ("event", ChangeKind::Event),
    ("checkpoint", ChangeKind::Checkpoint),
];

/// A text that is not shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// One section in the file; unknown members are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookFile {
    name: String,
    url: Hidden,
    secret: Option<Hidden>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    tenant: Option<String>,
    kinds: Option<Vec<String>>,
    batch: Option<usize>,
    timeout_ms: Option<u64>,
    max_attempts: Option<NonZeroU32>,
    from: Option<String>,
    enabled: Option<bool>,
}

/// Where secrets are; read only by who sends.
#[derive(Debug, Clone)]
enum SecretSource {
    Here(Hidden),
    File(PathBuf),
    Environment(String),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(_) => f.write_str("in the configuration"),
            Self::File(path) => path.display().fmt(f),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// A webhook.
#[derive(Debug, Clone)]
pub(crate) struct WebhookConfig {
    pub(crate) name: WebhookName,
    pub(crate) enabled: bool,
    url: WebhookUrl,
    secret: SecretSource,
    tenant: Option<TenantId>,
    kinds: Option<Vec<(&'static str, ChangeKind)>>,
    batch: usize,
    timeout: Duration,
    max_attempts: NonZeroU32,
    from: WebhookStart,
}

/// Takes all sections.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Vec<WebhookConfig>, Usage> {
    let sections = layers.section::<Vec<WebhookFile>>("webhooks")?;
    let (sections, folder) = (sections.unwrap_or_default(), layers.folder());
    let mut names = BTreeSet::new();
    let mut all = Vec::with_capacity(sections.len());
    for (number, section) in sections.into_iter().enumerate() {
        let shown = section.name.clone();
        let wrong = |e: String| {
            Usage::new(format!(
                "[[webhooks]] number {}, {shown:?}: {e}",
                number + 1
            ))
        };
        let webhook = one(section, folder).map_err(wrong)?;
        if !names.insert(webhook.name.clone()) {
            return Err(wrong("the name is there twice".to_owned()));
        }
        all.push(webhook);
    }
    Ok(all)
}

fn kind(text: &str) -> Result<(&'static str, ChangeKind), String> {
    let found = KINDS.into_iter().find(|(word, _)| *word == text);
    found.ok_or_else(|| {
        let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        format!("{text:?} is no kind of change; known: {}", words.join(", "))
    })
}

fn one(section: WebhookFile, folder: &Path) -> Result<WebhookConfig, String> {
    let secret = match (section.secret, section.secret_file, section.secret_env) {
        (Some(secret), None, None) => SecretSource::Here(secret),
        (None, Some(path), None) => SecretSource::File(folder.join(path)),
        (None, None, Some(name)) => SecretSource::Environment(name),
        _ => return Err("it needs one of secret, secret_file and secret_env".to_owned()),
    };
    let kinds: Option<Vec<_>> = match section.kinds {
        Some(kinds) if kinds.is_empty() => {
            return Err("kinds is empty; leave it out for all".to_owned());
        }
        Some(kinds) => Some(kinds.iter().map(|k| kind(k)).collect::<Result<_, _>>()?),
        None => None,
    };
    let batch = section.batch.unwrap_or(100);
    if !(1..=BATCH_MAX).contains(&batch) {
        return Err(format!("batch is {batch}; it must be 1 to {BATCH_MAX}"));
    }
    let timeout_ms = section.timeout_ms.unwrap_or(10_000);
    if !(1..=TIMEOUT_MAX_MS).contains(&timeout_ms) {
        return Err(format!(
            "timeout_ms is {timeout_ms}; it must be 1 to {TIMEOUT_MAX_MS}"
        ));
    }
    let from = match section.from.as_deref() {
        None | Some("newest") => WebhookStart::Newest,
        Some("beginning") => WebhookStart::Beginning,
        Some(other) => return Err(format!("from is {other:?}; known: newest, beginning")),
    };
    let tenant = section.tenant.map(|t| t.parse()).transpose();
    const ATTEMPTS: NonZeroU32 = NonZeroU32::new(12).unwrap();
    Ok(WebhookConfig {
        name: section.name.parse().map_err(|e| format!("{e}"))?,
        enabled: section.enabled.unwrap_or(true),
        url: section.url.0.parse().map_err(|e| format!("url: {e}"))?,
        secret,
        tenant: tenant.map_err(|e: filrouge_types::IdError| format!("tenant: {e}"))?,
        kinds,
        batch,
        timeout: Duration::from_millis(timeout_ms),
        max_attempts: section.max_attempts.unwrap_or(ATTEMPTS),
        from,
    })
}

impl WebhookConfig {
    /// What it tells of; `tenant` is the configured one.
    pub(crate) fn feed(&self, tenant: &TenantId) -> WebhookFeed {
        let kinds = self.kinds.as_ref();
        WebhookFeed {
            name: self.name.clone(),
            tenant: self.tenant.as_ref().unwrap_or(tenant).clone(),
            kinds: kinds.map(|kinds| kinds.iter().map(|(_, kind)| *kind).collect()),
            batch: self.batch,
        }
    }

    fn secrets(&self) -> Result<WebhookSecrets, String> {
        let text = match &self.secret {
            SecretSource::Here(Hidden(text)) => text.clone(),
            SecretSource::File(path) => {
                std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?
            }
            SecretSource::Environment(name) => {
                std::env::var(name).map_err(|_| format!("{name} is not set, or not UTF-8"))?
            }
        };
        text.parse()
            .map_err(|e| format!("secret ({}): {e}", self.secret))
    }

    /// What the server is told.
    ///
    /// # Errors
    /// [`Usage`] when the secrets cannot be had.
    pub(crate) fn settings(&self, tenant: &TenantId) -> Result<WebhookSettings, Usage> {
        let secrets = self.secrets().map_err(|e| {
            Usage::new(format!("webhook {:?}: {e}", self.name.as_str()))
                .with_hint("make a secret: echo \"whsec_$(head -c 32 /dev/urandom | base64)\"")
        })?;
        Ok(WebhookSettings {
            feed: self.feed(tenant),
            url: self.url.clone(),
            secrets,
            timeout: self.timeout,
            max_attempts: self.max_attempts,
            from: self.from,
        })
    }

    /// As `config show` lists it, as a document and as a line: without secrets; of the address only the host.
    pub(crate) fn shown(&self, tenant: &TenantId) -> (Value, String) {
        let kinds = self.kinds.as_deref().unwrap_or(&KINDS);
        let kinds: Vec<_> = kinds.iter().map(|(word, _)| *word).collect();
        let from = match self.from {
            WebhookStart::Newest => "newest",
            WebhookStart::Beginning => "beginning",
        };
        let (url, secret) = (self.url.to_string(), self.secret.to_string());
        let tenant = self.tenant.as_ref().unwrap_or(tenant);
        let (batch, attempts) = (self.batch, self.max_attempts);
        let timeout_ms = self.timeout.as_millis();
        let off = if self.enabled { "" } else { "not enabled; " };
        let line = format!(
            "{off}{url}; tenant {tenant}; {}; secret: {secret}; batch {batch}; timeout_ms {timeout_ms}; \
             max_attempts {attempts}; from {from}",
            kinds.join(", ")
        );
        let document = json!({
            "name": self.name.as_str(), "enabled": self.enabled, "url": url, "secret": secret,
            "tenant": tenant, "kinds": kinds, "batch": batch, "timeout_ms": timeout_ms,
            "max_attempts": attempts, "from": from,
        });
        (document, line)
    }
}
