//! What is meant alike, though said in other words (DESIGN §10).
//!
//! Up to three lists are made one by their ranks: sessions that hold all words, messages that share the rarest of them,
//! and messages whose meaning is nearest. Only what people and agents have said has a meaning here, not what tools print.

use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sources::Role;
use filrouge_sources::library::{Catalog, LibraryError};
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, Reach, SessionNo, TextIndex,
};
use filrouge_types::Failure;

use super::ledger::Only;
use super::ledger::unanswered;
use super::rank::{fused, rounded};
use super::sources::found;
use super::{Asked, At, Everything, Found, InSession, Searcher};
use crate::ask::Mode;
use crate::embed::quantized;
use crate::feed::{SourceIndex, reach};
use crate::spoken::{Spoken, folded_literal, kind};

/// How many messages of each list are looked at.
const NEAREST: usize = 100;
/// How many of a session are shown.
const OF_SESSION: usize = 3;

/// A message that may mean the like, the best first.
struct Near<'c> {
    /// The session it is of.
    key: Key<'c>,
    session: SessionNo,
    document: DocumentNo,
}

/// A session of an index.
#[derive(Clone)]
struct Key<'c> {
    id: Box<str>,
    updated: i64,
    entry: Option<&'c filrouge_sources::library::Entry>,
}

enum Index<'q> {
    OfSource(Arc<SourceIndex>),
    OfLedger(&'q dyn TextIndex),
}

/// One index with the sessions of it that are asked.
struct Place<'q, 'c> {
    index: Index<'q>,
    reach: Reach,
    only: Option<Vec<SessionNo>>,
    /// The sessions of a source; of the ledger they are looked up.
    entries: Option<HashMap<SessionNo, &'c filrouge_sources::library::Entry>>,
}

impl Searcher {
    /// Adds what is near, and orders everything by its places in the lists.
    pub(super) fn by_meaning<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
        ledger: Option<Only>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let text = asked
            .ask
            .similar
            .clone()
            .unwrap_or_else(|| asked.question.plain());
        let places = self.places(asked, catalog, ledger);
        if places.is_empty() {
            let text = "nothing is indexed: what means the like is found by an index alone (filrouge index update)";
            all.notices.push(text.to_owned());
            return Ok(());
        }
        let vector = self.vector(&text, all);
        let mut lists = Vec::new();
        let mut look = || {
            if asked.ask.mode != Mode::Meaning || vector.is_none() {
                lists.push(asked.sharing(catalog, &places, &text)?);
            }
            if let Some((embedder, vector)) = &vector {
                lists.push(asked.near(catalog, &places, embedder, vector)?);
            }
            Ok(())
        };
        look().map_err(|why: Failure| unanswered(&why))?;
        asked.fuse(lists, all);
        Ok(())
    }

    /// The vector of a text with its embedder's id; `None` without an embedder, or when it fails, which is told.
    fn vector(&self, text: &str, all: &mut Everything<'_>) -> Option<(String, Vec<i8>)> {
        let Some(embedder) = &self.embedder else {
            let text =
                "no embedder is set up: what means the like was looked for by its words alone";
            all.notices.push(text.to_owned());
            return None;
        };
        match embedder.embed(&[text]) {
            Ok(vectors) => {
                let first = vectors.first()?;
                Some((embedder.id().to_owned(), quantized(first)))
            }
            Err(why) => {
                tracing::warn!(code = why.code().as_str(), %why, "a question cannot be embedded");
                all.notices
                    .push(format!("looked for by words alone: {why}"));
                None
            }
        }
    }

    fn places<'q, 'c>(
        &'q self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
        ledger: Option<Only>,
    ) -> Vec<Place<'q, 'c>> {
        let mut places = Vec::new();
        for source in 0..self.library.sources().len() {
            if let Some((index, known)) = self.known(asked, catalog, source) {
                places.push(Place {
                    index: Index::OfSource(index),
                    reach: reach(),
                    only: known.only(),
                    entries: Some(known.by_no),
                });
            }
        }
        if let (Some(search), Some(only)) = (&self.ledger, ledger) {
            places.push(Place {
                index: Index::OfLedger(search.index()),
                reach: search.reach(),
                only: only.0,
                entries: None,
            });
        }
        places
    }
}

