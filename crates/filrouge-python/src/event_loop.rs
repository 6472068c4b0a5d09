//! Futures of asyncio. Work runs on the Tokio runtime; one thread takes the results to the event loops, so that no thread
//! of the runtime waits for the interpreter's lock.

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::task::AbortHandle;

use crate::process::Process;

/// Makes the Python value of a result, or the exception.
type MakeValue = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A result on its way to the event loop that awaits it.
struct Completed {
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
    make_value: MakeValue,
}

/// Takes results to event loops.
pub(crate) struct Completions(Sender<Completed>);

impl Completions {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("filrouge-asyncio".to_owned())
            .spawn(move || deliver(&receiver))?;
        Ok(Self(sender))
    }
}

/// Delivers results until the process ends. Several that are ready take the interpreter's lock once.
fn deliver(receiver: &Receiver<Completed>) {
    while let Ok(first) = receiver.recv() {
        let ready = std::iter::once(first).chain(receiver.try_iter());
        let ready: Vec<Completed> = ready.collect();
        // It does nothing once the interpreter shuts down: nobody awaits the futures then.
        let _ = Python::try_attach(|py| {
            ready
                .into_iter()
                .for_each(|completed| completed.hand_over(py));
        });
    }
}

impl Completed {
    fn hand_over(self, py: Python<'_>) {
        let event_loop = self.event_loop.clone_ref(py);
        let completion = Completion {
            future: self.future,
            make_value: Mutex::new(Some(self.make_value)),
        };
        let method = pyo3::intern!(py, "call_soon_threadsafe");
        // It fails if the loop was closed: nobody awaits the future any more.
        let _ = event_loop.bind(py).call_method1(method, (completion,));
    }
}

/// Completes a future, within its event loop.
#[pyclass(frozen)]
struct Completion {
    future: Py<PyAny>,
    make_value: Mutex<Option<MakeValue>>,
}

#[pymethods]
impl Completion {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let mut make_value = self
            .make_value
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(make_value) = make_value.take() else {
            return Ok(());
        };
        let future = self.future.bind(py);
        if future
            .call_method0(pyo3::intern!(py, "done"))?
            .is_truthy()?
        {
            return Ok(());
        }
        match make_value(py) {
            Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,))?,
            Err(error) => {
                let method = pyo3::intern!(py, "set_exception");
                future.call_method1(method, (error.into_value(py),))?
            }
        };
        Ok(())
    }
}

/// Ends the work of a future that was cancelled.
#[pyclass(frozen)]
struct EndCancelled(AbortHandle);

#[pymethods]
impl EndCancelled {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future
            .call_method0(pyo3::intern!(future.py(), "cancelled"))?
            .is_truthy()?
        {
            self.0.abort();
        }
        Ok(())
    }
}

/// Starts `work`, and returns a future of the running event loop. `make_value` turns the result into a Python value.
///
/// # Errors
/// `RuntimeError` if no event loop runs in this thread.
pub(crate) fn future_of<'py, T: Send + 'static>(
    py: Python<'py>,
    process: &Process,
    work: impl Future<Output = T> + Send + 'static,
    make_value: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running_loop = RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?;
    let event_loop = running_loop.call0()?;
    let future = event_loop.call_method0(pyo3::intern!(py, "create_future"))?;
    let (completions, event_loop) = (process.completions().0.clone(), event_loop.unbind());
    let awaited = future.clone().unbind();
    let task = process.runtime().spawn(async move {
        let result = AssertUnwindSafe(work).catch_unwind().await;
        let completed = Completed {
            event_loop,
            future: awaited,
            make_value: Box::new(move |py| match result {
                Ok(value) => make_value(py, value),
                Err(_) => Err(PyRuntimeError::new_err("filrouge is at fault: a panic")),
            }),
        };
        // The thread that receives it ends with the process.
        let _ = completions.send(completed);
    });
    let end_cancelled = EndCancelled(task.abort_handle());
    future.call_method1(pyo3::intern!(py, "add_done_callback"), (end_cancelled,))?;
    Ok(future)
}
