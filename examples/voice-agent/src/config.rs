//! The settings, all from environment variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use filrouge_types::{SessionId, TenantId};
use jiff::civil::Date;

/// The store of calls.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// `USE_PG_CALL_JOURNAL=false`: only in this process's memory.
    Memory,
    /// A file, for one instance.
    Sqlite(PathBuf),
    /// A database, for any number of instances.
    Postgres(String),
}

/// A point in the handling of a webhook, while its call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelayPoint {
    /// Before the step of the dialogue.
    Step,
    /// Before the turn is written; the calendar is already changed.
    Turn,
    /// Between the turn and its checkpoint.
    Checkpoint,
}

/// The settings of one instance; `from_environment` reads them from the variables that the README lists.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) store: Store,
    /// The keys of the store: the same file for all instances.
    pub(crate) keyring: PathBuf,
    /// This instance's own files: its anchor and its spool.
    pub(crate) state_dir: PathBuf,
    pub(crate) instance: String,
    pub(crate) tenant: TenantId,
    /// The maximum time for which an instance holds a call without a write.
    pub(crate) lease_ttl: Duration,
    /// The maximum time for which a webhook waits for another webhook of the same call.
    pub(crate) lease_wait: Duration,
    /// Whether a webhook that reaches `lease_wait` is answered with 204 instead of a phrase.
    pub(crate) silent_when_busy: bool,
    /// The first day of the calendar; `None`: tomorrow.
    pub(crate) calendar_from: Option<Date>,
    /// For tests: the point at which every webhook is delayed, and the duration.
    pub(crate) delay: Option<(DelayPoint, Duration)>,
}

/// Returns the value of an environment variable; `None` if it is unset or empty.
fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn parse_variable<T: std::str::FromStr>(name: &str, default: T) -> anyhow::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    match env_variable(name) {
        Some(value) => value.parse().with_context(|| format!("{name}={value}")),
        None => Ok(default),
    }
}

fn milliseconds(name: &str, default: u64) -> anyhow::Result<Duration> {
    Ok(Duration::from_millis(parse_variable(name, default)?))
}

fn flag(name: &str, default: bool) -> anyhow::Result<bool> {
    parse_variable(name, default)
}

/// A delay such as `turn:3000`.
fn parse_delay(text: &str) -> anyhow::Result<(DelayPoint, Duration)> {
    let (point, ms) = text
        .split_once(':')
        .context("HANDLE_DELAY: expected a point and milliseconds, such as turn:3000")?;
    let point = match point {
        "step" => DelayPoint::Step,
        "turn" => DelayPoint::Turn,
        "checkpoint" => DelayPoint::Checkpoint,
        other => bail!("HANDLE_DELAY={other}: expected step, turn or checkpoint"),
    };
    Ok((
        point,
        Duration::from_millis(ms.parse().context("HANDLE_DELAY")?),
    ))
}

impl Config {
    /// Waits if the settings configure a delay at this point, and logs it.
    pub(crate) async fn delay_at(&self, call: &SessionId, point: DelayPoint) {
        if let Some((_, delay)) = self.delay.filter(|(delayed, _)| *delayed == point) {
            tracing::info!(call_id = %call, place = ?point, "[DELAYED]");
            tokio::time::sleep(delay).await;
        }
    }

    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is invalid.
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let state_dir: PathBuf = env_variable("STATE_DIR")
            .unwrap_or_else(|| "voice-agent-state".into())
            .into();
        let keyring =
            env_variable("KEYRING").map_or_else(|| state_dir.join("keyring.json"), PathBuf::from);
        let store = match env_variable("DATABASE_URL") {
            _ if !flag("USE_PG_CALL_JOURNAL", true)? => Store::Memory,
            None => Store::Sqlite(state_dir.join("calls.db")),
            Some(url) => match url.strip_prefix("sqlite:") {
                Some(path) => Store::Sqlite(path.into()),
                None => Store::Postgres(url),
            },
        };
        let silent_when_busy = match env_variable("ON_BUSY").as_deref() {
            None | Some("filler") => false,
            Some("204") => true,
            Some(other) => bail!("ON_BUSY={other}: expected filler or 204"),
        };
        let calendar_from =
            env_variable("AGENDA_FROM").map(|day| day.parse().context("AGENDA_FROM"));
        Ok(Self {
            listen: parse_variable("LISTEN", SocketAddr::from(([127, 0, 0, 1], 8080)))?,
            store,
            keyring,
            state_dir,
            instance: env_variable("INSTANCE").unwrap_or_else(|| "a".to_owned()),
            tenant: TenantId::new(env_variable("TENANT").unwrap_or_else(|| "1".to_owned()))
                .context("TENANT")?,
            lease_ttl: milliseconds("LEASE_TTL_MS", 10_000)?,
            lease_wait: milliseconds("LEASE_WAIT_MS", 2000)?,
            silent_when_busy,
            calendar_from: calendar_from.transpose()?,
            delay: env_variable("HANDLE_DELAY")
                .map(|delay| parse_delay(&delay))
                .transpose()?,
        })
    }
}
