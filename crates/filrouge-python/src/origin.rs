//! What answers requests: the ledger in this process, or a server.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::uri::{InvalidUri, PathAndQuery};
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri};
use filrouge::embedded::{EmbeddedLedger, InProgress};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::remote::Remote;

/// Why a request has no response.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallFailure {
    #[error("the connection is closed")]
    Closed,
    #[error("{0}")]
    Transport(String),
}

/// A path with an optional query: what a request asks for.
pub(crate) struct Target(PathAndQuery);

impl std::str::FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        if !text.starts_with('/') {
            return Err(InvalidTarget::NoPath);
        }
        Ok(Self(text.parse()?))
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidTarget {
    #[error("it does not begin with /")]
    NoPath,
    #[error("{0}; percent-encode it")]
    Characters(#[from] InvalidUri),
}

impl From<Target> for Uri {
    fn from(target: Target) -> Self {
        Self::from(target.0)
    }
}

/// A response whose body was not read yet.
pub(crate) struct OpenResponse {
    pub(crate) response: Response<Body>,
    /// Keeps the ledger open until the body was read.
    pub(crate) in_progress: Option<InProgress>,
}

/// A response with its complete body.
#[derive(Clone)]
pub(crate) struct WholeResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What answers requests.
pub(crate) enum Origin {
    Embedded(EmbeddedLedger),
    Remote(Remote),
}

impl Origin {
    /// Sends a request, and returns when the head of the response is there.
    pub(crate) async fn open(&self, request: Request<Body>) -> Result<OpenResponse, CallFailure> {
        match self {
            Self::Embedded(ledger) => {
                let answered = ledger.call(request).await;
                let (response, in_progress) = answered.map_err(|_| CallFailure::Closed)?;
                Ok(OpenResponse {
                    response,
                    in_progress: Some(in_progress),
                })
            }
            Self::Remote(remote) => Ok(OpenResponse {
                response: remote.call(request).await?,
                in_progress: None,
            }),
        }
    }

    /// Sends a request, and reads the response, without a time limit.
    pub(crate) async fn call(&self, request: Request<Body>) -> Result<WholeResponse, CallFailure> {
        let OpenResponse {
            response,
            in_progress,
        } = self.open(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        drop(in_progress);
        Ok(WholeResponse {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    /// Limits the time of `work`, if a server does it.
    pub(crate) async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, CallFailure>>,
    ) -> Result<T, CallFailure> {
        match self {
            Self::Embedded(_) => work.await,
            Self::Remote(remote) => limited(remote.timeout(), work).await,
        }
    }

    /// The longest time for which a server's response may be silent; `None` without a server.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        match self {
            Self::Embedded(_) => None,
            Self::Remote(remote) => Some(remote.idle_timeout()),
        }
    }

    /// Closes the ledger in order. A server's connections are closed when this value is dropped.
    pub(crate) async fn close(&self) {
        if let Self::Embedded(ledger) = self {
            ledger.close().await;
        }
    }
}

/// The failure for a response that broke off.
pub(crate) fn broken(error: impl std::fmt::Display) -> CallFailure {
    CallFailure::Transport(format!("the response broke off: {error}"))
}

/// Limits the time of `work`.
pub(crate) async fn limited<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, CallFailure>>,
) -> Result<T, CallFailure> {
    let timed_out = || {
        let seconds = limit.as_secs_f64();
        CallFailure::Transport(format!("the server did not answer within {seconds} s"))
    };
    timeout(limit, work).await.map_err(|_| timed_out())?
}
