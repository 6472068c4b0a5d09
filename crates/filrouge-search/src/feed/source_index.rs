//! One source and its index.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filrouge_sources::Source;
use filrouge_store::text_index::{SessionNo, TextIndex};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp};

use super::lock::Feeding;
use super::look::Due;
use super::rounds::Rounds;
use super::step::Step;
use super::validate::{Checked, Todo};

/// Of so many sessions news are brought in before an answer.
const LITTLE: usize = 2;

/// What is known of an index at one moment.
#[derive(Debug, Clone)]
pub struct Known {
    /// The sessions that it holds as they are, with their numbers in it.
    pub fresh: HashMap<Box<str>, SessionNo>,
    /// The others that there are: what they hold is to be looked through.
    pub stale: Vec<Box<str>>,
    /// How many of the stale ones can be brought in; the rest cannot be read, or not completely.
    pub pending: usize,
    /// Of when this is.
    pub as_of: Timestamp,
    /// Why nothing is known: the index, or the source, does not answer.
    pub failed: Option<Failure>,
}

/// A source and the index that is kept in step with it.
pub struct SourceIndex {
    pub(super) source: Arc<dyn Source>,
    pub(super) index: Arc<dyn TextIndex>,
    pub(super) lock: Option<PathBuf>,
    pub(super) clock: Arc<dyn Clock>,
    checked: Mutex<Option<(Instant, Arc<Checked>)>>,
    /// When its sessions were last looked at closely, as far as is known here.
    pub(super) rounds: Mutex<Rounds>,
    /// Sessions without a mark, and when they were last asked for one.
    pub(super) unmarked: Mutex<HashMap<Box<str>, Instant>>,
    asked: Mutex<Option<Instant>>,
    errors: AtomicU64,
    told: Mutex<HashSet<ErrorCode>>,
}

impl SourceIndex {
    /// An index that is `source`'s alone. Of all processes that name the same `lock`, a file beside the index, one feeds it
    /// at a time.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, index: Arc<dyn TextIndex>, lock: Option<PathBuf>) -> Self {
        Self {
            source,
            index,
            lock,
            clock: Arc::new(SystemClock),
            checked: Mutex::default(),
            rounds: Mutex::new(Rounds::NONE),
            unmarked: Mutex::default(),
            asked: Mutex::default(),
            errors: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// This one with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &Arc<dyn TextIndex> {
        &self.index
    }

    /// What the index is good for now. What was found out less than `max_age` ago is told again. An index or a source that
    /// fails holds nothing. Of a source that [`Source::overlooks`] what was written in place may be known some minutes late
    /// (docs/search.md).
    #[must_use]
    pub fn known(&self, max_age: Duration) -> Arc<Known> {
        *locked(&self.asked) = Some(Instant::now());
        self.told_of(self.checked(max_age))
    }

    /// As [`SourceIndex::known`]; what little has changed in sessions that the index holds is brought in before, which takes
    /// less than to look it through. Not while another process feeds the index, and not when that fails: then it is told as
    /// it is.
    #[must_use]
    pub fn known_with_news(&self, max_age: Duration) -> Arc<Known> {
        *locked(&self.asked) = Some(Instant::now());
        let checked = self.checked(max_age);
        let is_little = |checked: &Arc<Checked>| {
            let todo = &checked.todo;
            let held = |one: &Todo| one.no.is_some() && one.is_whole;
            (1..=LITTLE).contains(&todo.len()) && todo.iter().all(held)
        };
        // What fails was told, and the index answers for the others.
        let is_news = checked.as_ref().is_ok_and(is_little)
            && matches!(self.step(&|| false), Ok(Step::Done(_)));
        match is_news {
            true => self.told_of(self.checked(max_age)),
            false => self.told_of(checked),
        }
    }

    /// What the index is good for now, by a close look at everything.
    #[must_use]
    pub fn known_closely(&self) -> Arc<Known> {
        self.told_of(self.look_again(Due::All))
    }

    fn told_of(&self, checked: Result<Arc<Checked>, Failure>) -> Arc<Known> {
        match checked {
            Ok(checked) => checked.known.clone(),
            Err(why) => {
                self.note(&why);
                Arc::new(self.nothing(why))
            }
        }
    }

