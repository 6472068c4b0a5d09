//! The sections `[[projections]]`: copies of the ledger, or of another program's history, in other stores (ADR 0042).

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_projections::tables::TablesSettings;
use filrouge_projections::{
    Counts, Field, ForeignHistory, KINDS, Kind, Projection, ProjectionName, Selection, Target,
    TargetSettings,
};
use filrouge_search::embed::Embedder;
use filrouge_sources::programs::LEDGER;
use filrouge_types::{Channel, TenantId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::layers::{Layers, format_list, format_or_none};
use super::search::EmbedderKind;
use super::secret::{Hidden, SecretSource};
use super::vectors::EmbedderVectors;
use crate::exit::{Result, Usage};
use source::ForeignSource;

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
    source: Option<String>,
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
    vectors: Option<bool>,
    tenant_ids: Option<BTreeMap<TenantId, i32>>,
    reporting_role: Option<String>,
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
    /// What is copied instead of the ledger.
    pub(crate) source: Option<ForeignSource>,
    url: Hidden,
    user: Option<String>,
    secret: Option<SecretSource>,
    prefix: String,
    pub(crate) selection: Selection,
    /// Whether vectors of the configured embedder are stored.
    pub(crate) vectors: bool,
    pub(crate) tables: TablesSettings,
    timeout: Duration,
    clean_timeout: Duration,
}

