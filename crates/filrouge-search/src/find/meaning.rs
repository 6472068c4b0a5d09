//! What is meant alike, though said in other words (DESIGN §10).
//!
//! Up to three lists are made one by their ranks: sessions that hold all words, messages that share the rarest of them,
//! and messages whose meaning is nearest.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use filrouge_sources::library::{Catalog, LibraryError};
use filrouge_types::{ErrorCode, Failure};

use super::cursor::Cursor;
use super::ledger::{Only, unanswered};
use super::near::{Near, Place, Whose, merged};
use super::rank::{rounded, worth};
use super::{Asked, At, Everything, Searcher, Told};
use crate::ask::Mode;
use crate::embed::{quantized, without_credentials};
use crate::feed::reach;

/// How many messages of a session are shown that only meaning has found, of each list.
const OF_SESSION: usize = 3;

/// What holds all words counts as much as what is first in both other lists: it was asked for by name.
const ALL_WORDS: f64 = 2.0;

/// A question as a vector.
pub(super) struct Meant {
    /// By whom it was embedded.
    pub(super) embedder: String,
    pub(super) vector: Vec<i8>,
}

impl Searcher {
    /// The question as a vector; `None` without an embedder, or when it fails, which is told. What has begun with meaning
    /// goes on with it, and what has begun without it without: else pages would not follow each other.
    pub(super) fn embedded(
        &self,
        text: &str,
        cursor: Option<&Cursor>,
        told: &mut Told,
    ) -> Result<Option<Meant>, LibraryError> {
        let begun = cursor.map(|cursor| cursor.embedded);
        let by_words = "what means the like was looked for by its words alone";
        let embedder = match &self.embedder {
            Some(_) if begun == Some(false) => {
                told.notice(format!("as on the page before, {by_words}"));
                return Ok(None);
            }
            Some(embedder) => embedder,
            None => {
                told.notice(format!("no embedder is set up: {by_words}"));
                let text = "the page before was found by its meaning, and no embedder is set up";
                return match begun {
                    Some(true) => Err(unanswered(Failure::new(ErrorCode::Overloaded, text))),
                    _ => Ok(None),
                };
            }
        };
        let text = without_credentials(text);
        if text.trim().is_empty() {
            return Ok(None);
        }
        match embedder.embed(&[&text]) {
            Ok(vectors) => {
                let vector = vectors.first().map(|vector| quantized(vector));
                // Of zeroes everything is as near.
                let vector = vector.filter(|vector| vector.iter().any(|x| *x != 0));
                Ok(vector.map(|vector| Meant {
                    embedder: embedder.id().to_owned(),
                    vector,
                }))
            }
            Err(why) => {
                tracing::warn!(code = why.code().as_str(), %why, "a question cannot be embedded");
                if begun == Some(true) {
                    let text = "the page before was found by its meaning, and the question could not be embedded";
                    return Err(unanswered(Failure::new(why.code(), text)));
                }
                told.notice(format!("the question could not be embedded: {by_words}"));
                Ok(None)
            }
        }
    }

    /// Adds what is near, and orders everything by its places in the lists.
    pub(super) fn by_meaning<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Arc<Catalog>,
        ledger: Option<Only>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let places = self.places(asked, catalog, ledger, &mut all.told);
        if places.is_empty() {
            let text = "nothing is indexed: what means the like is found by an index alone (filrouge index update)";
            all.told.notice(text.to_owned());
        }
        let (mut sharing, mut meant) = (Vec::new(), Vec::new());
        for place in &places {
            match asked.lists(catalog, place) {
                Ok((by_words, by_meaning)) => {
                    sharing.push(by_words);
                    meant.push(by_meaning);
                }
                // The ledger is looked through instead; of a source what only meaning finds is missing.
                Err(why) if matches!(place.whose, Whose::Ledger(_)) => return Err(unanswered(why)),
                Err(why) => all.told.unanswered(&why),
            }
        }
        asked.fuse([merged(sharing), merged(meant)], all);
        Ok(())
    }

    fn places<'q, 'c>(
        &'q self,
        asked: &Asked<'_>,
        catalog: &'c Arc<Catalog>,
        only: Option<Only>,
        told: &mut Told,
    ) -> Vec<Place<'q, 'c>> {
        let mut places = Vec::new();
        for source in 0..self.library.sources().len() {
            if let Some((index, mut known)) = self.known(asked, catalog, source)
                && !known.is_empty()
            {
                told.known_at(known.as_of);
                places.push(Place {
                    reach: reach(),
                    only: known.only.take(),
                    whose: Whose::Source(index, known),
                });
            }
        }
        if let (Some(search), Some(only)) = (self.indexed_ledger(), only) {
            places.push(Place {
                reach: search.reach(),
                only: only.0,
                whose: Whose::Ledger(search),
            });
        }
        places
    }
}

/// Messages that share words, and messages whose meaning is near.
type Lists<'c> = (Vec<Near<'c>>, Vec<Near<'c>>);

impl Asked<'_> {
    /// What one index gives. Where meaning alone is asked for, and there is one, words do not count.
    fn lists<'c>(&self, catalog: &Catalog, place: &Place<'_, 'c>) -> Result<Lists<'c>, Failure> {
        let by_words = match self.meant {
            Some(_) if self.ask.mode == Mode::Meaning => Vec::new(),
            _ => place.sharing(self, catalog)?,
        };
        let by_meaning = match self.meant {
            Some(meant) => place.meant(self, catalog, meant)?,
            None => Vec::new(),
        };
        Ok((by_words, by_meaning))
    }

    /// One order of several lists: what was found by words in its order, and the messages that are near.
    fn fuse<'c>(&self, lists: [Vec<Near<'c>>; 2], all: &mut Everything<'c>) {
        self.order(&mut all.sessions);
        let ranks = 0..all.sessions.len();
        let mut worths: Vec<f64> = ranks.map(|rank| ALL_WORDS * worth(rank)).collect();
        // Where the sessions of the lists are among all.
        let ids = lists.iter().flatten().map(|near| (near.id.clone(), None));
        let mut places: HashMap<Cow<'c, str>, Option<usize>> = ids.collect();
        for (at, found) in all.sessions.iter().enumerate() {
            if let Some(place) = places.get_mut(&found.id) {
                *place = Some(at);
            }
        }
        for list in lists {
            let (mut rank, mut here) = (0, HashMap::new());
            for near in list {
                let Some(place) = places.get_mut(&near.id) else {
                    continue;
                };
                let at = *place.get_or_insert(all.sessions.len());
                let shown: &mut usize = here.entry(at).or_default();
                *shown += 1;
                let (first, shows) = (*shown == 1, *shown <= OF_SESSION);
                if at == all.sessions.len() {
                    worths.push(0.0);
                    all.sessions.push(near.into());
                } else if shows {
                    add(&near, all, at);
                }
                if first && let Some(sum) = worths.get_mut(at) {
                    *sum += worth(rank);
                    rank += 1;
                }
            }
        }
        for (found, worth) in all.sessions.iter_mut().zip(worths) {
            found.score = rounded(worth);
        }
    }
}

/// Adds a message that is near to its session.
fn add(near: &Near<'_>, all: &mut Everything<'_>, at: usize) {
    if let Some(At::Indexed(_, inside) | At::Ledger(inside)) =
        all.sessions.get_mut(at).map(|found| &mut found.at)
        && inside.session == near.session
        && !inside.near.contains(&near.document)
    {
        inside.near.push(near.document);
        inside.likely = 1.0;
    }
}
