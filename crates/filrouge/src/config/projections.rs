//! The sections `[[projections]]`: copies of the ledger in other stores (ADR 0042).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_projections::{
    Counts, Field, KINDS, Kind, Projection, ProjectionName, Selection, TargetSettings,
};
use filrouge_types::{Channel, TenantId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::layers::Layers;
use super::secret::{Hidden, SecretSource};
use crate::exit::{Result, Usage};

/// The maximum of `clean_timeout_ms`.
const CLEAN_TIMEOUT_MAX_MS: u64 = 60_000;
/// The maximum length of `prefix`.
const PREFIX_MAX: usize = 49;

/// One section in the file; unknown members are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectionSection {
    name: String,
    kind: String,
    url: Hidden,
    user: Option<String>,
    secret: Option<Hidden>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    prefix: Option<String>,
    tenants: Option<Vec<TenantId>>,
    channels: Option<Vec<Channel>>,
    without: Option<Vec<String>>,
    mask_personal_data: Option<bool>,
    timeout_ms: Option<u64>,
    clean_timeout_ms: Option<u64>,
    enabled: Option<bool>,
}

/// The configuration of a projection.
#[derive(Debug, Clone)]
pub(crate) struct ProjectionConfig {
    pub(crate) name: ProjectionName,
    pub(crate) enabled: bool,
    kind: &'static Kind,
    url: Hidden,
    user: Option<String>,
    secret: Option<SecretSource>,
    prefix: String,
    selection: Selection,
    timeout: Duration,
    clean_timeout: Duration,
}

/// Reads all sections.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Vec<ProjectionConfig>> {
    let sections = layers.section::<Vec<ProjectionSection>>("projections")?;
    let (sections, folder) = (sections.unwrap_or_default(), layers.folder());
    let mut names = BTreeSet::new();
    let mut projections = Vec::with_capacity(sections.len());
    for (number, section) in sections.into_iter().enumerate() {
        let name = section.name.clone();
        let to_usage = |e: String| {
            let number = number + 1;
            Usage::new(format!("[[projections]] number {number}, {name:?}: {e}"))
        };
        let projection = parse_section(section, folder).map_err(to_usage)?;
        if !names.insert(projection.name.clone()) {
            return Err(to_usage("the name is used twice".to_owned()));
        }
        projections.push(projection);
    }
    Ok(projections)
}

