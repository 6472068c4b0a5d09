//! Requests and complete responses.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::invalid;
use crate::origin::{CallFailure, Target, WholeResponse};

/// The headers of a request or response, each with its value.
pub(crate) type Headers = Vec<(String, String)>;

/// The response to a request.
#[pyclass(frozen, module = "filrouge._native")]
pub(crate) struct Response {
    /// The status, such as 200.
    #[pyo3(get)]
    status: u16,
    /// The headers in their order; names are in lower case.
    #[pyo3(get)]
    headers: Headers,
    /// The body.
    #[pyo3(get)]
    body: Py<PyBytes>,
}

#[pymethods]
impl Response {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let bytes = self.body.bind(py).len()?;
        Ok(format!("<Response {}, {bytes} bytes>", self.status))
    }
}

impl Response {
    /// The outcome of a request in Python.
    ///
    /// # Errors
    /// `TransportError` and `ClosedError`.
    pub(crate) fn of(
        py: Python<'_>,
        outcome: Result<WholeResponse, CallFailure>,
    ) -> PyResult<Self> {
        let whole = outcome.map_err(crate::errors::of_call)?;
        Ok(Self {
            status: whole.status.as_u16(),
            headers: headers_of(&whole.headers),
            body: PyBytes::new(py, &whole.body).unbind(),
        })
    }

    /// As [`Self::of`], for futures.
    pub(crate) fn object(
        py: Python<'_>,
        outcome: Result<WholeResponse, CallFailure>,
    ) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self::of(py, outcome)?)?.into_any())
    }
}

/// The headers of a response. Bytes that are not UTF-8 are replaced.
pub(crate) fn headers_of(headers: &HeaderMap) -> Headers {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

/// Builds a request without its target's host.
///
/// # Errors
/// `ValueError` for a method, target or header that HTTP does not allow.
pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: Body,
) -> PyResult<Request<Body>> {
    let mut request = Request::new(body);
    *request.method_mut() =
        Method::from_bytes(method.as_bytes()).map_err(|e| invalid("method", e))?;
    let target: Target = target.parse().map_err(|e| invalid("target", e))?;
    *request.uri_mut() = target.into();
    for (name, value) in headers {
        let name_error = |e| invalid("the name of a header", e);
        let value_error = |e| invalid(&format!("the header {name}"), e);
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(name_error)?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(value_error)?;
        request.headers_mut().append(header, value);
    }
    Ok(request)
}

/// A complete body.
pub(crate) fn body(bytes: &[u8]) -> Body {
    Body::from(Bytes::copy_from_slice(bytes))
}
