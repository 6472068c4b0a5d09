//! The hot store and what goes into the ledger: `hot…`, `durable`, `record`, `metadata_allow`, `[tenants.NAME]`
//! (DESIGN §7).

use std::collections::BTreeMap;
use std::env;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use filrouge_engine::scopes::DurablePolicy;
use filrouge_engine::{MetadataPolicy, RecordPolicies, is_address};
use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::{HotBounds, KeepItems};
use filrouge_types::TenantId;
use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The settings in the file, at its top.
#[derive(Debug, Default)]
pub(super) struct HotFile {
    pub(super) hot: Option<String>,
    pub(super) ttl_s: Option<u64>,
    pub(super) turns: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) prefix: Option<String>,
    pub(super) durable: Option<String>,
    pub(super) record: Option<String>,
    pub(super) metadata_allow: Option<Vec<String>>,
    pub(super) tenants: BTreeMap<String, TenantFile>,
}

/// A section `[tenants.NAME]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantFile {
    record: Option<String>,
}

/// Which hot store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HotUrl {
    Memory,
    Redis(RedisUrl),
}

/// A Redis URL, which may hold a password: shown without it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl(String);

impl RedisUrl {
    /// The URL as it was given, for connecting.
    pub(crate) fn as_given(&self) -> &str {
        &self.0
    }

    /// The password, over one in the URL.
    pub(crate) fn password() -> Option<String> {
        let password = env::var("FILROUGE_HOT_PASSWORD").ok();
        password.filter(|password| !password.is_empty())
    }
}

impl Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&filrouge_redis::redacted(&self.0))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
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

/// What a wrong URL is answered; it is not quoted, for it may hold a password.
const KNOWN: &str = "known: memory:, redis://host:6379/0, rediss://…, redis+unix:///path, \
    redis://a:6379,b:6379/?cluster=true; see docs/two-scopes.md";

impl FromStr for HotUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("redis" | "rediss" | "redis+unix", _)) => RedisHot::open(&Options::new(text))
                .map(|_| Self::Redis(RedisUrl(text.to_owned())))
                .map_err(|failure| match failure.hint {
                    Some(hint) => format!("{}; {hint}", failure.detail),
                    None => failure.detail,
                }),
            found => {
                // What stands before the first colon is quoted if it can be nothing but a kind.
                let kind = found.map(|(kind, _)| kind).filter(|_| !text.contains('@'));
                let kind = kind.map_or("this".to_owned(), |kind| format!("{kind:?}"));
                Err(format!("{kind} is no kind of hot store; {KNOWN}"))
            }
        }
    }
}

/// All of them, each with where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct HotConfig {
    pub(crate) url: Setting<HotUrl>,
    pub(crate) durable: Setting<DurablePolicy>,
    record: Setting<KeepItems>,
    /// Names of members of metadata; `None` for all.
    metadata_allow: Setting<Option<Vec<String>>>,
    ttl_s: Setting<u64>,
    turns: Setting<u64>,
    bytes: Setting<u64>,
    timeout_ms: Setting<u64>,
    memory_bytes: Setting<u64>,
    prefix: Setting<String>,
    tenants: BTreeMap<TenantId, Setting<KeepItems>>,
}

/// What the ledger keeps of metadata under `durable = authenticated`, unless it is set.
const METADATA_ALLOW: [&str; 8] = [
    "channel",
    "device_type",
    "ip_hash",
    "language",
    "locale",
    "timezone",
    "user_agent",
    "question_neutral_is_fallback",
];
/// How a list of all names is written.
const EVERYTHING: &str = "*";
/// How a list without a name is written.
const NOTHING: &str = "none";
/// The longest that a request of a caller may wait for a hot store that does not answer.
const TIMEOUT_MAX_MS: u64 = 60_000;
/// Least bytes of a session in the hot store: a question and an answer of some pages each.
const BYTES_MIN: u64 = 64 << 10;
/// Less holds no session worth the name.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Longer would make keys of little else.
const PREFIX_MAX: usize = 64;