impl Index<'_> {
    fn get(&self) -> &dyn TextIndex {
        match self {
            Self::OfSource(index) => &**index.index(),
            Self::OfLedger(index) => *index,
        }
    }
}

impl<'c> Place<'_, 'c> {
    /// The sessions of candidates; those that are not asked have none.
    fn keys(
        &self,
        catalog: &Catalog,
        candidates: &[Candidate],
    ) -> Result<HashMap<SessionNo, Key<'c>>, Failure> {
        if let Some(entries) = &self.entries {
            let key = |c: &Candidate| {
                let entry = *entries.get(&c.session)?;
                let (id, updated) = (entry.header.id.clone(), entry.header.updated);
                Some((
                    c.session,
                    Key {
                        id,
                        updated,
                        entry: Some(entry),
                    },
                ))
            };
            return Ok(candidates.iter().filter_map(key).collect());
        }
        let mut numbers: Vec<SessionNo> = candidates.iter().map(|c| c.session).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let sessions = self.index.get().sessions_by_no(&numbers)?;
        let own = sessions
            .into_iter()
            .filter(|s| catalog.get(&s.entry.key).is_err());
        let key = own.map(|session| {
            let (id, updated) = (session.entry.key, session.entry.updated);
            (
                session.no,
                Key {
                    id,
                    updated,
                    entry: None,
                },
            )
        });
        Ok(key.collect())
    }
}

impl Asked<'_> {
    /// A message that is near, if it passes the filters and holds nothing that must be absent.
    fn passes(
        &self,
        index: &dyn TextIndex,
        agent: Option<&str>,
        document: DocumentNo,
    ) -> Result<bool, Failure> {
        let mut passes = false;
        index.bodies(&[document], &mut |_, body| {
            passes = Spoken::decode(body).is_ok_and(|spoken| {
                self.filter.lets_spoken(agent, &spoken) && self.question.matcher.lets(&spoken)
            });
            false
        })?;
        Ok(passes)
    }

    fn kinds(&self) -> u32 {
        let answers = match self.ask.similar {
            Some(_) => 0,
            None => 1 << kind(Some(Role::Assistant)),
        };
        self.filter.kinds() & (1 << kind(Some(Role::User)) | answers)
    }

    fn of_index<'a>(
        &'a self,
        place: &'a Place<'_, '_>,
        terms: &'a [Vec<String>],
    ) -> CandidateQuery<'a> {
        CandidateQuery {
            reach: &place.reach,
            sessions: place.only.as_deref(),
            kinds: self.kinds(),
            since: self.filter.since(),
            until: self.filter.until(),
            terms,
            any: true,
        }
    }

    /// The messages whose meaning is nearest, of all indexes.
    fn near<'c>(
        &self,
        catalog: &Catalog,
        places: &[Place<'_, 'c>],
        embedder: &str,
        vector: &[i8],
    ) -> Result<Vec<Near<'c>>, Failure> {
        let mut near = Vec::new();
        for (place, one) in places.iter().enumerate() {
            let query = self.of_index(one, &[]);
            let ranked = one.index.get().nearest(embedder, vector, &query, NEAREST)?;
            near.extend(
                ranked
                    .into_iter()
                    .map(|(candidate, product)| (i64::from(product), place, candidate)),
            );
        }
        self.best(catalog, places, near)
    }

    /// The messages that share the rarest of the words, of all indexes.
    fn sharing<'c>(
        &self,
        catalog: &Catalog,
        places: &[Place<'_, 'c>],
        text: &str,
    ) -> Result<Vec<Near<'c>>, Failure> {
        let terms = shared_words(text);
        let mut sharing = Vec::new();
        for (place, one) in places.iter().enumerate() {
            let candidates = one.index.get().candidates(&self.of_index(one, &terms))?;
            let worth = worth_of_terms(&terms, &candidates);
            let score = |met: u64| {
                worth
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| met >> bit & 1 == 1)
                    .map(|(_, w)| w)
                    .sum::<f64>()
            };
            sharing.extend(
                candidates
                    .iter()
                    .map(|c| (rounded(score(c.met)), place, *c)),
            );
        }
        self.best(catalog, places, sharing)
    }

    /// The best of a list, with their sessions.
    fn best<'c>(
        &self,
        catalog: &Catalog,
        places: &[Place<'_, 'c>],
        mut list: Vec<(i64, usize, Candidate)>,
    ) -> Result<Vec<Near<'c>>, Failure> {
        list.sort_unstable_by_key(|(score, place, c)| {
            (
                std::cmp::Reverse(*score),
                *place,
                std::cmp::Reverse(c.document),
            )
        });
        list.truncate(2 * NEAREST);
        let mut keys = Vec::new();
        for (place, one) in places.iter().enumerate() {
            let own: Vec<Candidate> = list
                .iter()
                .filter(|(_, p, _)| *p == place)
                .map(|(.., c)| *c)
                .collect();
            keys.push(one.keys(catalog, &own)?);
        }
        let mut best = Vec::new();
        for (_, place, candidate) in list {
            let known = keys
                .get(place)
                .and_then(|keys| keys.get(&candidate.session));
            let (Some(key), Some(one)) = (known, places.get(place)) else {
                continue;
            };
            let agent = key.entry.and_then(|entry| entry.header.agent.clone());
            if best.len() < NEAREST
                && self.passes(one.index.get(), agent.as_deref(), candidate.document)?
            {
                best.push(Near {
                    key: key.clone(),
                    session: candidate.session,
                    document: candidate.document,
                });
            }
        }
        Ok(best)
    }

    /// One order of several lists: what was found by words in its order, and the messages that are near.
    fn fuse<'c>(&self, lists: Vec<Vec<Near<'c>>>, all: &mut Everything<'c>) {
        self.order(&mut all.sessions);
        let mut places: HashMap<Box<str>, Vec<usize>> = HashMap::new();
        for (rank, found) in all.sessions.iter().enumerate() {
            places.insert(found.id.clone(), vec![rank]);
        }
        for list in lists {
            let mut rank = 0;
            let mut here: HashMap<Box<str>, usize> = HashMap::new();
            for near in list {
                let shown = here.entry(near.key.id.clone()).or_insert(0);
                *shown += 1;
                if *shown == 1 {
                    places.entry(near.key.id.clone()).or_default().push(rank);
                    rank += 1;
                }
                if *shown <= OF_SESSION {
                    add(near, all);
                }
            }
        }
        for found in &mut all.sessions {
            let ranks = places.get(&found.id).into_iter().flatten().copied();
            found.score = rounded(fused(ranks));
        }
    }
}