    /// Empties the index, unless another process feeds it; whether it was emptied.
    ///
    /// # Errors
    /// Of the index.
    pub fn clear(&self) -> Result<bool, Failure> {
        let Some(_feeding) = self.feeding()? else {
            return Ok(false);
        };
        let cleared = self.index.clear();
        *locked(&self.rounds) = Rounds::NONE;
        self.changed();
        cleared.map(|()| true)
    }

    /// A small step of what keeps questions fast, unless another process feeds the index; whether there is more to do.
    ///
    /// # Errors
    /// Of the index.
    pub fn tidy(&self) -> Result<bool, Failure> {
        match self.feeding()? {
            Some(_feeding) => self.index.tidy(),
            None => Ok(false),
        }
    }

    /// When it was last asked for what it knows.
    #[must_use]
    pub fn asked(&self) -> Option<Instant> {
        *locked(&self.asked)
    }

    /// How often the index has failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Counts a failure of the index; the first of its kind is told.
    pub fn note(&self, why: &Failure) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if locked(&self.told).insert(why.code) {
            tracing::warn!(
                source = self.source.name(),
                generation = self.source.generation(),
                %why,
                "an index cannot be used; its history is searched without it"
            );
        }
    }

    /// All that there is, not indexed.
    fn nothing(&self, why: Failure) -> Known {
        let as_of = self.clock.now();
        let listing = self.source.list().unwrap_or_default();
        let stale: Vec<_> = listing.headers.iter().map(|h| h.id.clone()).collect();
        Known {
            fresh: HashMap::new(),
            pending: stale.len(),
            stale,
            as_of,
            failed: Some(why),
        }
    }

    /// What was found out at most `max_age` ago.
    pub(super) fn checked(&self, max_age: Duration) -> Result<Arc<Checked>, Failure> {
        // Held meanwhile: of several who ask at once one looks.
        let mut last = locked(&self.checked);
        if let Some((at, checked)) = last.as_ref()
            && at.elapsed() < max_age
        {
            return Ok(checked.clone());
        }
        self.check_into(&mut last, Due::Answer, max_age)
    }

    /// What was found out at most `max_age` ago, without another look.
    pub(super) fn last_within(&self, max_age: Duration) -> Option<Arc<Checked>> {
        let last = locked(&self.checked);
        let (_, checked) = last.as_ref().filter(|(at, _)| at.elapsed() < max_age)?;
        Some(checked.clone())
    }

    /// What is so now.
    pub(super) fn look_again(&self, due: Due) -> Result<Arc<Checked>, Failure> {
        self.check_into(&mut locked(&self.checked), due, Duration::ZERO)
    }

    fn check_into(
        &self,
        last: &mut Option<(Instant, Arc<Checked>)>,
        due: Due,
        max_age: Duration,
    ) -> Result<Arc<Checked>, Failure> {
        *last = None;
        let (began, checked) = self.check(due, max_age)?;
        let checked = Arc::new(checked);
        *last = Some((began, checked.clone()));
        Ok(checked)
    }

    /// What was found out last, if it still holds.
    pub(super) fn last(&self) -> Option<Arc<Checked>> {
        let last = locked(&self.checked);
        last.as_ref().map(|(_, checked)| checked.clone())
    }

    /// What was found out no longer holds.
    pub(super) fn changed(&self) {
        *locked(&self.checked) = None;
    }

    /// The right to feed it; `None` while another process does.
    pub(super) fn feeding(&self) -> Result<Option<Feeding>, Failure> {
        let Some(path) = &self.lock else {
            return Ok(Some(Feeding::alone()));
        };
        Feeding::begin(path).map_err(|why| {
            let what = format!("{}: {why}", path.display());
            Failure::new(ErrorCode::StoreUnavailable, what)
        })
    }
}

impl std::fmt::Debug for SourceIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceIndex")
            .field("source", &self.source.name())
            .field("generation", &self.source.generation())
            .finish_non_exhaustive()
    }
}

/// What is in it is right whatever happened to its last user.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
