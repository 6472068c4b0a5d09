//! What a call is answered from, and where that is done.

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

/// So many calls are answered at once; others wait. Each may hold a thread and what it reads.
const AT_ONCE: usize = 16;

/// The histories that calls are answered from.
#[derive(Clone)]
pub struct Corpus {
    /// To list and to read them.
    pub library: Library,
    /// To search them: all that is in the library, and no more.
    pub searcher: Searcher,
}

/// Where the histories of a call come from.
#[derive(Clone)]
pub enum Histories {
    /// The same for every call: one person's own.
    All(Box<Corpus>),
    /// Those of the request's caller, [`OfCaller`](crate::OfCaller); a call without one is refused.
    OfCaller,
}

/// What is known of the session an agent calls from, if it runs on this machine.
#[derive(Clone, Default)]
pub struct Own {
    /// `FILROUGE_SESSION_ID`.
    pub session_id: Option<String>,
    /// The folder it works in, canonical.
    pub folder: Option<PathBuf>,
    /// Tells which sessions are going on; without one a session is the caller's only while it calls.
    pub clock: Option<Arc<dyn Clock>>,
}

/// One call of a tool.
pub(crate) struct Call<'a> {
    pub(crate) library: &'a Library,
    pub(crate) searcher: &'a Searcher,
    pub(crate) own: &'a Own,
    /// The tool's name.
    pub(crate) tool: &'static str,
    /// Whether nobody waits for the answer any more.
    pub(crate) stopped: &'a Arc<AtomicBool>,
}

impl Call<'_> {
    /// The moment that `7d` is counted from.
    pub(crate) fn now(&self) -> Timestamp {
        let own = self.own.clock.as_ref();
        own.map_or_else(|| SystemClock.now(), |clock| clock.now())
    }

    /// The session that is meant: the named one, or the caller's own.
    pub(crate) fn session(&self, named: Option<&str>) -> Result<String, Refusal> {
        // One that is named is taken at its word: whether it is there tells whoever looks for it.
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

/// Words that mean the caller's own session.
const OWN: [&str; 3] = ["", "own", "self"];

/// Answers calls away from the threads that talk, so many at once.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Semaphore>);

impl Desk {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Does `work`, which blocks. When `gone` is done first, `work` is told to stop and nobody waits for it.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        gone: impl Future<Output = ()>,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let stopped = Arc::new(AtomicBool::new(false));
        let told = stopped.clone();
        let place = self.0.clone();
        let done = async move {
            let place = place.acquire_owned().await.map_err(|_| ended())?;
            let work = move || {
                let answer = work(&told);
                drop(place);
                answer
            };
            tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| ended())?
        };
        // Also when this future itself is dropped.
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
        "this is a fault of filrouge; its log says more",
    )
}