fn at_least(least: u64, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| format!("{text:?} is no whole number from {least} up"))
}

fn timeout(text: &str) -> Result<u64, String> {
    match at_least(1, text)? {
        millis @ ..=TIMEOUT_MAX_MS => Ok(millis),
        _ => Err(format!(
            "{text:?} is no number of milliseconds from 1 to {TIMEOUT_MAX_MS}"
        )),
    }
}

/// Braces would say which part of a key chooses the slot in a cluster.
fn prefix(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if text.is_empty() || text.len() > PREFIX_MAX || !text.chars().all(good) {
        return Err(format!(
            "{text:?} is no prefix: 1 to {PREFIX_MAX} of the letters A-Z and a-z, digits and _ - . : /"
        ));
    }
    Ok(text.to_owned())
}

fn durable(text: &str) -> Result<DurablePolicy, String> {
    text.parse()
        .map_err(|_| format!("durable is {text:?}; known: all, authenticated"))
}

fn record(text: &str) -> Result<KeepItems, String> {
    text.parse()
        .map_err(|_| format!("record is {text:?}; known: all, conversation"))
}

fn names(text: &str) -> Result<Option<Vec<String>>, String> {
    match text {
        EVERYTHING => return Ok(None),
        NOTHING | "" => return Ok(Some(Vec::new())),
        _ => {}
    }
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let wrong = ["", EVERYTHING, NOTHING];
    if names.iter().any(|name| wrong.contains(&name.as_str())) {
        return Err(format!(
            "metadata_allow is {text:?}: names between commas, {EVERYTHING} alone for all, or {NOTHING} alone"
        ));
    }
    match names.iter().find(|name| is_address(name)) {
        Some(name) => Err(format!("metadata_allow: {name:?} becomes ip_hash")),
        None => Ok(Some(names)),
    }
}

fn tenants(
    layers: &Layers<'_>,
    sections: BTreeMap<String, TenantFile>,
) -> Result<BTreeMap<TenantId, Setting<KeepItems>>, Usage> {
    let mut all = BTreeMap::new();
    for (name, section) in sections {
        let wrong = |e: String| {
            let file = layers.file.map(|f| f.display().to_string());
            Usage::new(format!(
                "{}: [tenants.{name}]: {e}",
                file.unwrap_or_default()
            ))
        };
        let tenant = TenantId::new(name.as_str()).map_err(|e| wrong(e.to_string()))?;
        if let Some(record) = section.record {
            let value = self::record(&record).map_err(wrong)?;
            let origin = layers.in_file();
            all.insert(tenant, Setting { value, origin });
        }
    }
    Ok(all)
}

