//! The hot store, and which data the ledger stores: `hot…`, `durable`, `record`, `metadata_allow`, `[tenants.NAME]`
//! (DESIGN §7).

use std::collections::BTreeMap;
use std::env;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use filrouge_engine::scopes::DurablePolicy;
use filrouge_engine::{MetadataPolicy, Settings, is_address};
use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::{HotBounds, ItemRetention};
use filrouge_types::TenantId;
use serde::Deserialize;

use super::HiddenUrl;
use super::layers::{Layers, NONE, ValueType, format_list};
use crate::exit::{Result, Usage};

/// A section `[tenants.NAME]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantSection {
    record: Option<String>,
}

/// The hot store's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HotUrl {
    Memory,
    Redis(HiddenUrl),
}

impl HotUrl {
    /// The password from the environment, which overrides one in the URL.
    pub(crate) fn password() -> Option<String> {
        let password = env::var("FILROUGE_HOT_PASSWORD").ok();
        password.filter(|password| !password.is_empty())
    }
}

impl Display for HotUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

/// The last part of the error for a wrong URL. The error does not quote the URL: it may contain a password.
const KNOWN_FORMS: &str = "known: memory:, redis://host:6379/0, rediss://…, redis+unix:///path, \
    redis://a:6379,b:6379/?cluster=true; see docs/two-scopes.md";

impl FromStr for HotUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("redis" | "rediss" | "redis+unix", _)) => RedisHot::open(&Options::new(text))
                .map(|_| Self::Redis(HiddenUrl::new(text, filrouge_redis::redacted)))
                .map_err(|failure| match failure.hint {
                    Some(hint) => format!("{}; {hint}", failure.detail),
                    None => failure.detail,
                }),
            other => {
                // The text before the first colon is not quoted if the URL contains an `@`: it may then be a part of a
                // user name or a password.
                let kind = other.map(|(kind, _)| kind).filter(|_| !text.contains('@'));
                let kind = kind.map_or("this".to_owned(), |kind| format!("{kind:?}"));
                Err(format!("{kind} is no kind of hot store; {KNOWN_FORMS}"))
            }
        }
    }
}

/// The settings of the hot store, and which sessions the ledger stores.
#[derive(Debug, Clone)]
pub(crate) struct HotConfig {
    pub(crate) url: HotUrl,
    pub(crate) durable: DurablePolicy,
    /// The limits of each session in the hot store.
    pub(crate) bounds: HotBounds,
    /// How long a request may wait for the hot store.
    pub(crate) timeout: Duration,
    /// The maximum number of bytes of all sessions, for a hot store in memory.
    pub(crate) memory_bytes: u64,
    /// The prefix of the keys in Redis.
    pub(crate) prefix: String,
}

/// The default of `metadata_allow` under `durable = authenticated`: the metadata that the ledger keeps.
const METADATA_ALLOW: [&str; 8] = [
    "channel",
    "device_type",
    "ip_hash",
    "language",
    "locale",
    "timezone",
    "user_agent",
    filrouge_types::QUESTION_IS_COPY,
];
/// The value of `metadata_allow` that allows all names.
const ALL_NAMES: &str = "*";
/// The longest time that a caller's request may wait for a hot store that does not answer.
const TIMEOUT_MAX_MS: u64 = 60_000;
/// The minimum of `hot_bytes`, the limit per session: enough for a question and an answer of some pages each.
const BYTES_MIN: u64 = 64 << 10;
/// The minimum of `hot_memory_bytes`: a smaller memory could store hardly any session.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// The maximum length of `hot_prefix`: a longer prefix would fill most of each key.
const PREFIX_MAX: usize = 64;

/// Parses a prefix of keys. Braces are refused, because in a Redis cluster they mark the part of a key that determines
/// its slot.
fn parse_prefix(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if text.is_empty() || text.len() > PREFIX_MAX || !text.chars().all(is_allowed) {
        return Err(format!(
            "{text:?} is no prefix: 1 to {PREFIX_MAX} of the letters A-Z and a-z, digits and _ - . : /"
        ));
    }
    Ok(text.to_owned())
}

