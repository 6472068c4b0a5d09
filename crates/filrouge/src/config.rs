//! The settings. Flags override the environment, which overrides the file, which overrides the defaults. The origin of
//! each setting is recorded.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_engine::scopes::TierOptions;
use filrouge_engine::spool::SpoolOptions;
use filrouge_engine::{RecordPolicies, Settings};
use filrouge_http::access::AccessSettings;
use filrouge_http::limits::LimitSettings;
use filrouge_server::Webhooks;
use filrouge_store::Lanes;
use filrouge_store::command::ConcurrentTurns;
use filrouge_store::hot::FieldRetention;
use filrouge_types::TenantId;

use crate::cli::Options;
use crate::exit::{Result, Usage};

mod access;
mod calls;
mod hot;
mod layers;
mod limits;
mod mcp;
mod opensearch;
mod pages;
mod projections;
mod search;
mod secret;
pub(crate) mod sources;
mod spool;
mod store;
mod team;
mod vectors;
mod webhooks;

pub(crate) use access::AccessConfig;
pub(crate) use hot::{HotConfig, HotUrl};
use layers::{Layers, xdg_folder};
pub(crate) use layers::{SettingRow, base_folder, env_path, home_folder};
pub(crate) use projections::ProjectionConfig;
pub(crate) use search::SearchConfig;
pub(crate) use sources::SourceName;
pub(crate) use store::{HiddenUrl, StoreUrl};
pub(crate) use team::TeamConfig;
pub(crate) use webhooks::WebhookConfig;

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The configuration file, if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) store: StoreUrl,
    /// The URL of the PostgreSQL server itself, if `store` is the URL of a connection pooler.
    pub(crate) store_direct: Option<HiddenUrl>,
    /// The number of lanes of a PostgreSQL store that is created.
    pub(crate) lanes: Lanes,
    /// Whether a PostgreSQL store that is created is distributed with Citus.
    pub(crate) distribute: bool,
    pub(crate) listen: SocketAddr,
    pub(crate) tenant: TenantId,
    /// The path of the keyring.
    pub(crate) keyring: PathBuf,
    /// The folder of the anchors.
    pub(crate) anchor: PathBuf,
    /// The file to which a server appends statements for a witness, if one is configured.
    pub(crate) witness: Option<PathBuf>,
    /// The interval between two such statements.
    pub(crate) witness_interval: Duration,
    /// The engine's settings.
    pub(crate) settings: Settings,
    /// The histories that are queried by default; `None` for all that exist.
    pub(crate) sources: Option<Vec<SourceName>>,
    /// The settings of the spool; with 0 bytes, nothing is spooled.
    pub(crate) spool: SpoolOptions,
    pub(crate) hot: HotConfig,
    pub(crate) access: AccessConfig,
    pub(crate) limits: LimitSettings,
    /// The host names that `/mcp` accepts in addition to this machine's names.
    pub(crate) mcp_hosts: Vec<String>,
    /// The file with the prices of models; `None` for those of this build.
    pub(crate) prices: Option<String>,
    pub(crate) search: SearchConfig,
    pub(crate) team: TeamConfig,
    pub(crate) webhooks: Vec<WebhookConfig>,
    pub(crate) projections: Vec<ProjectionConfig>,
    /// All settings except webhooks and projections, as `config show` lists them.
    pub(crate) rows: Vec<SettingRow>,
    pub(crate) json: bool,
    pub(crate) unverified: bool,
}

fn read_file(path: &Path, must_exist: bool) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
        Err(e) => Err(Usage::new(format!("{}: {e}", path.display()))),
    }
}

fn listen(layers: &mut Layers<'_>) -> Result<SocketAddr> {
    let read = |text: &str| {
        let to_error = |_| format!("{text:?} is no address such as 127.0.0.1:7717");
        text.parse().map_err(to_error)
    };
    let default = || Ok(SocketAddr::from(([127, 0, 0, 1], 7717)));
    let setting = ("listen", layers::ValueType::Text);
    layers.read(setting, default, read, SocketAddr::to_string)
}

impl Config {
    /// Reads all settings from all layers. `listen` is a flag that only `serve` has.
    ///
    /// # Errors
    /// [`Usage`] naming the layer and the setting that is wrong.
    pub(crate) fn read(options: &Options, listen: Option<SocketAddr>) -> Result<Self> {
        let explicit_path = options
            .config
            .clone()
            .or_else(|| env::var_os("FILROUGE_CONFIG").map(PathBuf::from));
        let path = match &explicit_path {
            Some(path) => path.clone(),
            None => xdg_folder("XDG_CONFIG_HOME", ".config")?.join("config.toml"),
        };
        let text = read_file(&path, explicit_path.is_some())?;
        let path = text.is_some().then_some(path);
        let flags = [
            ("store", options.store.clone()),
            ("listen", listen.map(|address| address.to_string())),
            ("tenant", options.tenant.clone()),
            ("hot", options.hot.clone()),
        ];
        let flags = flags
            .into_iter()
            .filter_map(|(name, flag)| Some((name.to_owned(), (flag?, format!("--{name}")))));
        let settings = options.settings.iter();
        let settings = settings.map(|(name, value)| (name.clone(), (value.clone(), name.clone())));
        let text = text.unwrap_or_default();
        let layers = Layers::new(path.as_deref(), &text, flags.chain(settings).collect())?;
        Ok(Self {
            file: path.clone(),
            json: options.json,
            unverified: options.unverified,
            ..Self::from_layers(layers)?
        })
    }