/// Adds a message that is near to its session, unless that was found by words.
fn add<'c>(near: Near<'c>, all: &mut Everything<'c>) {
    let known = all
        .sessions
        .iter_mut()
        .find(|found| found.id == near.key.id);
    match known {
        Some(Found {
            evidence,
            at: At::Indexed(_, inside) | At::Ledger(inside),
            ..
        }) => {
            if evidence.matches == 0 && !inside.held.contains(&near.document) {
                inside.held.push(near.document);
            }
        }
        Some(_) => {}
        None => {
            let mut inside = InSession {
                session: near.session,
                held: vec![near.document],
                ..InSession::default()
            };
            inside.evidence.exact = true;
            let evidence = inside.evidence;
            all.sessions.push(match near.key.entry {
                Some(entry) => found(entry, evidence, At::Indexed(entry, inside)),
                None => Found {
                    id: near.key.id,
                    updated: near.key.updated,
                    evidence,
                    score: 0,
                    at: At::Ledger(inside),
                },
            });
        }
    }
}

/// The words of a question, as terms of which any may be met.
fn shared_words(text: &str) -> Vec<Vec<String>> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words: Vec<String> = words
        .map(folded_literal)
        .filter(|w| filrouge_store::text_index::narrows(w))
        .collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(32);
    words.into_iter().map(|word| vec![word]).collect()
}

/// What each term is worth: the more, the fewer of the candidates hold it.
fn worth_of_terms(terms: &[Vec<String>], candidates: &[Candidate]) -> Vec<f64> {
    #[allow(clippy::cast_precision_loss)]
    let worth = |bit: usize| {
        let held = candidates.iter().filter(|c| c.met >> bit & 1 == 1).count();
        (1.0 + candidates.len() as f64 / (1.0 + held as f64)).ln()
    };
    (0..terms.len()).map(worth).collect()
}
