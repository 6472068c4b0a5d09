//! Which sessions hold what is looked for, and how often.
//!
//! Words may stand in different parts of a message. A scan brings parts that hold some of them; what each message
//! holds is put together here. Where more of a message must be known (its time, its agent, what it must not hold), a
//! scan only tells which sessions are to be read. Nothing is parsed by the scan that is read again as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::filter::Filter;
use crate::find::rank::Evidence;
use crate::find::weigh::{Seen, Words, weigh};
use crate::literals::{Run, shortest};
use crate::matcher::Matcher;
use crate::sieve::Sieve;
use crate::spoken::{self, Spoken};
use filrouge_sources::library::Entry;
use filrouge_sources::{Conversation, Found, Header, Library, Scan, Source};

/// How many sessions are read through the cache: more would only drive out what is in it.
const CACHED: usize = 32;
/// How many threads read sessions.
const READERS: usize = 2;

/// What is to be found, and where.
pub(crate) struct Search<'a> {
    pub(crate) library: &'a Library,
    pub(crate) matcher: &'a Matcher<'a>,
    pub(crate) words: &'a Words,
    pub(crate) filter: &'a Filter<'a>,
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

/// What was found.
#[derive(Default)]
pub(crate) struct Collected {
    /// What speaks for each session, by its place among the entries.
    pub(crate) matches: HashMap<usize, Evidence>,
    /// The sessions that could not be read, or not completely, by their places among the entries.
    unread: HashSet<usize>,
    /// What could not be looked through, in words.
    pub(crate) notices: Vec<String>,
}

/// How the parts are looked through.
enum Plan {
    /// What messages hold is put together from their parts.
    Parts(Sieve),
    /// Sessions that hold the terms of `bits` somewhere are read.
    Sessions(Sieve, u64),
    /// All are read.
    Everything,
}

/// One look through all sources.
struct Pass<'a> {
    sieve: &'a Sieve,
    roles: bool,
    /// Whether a session, by its place, is still of interest.
    still: &'a (dyn Fn(usize) -> bool + Sync),
    found: &'a (dyn Fn(usize, &Found<'_>) + Sync),
}

