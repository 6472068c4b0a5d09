//! One call of a tool: the histories that it reads, what is known about its caller, and the thread on which it runs.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_search::Searcher;
use filrouge_sources::Library;
use filrouge_sources::library::own::{Caller, own_session};
use filrouge_types::{Clock, SystemClock, Timestamp};
use tokio::sync::Semaphore;

use crate::refusal::Refusal;

/// The maximum number of concurrent calls; others wait. Each call uses a thread, and keeps the data that it reads in
/// memory.
const AT_ONCE: usize = 16;

/// The histories that a call may read.
#[derive(Clone)]
pub struct Corpus {
    /// Lists and reads the histories.
    pub library: Library,
    /// Searches exactly the sessions in `library`.
    pub searcher: Searcher,
}

/// Determines which histories a call may read.
#[derive(Clone)]
pub enum Histories {
    /// The same histories for every call: those of the one person who runs this process.
    All(Box<Corpus>),
    /// The histories of the HTTP request's caller. The HTTP layer adds them to each request as
    /// [`OfCaller`](crate::OfCaller); a call without them is refused.
    OfCaller,
}

/// What is known about the caller's own session: the session in which the agent makes its calls. All members are `None`
/// unless the agent runs on this machine.
#[derive(Clone, Default)]
pub struct Own {
    /// The value of the environment variable `FILROUGE_SESSION_ID`.
    pub session_id: Option<String>,
    /// The agent's working folder, with symbolic links resolved.
    pub folder: Option<PathBuf>,
    /// The clock by which a session counts as recently changed. `None`: the caller's session is recognized only if its
    /// history shows that it is running this call.
    pub clock: Option<Arc<dyn Clock>>,
}

/// One call of a tool.
pub(crate) struct Call<'a> {
    pub(crate) library: &'a Library,
    pub(crate) searcher: &'a Searcher,
    pub(crate) own: &'a Own,
    /// The tool's name.
    pub(crate) tool: &'static str,
    /// Set when the caller has disconnected or cancelled.
    pub(crate) stopped: &'a Arc<AtomicBool>,
}

impl Call<'_> {
    /// The current time, from which `7d` (seven days ago) is counted.
    pub(crate) fn now(&self) -> Timestamp {
        let own = self.own.clock.as_ref();
        own.map_or_else(|| SystemClock.now(), |clock| clock.now())
    }

    /// Returns the id of the session `named`, or of the caller's own session if `named` is `None` or one of [`OWN`].
    ///
    /// # Errors
    /// [`Refusal`] with the code `own_session_unknown`.
    pub(crate) fn session(&self, named: Option<&str>) -> Result<String, Refusal> {
        // Whether a named session exists is not checked here: the query that follows reports an unknown session.
        if let Some(named) = named.filter(|id| !OWN.contains(id)) {
            return Ok(named.to_owned());
        }
        let caller = Caller {
            named: None,
            from_environment: self.own.session_id.as_deref(),
            folder: self.own.folder.as_deref(),
            tool: Some(self.tool),
            now: self.own.clock.as_ref().map(|clock| clock.now().as_millis()),
        };
        let own = own_session(self.library, &caller);
        own.map_err(|why| {
            Refusal::new(
                "own_session_unknown",
                why.to_string(),
                "give sessionID; list_sessions shows the last changed sessions first",
            )
        })
    }
}

/// The names that agents may give for their own session.
const OWN: [&str; 3] = ["", "own", "self"];

/// Runs calls on blocking threads, at most [`AT_ONCE`] at a time. Clones share the limit.
#[derive(Clone)]
pub(crate) struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Runs `work`, which blocks, and returns its result. `gone` completes when the client cancels the call: then this
    /// sets the flag that `work` receives and returns without waiting for `work`.
    ///
    /// # Errors
    /// [`Refusal`]: that of `work`, `cancelled`, or `internal` if `work` panics.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        gone: impl Future<Output = ()>,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop_flag = stopped.clone();
        let pool = self.0.clone();
        let done = async move {
            let permit = pool.acquire_owned().await.map_err(|_| ended())?;
            let work = move || {
                let answer = work(&stop_flag);
                drop(permit);
                answer
            };
            tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| ended())?
        };
        // Sets the flag also when this future is dropped.
        let _stop = StopOnDrop(stopped);
        tokio::select! {
            answer = done => answer,
            () = gone => Err(Refusal::new("cancelled", "the call was cancelled", "")),
        }
    }
}

/// Sets its flag when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ended() -> Refusal {
    Refusal::new(
        "internal",
        "the call ended without an answer",
        "this is a bug of filrouge; its log says more",
    )
}
