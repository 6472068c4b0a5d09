//! The addresses of servers, and the failures of connecting to them.

use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{failure, unavailable};
use crate::tls;

/// Returns one configuration for each address of the host of `server`. A Unix socket has a single one.
pub(super) async fn addresses(server: &Config) -> Result<Vec<Config>, Failure> {
    let Some(Host::Tcp(host)) = server.get_hosts().first() else {
        return Ok(vec![server.clone()]);
    };
    let port = server.get_ports().first().copied().unwrap_or_default();
    let resolved = tokio::net::lookup_host((host.as_str(), port)).await;
    let resolved = resolved.map_err(|e| {
        unavailable(format!("PostgreSQL: {e}")).with_hint("check the host in --store")
    })?;
    let configs = resolved.map(|address| {
        let mut config = server.clone();
        config.hostaddr(address.ip());
        config
    });
    Ok(configs.collect())
}

/// Combines the failures of all servers. The result has the code `store_unavailable` if any failure has it, so that
/// callers retry.
pub(super) fn combined_failure(mut failures: Vec<(String, Failure)>) -> Failure {
    if failures.len() == 1
        && let Some((_, failure)) = failures.pop()
    {
        return failure;
    }
    let codes: Vec<_> = failures.iter().map(|(_, failure)| failure.code).collect();
    let code = match codes.first() {
        Some(&first) if !codes.contains(&ErrorCode::StoreUnavailable) => first,
        _ => ErrorCode::StoreUnavailable,
    };
    let hint = failures
        .iter()
        .find_map(|(_, failure)| failure.hint.clone());
    let details: Vec<_> = failures
        .iter()
        .map(|(server, failure)| format!("{server}: {}", failure.detail))
        .collect();
    let failure = Failure::new(code, details.join("; "));
    Failure { hint, ..failure }
}

pub(super) fn connect_failure(
    error: &tokio_postgres::Error,
    config: &Config,
    encrypted: bool,
) -> Failure {
    let failure = failure(error);
    if let Some(hint) = tls::hint(error) {
        return unavailable(failure.detail).with_hint(hint);
    }
    if failure.code == ErrorCode::StoreUnavailable {
        return match failure.hint {
            Some(_) => failure,
            None => failure.with_hint("check --store, and whether the server runs"),
        };
    }
    // The driver has no codes for the remaining causes, so they are guessed from the configuration.
    let hint = if config.get_ssl_mode() == SslMode::Require && !encrypted {
        "set ssl = on in the server's postgresql.conf, or a weaker sslmode"
    } else if config.get_password().is_none() {
        "give the password in --store, or in FILROUGE_STORE_PASSWORD or PGPASSWORD"
    } else {
        "check --store"
    };
    unavailable(failure.detail).with_hint(hint)
}
