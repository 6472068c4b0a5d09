//! Which sessions an index holds as they are now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_sources::{Header, Listing, Since, SourceError, Stamp};
use filrouge_store::text_index::{IndexedSession, SessionNo};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::look::Due;
use super::position::Position;
use super::rounds::{Rounds, group};
use super::source_index::{Known, SourceIndex, locked};
use super::{digest, reach};

/// What [`filrouge_store::text_index::SessionEntry::updated`] is of a session that was not read completely, as it was in
/// the state of its stamp: it stays to be looked through.
pub(super) const NOT_WHOLE: i64 = i64::MIN;

/// A session without a mark is asked for one again after this time.
const UNMARKED: Duration = Duration::from_secs(30);

/// What was found out about an index.
pub(super) struct Checked {
    pub(super) known: Arc<Known>,
    /// Sessions to be read, the last changed first.
    pub(super) todo: Vec<Todo>,
    /// Sessions that have not changed and have a cheaper mark now.
    pub(super) renewed: Vec<(IndexedSession, [u64; 2])>,
    /// Sessions of the index that are no longer there.
    pub(super) gone: Vec<Box<str>>,
    /// The mark of the whole history, if it is another than the index notes.
    pub(super) whole: Option<Stamp>,
    /// Whether the index notes it: then nothing at all has changed.
    pub(super) is_held: bool,
    /// [`Looked::closely`].
    pub(super) closely: bool,
    /// Whether the sessions were listed for it, behind the mark: only then it can be told what has gone, and noted that all
    /// is known.
    pub(super) is_now: bool,
    /// [`Looked::owed`].
    pub(super) owed: Vec<usize>,
    /// What the index notes of close looks.
    pub(super) noted: Rounds,
}

/// A session to be read.
pub(super) struct Todo {
    pub(super) header: Arc<Header>,
    /// Its number, if it is there.
    pub(super) no: Option<SessionNo>,
    /// Whether the index holds all that it was in some state.
    pub(super) is_whole: bool,
}

/// What is there of a session.
enum Held<'a> {
    As(&'a IndexedSession, Since),
    Not(Option<SessionNo>),
}

/// The sessions that were found, with what is there of each.
type Found<'f, 'a> = [(&'f Arc<Header>, Option<&'a IndexedSession>)];

impl SourceIndex {
    /// Compares the index with the source, by a listing that was made less than `max_age` ago; of when that is.
    pub(super) fn check(&self, due: Due, max_age: Duration) -> Result<(Instant, Checked), Failure> {
        let now = self.clock.now();
        // Before everything else: what changes meanwhile has another mark then.
        let asked = Instant::now();
        let whole = self.source.whole();
        let listed = self.source.list_within(max_age);
        let (began, listing) = listed.map_err(|why| unlisted(&why))?;
        let is_now = began >= asked;
        let as_of = earlier(now, began.elapsed());
        let position = self.index.position()?;
        let noted = Position::read(position.as_deref());
        locked(&self.rounds).merge(&noted.rounds, now);
        let sessions = self.index.sessions(&reach())?;
        let mut there: HashMap<&str, &IndexedSession> =
            sessions.iter().map(|s| (&*s.entry.key, s)).collect();
        let found: Vec<_> = listing
            .headers
            .iter()
            .map(|header| (header, there.remove(&*header.id)))
            .collect();
        let is_held = whole.is_some_and(|whole| noted.holds(whole));
        let (held, owed, closely) = match is_held {
            true => {
                locked(&self.rounds).found_all(now);
                let held = found.iter().map(|(_, own)| same(*own)).collect();
                (held, Vec::new(), true)
            }
            false => self.compared(&found, due, now)?,
        };
        let mut checked = Checked {
            known: Arc::new(Known {
                fresh: HashMap::new(),
                stale: Vec::new(),
                pending: 0,
                as_of,
                failed: None,
            }),
            todo: Vec::new(),
            renewed: Vec::new(),
            gone: there.into_keys().map(Into::into).collect(),
            whole: whole.filter(|_| !is_held),
            is_held,
            closely,
            is_now,
            owed,
            noted: noted.rounds,
        };
        checked.sort_out(&listing, held, as_of, |id| self.is_unmarked(id));
        Ok((began, checked))
    }

