//! Messages of one index that may mean the like of a question: those whose meaning is nearest, and those that share its
//! rarest words. Only what people and agents have said is among them, and titles; not what tools print.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use filrouge_sources::Role;
use filrouge_sources::library::{Catalog, Entry};
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, SessionNo, TITLE, Wanted, narrows,
};
use filrouge_types::Failure;

use super::asked::{Asked, Meant};
use super::found::{At, Found};
use super::inside::InSession;
use super::place::{Named, Place};
use super::texts::read;
use crate::rank::{Evidence, rounded};
use crate::spoken::{folded_literal, kind};

/// How many messages of each list count.
const NEAREST: usize = 100;
/// How many are looked at for them: some are not there any more; where filters look into messages, many may not pass.
const LOOKED_AT: (usize, usize) = (2 * NEAREST, 10 * NEAREST);
/// Of a question so many words.
const WORDS: usize = 32;

/// A message that may mean the like.
pub(super) struct Near<'c> {
    /// How near it is; greater is nearer, within lists of one kind.
    pub(super) score: i64,
    /// Its session.
    pub(super) id: Cow<'c, str>,
    updated: i64,
    entry: Option<&'c Entry>,
    /// Its place among the indexes.
    place: usize,
    pub(super) session: SessionNo,
    pub(super) document: DocumentNo,
}

/// A place as messages that mean the like are looked for in it.
pub(super) struct Nearby<'p, 'c> {
    pub(super) at: usize,
    pub(super) place: &'p Place<'c>,
    pub(super) asked: &'p Asked<'p>,
    pub(super) catalog: &'p Catalog,
}

/// Messages, the nearest first, each with how near it is.
type List = Vec<(i64, Candidate)>;

impl<'c> Nearby<'_, 'c> {
    fn candidates(&self, wanted: Wanted<'_>) -> Result<Vec<Candidate>, Failure> {
        self.place.index().candidates(&CandidateQuery {
            reach: &self.place.reach,
            sessions: self.place.only.as_deref(),
            kinds: kinds(self.asked),
            since: self.asked.filter.since(),
            until: self.asked.filter.until(),
            wanted,
        })
    }

    /// The messages whose meaning is nearest.
    pub(super) fn meant(&self, meant: &Meant) -> Result<Vec<Near<'c>>, Failure> {
        let most = looked_at(self.asked);
        let nearest = self.candidates(Wanted::Nearest(&meant.embedder, &meant.vector, most))?;
        let list = nearest.into_iter().map(|c| (i64::from(c.near), c));
        self.named(list.collect(), &[])
    }

    /// The messages that share the rarest words.
    pub(super) fn sharing(&self) -> Result<Vec<Near<'c>>, Failure> {
        let terms = shared_words(self.asked.text);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let candidates = self.candidates(Wanted::Any(&terms))?;
        self.named(scored(terms.len(), candidates), &terms)
    }

    /// The best of a list that pass, with their sessions; of one by its words also these.
    fn named(&self, mut list: List, terms: &[Vec<String>]) -> Result<Vec<Near<'c>>, Failure> {
        let most = looked_at(self.asked);
        if list.len() > most {
            list.select_nth_unstable_by_key(most, order);
            list.truncate(most);
        }
        list.sort_unstable_by_key(order);
        let mut numbers: Vec<SessionNo> = list.iter().map(|(_, c)| c.session).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let sessions = self.place.named(self.asked, self.catalog, &numbers)?;
        list.retain(|(_, c)| sessions.contains_key(&c.session));
        if self.is_masked(terms) || looks_into(self.asked) {
            list = self.looked_into(&sessions, terms, list)?;
        }
        list.truncate(NEAREST);
        let near = list.into_iter().filter_map(|(score, c)| {
            let session = sessions.get(&c.session)?;
            Some(Near {
                score,
                id: session.id.clone(),
                updated: session.updated,
                entry: session.entry,
                place: self.at,
                session: c.session,
                document: c.document,
            })
        });
        Ok(near.collect())
    }

    /// Whether words are looked for that may stand in credentials: an index knows the words of a text, not what is hidden of
    /// it, and who asks for the beginning of a key must learn nothing.
    const fn is_masked(&self, terms: &[Vec<String>]) -> bool {
        self.asked.ask.mask && !terms.is_empty()
    }

    /// The messages that pass the filters and hold nothing that must be absent; where credentials are masked those that share
    /// words outside of them, by these words alone.
    fn looked_into(
        &self,
        sessions: &HashMap<SessionNo, Named<'_>>,
        terms: &[Vec<String>],
        mut list: List,
    ) -> Result<List, Failure> {
        let (asked, masked) = (self.asked, self.is_masked(terms));
        let (matcher, mut met) = (&asked.question.matcher, HashMap::new());
        let agents = sessions
            .keys()
            .map(|no| (*no, self.place.agent(asked, *no)));
        let agents: HashMap<SessionNo, Option<Box<str>>> = agents.collect();
        let owners = list.iter().map(|(_, c)| (c.document, c.session));
        let owners: HashMap<DocumentNo, SessionNo> = owners.collect();
        let numbers: Vec<DocumentNo> = list.iter().map(|(_, c)| c.document).collect();
        read(self.place.index(), &numbers, &mut |document, spoken| {
            let agent = owners.get(&document).and_then(|no| agents.get(no));
            let agent = agent.and_then(Option::as_deref);
            if asked.filter.lets_spoken(agent, spoken)
                && matcher.looks_into(spoken)
                && matcher.lets(spoken)
            {
                let open = masked.then(|| matcher.open_words(terms, spoken));
                met.insert(document, open);
            }
            // The order of those that are masked is not known yet.
            (masked || met.len() < NEAREST) && !(asked.stopped)()
        })?;
        if !masked {
            list.retain(|(_, c)| met.contains_key(&c.document));
            return Ok(list);
        }
        let in_the_open = |(_, c): (i64, Candidate)| {
            let met = met.get(&c.document).copied().flatten();
            Some(Candidate {
                met: met.filter(|met| *met != 0)?,
                ..c
            })
        };
        let open = list.into_iter().filter_map(in_the_open).collect();
        let mut list = scored(terms.len(), open);
        list.sort_unstable_by_key(order);
        Ok(list)
    }
}