/// Parses `metadata_allow`: names between commas, [`ALL_NAMES`] or [`NONE`].
fn parse_metadata_policy(text: &str) -> Result<MetadataPolicy, String> {
    match text {
        ALL_NAMES => return Ok(MetadataPolicy::All),
        NONE | "" => return Ok(MetadataPolicy::Only(Vec::new())),
        _ => {}
    }
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let reserved = ["", ALL_NAMES, NONE];
    if names.iter().any(|name| reserved.contains(&name.as_str())) {
        return Err(format!(
            "{text:?}: names between commas, {ALL_NAMES} alone for all, or {NONE} alone"
        ));
    }
    match names.iter().find(|name| is_address(name)) {
        Some(name) => Err(format!(
            "{name:?} is recorded only as ip_hash; name ip_hash instead"
        )),
        None => Ok(MetadataPolicy::Only(names)),
    }
}

/// Reads the sections `[tenants.NAME]`.
pub(super) fn read_tenants(layers: &mut Layers<'_>) -> Result<BTreeMap<TenantId, ItemRetention>> {
    let sections = layers.section::<BTreeMap<String, TenantSection>>("tenants")?;
    let mut retention = BTreeMap::new();
    for (name, section) in sections.unwrap_or_default() {
        let file = layers.file();
        let to_usage = |e: String| Usage::new(format!("{file}: [tenants.{name}]: {e}"));
        let tenant = TenantId::new(name.as_str()).map_err(|e| to_usage(e.to_string()))?;
        if let Some(record) = section.record {
            let record = record.parse::<ItemRetention>();
            let record = record.map_err(|e| to_usage(format!("record: {e}")))?;
            layers.add_row(format!("tenants.{tenant}.record"), &record);
            retention.insert(tenant, record);
        }
    }
    Ok(retention)
}

impl HotConfig {
    /// Reads the settings. Writes those that decide which part of a session the ledger stores to `engine`.
    pub(super) fn read(layers: &mut Layers<'_>, engine: &mut Settings) -> Result<Self> {
        let defaults = HotBounds::default();
        let at_least_one = 1..=u64::MAX;
        let url = layers.text("hot", || Ok(HotUrl::Memory))?;
        let bounds = HotBounds {
            ttl: layers.seconds("hot_ttl_s", at_least_one.clone(), defaults.ttl)?,
            turns: layers.number("hot_turns", at_least_one, defaults.turns)?,
            bytes: layers.number("hot_bytes", BYTES_MIN..=u64::MAX, defaults.bytes)?,
        };
        let timeout = Duration::from_millis(250);
        let timeout = layers.millis("hot_timeout_ms", 1..=TIMEOUT_MAX_MS, timeout)?;
        let memory_bytes =
            layers.number("hot_memory_bytes", MEMORY_BYTES_MIN..=u64::MAX, 256 << 20)?;
        let default = || Ok("filrouge".to_owned());
        let setting = ("hot_prefix", ValueType::Text);
        let prefix = layers.read(setting, default, parse_prefix, String::clone)?;
        let durable = layers.text("durable", || Ok(DurablePolicy::default()))?;
        engine.record.default = layers.text("record", || Ok(ItemRetention::default()))?;
        let default = || {
            Ok(match durable {
                DurablePolicy::All => MetadataPolicy::All,
                DurablePolicy::Authenticated => {
                    MetadataPolicy::Only(METADATA_ALLOW.map(str::to_owned).to_vec())
                }
            })
        };
        let format = |policy: &MetadataPolicy| match policy {
            MetadataPolicy::All => ALL_NAMES.to_owned(),
            MetadataPolicy::Only(names) => format_list(names),
        };
        let setting = ("metadata_allow", ValueType::List);
        engine.metadata = layers.read(setting, default, parse_metadata_policy, format)?;
        Ok(Self {
            url,
            durable,
            bounds,
            timeout,
            memory_bytes,
            prefix,
        })
    }
}
