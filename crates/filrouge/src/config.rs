//! Settings: defaults < file < environment < flags, each with where it comes from.

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_engine::scopes::ScopeOptions;
use filrouge_engine::{CredentialPolicy, Settings};
use filrouge_http::access::AccessSettings;
use filrouge_server::Webhooks;
use filrouge_store::command::ConcurrentTurns;
use filrouge_store::hot::Keep;
use filrouge_types::TenantId;
use serde::Deserialize;

use crate::cli::Options;
use crate::exit::Usage;

mod access;
mod calls;
mod general;
mod hot;
mod index;
mod layers;
mod limits;
mod mcp;
mod search;
pub(crate) mod sources;
mod spool;
mod store;
mod team;
mod webhooks;

pub(crate) use access::AccessConfig;
pub(crate) use calls::CallsConfig;
pub(crate) use hot::{HotConfig, HotUrl, RedisUrl};
pub(crate) use index::IndexConfig;
use layers::Layers;
pub(crate) use layers::Setting;
pub(crate) use limits::LimitsConfig;
pub(crate) use mcp::McpConfig;
pub(crate) use search::SearchConfig;
pub(crate) use sources::{Program, SourceName};
pub(crate) use spool::SpoolConfig;
pub(crate) use store::{PostgresUrl, StoreUrl};
pub(crate) use team::TeamConfig;
pub(crate) use webhooks::WebhookConfig;

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) file: Option<PathBuf>,
    pub(crate) store: Setting<StoreUrl>,
    /// The server itself, where the store's URL is a pooler's.
    pub(crate) store_direct: Setting<Option<PostgresUrl>>,
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) tenant: Setting<TenantId>,
    pub(crate) keyring: Setting<PathBuf>,
    pub(crate) anchor: Setting<PathBuf>,
    pub(crate) turn_timeout: Setting<Duration>,
    pub(crate) stream_timeout: Setting<Duration>,
    pub(crate) concurrent_turns: Setting<ConcurrentTurns>,
    pub(crate) credentials: Setting<CredentialPolicy>,
    /// The histories that are looked at unless others are named; `None` for all that are there.
    pub(crate) sources: Setting<Option<Vec<SourceName>>>,
    pub(crate) calls: CallsConfig,
    pub(crate) spool: SpoolConfig,
    pub(crate) hot: HotConfig,
    pub(crate) access: AccessConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) search: SearchConfig,
    pub(crate) team: TeamConfig,
    pub(crate) webhooks: Vec<WebhookConfig>,
    pub(crate) json: bool,
    pub(crate) unverified: bool,
}

/// The configuration file; every setting is optional and unknown ones are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    store: Option<String>,
    store_direct: Option<String>,
    listen: Option<String>,
    tenant: Option<String>,
    keyring: Option<String>,
    anchor: Option<String>,
    turn_timeout_s: Option<u64>,
    stream_timeout_s: Option<u64>,
    concurrent_turns: Option<String>,
    sources: Option<Vec<String>>,
    hot: Option<String>,
    hot_ttl_s: Option<u64>,
    hot_turns: Option<u64>,
    hot_bytes: Option<u64>,
    hot_timeout_ms: Option<u64>,
    hot_memory_bytes: Option<u64>,
    hot_prefix: Option<String>,
    durable: Option<String>,
    record: Option<String>,
    metadata_allow: Option<Vec<String>>,
    #[serde(default)]
    tenants: BTreeMap<String, hot::TenantFile>,
    #[serde(default)]
    secrets: SecretsFile,
    #[serde(default)]
    calls: calls::CallsFile,
    #[serde(default)]
    spool: spool::SpoolFile,
    #[serde(default)]
    access: access::AccessFile,
    jwt: Option<access::JwtFile>,
    #[serde(default)]
    limits: limits::LimitsFile,
    #[serde(default)]
    mcp: mcp::McpFile,
    #[serde(default)]
    search: search::SearchFile,
    #[serde(default)]
    team: team::TeamFile,
    #[serde(default)]
    webhooks: Vec<webhooks::WebhookFile>,
}

/// The section `[secrets]` in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsFile {
    credentials: Option<String>,
}

/// A folder of the XDG base directory rules.
fn xdg(variable: &str, fallback: &str) -> Result<PathBuf, Usage> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(fallback)));
    base.map(|b| b.join("filrouge")).ok_or_else(|| {
        Usage::new(format!("neither {variable} nor HOME is set")).with_hint("set HOME")
    })
}