impl<'c> From<Near<'c>> for Found<'c> {
    fn from(near: Near<'c>) -> Self {
        Self {
            id: near.id,
            updated: near.updated,
            entry: near.entry,
            evidence: Evidence::NONE,
            score: 0,
            at: At::Index(near.place, InSession::near(near.session, near.document)),
        }
    }
}

/// Of questions that were asked before only those of people are like a question.
fn kinds(asked: &Asked<'_>) -> u32 {
    let others = match asked.ask.similar {
        Some(_) => 0,
        None => 1 << kind(Some(Role::Assistant)) | 1 << TITLE,
    };
    asked.filter.kinds() & (1 << kind(Some(Role::User)) | others)
}

/// The nearest first; of those that are as near the newest.
const fn order((score, c): &(i64, Candidate)) -> Reverse<(i64, DocumentNo)> {
    Reverse((*score, c.document))
}

/// Whether it depends on more than an index tells if a message passes.
fn looks_into(asked: &Asked<'_>) -> bool {
    let matcher = &asked.question.matcher;
    asked.filter.looks_at_messages() || matcher.refuses() || matcher.looks_at_calls()
}

fn looked_at(asked: &Asked<'_>) -> usize {
    let (few, many) = LOOKED_AT;
    if looks_into(asked) { many } else { few }
}

/// The best of several lists of one kind; of equal ones those of the first list.
pub(super) fn merged<'c>(lists: Vec<Vec<Near<'c>>>) -> Vec<Near<'c>> {
    let mut all: Vec<Near<'c>> = lists.into_iter().flatten().collect();
    all.sort_by_key(|near| Reverse(near.score));
    all.truncate(NEAREST);
    all
}

/// The words of a question, as terms of which any may be met.
fn shared_words(text: &str) -> Vec<Vec<String>> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words: Vec<String> = words.map(folded_literal).filter(|w| narrows(w)).collect();
    words.sort_unstable();
    words.dedup();
    // Of more the longest: they are the rarest.
    words.sort_by_key(|word| Reverse(word.len()));
    words.truncate(WORDS);
    words.into_iter().map(|word| vec![word]).collect()
}

/// Candidates that met some of so many terms, with what these are worth.
fn scored(terms: usize, candidates: Vec<Candidate>) -> List {
    let worth = worth_of_terms(terms, &candidates);
    let score = |met: u64| {
        let all = worth.iter().enumerate();
        let met = all.filter(|(at, _)| met >> at & 1 == 1);
        met.map(|(_, worth)| worth).sum::<f64>()
    };
    let scored = candidates.into_iter().map(|c| (rounded(score(c.met)), c));
    scored.collect()
}

/// What each term is worth: the more, the fewer of the candidates hold it.
fn worth_of_terms(terms: usize, candidates: &[Candidate]) -> Vec<f64> {
    let mut held = vec![0_usize; terms];
    for candidate in candidates {
        let mut met = candidate.met;
        while met != 0 {
            if let Some(held) = held.get_mut(met.trailing_zeros() as usize) {
                *held += 1;
            }
            met &= met - 1;
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let worth = |held: usize| (1.0 + candidates.len() as f64 / (1.0 + held as f64)).ln();
    held.into_iter().map(worth).collect()
}
