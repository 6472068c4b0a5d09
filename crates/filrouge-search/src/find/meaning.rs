//! What is meant alike, though said in other words (DESIGN §10).
//!
//! Up to three lists are made one by their ranks: sessions that hold all words, messages that share the rarest of them,
//! and messages whose meaning is nearest.

use std::borrow::Cow;
use std::collections::HashMap;

use filrouge_sources::library::LibraryError;
use filrouge_types::{ErrorCode, Failure};

use super::asked::{Asked, Meant};
use super::cursor::Cursor;
use super::found::{At, Everything, Told};
use super::ledger::unanswered;
use super::near::{Near, Nearby, merged};
use super::place::Places;
use crate::ask::Mode;
use crate::embed::{Embedder, quantized, without_credentials};
use crate::rank::{rounded, worth};

/// How many messages of a session are shown that only meaning has found, of each list.
const OF_SESSION: usize = 3;

/// What holds all words counts as much as what is first in both other lists: it was asked for by name.
const ALL_WORDS: f64 = 2.0;

/// The question as a vector; `None` without an embedder, or when it fails, which is said. What has begun with meaning goes on
/// with it, and what has begun without it without: else pages would not follow each other.
pub(super) fn embedded(
    embedder: Option<&dyn Embedder>,
    text: &str,
    cursor: Option<&Cursor>,
    told: &mut Told,
) -> Result<Option<Meant>, LibraryError> {
    let begun = cursor.map(|cursor| cursor.embedded);
    let by_words = "what means the like was looked for by its words alone";
    let embedder = match embedder {
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
pub(super) fn add_meaning<'c>(
    asked: &Asked<'_>,
    places: &Places<'c>,
    all: &mut Everything<'c>,
) -> Result<(), LibraryError> {
    let (mut sharing, mut meant, mut is_indexed) = (Vec::new(), Vec::new(), false);
    for (at, place) in places.indexed.iter().enumerate() {
        if place.is_empty() {
            continue;
        }
        is_indexed = true;
        if let Some(as_of) = place.as_of {
            all.told.known_at(as_of);
        }
        let nearby = Nearby {
            at,
            place,
            asked,
            catalog: places.catalog,
        };
        match lists(&nearby) {
            Ok((by_words, by_meaning)) => {
                sharing.push(by_words);
                meant.push(by_meaning);
            }
            // The ledger is looked through instead; of a source what only meaning finds is missing.
            Err(why) if place.is_ledger() => return Err(unanswered(why)),
            Err(why) => all.told.unanswered(&why),
        }
    }
    if !is_indexed {
        let text = "nothing is indexed: what means the like is found by an index alone (filrouge index update)";
        all.told.notice(text.to_owned());
    }
    fuse(asked, [merged(sharing), merged(meant)], all);
    Ok(())
}

/// Messages that share words, and messages whose meaning is near.
type Lists<'c> = (Vec<Near<'c>>, Vec<Near<'c>>);

/// What one index gives. Where meaning alone is asked for, and there is one, words do not count.
fn lists<'c>(nearby: &Nearby<'_, 'c>) -> Result<Lists<'c>, Failure> {
    let asked = nearby.asked;
    let by_words = match asked.meant {
        Some(_) if asked.ask.mode == Mode::Meaning => Vec::new(),
        _ => nearby.sharing()?,
    };
    let by_meaning = match asked.meant {
        Some(meant) => nearby.meant(meant)?,
        None => Vec::new(),
    };
    Ok((by_words, by_meaning))
}

/// One order of several lists: what was found by words in its order, and the messages that are near.
fn fuse<'c>(asked: &Asked<'_>, lists: [Vec<Near<'c>>; 2], all: &mut Everything<'c>) {
    all.order(asked);
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

/// Adds a message that is near to its session.
fn add(near: &Near<'_>, all: &mut Everything<'_>, at: usize) {
    if let Some(At::Index(_, inside)) = all.sessions.get_mut(at).map(|found| &mut found.at)
        && inside.session == near.session
        && !inside.near.contains(&near.document)
    {
        inside.near.push(near.document);
        inside.likely = 1.0;
    }
}