/// Reads all sections.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Vec<ProjectionConfig>> {
    let sections = layers.section::<Vec<ProjectionSection>>("projections")?;
    let (sections, folder) = (sections.unwrap_or_default(), layers.folder());
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
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
        if projection.enabled && !places.insert(projection.place()) {
            let detail =
                "another projection has the same url and prefix, and would delete its rows";
            return Err(to_usage(detail.to_owned()));
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
    refuse_settings_of_other_kinds(kind, &section)?;
    let selection = parse_selection(&section)?;
    let tenants = section.tenants.as_deref();
    let source = ForeignSource::parse(section.source.as_deref(), folder, tenants)?;
    if source.is_some() {
        refuse_settings_of_the_ledger(&section)?;
    }
    let secret = match (section.secret, section.secret_file, section.secret_env) {
        (None, None, None) => None,
        (Some(secret), None, None) => Some(SecretSource::Inline(secret)),
        (None, Some(path), None) => Some(SecretSource::File(folder.join(path))),
        (None, None, Some(name)) => Some(SecretSource::Environment(name)),
        _ => return Err("it has more than one of secret, secret_file and secret_env".to_owned()),
    };
    if section.user.is_some() && secret.is_none() {
        return Err("it has a user and no secret".to_owned());
    }
    let default_prefix = || format!("filrouge_{}", section.name.replace('-', "_"));
    let prefix = section.prefix.unwrap_or_else(default_prefix);
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let begins_with_letter = prefix.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins_with_letter || prefix.len() > PREFIX_MAX || !prefix.bytes().all(is_allowed) {
        return Err(format!(
            "prefix is {prefix:?}; it has lower-case letters a–z, digits and '_', begins with a letter, and has at most {PREFIX_MAX} bytes"
        ));
    }
    Ok(ProjectionConfig {
        name,
        enabled: section.enabled.unwrap_or(true),
        kind,
        source,
        url: from_folder(section.url, folder),
        user: section.user,
        secret,
        prefix,
        selection,
        vectors: section.vectors.unwrap_or(false),
        tables: TablesSettings {
            tenant_ids: section.tenant_ids.unwrap_or_default(),
            reporting_role: section.reporting_role,
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

fn refuse_settings_of_other_kinds(kind: &Kind, section: &ProjectionSection) -> Result<(), String> {
    let settings = [
        ("user", section.user.is_some()),
        ("vectors", section.vectors.is_some()),
        ("tenant_ids", section.tenant_ids.is_some()),
        ("reporting_role", section.reporting_role.is_some()),
    ];
    for (setting, is_set) in settings {
        if is_set && !kind.settings.contains(&setting) {
            return Err(format!("{setting} is no setting of the kind {}", kind.name));
        }
    }
    Ok(())
}

/// Refuses what only a copy of the ledger has: numbers of tenants, with the tables of calls, and cleaning.
fn refuse_settings_of_the_ledger(section: &ProjectionSection) -> Result<(), String> {
    let settings = [
        ("tenant_ids", section.tenant_ids.is_some()),
        ("clean_timeout_ms", section.clean_timeout_ms.is_some()),
    ];
    match settings.iter().find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(format!("{setting} needs the source ledger")),
        None => Ok(()),
    }
}

fn parse_selection(section: &ProjectionSection) -> Result<Selection, String> {
    if section.tenants.as_ref().is_some_and(Vec::is_empty) {
        return Err("tenants is empty; leave it out for all".to_owned());
    }
    if section.channels.as_ref().is_some_and(Vec::is_empty) {
        return Err("channels is empty; leave it out for all".to_owned());
    }
    let without = match &section.without {
        Some(fields) => {
            let fields = fields.iter().map(|field| field.parse::<Field>());
            let fields = fields.collect::<Result<BTreeSet<Field>, _>>();
            fields.map_err(|e| format!("without: {e}"))?
        }
        None => Selection::default().without,
    };
    Ok(Selection {
        tenants: section.tenants.clone().map(BTreeSet::from_iter),
        channels: section.channels.clone().map(BTreeSet::from_iter),
        without,
        mask_personal_data: section.mask_personal_data.unwrap_or(false),
    })
}

/// The URL with a relative path of a SQLite file taken from `folder`: all processes must find the same file, wherever
/// they are started.
fn from_folder(url: Hidden, folder: &Path) -> Hidden {
    match url.0.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Hidden(format!("sqlite:{}", folder.join(path).display())),
        _ => url,
    }
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
    /// The URL and the prefix, which two projections must not share. A SQLite file has no prefix.
    fn place(&self) -> (String, String) {
        let url = self.url.0.trim_end_matches('/').to_owned();
        let prefix = match url.starts_with("sqlite:") {
            true => String::new(),
            false => self.prefix.clone(),
        };
        (url, prefix)
    }

    /// The projection, with a target that is not contacted yet. `embedder` is the configured one, and `history` that of
    /// `source`.
    ///
    /// # Errors
    /// [`Usage`] when the secret cannot be read, the target's settings are wrong, or the embedder is missing.
    pub(crate) fn open(
        &self,
        embedder: Option<&Arc<dyn Embedder>>,
        history: Option<Arc<ForeignHistory>>,
    ) -> Result<Projection> {
        let embedder = embedder.filter(|_| self.vectors);
        if self.vectors && embedder.is_none() {
            return Err(self.lacks_embedder());
        }
        Ok(Projection {
            name: self.name.clone(),
            target: self.target(embedder)?,
            structure: self.structure(embedder),
            history,
            selection: self.selection.clone(),
            timeout: self.timeout,
            clean_timeout: self.clean_timeout,
            counts: Counts::default(),
        })
    }

    /// Checks the settings without opening an embedder, which is of this kind.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn check(&self, embedder: EmbedderKind) -> Result<()> {
        if self.vectors && embedder == EmbedderKind::None {
            return Err(self.lacks_embedder());
        }
        self.target(None).map(drop)
    }

    fn usage(&self, detail: &str) -> Usage {
        Usage::new(format!("projection {:?}: {detail}", self.name.as_str()))
    }

    fn lacks_embedder(&self) -> Usage {
        self.usage("vectors is true, and search.embedder.kind is none")
            .with_hint("kind = \"minilm\" or \"http\" in [search.embedder]")
    }

    fn target(&self, embedder: Option<&Arc<dyn Embedder>>) -> Result<Arc<dyn Target>> {
        let secret = self.secret.as_ref().map(SecretSource::read).transpose();
        let secret = secret.map_err(|e| self.usage(&e))?;
        let settings = TargetSettings {
            url: self.url.0.clone(),
            user: self.user.clone(),
            secret: secret.map(|secret| secret.trim_end().to_owned()),
            prefix: self.prefix.clone(),
            timeout: self.timeout,
            vectors: embedder.map(EmbedderVectors::shared),
            tables: self.tables.clone(),
        };
        (self.kind.open)(&settings).map_err(|e| self.usage(&e))
    }

    /// The kind, and those settings of the target on which rows depend.
    fn structure(&self, embedder: Option<&Arc<dyn Embedder>>) -> String {
        let mut structure = self.kind.structure();
        if let Some(embedder) = embedder {
            structure += &format!(" vectors of {}", embedder.id());
        }
        if !self.tables.tenant_ids.is_empty() {
            structure += &format!(" tenant_ids {}", json!(self.tables.tenant_ids));
        }
        if let Some(source) = &self.source {
            structure += &source.structure();
        }
        structure
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
        let (vectors, tables) = (self.vectors, &self.tables);
        let numbers = tables.tenant_ids.iter();
        let numbers: Vec<_> = numbers
            .map(|(tenant, number)| format!("{tenant}={number}"))
            .collect();
        let own = match self.kind.name {
            "tables" => format!(
                "; tenant_ids {}; reporting_role {}",
                format_list(&numbers),
                format_or_none(&tables.reporting_role)
            ),
            _ => format!("; vectors {vectors}"),
        };
        let source = match &self.source {
            Some(source) => source.to_string(),
            None => LEDGER.to_owned(),
        };
        let is_on = if self.enabled { "" } else { "not enabled; " };
        let line = format!(
            "{is_on}{kind}; source {source}; prefix {prefix}; secret: {secret}; tenants {}; channels {}; without {}; \
             mask_personal_data {masks}{own}; timeout_ms {timeout_ms}; clean_timeout_ms {clean_timeout_ms}",
            tenants.join(", "),
            channels.join(", "),
            without.join(", "),
        );
        let document = json!({
            "name": self.name.as_str(), "enabled": self.enabled, "kind": kind, "source": source, "prefix": prefix,
            "user": self.user, "secret": secret, "tenants": tenants, "channels": channels,
            "without": without, "mask_personal_data": masks, "vectors": vectors,
            "tenant_ids": tables.tenant_ids, "reporting_role": tables.reporting_role,
            "timeout_ms": timeout_ms, "clean_timeout_ms": clean_timeout_ms,
        });
        (document, line)
    }
}
