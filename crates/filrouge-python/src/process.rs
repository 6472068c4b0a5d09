//! The Tokio runtime of this process. A forked child has none of its parent's threads, so it gets a runtime of its own,
//! and what was opened before the fork is refused there.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::errors::ForkError;
use crate::event_loop::Completions;

/// The number of the runtime's threads. Requests of Python threads run on those threads; the runtime has sockets,
/// timers, and requests of event loops.
const WORKERS: usize = 2;
/// How often a thread that waits runs Python's handlers of signals, such as that of Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(200);

/// The runtime of the process that opened it.
pub(crate) struct Process {
    id: u32,
    runtime: Runtime,
    completions: Completions,
}

/// The process that last opened a connection. It is never dropped: dropping a runtime waits for its threads.
static CURRENT: Mutex<Option<Arc<Process>>> = Mutex::new(None);

impl Process {
    /// This process; starts its runtime if it has none.
    ///
    /// # Errors
    /// `OSError` if the system cannot create threads.
    pub(crate) fn current() -> PyResult<Arc<Self>> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = current.as_ref().filter(|process| process.is_this()) {
            return Ok(process.clone());
        }
        let no_threads = |error: std::io::Error| PyOSError::new_err(error.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("filrouge")
            .enable_all()
            .build()
            .map_err(no_threads)?;
        let process = Arc::new(Self {
            id: std::process::id(),
            runtime,
            completions: Completions::start().map_err(no_threads)?,
        });
        // The threads of the parent's runtime do not exist here, so that waiting for them would never end.
        std::mem::forget(current.replace(process.clone()));
        Ok(process)
    }

    /// Whether this is the process that runs.
    pub(crate) fn is_this(&self) -> bool {
        self.id == std::process::id()
    }

    /// Refuses to use a connection after a fork.
    ///
    /// # Errors
    /// `ForkError`.
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.is_this() {
            return Ok(());
        }
        Err(ForkError::new_err(format!(
            "the connection was opened in process {}, before a fork; open one in this process",
            self.id
        )))
    }

    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) const fn completions(&self) -> &Completions {
        &self.completions
    }

    /// Runs `work` on this thread, without the interpreter's lock.
    ///
    /// # Errors
    /// The exception of a signal handler, such as `KeyboardInterrupt`; `work` is dropped then.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = T> + Send,
    ) -> PyResult<T> {
        let mut work = pin!(work);
        loop {
            let waiting = || {
                self.runtime
                    .block_on(async { timeout(SIGNALS_EVERY, work.as_mut()).await })
            };
            match py.detach(waiting) {
                Ok(value) => return Ok(value),
                Err(_) => py.check_signals()?,
            }
        }
    }
}
