//! A request whose body is sent piece by piece.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use futures_util::stream::unfold;
use pyo3::prelude::*;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::yield_now;

use crate::connection::Connection;
use crate::errors::{closed, of_call};
use crate::event_loop::future_of;
use crate::origin::{CallFailure, Origin, WholeResponse};
use crate::process::Process;
use crate::response::{Headers, Response, request};

/// The number of pieces that wait until they are sent.
const PIECES_WAITING: usize = 4;

/// A part of the body.
enum Piece {
    Bytes(Bytes),
    /// The body is complete. A channel that closes without it was aborted.
    End,
}

/// The error of a body that was aborted.
#[derive(Debug, thiserror::Error)]
#[error("the body was aborted")]
struct Aborted;

type Answer = Result<WholeResponse, CallFailure>;

/// What is left of an upload until it has ended.
#[derive(Clone)]
struct Open {
    pieces: Sender<Piece>,
    response: Shared<BoxFuture<'static, Answer>>,
}

/// A request whose body is sent piece by piece. End it with `finish` or `abort`; an upload that is dropped is aborted.
#[pyclass(frozen, module = "filrouge._native")]
pub(crate) struct Upload {
    process: Arc<Process>,
    origin: Arc<Origin>,
    open: Mutex<Option<Open>>,
    /// A connection is not closed while an upload uses it, unless by `close`.
    _connection: Py<Connection>,
}

impl Upload {
    pub(crate) fn start(
        connection: Py<Connection>,
        (process, origin): (Arc<Process>, Arc<Origin>),
        (method, target): (&str, &str),
        headers: &Headers,
    ) -> PyResult<Self> {
        let (pieces, receiver) = channel(PIECES_WAITING);
        let request = request(method, target, headers, body_of(receiver))?;
        let answering = origin.clone();
        let answering = async move { answering.call(request).await };
        let answering = process.runtime().spawn(answering);
        let ended_early = |e: tokio::task::JoinError| Err(CallFailure::Transport(e.to_string()));
        let response = answering.map(move |answer| answer.unwrap_or_else(ended_early));
        let response = response.boxed().shared();
        Ok(Self {
            process,
            origin,
            open: Mutex::new(Some(Open { pieces, response })),
            _connection: connection,
        })
    }

    fn state(&self) -> PyResult<MutexGuard<'_, Option<Open>>> {
        self.process.check()?;
        Ok(self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a piece. Fails if the connection broke; does nothing if the response came early.
    fn sending(
        &self,
        piece: &[u8],
    ) -> PyResult<impl Future<Output = Result<(), CallFailure>> + Send + use<>> {
        let open = self.state()?.clone().ok_or_else(|| closed("the upload"))?;
        let piece = Piece::Bytes(Bytes::copy_from_slice(piece));
        Ok(async move {
            match open.pieces.send(piece).await {
                Ok(()) => Ok(()),
                Err(_) => open.response.await.map(drop),
            }
        })
    }

    /// The end of the body, and then the response.
    fn finishing(&self) -> PyResult<impl Future<Output = Answer> + Send + use<>> {
        let open = self.state()?.take().ok_or_else(|| closed("the upload"))?;
        let origin = self.origin.clone();
        Ok(async move {
            let ended = async {
                // If it cannot be sent, there is a response already.
                let _ = open.pieces.send(Piece::End).await;
                open.response.await
            };
            origin.within_timeout(ended).await
        })
    }
}

#[pymethods]
impl Upload {
    /// Sends a piece. Returns when it is accepted: at most four pieces wait. Fails with `TransportError` once the
    /// connection broke; does nothing if the response came early, which `finish` returns.
    fn send(&self, py: Python<'_>, piece: &[u8]) -> PyResult<()> {
        let sent = self.process.wait(py, self.sending(piece)?)?;
        sent.map_err(of_call)
    }

    /// As `send`, for an event loop.
    fn send_async<'py>(&self, py: Python<'py>, piece: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        future_of(py, &self.process, self.sending(piece)?, |py, sent| {
            sent.map_err(of_call)?;
            Ok(py.None())
        })
    }

    /// Ends the body, and returns the response.
    fn finish(&self, py: Python<'_>) -> PyResult<Response> {
        Response::of(py, self.process.wait(py, self.finishing()?)?)
    }

    /// As `finish`, for an event loop.
    fn finish_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        future_of(py, &self.process, self.finishing()?, Response::object)
    }

    /// Breaks the request off, and returns when it has ended: the server records what arrived, and ends the turn as
    /// interrupted. Does nothing after `finish`.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let Some(open) = self.state()?.take() else {
            return Ok(());
        };
        drop(open.pieces);
        let origin = self.origin.clone();
        let ending = async move {
            let ended = async {
                // A request that was broken off has no response of interest.
                drop(open.response.await);
                Ok(())
            };
            drop(origin.within_timeout(ended).await);
        };
        self.process.wait(py, ending)
    }
}

fn body_of(receiver: Receiver<Piece>) -> Body {
    let pieces = unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Piece::End) => None,
            None => {
                // A client drops what it did not write yet once a body fails. It writes while it waits for a piece.
                yield_now().await;
                Some((Err(Aborted), None))
            }
        }
    });
    Body::from_stream(pieces)
}
