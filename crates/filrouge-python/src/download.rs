//! A response whose body arrives piece by piece.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use filrouge::embedded::InProgress;
use http_body_util::BodyExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::{Mutex, watch};

use crate::connection::Connection;
use crate::errors::of_call;
use crate::event_loop::future_of;
use crate::origin::{CallFailure, OpenResponse, Origin, broken, limited};
use crate::process::Process;
use crate::response::{Headers, headers_of};

/// A body that is being read.
struct Reader {
    origin: Arc<Origin>,
    /// `None` at the end.
    body: Mutex<Option<(Body, Option<InProgress>)>>,
    closed: watch::Sender<bool>,
}

impl Reader {
    /// The next piece; empty at the end.
    async fn next(&self) -> Result<Bytes, CallFailure> {
        let mut closed = self.closed.subscribe();
        let next = async {
            match self.origin.idle_timeout() {
                Some(limit) => limited(limit, self.next_frame()).await,
                None => self.next_frame().await,
            }
        };
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(CallFailure::Closed),
            piece = next => piece,
        }
    }

    async fn next_frame(&self) -> Result<Bytes, CallFailure> {
        let mut body = self.body.lock().await;
        while let Some((open, _)) = body.as_mut() {
            match open.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) if !piece.is_empty() => return Ok(piece),
                    _ => {}
                },
                Some(Err(error)) => {
                    *body = None;
                    return Err(broken(error));
                }
                None => *body = None,
            }
        }
        Ok(Bytes::new())
    }
}

/// A response whose body arrives piece by piece: a tail, or an export.
#[pyclass(frozen, module = "filrouge._native")]
pub(crate) struct Download {
    /// The status, such as 200.
    #[pyo3(get)]
    status: u16,
    /// The headers in their order; names are in lower case.
    #[pyo3(get)]
    headers: Headers,
    process: Arc<Process>,
    reader: Arc<Reader>,
    /// A connection is not closed while a download uses it, unless by `close`.
    _connection: Py<Connection>,
}

impl Download {
    pub(crate) fn new(
        connection: Py<Connection>,
        (process, origin): (Arc<Process>, Arc<Origin>),
        response: OpenResponse,
    ) -> Self {
        let (head, body) = response.response.into_parts();
        Self {
            status: head.status.as_u16(),
            headers: headers_of(&head.headers),
            process,
            reader: Arc::new(Reader {
                origin,
                body: Mutex::new(Some((body, response.in_progress))),
                closed: watch::Sender::new(false),
            }),
            _connection: connection,
        }
    }
}

#[pymethods]
impl Download {
    /// The next piece of the body; `b""` at its end.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.process.check()?;
        let piece = self.process.wait(py, self.reader.next())?;
        Ok(PyBytes::new(py, &piece.map_err(of_call)?))
    }

    /// As `read`, for an event loop.
    fn read_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.process.check()?;
        let reader = self.reader.clone();
        let reading = async move { reader.next().await };
        future_of(py, &self.process, reading, |py, piece| {
            Ok(PyBytes::new(py, &piece.map_err(of_call)?)
                .unbind()
                .into_any())
        })
    }

    /// Ends the response; a read in progress fails with `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check()?;
        self.reader.closed.send_replace(true);
        let ending = async { *self.reader.body.lock().await = None };
        self.process.wait(py, ending)
    }
}