fn parse_section(section: ProjectionSection, folder: &Path) -> Result<ProjectionConfig, String> {
    let name = section.name.parse::<ProjectionName>();
    let name = name.map_err(|e| e.to_string())?;
    let kind = Kind::named(&section.kind).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let (kind, known) = (&section.kind, known.join(", "));
        format!("{kind:?} is no kind of projection; known: {known}")
    })?;
    let secret = match (section.secret, section.secret_file, section.secret_env) {
        (None, None, None) => None,
        (Some(secret), None, None) => Some(SecretSource::Inline(secret)),
        (None, Some(path), None) => Some(SecretSource::File(folder.join(path))),
        (None, None, Some(name)) => Some(SecretSource::Environment(name)),
        _ => return Err("it has more than one of secret, secret_file and secret_env".to_owned()),
    };
    let default_prefix = || format!("filrouge_{}", section.name.replace('-', "_"));
    let prefix = section.prefix.unwrap_or_else(default_prefix);
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let begins_with_letter = prefix.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins_with_letter || prefix.len() > PREFIX_MAX || !prefix.bytes().all(is_allowed) {
        return Err(format!(
            "prefix is {prefix:?}; it has lower-case letters a–z, digits and '_', begins with a letter, and has at most {PREFIX_MAX} bytes"
        ));
    }
    if section.tenants.as_ref().is_some_and(Vec::is_empty) {
        return Err("tenants is empty; leave it out for all".to_owned());
    }
    if section.channels.as_ref().is_some_and(Vec::is_empty) {
        return Err("channels is empty; leave it out for all".to_owned());
    }
    let defaults = Selection::default();
    let without = match section.without {
        Some(fields) => {
            let fields = fields.iter().map(|field| field.parse::<Field>());
            let fields = fields.collect::<Result<BTreeSet<Field>, _>>();
            fields.map_err(|e| format!("without: {e}"))?
        }
        None => defaults.without,
    };
    Ok(ProjectionConfig {
        name,
        enabled: section.enabled.unwrap_or(true),
        kind,
        url: section.url,
        user: section.user,
        secret,
        prefix,
        selection: Selection {
            tenants: section.tenants.map(BTreeSet::from_iter),
            channels: section.channels.map(BTreeSet::from_iter),
            without,
            mask_personal_data: section.mask_personal_data.unwrap_or(false),
        },
        timeout: milliseconds(
            ("timeout_ms", section.timeout_ms),
            20_000,
            millis(Projection::TIMEOUT_MAX),
        )?,
        clean_timeout: milliseconds(
            ("clean_timeout_ms", section.clean_timeout_ms),
            5_000,
            CLEAN_TIMEOUT_MAX_MS,
        )?,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The value of a setting in milliseconds, 1 to `max`.
fn milliseconds(
    (setting, value): (&str, Option<u64>),
    default: u64,
    max: u64,
) -> Result<Duration, String> {
    let value = value.unwrap_or(default);
    match (1..=max).contains(&value) {
        true => Ok(Duration::from_millis(value)),
        false => Err(format!("{setting} is {value}; it must be 1 to {max}")),
    }
}

impl ProjectionConfig {
    /// The projection, with a target that is not contacted yet.
    ///
    /// # Errors
    /// [`Usage`] when the secret cannot be read, or the target's settings are wrong.
    pub(crate) fn open(&self) -> Result<Projection> {
        let to_usage = |e: String| Usage::new(format!("projection {:?}: {e}", self.name.as_str()));
        let secret = self.secret.as_ref().map(SecretSource::read).transpose();
        let secret = secret.map_err(to_usage)?;
        let settings = TargetSettings {
            url: self.url.0.clone(),
            user: self.user.clone(),
            secret: secret.map(|secret| secret.trim_end().to_owned()),
            prefix: self.prefix.clone(),
            timeout: self.timeout,
        };
        Ok(Projection {
            name: self.name.clone(),
            target: (self.kind.open)(&settings).map_err(to_usage)?,
            structure: self.kind.structure(),
            selection: self.selection.clone(),
            timeout: self.timeout,
            clean_timeout: self.clean_timeout,
            counts: Counts::default(),
        })
    }

    /// The projection as `config show` lists it, as JSON and as a line of text. The URL and the secret are left out.
    pub(crate) fn describe(&self) -> (Value, String) {
        let secret = match &self.secret {
            Some(secret) => secret.to_string(),
            None => "none".to_owned(),
        };
        let selection = &self.selection;
        let all = || vec!["all".to_owned()];
        let tenants = selection.tenants.iter().flatten().map(ToString::to_string);
        let tenants = match selection.tenants {
            Some(_) => tenants.collect(),
            None => all(),
        };
        let channels = selection.channels.iter().flatten().map(ToString::to_string);
        let channels = match selection.channels {
            Some(_) => channels.collect(),
            None => all(),
        };
        let without: Vec<&str> = selection.without.iter().map(|f| f.as_str()).collect();
        let (kind, prefix, masks) = (self.kind.name, &self.prefix, selection.mask_personal_data);
        let (timeout_ms, clean_timeout_ms) = (millis(self.timeout), millis(self.clean_timeout));
        let is_on = if self.enabled { "" } else { "not enabled; " };
        let line = format!(
            "{is_on}{kind}; prefix {prefix}; secret: {secret}; tenants {}; channels {}; without {}; \
             mask_personal_data {masks}; timeout_ms {timeout_ms}; clean_timeout_ms {clean_timeout_ms}",
            tenants.join(", "),
            channels.join(", "),
            without.join(", "),
        );
        let document = json!({
            "name": self.name.as_str(), "enabled": self.enabled, "kind": kind, "prefix": prefix,
            "user": self.user, "secret": secret, "tenants": tenants, "channels": channels,
            "without": without, "mask_personal_data": masks, "timeout_ms": timeout_ms,
            "clean_timeout_ms": clean_timeout_ms,
        });
        (document, line)
    }
}
