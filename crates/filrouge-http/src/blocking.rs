//! Work on threads that may block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_types::{ErrorCode, Failure};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// Runs `work` on a thread that may block. Its argument becomes true when the request is dropped, for example because
/// the client has disconnected: `work` should then end soon. What `work` owns, such as a permit, is kept until it ends.
///
/// # Errors
/// As [`join_task`].
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, Failure> {
    let stop_on_drop = StopOnDrop(Arc::default());
    let stopped = stop_on_drop.0.clone();
    join_task(spawn_blocking(move || work(stopped))).await
}

/// Sets its flag when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for a spawned task, and returns its result. A panic of the task continues in this request.
///
/// # Errors
/// `internal` when the task was cancelled.
pub async fn join_task<T>(task: JoinHandle<T>) -> Result<T, Failure> {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(value) => Ok(value),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(cancelled)) => Err(Failure::new(ErrorCode::Internal, cancelled.to_string())),
    }
}
