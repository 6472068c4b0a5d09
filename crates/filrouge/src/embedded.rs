//! The ledger within another program: the routes of `filrouge serve`, called without a socket.
//!
//! The store is opened as a server opens it, with the same settings, keyring and anchor; the sweep, webhooks, projections
//! and the search index run beside requests. There are no listener, no signal handlers and no panic hook. The log is off,
//! unless `FILROUGE_LOG` is set.
//!
//! The program is trusted as a caller without credentials is by a server without keys: it has the role `local`, and acts
//! for the end user that `Filrouge-Identity` names, also if the store has API keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use filrouge_server::{McpSettings, RunningServer};
use filrouge_sources::Library;
use filrouge_types::lock;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tower_service::Service as _;

use crate::cli::Options;
use crate::config::Config;
use crate::exit::{code_of, detail_and_hint};
use crate::service::{Service, ServiceSettings};

/// How long requests in progress may take once the ledger is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the ledger cannot be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{detail}")]
pub struct OpenError {
    /// A code of `docs/errors.md`, or `usage` for a wrong setting, or `failed`.
    pub code: &'static str,
    /// What is wrong.
    pub detail: String,
    /// What to do.
    pub hint: Option<String>,
}

impl From<anyhow::Error> for OpenError {
    fn from(error: anyhow::Error) -> Self {
        let (detail, hint) = detail_and_hint(&error);
        Self {
            code: code_of(&error),
            detail,
            hint,
        }
    }
}

/// The ledger was closed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the ledger is closed")]
pub struct Closed;

/// A request in progress. Keep it until the response's body was read: closing the ledger waits for it.
#[derive(Debug)]
pub struct InProgress {
    _lock: OwnedRwLockReadGuard<()>,
}

/// An open ledger. Its methods must be called within one Tokio runtime with several threads.
pub struct EmbeddedLedger {
    /// `None` once the ledger was closed.
    server: Mutex<Option<RunningServer>>,
    /// Each request locks it for reading. Closing locks it for writing, and so waits for all of them.
    in_progress: Arc<RwLock<()>>,
}

impl EmbeddedLedger {
    /// Opens the ledger, and creates a missing one. `settings` overrule the environment and the configuration file; each
    /// has the name of its environment variable in lower case, without `FILROUGE_`, such as `store` and `config`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(settings: BTreeMap<String, String>) -> Result<Self, OpenError> {
        if std::env::var_os("FILROUGE_LOG").is_some() {
            crate::commands::start_log(false);
        }
        let server = start(&options(settings)).await?;
        Ok(Self {
            server: Mutex::new(Some(server)),
            in_progress: Arc::default(),
        })
    }

    /// Answers a request, whose target is a path with a query. A request without the header `Host` gets one.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn call(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Body>, InProgress), Closed> {
        let lock_for_reading = self.in_progress.clone().read_owned();
        let in_progress = InProgress {
            _lock: lock_for_reading.await,
        };
        let router = lock(&self.server).as_ref().map(|s| s.router().clone());
        let mut router = router.ok_or(Closed)?;
        let headers = request.headers_mut();
        headers
            .entry(header::HOST)
            .or_insert(HeaderValue::from_static("localhost"));
        match router.call(request).await {
            Ok(response) => Ok((response, in_progress)),
            Err(never) => match never {},
        }
    }

    /// Closes the ledger in order, like a server that stops: streams end, requests in progress may finish for 10 s,
    /// deliveries and recordings finish, the store is closed, and the anchor is written. Later calls do nothing.
    pub async fn close(&self) {
        let Some(server) = lock(&self.server).take() else {
            return;
        };
        server.begin_to_stop();
        let all_ended = tokio::time::timeout(CLOSE_TIMEOUT, self.in_progress.write()).await;
        if all_ended.is_err() {
            tracing::warn!("requests are still under way; they are cut off");
        }
        drop(all_ended);
        server.close().await;
    }
}

fn options(mut settings: BTreeMap<String, String>) -> Options {
    Options {
        config: settings.remove("config").map(Into::into),
        settings,
        ..Options::default()
    }
}

async fn start(options: &Options) -> anyhow::Result<RunningServer> {
    let config = Config::read(options, None)?;
    let mcp = McpSettings {
        library: Library::new(Vec::new(), 0),
        hosts: Vec::new(),
    };
    let settings = ServiceSettings::read(&config, mcp)?.for_trusted_callers();
    Ok(Service::open(&config, settings).await?.start().await?)
}

#[cfg(test)]
mod tests;