impl Search<'_> {
    pub(crate) fn collect(&self, entries: &[&Entry]) -> Collected {
        let mut collected = Collected::default();
        match self.plan() {
            Plan::Parts(sieve) => self.by_parts(&sieve, entries, &mut collected),
            Plan::Sessions(sieve, bits) => {
                let some = self.candidates(&sieve, bits, entries, &mut collected);
                self.by_sessions(&some, entries, &mut collected);
            }
            Plan::Everything => {
                let all: Vec<usize> = (0..entries.len()).collect();
                self.by_sessions(&all, entries, &mut collected);
            }
        }
        for (place, entry) in entries.iter().enumerate() {
            if let Some(evidence) = self.of_title(&entry.header) {
                let found = collected.matches.entry(place);
                found.or_insert(Evidence::NONE).add(evidence);
            }
        }
        collected.matches.retain(|_, found| found.matches > 0);
        if !collected.unread.is_empty() {
            let unread = collected.unread.len();
            let text = format!("sessions that could not be read, or not completely: {unread}");
            collected.notices.push(text);
        }
        collected
    }

    fn plan(&self) -> Plan {
        if self.matcher.wanted == 0 {
            return Plan::Everything;
        }
        let folded = self.matcher.folds();
        let terms: Vec<(u64, &[Run])> = self.matcher.runs().collect();
        let whole = self.filter.looks_at_messages() || self.matcher.refuses();
        let best = terms.iter().max_by_key(|(_, runs)| shortest(runs));
        let (bit, best) = best.copied().unwrap_or((0, &[]));
        // What nearly every record holds is not worth a look at parts when another word is rarer.
        let common = |runs: &[Run]| shortest(runs) < 2 && shortest(best) > 2;
        match shortest(best) {
            0 if whole => Plan::Everything,
            0 => Plan::Parts(Sieve::new(None, false)),
            _ if whole
                || terms
                    .iter()
                    .any(|(_, runs)| runs.is_empty() || common(runs)) =>
            {
                Plan::Sessions(Sieve::new(Some(best), folded), bit)
            }
            _ => {
                let runs: Vec<Run> = terms.iter().flat_map(|(_, runs)| runs.to_vec()).collect();
                Plan::Parts(Sieve::new(Some(&runs), folded))
            }
        }
    }

    /// What speaks for the title, if it holds what is looked for.
    fn of_title(&self, header: &Header) -> Option<Evidence> {
        let looked_for = self.matcher.wanted != 0 && self.filter.lets_title(header);
        let title = Spoken::of_title(header).filter(|_| looked_for)?;
        weigh(self.matcher, self.words, &title)
    }

    /// Whether the title holds what is looked for.
    pub(crate) fn title_matches(&self, header: &Header) -> bool {
        self.of_title(header).is_some()
    }

    /// The messages of a session that hold what is looked for, as they were said.
    pub(crate) fn messages<'c>(
        &self,
        header: &Header,
        conversation: &'c Conversation,
    ) -> impl Iterator<Item = Spoken<'c>> {
        let mut messages: Vec<_> = conversation.messages.iter().collect();
        messages.sort_by_key(|message| message.created);
        let messages = messages.into_iter();
        let messages = messages.filter(move |m| self.filter.lets_message(header, m));
        let messages = messages.map(Spoken::of);
        messages.filter(|spoken| self.matcher.is_in(spoken))
    }

    fn by_parts(&self, sieve: &Sieve, entries: &[&Entry], collected: &mut Collected) {
        let held: Mutex<HashMap<usize, HashMap<Box<str>, Seen>>> = Mutex::default();
        // A message of which not even the role can be told may be none that can be read: the whole tells.
        let unknown: Mutex<HashSet<usize>> = Mutex::default();
        let found = |place: usize, found: &Found<'_>| {
            let seen = self.seen(found);
            if seen.terms() == 0 {
                return;
            }
            match found.role {
                None => drop(lock(&unknown).insert(place)),
                Some(role) if !self.filter.lets_role(role) => {}
                Some(_) => {
                    let mut held = lock(&held);
                    let messages = held.entry(place).or_default();
                    match messages.get_mut(found.message) {
                        Some(known) => known.add(seen),
                        None => drop(messages.insert(found.message.into(), seen)),
                    }
                }
            }
        };
        let pass = Pass {
            sieve,
            roles: true,
            still: &|_| true,
            found: &found,
        };
        self.scan(&pass, entries, collected);
        let unknown = unknown.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (place, messages) in held.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if !unknown.contains(&place) {
                let seen = messages.values();
                let evidence = seen.filter_map(|one| one.evidence(self.matcher, self.words));
                collected.matches.insert(place, Evidence::of_all(evidence));
            }
        }
        let unknown: Vec<usize> = unknown.into_iter().collect();
        self.by_sessions(&unknown, entries, collected);
    }

    /// The sessions that hold the terms of `bits`.
    fn candidates(
        &self,
        sieve: &Sieve,
        bits: u64,
        entries: &[&Entry],
        collected: &mut Collected,
    ) -> Vec<usize> {
        let some: Mutex<HashSet<usize>> = Mutex::default();
        let found = |place: usize, found: &Found<'_>| {
            if self.bits(found) & bits != 0 {
                lock(&some).insert(place);
            }
        };
        let still = |place: usize| !lock(&some).contains(&place);
        let pass = Pass {
            sieve,
            roles: false,
            still: &still,
            found: &found,
        };
        self.scan(&pass, entries, collected);
        let some = some.into_inner().unwrap_or_else(PoisonError::into_inner);
        some.into_iter().collect()
    }

    fn bits(&self, found: &Found<'_>) -> u64 {
        let mut pieces = Vec::new();
        spoken::pieces(found.parts, found.error, &mut pieces);
        let pieces = pieces.iter();
        pieces.fold(0, |bits, piece| bits | self.matcher.of_piece(piece, !bits))
    }

    fn seen(&self, found: &Found<'_>) -> Seen {
        let (mut pieces, mut seen) = (Vec::new(), Seen::default());
        spoken::pieces(found.parts, found.error, &mut pieces);
        for piece in &pieces {
            seen.piece(self.matcher, self.words, piece, found.role);
        }
        seen
    }

    /// Scans each source for the sessions that are its own.
    fn scan(&self, pass: &Pass<'_>, entries: &[&Entry], collected: &mut Collected) {
        let unread: Mutex<HashSet<usize>> = Mutex::default();
        for (number, source) in self.library.sources().iter().enumerate() {
            let own = entries
                .iter()
                .enumerate()
                .filter(|(_, e)| e.source == number);
            let own: HashMap<&str, usize> = own.map(|(place, e)| (&*e.header.id, place)).collect();
            if own.is_empty() || (self.stopped)() {
                continue;
            }
            let ids: Vec<&str> = own.keys().copied().collect();
            let scan = Scan {
                may_hold: &|record| pass.sieve.may_hold(record),
                wanted: &|id| own.get(id).is_some_and(|place| (pass.still)(*place)),
                ids: Some(&ids),
                roles: pass.roles,
                stopped: self.stopped,
                found: &|one| {
                    if let Some(place) = own.get(one.session) {
                        (pass.found)(*place, &one);
                    }
                },
                unread: &|id| {
                    if let Some(place) = own.get(id) {
                        lock(&unread).insert(*place);
                    }
                },
            };
            if let Err(why) = source.scan(&scan) {
                let text = unsearched(&**source, &why.to_string());
                collected.notices.push(text);
            }
        }
        let unread = unread.into_inner().unwrap_or_else(PoisonError::into_inner);
        collected.unread.extend(unread);
    }

    /// Reads the sessions at `places` and counts what matches in each.
    fn by_sessions(&self, places: &[usize], entries: &[&Entry], collected: &mut Collected) {
        let (next, counts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let cached = places.len() <= CACHED;
        let work = || {
            while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                if (self.stopped)() {
                    return;
                }
                if let Some(entry) = entries.get(*place) {
                    let count = self.count(entry, cached);
                    lock(&counts).push((*place, count));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..READERS.min(places.len()) {
                scope.spawn(work);
            }
            work();
        });
        for (place, count) in counts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            match count {
                Some((count, whole)) => {
                    collected.matches.insert(place, count);
                    if whole {
                        collected.unread.remove(&place);
                    } else {
                        collected.unread.insert(place);
                    }
                }
                None => drop(collected.unread.insert(place)),
            }
        }
    }

    /// What speaks for a session, and whether nothing of it was left out; `None` when it cannot be read.
    fn count(&self, entry: &Entry, cached: bool) -> Option<(Evidence, bool)> {
        let count = |of: &Conversation| {
            let messages = self.messages(&entry.header, of);
            let evidence = messages.filter_map(|one| weigh(self.matcher, self.words, &one));
            (Evidence::of_all(evidence), of.skipped.is_empty())
        };
        if cached {
            return Some(count(&*self.library.conversation(entry).ok()?));
        }
        let source = self.library.sources().get(entry.source)?;
        Some(count(&source.conversation(&entry.header.id).ok()?))
    }
}

fn unsearched(source: &dyn Source, why: &str) -> String {
    format!(
        "{} ({}) cannot be searched: {why}",
        source.name(),
        source.generation()
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
