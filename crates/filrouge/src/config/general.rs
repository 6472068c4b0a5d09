//! The settings outside all sections, a reader each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_engine::{CredentialPolicy, Settings};
use filrouge_store::command::ConcurrentTurns;
use filrouge_types::{IdError, TenantId};

use super::layers::{Layers, Setting};
use super::{PostgresUrl, StoreUrl, xdg};
use crate::exit::Usage;

type Read<T> = Result<Setting<T>, Usage>;

pub(super) fn store(
    layers: &Layers<'_>,
    flag: Option<String>,
    in_file: Option<String>,
) -> Read<StoreUrl> {
    let own = || Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("filrouge.db"));
    let wrong = |e: Usage| format!("{}; {}", e.detail, e.hint.unwrap_or_default());
    let flag = flag.map(|v| ("--store", v));
    let default = || own().map(StoreUrl::Sqlite);
    layers.pick(flag, "FILROUGE_STORE", in_file, default, |t| {
        t.parse().map_err(wrong)
    })
}

pub(super) fn store_direct(
    layers: &Layers<'_>,
    in_file: Option<String>,
) -> Read<Option<PostgresUrl>> {
    let read = |t: &str| PostgresUrl::read(t).map(Some);
    layers.pick(None, "FILROUGE_STORE_DIRECT", in_file, || Ok(None), read)
}

pub(super) fn listen(
    layers: &Layers<'_>,
    flag: Option<SocketAddr>,
    in_file: Option<String>,
) -> Read<SocketAddr> {
    let flag = flag.map(|a| ("--listen", a.to_string()));
    let default = || Ok(SocketAddr::from(([127, 0, 0, 1], 7717)));
    layers.pick(flag, "FILROUGE_LISTEN", in_file, default, |t| {
        t.parse()
            .map_err(|_| format!("{t:?} is no address such as 127.0.0.1:7717"))
    })
}

pub(super) fn tenant(
    layers: &Layers<'_>,
    flag: Option<String>,
    in_file: Option<String>,
) -> Read<TenantId> {
    let flag = flag.map(|v| ("--tenant", v));
    let default = || Ok(TenantId::default_tenant());
    layers.pick(flag, "FILROUGE_TENANT", in_file, default, |t| {
        t.parse().map_err(|e: IdError| e.to_string())
    })
}

pub(super) fn keyring(layers: &Layers<'_>, in_file: Option<String>) -> Read<PathBuf> {
    let default = || Ok(xdg("XDG_CONFIG_HOME", ".config")?.join("keyring.json"));
    layers.pick(None, "FILROUGE_KEYRING", in_file, default, path)
}

pub(super) fn anchor(layers: &Layers<'_>, in_file: Option<String>) -> Read<PathBuf> {
    let default = || Ok(xdg("XDG_STATE_HOME", ".local/state")?.join("anchor"));
    layers.pick(None, "FILROUGE_ANCHOR", in_file, default, path)
}

fn path(text: &str) -> Result<PathBuf, String> {
    Ok(Path::new(text).to_owned())
}

pub(super) fn turn_timeout(layers: &Layers<'_>, in_file: Option<u64>) -> Read<Duration> {
    let (name, in_file) = ("FILROUGE_TURN_TIMEOUT_S", in_file.map(|s| s.to_string()));
    let default = || Ok(Settings::default().turn_timeout);
    layers.pick(None, name, in_file, default, |t| {
        t.parse()
            .map(Duration::from_secs)
            .map_err(|_| format!("{t:?} is no number of seconds"))
    })
}

pub(super) fn stream_timeout(layers: &Layers<'_>, in_file: Option<u64>) -> Read<Duration> {
    let (name, in_file) = ("FILROUGE_STREAM_TIMEOUT_S", in_file.map(|s| s.to_string()));
    let default = || Ok(Settings::default().stream_timeout);
    layers.pick(None, name, in_file, default, |t| match t.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{t:?} is no number of seconds above 0")),
    })
}

pub(super) fn concurrent_turns(
    layers: &Layers<'_>,
    in_file: Option<String>,
) -> Read<ConcurrentTurns> {
    let default = || Ok(ConcurrentTurns::Allow);
    layers.pick(
        None,
        "FILROUGE_CONCURRENT_TURNS",
        in_file,
        default,
        |t| match t {
            "allow" => Ok(ConcurrentTurns::Allow),
            "reject" => Ok(ConcurrentTurns::Reject),
            other => Err(format!(
                "concurrent_turns is {other:?}; known: allow, reject"
            )),
        },
    )
}

pub(super) fn credentials(layers: &Layers<'_>, in_file: Option<String>) -> Read<CredentialPolicy> {
    let default = || Ok(CredentialPolicy::default());
    layers.pick(None, "FILROUGE_CREDENTIALS", in_file, default, |t| {
        t.parse().map_err(|e| format!("secrets.credentials: {e}"))
    })
}
