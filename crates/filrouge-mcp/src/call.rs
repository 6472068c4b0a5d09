//! One call of a tool: the histories that it reads, what is known about its caller, and the thread on which it runs.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_search::Searcher;
use filrouge_sources::Library;
use filrouge_sources::library::own::{Caller, own_session};
use filrouge_store::{FairSlots, SlotBounds, WorkSize};
use filrouge_types::{Clock, SystemClock, Timestamp};

use crate::refusal::{Refusal, Result};

/// The concurrent calls of all callers and of one caller; others wait, and callers take turns. Each call uses a thread,
/// and keeps the data that it reads in memory.
const CONCURRENT_CALLS: SlotBounds = SlotBounds {
    total: 16,
    share: 8,
    reserve: 0,
};

/// The histories that a call may read.
#[derive(Clone)]
pub struct Corpus {
    /// Lists and reads the histories.
    pub library: Library,
    /// Searches exactly the sessions in `library`.
    pub searcher: Searcher,
    /// Prints exported sessions as PDF; `None` where nothing can.
    pub print_pdf: Option<PrintPdf>,
}

/// Prints an HTML document as PDF; blocks. The error says what is missing.
pub type PrintPdf = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// Determines which histories a call may read.
#[derive(Clone)]
pub enum Histories {
    /// The same histories for every call: those of the one person who runs this process.
    Shared(Box<Corpus>),
    /// The histories of the HTTP request's caller. The HTTP layer adds them to each request as
    /// [`CallerCorpus`](crate::CallerCorpus); a call without them is refused.
    PerCaller,
}

/// What is known about the caller's own session: the session in which the agent makes its calls. All members are `None`
/// unless the agent runs on this machine.
#[derive(Clone, Default)]
pub struct CallerSession {
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
    pub(crate) print_pdf: Option<&'a PrintPdf>,
    pub(crate) caller_session: &'a CallerSession,
    /// The tool's name.
    pub(crate) tool: &'static str,
    /// Set when the caller has disconnected or cancelled.
    pub(crate) stopped: &'a Arc<AtomicBool>,
}

impl Call<'_> {
    /// Returns the current time, from which `7d` (seven days ago) is counted.
    pub(crate) fn now(&self) -> Timestamp {
        let clock = self.caller_session.clock.as_ref();
        clock.map_or_else(|| SystemClock.now(), |clock| clock.now())
    }

    /// Returns the id of the caller's own session; `None` if it is unknown or not recorded.
    pub(crate) fn known_own_session(&self) -> Option<String> {
        let own = self.resolve_session(None).ok()?;
        self.library.catalog().get(&own).ok()?;
        Some(own)
    }

    /// Returns the id of the session `requested`, or of the caller's own session if it is `None` or one of
    /// [`OWN_SESSION_NAMES`].
    ///
    /// # Errors
    /// [`Refusal`] with the code `own_session_unknown`.
    pub(crate) fn resolve_session(&self, requested: Option<&str>) -> Result<String> {
        // This does not check that the session exists: the query that follows reports an unknown session.
        if let Some(requested) = requested.filter(|id| !OWN_SESSION_NAMES.contains(id)) {
            return Ok(requested.to_owned());
        }
        let clock = self.caller_session.clock.as_ref();
        let caller = Caller {
            named: None,
            from_environment: self.caller_session.session_id.as_deref(),
            folder: self.caller_session.folder.as_deref(),
            tool: Some(self.tool),
            now: clock.map(|clock| clock.now().as_millis()),
        };
        let session_id = own_session(self.library, &caller);
        session_id.map_err(|why| {
            Refusal::new(
                "own_session_unknown",
                why.to_string(),
                "give sessionID; list_sessions shows the last changed sessions first",
            )
        })
    }
}

/// The names that agents may give for their own session.
const OWN_SESSION_NAMES: [&str; 3] = ["", "own", "self"];

/// Runs calls on blocking threads, at most [`CONCURRENT_CALLS`] at a time. Clones share the limit.
#[derive(Clone)]
pub(crate) struct BlockingPool(FairSlots);

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self(FairSlots::new(CONCURRENT_CALLS))
    }

    /// Runs `work` of `caller`, a key and its end user, and returns its result; `work` blocks. `cancelled` completes when the client cancels the call.
    /// Then this sets the flag that `work` receives, and returns without waiting for `work`.
    ///
    /// # Errors
    /// [`Refusal`]: that of `work`, `cancelled`, or `internal` if `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: (String, String),
        cancelled: impl Future<Output = ()>,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stop_flag = Arc::new(AtomicBool::new(false));
        let work_flag = stop_flag.clone();
        let pool = self.0.clone();
        let result = async move {
            let slot = pool.acquire(&caller, WorkSize::Small).await;
            let slot = slot.ok_or_else(internal_error)?;
            let work = move || {
                let answer = work(&work_flag);
                drop(slot);
                answer
            };
            tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| internal_error())?
        };
        // Sets the flag also when this future is dropped.
        let _stop = StopOnDrop(stop_flag);
        tokio::select! {
            answer = result => answer,
            () = cancelled => Err(Refusal::new("cancelled", "the call was cancelled", "")),
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

fn internal_error() -> Refusal {
    Refusal::new(
        "internal",
        "the call ended without an answer",
        "this is a bug of filrouge; its log says more",
    )
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_caller_with_many_calls_delays_no_other() {
        let (pool, open) = (BlockingPool::new(), Arc::new(AtomicBool::new(false)));
        let of_ann = (0..3 * CONCURRENT_CALLS.total).map(|_| {
            let (pool, open) = (pool.clone(), open.clone());
            let wait = move |_: &Arc<AtomicBool>| {
                while !open.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            let ann = ("desk".to_owned(), "ann".to_owned());
            tokio::spawn(async move { pool.run(ann, pending(), wait).await })
        });
        let of_ann: Vec<_> = of_ann.collect();
        while pool.0.held() < CONCURRENT_CALLS.share {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let bob = ("desk".to_owned(), "bob".to_owned());
        let of_bob = pool.run(bob, pending(), |_| Ok(7));
        let of_bob = tokio::time::timeout(Duration::from_secs(30), of_bob).await;
        open.store(true, Ordering::Relaxed);
        assert!(matches!(of_bob, Ok(Ok(7))));
        for call in of_ann {
            assert!(call.await.unwrap().is_ok());
        }
    }
}
