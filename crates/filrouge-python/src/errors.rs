//! The exceptions of this module. Responses of the ledger are no exceptions here, whatever their status.

use filrouge::embedded::OpenError as OpenFailure;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::origin::CallFailure;

create_exception!(
    filrouge._native,
    TransportError,
    PyException,
    "The connection was refused, reset or timed out: nothing is known about the outcome of the request."
);
create_exception!(
    filrouge._native,
    OpenError,
    PyException,
    "The ledger cannot be opened. `code`, `detail` and `hint` say why, and what to do."
);
create_exception!(
    filrouge._native,
    ForkError,
    PyRuntimeError,
    "The connection was opened before a fork: open one in the child process."
);
create_exception!(
    filrouge._native,
    ClosedError,
    PyRuntimeError,
    "The connection, upload or download was closed."
);

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("TransportError", py.get_type::<TransportError>())?;
    module.add("OpenError", py.get_type::<OpenError>())?;
    module.add("ForkError", py.get_type::<ForkError>())?;
    module.add("ClosedError", py.get_type::<ClosedError>())
}

/// The exception for something that was closed: `what`, such as "the connection".
pub(crate) fn closed(what: &str) -> PyErr {
    ClosedError::new_err(format!("{what} is closed"))
}

pub(crate) fn of_call(failure: CallFailure) -> PyErr {
    match failure {
        CallFailure::Closed => closed("the connection"),
        CallFailure::Transport(detail) => TransportError::new_err(detail),
    }
}

/// The exception for an argument that is no part of an HTTP request.
pub(crate) fn invalid(what: &str, error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{what}: {error}"))
}

/// The exception for a ledger that cannot be opened.
pub(crate) fn of_open(py: Python<'_>, failure: OpenFailure) -> PyErr {
    let text = match &failure.hint {
        Some(hint) => format!("{} (hint: {hint})", failure.detail),
        None => failure.detail.clone(),
    };
    let error = OpenError::new_err(text);
    let value = error.value(py);
    let attributes = value
        .setattr("code", failure.code)
        .and_then(|()| value.setattr("detail", failure.detail))
        .and_then(|()| value.setattr("hint", failure.hint));
    match attributes {
        Ok(()) => error,
        Err(other) => other,
    }
}
