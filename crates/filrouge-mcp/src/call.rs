//! A call's histories, and the threads on which calls run.

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

/// The maximum number of concurrent calls; others wait. Each may hold a thread and the data that it reads.
const AT_ONCE: usize = 16;

/// The histories for a call.
#[derive(Clone)]
pub struct Corpus {
    /// Lists and reads them.
    pub library: Library,
    /// Searches them: exactly the sessions in the library.
    pub searcher: Searcher,
}

/// The source of a call's histories.
#[derive(Clone)]
pub enum Histories {
    /// The same for every call: one person's histories.
    All(Box<Corpus>),
    /// Those of the request's caller, [`OfCaller`](crate::OfCaller); a call without one is refused.
    OfCaller,
}

/// The known facts about the session from which an agent calls, if it runs on this machine.
#[derive(Clone, Default)]
pub struct Own {
    /// `FILROUGE_SESSION_ID`.
    pub session_id: Option<String>,
    /// The agent's working folder, canonical.
    pub folder: Option<PathBuf>,
    /// Determines which sessions are active; without it, the caller's session is recognized only while a call of it
    /// runs.
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
    /// The time from which `7d` is counted.
    pub(crate) fn now(&self) -> Timestamp {
        let own = self.own.clock.as_ref();
        own.map_or_else(|| SystemClock.now(), |clock| clock.now())
    }

    /// The id of the named session, or of the caller's own.
    pub(crate) fn session(&self, named: Option<&str>) -> Result<String, Refusal> {
        // A named session is not checked here: a later lookup reports an unknown one.
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

/// Names for the caller's own session.
const OWN: [&str; 3] = ["", "own", "self"];

/// Runs calls on blocking threads, a limited number at once.
#[derive(Clone)]
pub(crate) struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Runs `work`, which blocks. If `gone` completes first, `work` is asked to stop and no longer awaited.
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
        // Stops the work also when this future is dropped.
        let _stop = StopOnDrop(stopped);
        tokio::select! {
            answer = done => answer,
            () = gone => Err(Refusal::new("cancelled", "the call was cancelled", "")),
        }
    }
}

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
