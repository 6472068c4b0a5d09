//! Binding, serving, and stopping without dropping a request.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use filrouge_engine::Engine;
use filrouge_engine::anchor::AnchorKeeper;
use filrouge_types::TenantId;
use tokio::net::TcpListener;

use crate::routes::router;

/// How long requests under way may take once the server is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How often silent turns are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// What the routes work with.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    engine: Arc<Engine>,
    tenant: TenantId,
    anchor: Option<AnchorKeeper>,
}

impl App {
    /// The engine, the tenant that key-less requests belong to, and the anchor's keeper.
    #[must_use]
    pub fn new(engine: Arc<Engine>, tenant: TenantId, anchor: Option<AnchorKeeper>) -> Self {
        Self(Arc::new(Parts {
            engine,
            tenant,
            anchor,
        }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    pub(crate) fn anchor_failure(&self) -> Option<String> {
        self.0.anchor.as_ref().and_then(AnchorKeeper::failure)
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Without keys only this machine may be answered (DESIGN §8).
    #[error(
        "{0} is not a loopback address, and without API keys filrouge answers this machine only"
    )]
    NotLoopback(SocketAddr),
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Takes the address.
///
/// # Errors
/// [`ListenError`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError::Io { address, source })
}

/// Serves until `stop` is done, then finishes what is under way and closes the ledger.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let sweeper = tokio::spawn(sweep(app.clone()));
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let graceful = async move {
        stop.await;
        // The receiver is dropped only when serving has ended already.
        let _ = stopping.send(());
    };
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
    });
    let serving = axum::serve(listener, router(app.clone())).with_graceful_shutdown(graceful);
    let late = async {
        match stopped.await {
            Ok(()) => tokio::time::sleep(STOP_WITHIN).await,
            Err(_) => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = serving => result,
        () = late => {
            tracing::warn!("requests are still under way; they are cut off");
            Ok(())
        }
    };
    sweeper.abort();
    app.engine().ledger().close().await;
    result
}

async fn sweep(app: App) {
    loop {
        match app.engine().sweep().await {
            Ok(0) => {}
            Ok(turns) => tracing::info!(turns, "silent turns were marked as interrupted"),
            Err(error) => tracing::error!(%error, "silent turns cannot be looked for"),
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}
