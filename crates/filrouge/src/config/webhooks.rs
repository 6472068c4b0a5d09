//! The sections `[[webhooks]]`: the receivers of changes (DESIGN §10).

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_server::{WebhookFeed, WebhookSecrets, WebhookSettings, WebhookStart, WebhookUrl};
use filrouge_store::read::ChangeKind;
use filrouge_types::TenantId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::layers::Layers;
use super::secret::{Hidden, SecretSource};
use crate::exit::{Result, Usage};

/// The maximum number of changes in one message: the limit of a page of the change feed.
const BATCH_MAX: usize = 500;
/// The maximum of `timeout_ms`, the time limit for a receiver's response.
const TIMEOUT_MAX_MS: u64 = 60_000;
/// The names of the kinds of changes in the setting `kinds`.
const KINDS: [(&str, ChangeKind); 6] = [
    ("created", ChangeKind::Created),
    ("items", ChangeKind::Items),
    ("patched", ChangeKind::Patched),
    ("erased", ChangeKind::Erased),
    ("event", ChangeKind::Event),
    ("checkpoint", ChangeKind::Checkpoint),
];

/// One section in the file; unknown members are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSection {
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

/// The configuration of a webhook.
#[derive(Debug, Clone)]
pub(crate) struct WebhookConfig {
    pub(crate) feed: WebhookFeed,
    pub(crate) enabled: bool,
    url: WebhookUrl,
    secret: SecretSource,
    timeout: Duration,
    max_attempts: NonZeroU32,
    from: WebhookStart,
}

/// Reads all sections; a section without a tenant gets `tenant`.
pub(super) fn read(layers: &mut Layers<'_>, tenant: &TenantId) -> Result<Vec<WebhookConfig>> {
    let sections = layers.section::<Vec<WebhookSection>>("webhooks")?;
    let (sections, folder) = (sections.unwrap_or_default(), layers.folder());
    let mut names = BTreeSet::new();
    let mut webhooks = Vec::with_capacity(sections.len());
    for (number, section) in sections.into_iter().enumerate() {
        let name = section.name.clone();
        let to_usage =
            |e: String| Usage::new(format!("[[webhooks]] number {}, {name:?}: {e}", number + 1));
        let webhook = parse_section(section, folder, tenant).map_err(to_usage)?;
        if !names.insert(webhook.feed.name.clone()) {
            return Err(to_usage("the name is used twice".to_owned()));
        }
        webhooks.push(webhook);
    }
    Ok(webhooks)
}

fn parse_kind(text: &str) -> Result<ChangeKind, String> {
    let entry = KINDS.into_iter().find(|(word, _)| *word == text);
    entry.map(|(_, kind)| kind).ok_or_else(|| {
        let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        format!("{text:?} is no kind of change; known: {}", words.join(", "))
    })
}

fn parse_section(
    section: WebhookSection,
    folder: &Path,
    tenant: &TenantId,
) -> Result<WebhookConfig, String> {
    let secret = match (section.secret, section.secret_file, section.secret_env) {
        (Some(secret), None, None) => SecretSource::Inline(secret),
        (None, Some(path), None) => SecretSource::File(folder.join(path)),
        (None, None, Some(name)) => SecretSource::Environment(name),
        _ => return Err("it needs one of secret, secret_file and secret_env".to_owned()),
    };
    if section.kinds.as_ref().is_some_and(Vec::is_empty) {
        return Err("kinds is empty; leave it out for all".to_owned());
    }
    let parse_all = |kinds: Vec<String>| kinds.iter().map(|k| parse_kind(k)).collect();
    let kinds: Option<Result<Vec<_>, String>> = section.kinds.map(parse_all);
    let kinds = kinds.transpose()?;
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
    let section_tenant = section.tenant.map(|t| t.parse()).transpose();
    let section_tenant =
        section_tenant.map_err(|e: filrouge_types::IdError| format!("tenant: {e}"))?;
    const DEFAULT_ATTEMPTS: NonZeroU32 = NonZeroU32::new(12).unwrap();
    Ok(WebhookConfig {
        feed: WebhookFeed {
            name: section.name.parse().map_err(|e| format!("{e}"))?,
            tenant: section_tenant.unwrap_or_else(|| tenant.clone()),
            kinds,
            batch,
        },
        enabled: section.enabled.unwrap_or(true),
        url: section.url.0.parse().map_err(|e| format!("url: {e}"))?,
        secret,
        timeout: Duration::from_millis(timeout_ms),
        max_attempts: section.max_attempts.unwrap_or(DEFAULT_ATTEMPTS),
        from,
    })
}

impl WebhookConfig {
    /// The settings that the server receives.
    ///
    /// # Errors
    /// [`Usage`] when the secrets cannot be read.
    pub(crate) fn settings(&self) -> Result<WebhookSettings> {
        let read = self.secret.read().and_then(|text| {
            let parsed = text.parse::<WebhookSecrets>();
            parsed.map_err(|e| format!("secret ({}): {e}", self.secret))
        });
        let secrets = read.map_err(|e| {
            Usage::new(format!("webhook {:?}: {e}", self.feed.name.as_str()))
                .with_hint("create a secret: echo \"whsec_$(head -c 32 /dev/urandom | base64)\"")
        })?;
        Ok(WebhookSettings {
            feed: self.feed.clone(),
            url: self.url.clone(),
            secrets,
            timeout: self.timeout,
            max_attempts: self.max_attempts,
            from: self.from,
        })
    }

    /// The webhook as `config show` lists it, as JSON and as a line of text. Secrets are left out, and the URL is
    /// reduced to its host.
    pub(crate) fn describe(&self) -> (Value, String) {
        let feed = &self.feed;
        let is_included =
            |kind: &ChangeKind| feed.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        let kinds = KINDS.iter().filter(|(_, kind)| is_included(kind));
        let kinds: Vec<_> = kinds.map(|(word, _)| *word).collect();
        let from = match self.from {
            WebhookStart::Newest => "newest",
            WebhookStart::Beginning => "beginning",
        };
        let (url, secret) = (self.url.to_string(), self.secret.to_string());
        let (tenant, batch, attempts) = (&feed.tenant, feed.batch, self.max_attempts);
        let timeout_ms = self.timeout.as_millis();
        let prefix = if self.enabled { "" } else { "not enabled; " };
        let line = format!(
            "{prefix}{url}; tenant {tenant}; {}; secret: {secret}; batch {batch}; timeout_ms {timeout_ms}; \
             max_attempts {attempts}; from {from}",
            kinds.join(", ")
        );
        let document = json!({
            "name": feed.name.as_str(), "enabled": self.enabled, "url": url, "secret": secret,
            "tenant": tenant, "kinds": kinds, "batch": batch, "timeout_ms": timeout_ms,
            "max_attempts": attempts, "from": from,
        });
        (document, line)
    }
}