impl HotConfig {
    pub(super) fn read(
        layers: &Layers<'_>,
        flag: Option<String>,
        file: HotFile,
    ) -> Result<Self, Usage> {
        let bounds = HotBounds::default();
        let number = |variable, in_file: Option<u64>, name: &'static str, default: u64| {
            let least = match name {
                "hot_bytes" => BYTES_MIN,
                "hot_memory_bytes" => MEMORY_BYTES_MIN,
                _ => 1,
            };
            layers.pick(
                None,
                variable,
                in_file.map(|n| n.to_string()),
                || Ok(default),
                |t| at_least(least, t).map_err(|e| format!("{name}: {e}")),
            )
        };
        let durable = layers.pick(
            None,
            "FILROUGE_DURABLE",
            file.durable,
            || Ok(DurablePolicy::default()),
            durable,
        )?;
        let unset = match durable.value {
            DurablePolicy::All => None,
            DurablePolicy::Authenticated => Some(METADATA_ALLOW.map(str::to_owned).to_vec()),
        };
        Ok(Self {
            url: layers.pick(
                flag.map(|url| ("--hot", url)),
                "FILROUGE_HOT",
                file.hot,
                || Ok(HotUrl::Memory),
                str::parse,
            )?,
            durable,
            record: layers.pick(
                None,
                "FILROUGE_RECORD",
                file.record,
                || Ok(KeepItems::All),
                record,
            )?,
            metadata_allow: layers.pick(
                None,
                "FILROUGE_METADATA_ALLOW",
                file.metadata_allow.map(|names| names.join(",")),
                || Ok(unset),
                names,
            )?,
            ttl_s: number(
                "FILROUGE_HOT_TTL_S",
                file.ttl_s,
                "hot_ttl_s",
                bounds.ttl.as_secs(),
            )?,
            turns: number("FILROUGE_HOT_TURNS", file.turns, "hot_turns", bounds.turns)?,
            bytes: number("FILROUGE_HOT_BYTES", file.bytes, "hot_bytes", bounds.bytes)?,
            timeout_ms: layers.pick(
                None,
                "FILROUGE_HOT_TIMEOUT_MS",
                file.timeout_ms.map(|n| n.to_string()),
                || Ok(250),
                |t| timeout(t).map_err(|e| format!("hot_timeout_ms: {e}")),
            )?,
            memory_bytes: number(
                "FILROUGE_HOT_MEMORY_BYTES",
                file.memory_bytes,
                "hot_memory_bytes",
                256 << 20,
            )?,
            prefix: layers.pick(
                None,
                "FILROUGE_HOT_PREFIX",
                file.prefix,
                || Ok("filrouge".to_owned()),
                |t| prefix(t).map_err(|e| format!("hot_prefix: {e}")),
            )?,
            tenants: tenants(layers, file.tenants)?,
        })
    }

    /// What bounds each session in the hot store.
    pub(crate) fn bounds(&self) -> HotBounds {
        HotBounds {
            ttl: Duration::from_secs(self.ttl_s.value),
            turns: self.turns.value,
            bytes: self.bytes.value,
        }
    }

    /// Most bytes of all sessions in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.value
    }

    /// How long a request may wait for the hot store.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.value)
    }

    /// What the names of keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix.value
    }

    /// Which members of turns' metadata go to the ledger.
    pub(crate) fn metadata(&self) -> MetadataPolicy {
        match &self.metadata_allow.value {
            None => MetadataPolicy::All,
            Some(names) => MetadataPolicy::Only(names.clone()),
        }
    }

    /// Which items go to the ledger.
    pub(crate) fn record(&self) -> RecordPolicies {
        let tenants = self.tenants.iter();
        RecordPolicies {
            default: self.record.value,
            tenants: tenants
                .map(|(tenant, record)| (tenant.clone(), record.value))
                .collect(),
        }
    }

    /// Name, value and origin of each.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        fn row<T>(
            name: &'static str,
            setting: &Setting<T>,
            value: impl Display,
        ) -> (&'static str, String, String) {
            (name, value.to_string(), setting.origin.to_string())
        }
        let memory = &self.memory_bytes;
        let allowed = match &self.metadata_allow.value {
            None => EVERYTHING.to_owned(),
            Some(names) if names.is_empty() => NOTHING.to_owned(),
            Some(names) => names.join(","),
        };
        vec![
            row("hot", &self.url, &self.url.value),
            row("hot_ttl_s", &self.ttl_s, self.ttl_s.value),
            row("hot_turns", &self.turns, self.turns.value),
            row("hot_bytes", &self.bytes, self.bytes.value),
            row("hot_timeout_ms", &self.timeout_ms, self.timeout_ms.value),
            row("hot_memory_bytes", memory, memory.value),
            row("hot_prefix", &self.prefix, &self.prefix.value),
            row("durable", &self.durable, self.durable.value),
            row("record", &self.record, self.record.value),
            row("metadata_allow", &self.metadata_allow, allowed),
        ]
    }

    /// The tenants with settings of their own: `tenants.NAME.record`, value and origin.
    pub(crate) fn tenant_rows(&self) -> impl Iterator<Item = (String, String, String)> {
        self.tenants.iter().map(|(tenant, record)| {
            let name = format!("tenants.{tenant}.record");
            (name, record.value.to_string(), record.origin.to_string())
        })
    }
}