    /// Reads the settings in the order in which `config show` lists them.
    fn from_layers(mut layers: Layers<'_>) -> Result<Self> {
        let mut engine = Settings::default();
        let data = || xdg_folder("XDG_DATA_HOME", ".local/share");
        let store = layers.text("store", || {
            Ok(StoreUrl::Sqlite(data()?.join("filrouge.db")))
        })?;
        let store_direct = layers.optional("store_direct", store::parse_postgres_url)?;
        let lanes = store::read_lanes(&mut layers)?;
        let distribute = store::read_distribute(&mut layers)?;
        let listen = listen(&mut layers)?;
        let tenant = layers.text("tenant", || Ok(TenantId::default_tenant()))?;
        let keyring = layers.path("keyring", || {
            Ok(xdg_folder("XDG_CONFIG_HOME", ".config")?.join("keyring.json"))
        })?;
        let anchor = layers.path("anchor", || {
            Ok(xdg_folder("XDG_STATE_HOME", ".local/state")?.join("anchor"))
        })?;
        let witness = layers
            .optional("witness", layers::non_empty)?
            .map(PathBuf::from);
        let witness_interval =
            layers.seconds("witness_every_s", 1..=86_400, Duration::from_secs(60))?;
        engine.turn_timeout =
            layers.seconds("turn_timeout_s", 0..=u64::MAX, engine.turn_timeout)?;
        engine.stream_timeout =
            layers.seconds("stream_timeout_s", 1..=u64::MAX, engine.stream_timeout)?;
        engine.concurrent_turns =
            layers.text("concurrent_turns", || Ok(ConcurrentTurns::default()))?;
        engine.credentials = layers.text("secrets.credentials", || Ok(Default::default()))?;
        let sources = sources::read(&mut layers)?;
        engine.calls = calls::read(&mut layers)?;
        let prices = pages::read(&mut layers, &mut engine)?;
        Ok(Self {
            file: None,
            spool: spool::read(&mut layers)?,
            hot: HotConfig::read(&mut layers, &mut engine)?,
            access: AccessConfig::read(&mut layers, &tenant, &mut engine)?,
            limits: limits::read(&mut layers, &mut engine.limits)?,
            mcp_hosts: mcp::read(&mut layers)?,
            prices,
            search: SearchConfig::read(&mut layers)?,
            team: TeamConfig::read(&mut layers)?,
            webhooks: webhooks::read(&mut layers, &tenant)?,
            projections: projections::read(&mut layers)?,
            settings: Settings {
                record: RecordPolicies {
                    tenants: hot::read_tenants(&mut layers)?,
                    ..engine.record
                },
                ..engine
            },
            store,
            store_direct,
            lanes,
            distribute,
            listen,
            tenant,
            keyring,
            anchor,
            witness,
            witness_interval,
            sources,
            rows: layers.finish()?,
            json: false,
            unverified: false,
        })
    }

    /// The settings of access and webhooks that a server uses. Checks those of projections too.
    ///
    /// # Errors
    /// When `serve` refuses to start with these settings.
    pub(crate) fn server_settings(&self) -> anyhow::Result<(AccessSettings, Webhooks)> {
        let access = self.access.settings()?;
        let enabled = self.webhooks.iter().filter(|webhook| webhook.enabled);
        let webhooks = enabled.map(WebhookConfig::settings);
        let webhooks = Webhooks::new(webhooks.collect::<Result<_, _>>()?)?;
        for projection in self.projections.iter().filter(|p| p.enabled) {
            projection.check(self.search.kind)?;
        }
        Ok((access, webhooks))
    }

    /// The settings of the tiered ledger: which data the ledger and the hot store each keep.
    pub(crate) fn tier_options(&self) -> TierOptions {
        let settings = &self.settings;
        let tenants = settings.record.tenants.keys();
        let retention = tenants.map(|tenant| (tenant.clone(), settings.retention(tenant)));
        TierOptions {
            durable: self.hot.durable,
            keep: FieldRetention {
                metadata: settings.metadata.list(),
                record: settings.record.default,
            },
            keep_by_tenant: retention.collect(),
            turn_timeout: settings.turn_timeout,
        }
    }
}