fn read_file(path: &Path, must_exist: bool) -> Result<Option<File>, Usage> {
    match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|e| {
            let what = webhooks::told(&e, &text);
            Usage::new(format!("{}: {what}", path.display()))
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
        Err(e) => Err(Usage::new(format!("{}: {e}", path.display()))),
    }
}

impl Config {
    /// Reads all layers.
    ///
    /// # Errors
    /// [`Usage`] naming the layer and the value that is wrong.
    pub(crate) fn read(options: &Options, listen: Option<SocketAddr>) -> Result<Self, Usage> {
        let named = options
            .config
            .clone()
            .or_else(|| env::var_os("FILROUGE_CONFIG").map(PathBuf::from));
        let path = match &named {
            Some(path) => path.clone(),
            None => xdg("XDG_CONFIG_HOME", ".config")?.join("config.toml"),
        };
        let found = read_file(&path, named.is_some())?;
        let layers = Layers {
            file: found.is_some().then_some(path.as_path()),
        };
        let file = found.unwrap_or_default();
        Ok(Self {
            store: general::store(&layers, options.store.clone(), file.store)?,
            store_direct: general::store_direct(&layers, file.store_direct)?,
            listen: general::listen(&layers, listen, file.listen)?,
            tenant: general::tenant(&layers, options.tenant.clone(), file.tenant)?,
            keyring: general::keyring(&layers, file.keyring)?,
            anchor: general::anchor(&layers, file.anchor)?,
            turn_timeout: general::turn_timeout(&layers, file.turn_timeout_s)?,
            stream_timeout: general::stream_timeout(&layers, file.stream_timeout_s)?,
            concurrent_turns: general::concurrent_turns(&layers, file.concurrent_turns)?,
            credentials: general::credentials(&layers, file.secrets.credentials)?,
            sources: sources::read(&layers, file.sources)?,
            calls: CallsConfig::read(&layers, file.calls)?,
            spool: SpoolConfig::read(&layers, file.spool)?,
            hot: HotConfig::read(
                &layers,
                options.hot.clone(),
                hot::HotFile {
                    hot: file.hot,
                    ttl_s: file.hot_ttl_s,
                    turns: file.hot_turns,
                    bytes: file.hot_bytes,
                    timeout_ms: file.hot_timeout_ms,
                    memory_bytes: file.hot_memory_bytes,
                    prefix: file.hot_prefix,
                    durable: file.durable,
                    record: file.record,
                    metadata_allow: file.metadata_allow,
                    tenants: file.tenants,
                },
            )?,
            access: AccessConfig::read(&layers, &file.access, file.jwt)?,
            limits: LimitsConfig::read(&layers, &file.limits)?,
            mcp: McpConfig::read(&layers, file.mcp)?,
            search: SearchConfig::read(
                &layers,
                file.search,
                path.parent().unwrap_or(Path::new("")),
            )?,
            team: TeamConfig::read(&layers, file.team)?,
            webhooks: webhooks::read(file.webhooks, path.parent().unwrap_or(Path::new("")))?,
            file: layers.file.map(Path::to_owned),
            json: options.json,
            unverified: options.unverified,
        })
    }

    /// Who is let in and who is told of changes, as a server takes it.
    ///
    /// # Errors
    /// What `serve` refuses to start with.
    pub(crate) fn served(&self) -> anyhow::Result<(AccessSettings, Webhooks)> {
        let access = self.access.settings(&self.tenant.value)?;
        let enabled = self.webhooks.iter().filter(|webhook| webhook.enabled);
        let webhooks = enabled.map(|webhook| webhook.settings(&self.tenant.value));
        let webhooks = Webhooks::new(webhooks.collect::<Result<_, _>>()?)?;
        Ok((access, webhooks))
    }

    /// What goes where.
    pub(crate) fn scopes(&self) -> ScopeOptions {
        let settings = self.settings();
        let tenants = settings.record.tenants.keys();
        let kept_in = tenants.map(|tenant| (tenant.clone(), settings.keep(tenant)));
        ScopeOptions {
            durable: self.hot.durable.value,
            keep: Keep {
                metadata: settings.metadata.list(),
                record: settings.record.default,
            },
            keep_in: kept_in.collect(),
            turn_timeout: settings.turn_timeout,
        }
    }

    /// What the engine is told.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            concurrent_turns: self.concurrent_turns.value,
            credentials: self.credentials.value,
            metadata: self.hot.metadata(),
            record: self.hot.record(),
            turn_timeout: self.turn_timeout.value,
            stream_timeout: self.stream_timeout.value,
            calls: self.calls.settings(),
            limits: self.limits.engine(),
            ..Settings::default()
        }
    }
}
