//! The class `Connection`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use filrouge::embedded::EmbeddedLedger;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::download::Download;
use crate::errors::{closed, of_call, of_open};
use crate::event_loop::future_of;
use crate::origin::{CallFailure, Origin, WholeResponse};
use crate::process::Process;
use crate::remote::Remote;
use crate::response::{Headers, Response, body, request};
use crate::upload::Upload;

/// The ledger in this process, or a server. Threads may share a connection; a forked process must open its own.
#[pyclass(frozen, module = "filrouge._native")]
pub(crate) struct Connection {
    process: Arc<Process>,
    /// `None` once the connection was closed.
    origin: Mutex<Option<Arc<Origin>>>,
}

impl Connection {
    fn over(process: Arc<Process>, origin: Origin) -> Self {
        let origin = Mutex::new(Some(Arc::new(origin)));
        Self { process, origin }
    }

    fn take_origin(&self) -> Option<Arc<Origin>> {
        let mut origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        origin.take()
    }

    /// What answers requests.
    ///
    /// # Errors
    /// `ForkError`, `ClosedError`.
    fn origin(&self) -> PyResult<Arc<Origin>> {
        self.process.check()?;
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        origin.clone().ok_or_else(|| closed("the connection"))
    }

    /// The response to a request.
    fn calling(
        &self,
        (method, target): (&str, &str),
        headers: &Headers,
        bytes: &[u8],
    ) -> PyResult<impl Future<Output = Result<WholeResponse, CallFailure>> + Send + use<>> {
        let origin = self.origin()?;
        let request = request(method, target, headers, body(bytes))?;
        Ok(async move { origin.within_timeout(origin.call(request)).await })
    }

    fn close_origin(&self, py: Python<'_>) {
        if let Some(origin) = self.take_origin() {
            py.detach(|| {
                self.process.runtime().block_on(origin.close());
                drop(origin);
            });
        }
    }
}

#[pymethods]
impl Connection {
    /// Opens the ledger in this process: the routes of a server, without a socket.
    ///
    /// `store` is `sqlite:PATH`, `postgres://…` or `memory:`. `settings` overrule the environment and the configuration
    /// file; each has the name of its environment variable in lower case, without `FILROUGE_`: `{"tenant": "acme"}`.
    #[staticmethod]
    fn embedded(
        py: Python<'_>,
        store: String,
        mut settings: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        settings.insert("store".to_owned(), store);
        let process = Process::current()?;
        let opened = py.detach(|| process.runtime().block_on(EmbeddedLedger::open(settings)));
        let ledger = opened.map_err(|failure| of_open(py, failure))?;
        Ok(Self::over(process, Origin::Embedded(ledger)))
    }

    /// Prepares a client for the server at `url`, such as `https://filrouge.example`. `timeout_s` limits the time of each
    /// request in seconds.
    #[staticmethod]
    fn remote(url: &str, timeout_s: f64) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(timeout_s);
        let timeout = timeout.map_err(|e| PyValueError::new_err(format!("timeout_s: {e}")))?;
        let process = Process::current()?;
        let remote = Remote::new(url, timeout).map_err(PyValueError::new_err)?;
        Ok(Self::over(process, Origin::Remote(remote)))
    }

    /// Sends a request, and returns the response. `target` is a path with a query, percent-encoded.
    fn request(
        &self,
        py: Python<'_>,
        method: &str,
        target: &str,
        headers: Headers,
        body: &[u8],
    ) -> PyResult<Response> {
        let calling = self.calling((method, target), &headers, body)?;
        Response::of(py, self.process.wait(py, calling)?)
    }

    /// As `request`, for an event loop: returns a future. A request whose future is cancelled may have taken effect.
    fn request_async<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        target: &str,
        headers: Headers,
        body: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        let calling = self.calling((method, target), &headers, body)?;
        future_of(py, &self.process, calling, Response::object)
    }

    /// Begins a request whose body is sent piece by piece.
    fn upload(
        slf: &Bound<'_, Self>,
        method: &str,
        target: &str,
        headers: Headers,
    ) -> PyResult<Upload> {
        let this = slf.get();
        let way = (this.process.clone(), this.origin()?);
        Upload::start(slf.clone().unbind(), way, (method, target), &headers)
    }

    /// Sends a request, and returns when the head of the response is there. The body is read piece by piece.
    fn download(
        slf: &Bound<'_, Self>,
        method: &str,
        target: &str,
        headers: Headers,
        body: &[u8],
    ) -> PyResult<Download> {
        let this = slf.get();
        let origin = this.origin()?;
        let request = request(method, target, &headers, self::body(body))?;
        let opening = origin.within_timeout(origin.open(request));
        let response = this.process.wait(slf.py(), opening)?.map_err(of_call)?;
        let way = (this.process.clone(), origin);
        Ok(Download::new(slf.clone().unbind(), way, response))
    }

    /// Closes the connection; an embedded ledger is closed in order. Later calls do nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check()?;
        self.close_origin(py);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The threads that own the store are in the parent process: here, nothing can be closed in order.
            std::mem::forget(self.take_origin());
            return;
        }
        // It does nothing once the interpreter shuts down. The store survives that, like the end of any process.
        let _ = Python::try_attach(|py| self.close_origin(py));
    }
}