    /// What has become of each session, [`Looked::owed`] and [`Looked::closely`].
    fn compared<'a>(
        &self,
        found: &Found<'_, 'a>,
        due: Due,
        now: Timestamp,
    ) -> Result<(Vec<Held<'a>>, Vec<usize>, bool), Failure> {
        let known: Vec<(&str, Stamp)> = found
            .iter()
            .filter_map(|(header, own)| {
                let own = own.filter(|own| own.entry.stamp != [0, 0])?;
                Some((&*header.id, digest::unseal(own.entry.stamp, header)))
            })
            .collect();
        let looked = self.look(&known, due, now)?;
        let mut since = looked.since.into_iter();
        let held = |(_, own): &(&Arc<Header>, Option<&'a IndexedSession>)| match own {
            Some(own) if own.entry.stamp != [0, 0] => {
                Held::As(own, since.next().unwrap_or(Since::Changed))
            }
            own => Held::Not(own.map(|own| own.no)),
        };
        let held = found.iter().map(held).collect();
        Ok((held, looked.owed, looked.closely))
    }

    pub(super) fn is_unmarked(&self, id: &str) -> bool {
        let unmarked = locked(&self.unmarked);
        unmarked.get(id).is_some_and(|at| at.elapsed() < UNMARKED)
    }
}

/// A session of a history in which nothing has changed.
fn same(own: Option<&IndexedSession>) -> Held<'_> {
    match own {
        Some(own) if own.entry.stamp != [0, 0] => Held::As(own, Since::Same),
        own => Held::Not(own.map(|own| own.no)),
    }
}

impl Checked {
    /// Whether the mark of the whole is to be noted, once everything is known to be as the index has it.
    pub(super) fn is_whole_to_note(&self) -> bool {
        self.whole.is_some() && self.todo.is_empty()
    }

    /// Whether everything there is, is known: then the mark of the whole stands for it.
    pub(super) fn is_all_known(&self) -> bool {
        self.closely && self.todo.is_empty()
    }

    fn sort_out(
        &mut self,
        listing: &Listing,
        held: Vec<Held<'_>>,
        as_of: filrouge_types::Timestamp,
        is_unmarked: impl Fn(&str) -> bool,
    ) {
        let mut fresh = HashMap::with_capacity(held.len());
        let mut stale = Vec::new();
        for (header, held) in listing.headers.iter().zip(held) {
            let (no, is_whole) = match held {
                Held::As(own, Since::Same | Since::SameAs(_)) => {
                    if let Held::As(_, Since::SameAs(mark)) = held {
                        self.renewed.push((own.clone(), digest::seal(mark, header)));
                    }
                    match own.entry.updated {
                        NOT_WHOLE => stale.push(header.id.clone()),
                        _ => drop(fresh.insert(header.id.clone(), own.no)),
                    }
                    continue;
                }
                Held::As(own, Since::Changed) => (Some(own.no), own.entry.updated != NOT_WHOLE),
                Held::Not(no) => (no, false),
            };
            stale.push(header.id.clone());
            if is_unmarked(&header.id) {
                // It is not brought in, and has changed all the same.
                self.owed.retain(|owed| *owed != group(&header.id));
                continue;
            }
            let header = header.clone();
            self.todo.push(Todo {
                header,
                no,
                is_whole,
            });
        }
        // What was worked on last is asked for first.
        self.todo
            .sort_by_key(|todo| std::cmp::Reverse(todo.header.updated));
        self.known = Arc::new(Known {
            fresh,
            stale,
            pending: self.todo.len(),
            as_of,
            failed: None,
        });
    }
}

/// That much before a moment.
fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age)).unwrap_or(now)
}

/// A history that cannot be listed.
pub(super) fn unlisted(why: &SourceError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, why.to_string()).with_hint(why.hint())
}
