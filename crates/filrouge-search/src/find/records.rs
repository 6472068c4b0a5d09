//! Checks the texts of a ledger that a search shows against the ledger's verified records.
//!
//! An index narrows a search by its copies of the ledger's texts, and a search compares these copies with the query. A
//! copy is shown only if a verified record contains the same text: a program that edits the index, or restores redacted
//! text in it, can change neither a shown text nor its author.

use std::collections::{BTreeSet, HashMap, HashSet};

use filrouge_engine::Extent;
use filrouge_sources::Header;
use filrouge_sources::ledger::{header, units};
use filrouge_types::{Failure, Recorded, Session, SessionId};

use super::ledger::{LedgerSearch, visible_session};
use crate::answer::{Claim, Excerpt};
use crate::ledger::{LedgerFeed, is_of_session, on_blocking_thread};
use crate::search_document::{SearchDocument, process_hash};

/// Sessions by their ids, each with its header and the excerpts that its records confirm. `None` for a session that the
/// caller may not see, and for one whose records confirm none of its excerpts.
pub(super) type ConfirmedExcerpts =
    HashMap<Box<str>, Result<Option<(Header, Vec<Excerpt>)>, Failure>>;

impl LedgerSearch {
    /// Checks excerpts against the verified records of their sessions; reads the sessions concurrently. The result has
    /// no entry for a session if the ledger has no index.
    pub(super) fn confirm_excerpts(
        &self,
        sessions: Vec<(Box<str>, Vec<Excerpt>)>,
    ) -> ConfirmedExcerpts {
        // Without an index, the texts were read from the ledger itself.
        let Some(feed) = &self.feed else {
            return ConfirmedExcerpts::new();
        };
        let confirm = |(id, excerpts): (Box<str>, Vec<Excerpt>)| {
            let (search, feed) = (self.clone(), feed.clone());
            async move {
                let result = search.confirm(&feed, &id, excerpts).await;
                (id, result)
            }
        };
        let results = self.run_concurrently(sessions.into_iter().map(confirm));
        results.into_iter().collect()
    }

    async fn confirm(
        &self,
        feed: &LedgerFeed,
        id: &str,
        mut excerpts: Vec<Excerpt>,
    ) -> Result<Option<(Header, Vec<Excerpt>)>, Failure> {
        let Ok(id) = id.parse::<SessionId>() else {
            return Ok(None);
        };
        let Some(session) = visible_session(self.engine.sessions.get(&self.caller, &id).await)?
        else {
            return Ok(None);
        };
        let header = header(&session);
        let claims: Vec<Claim> = excerpts.iter().filter_map(|one| one.claim).collect();
        let confirmed = self
            .confirmed_hashes(feed, (&session, &header), &claims)
            .await?;
        let excerpt_count = excerpts.len();
        excerpts.retain(|one| {
            one.claim
                .is_some_and(|claim| confirmed.contains(&claim.hash))
        });
        let stale = excerpt_count - excerpts.len();
        if stale > 0 {
            let text = "the search index has texts that no record of the ledger confirms: they are not shown";
            tracing::warn!(session_id = %id, stale, "{text}");
            feed.lock_counts().stale += stale as u64;
        }
        Ok((stale == 0 || stale < excerpt_count).then_some((header, excerpts)))
    }

    /// Returns the hashes of the texts in a session's records, as far as the claims need them. Confirmed hashes are
    /// cached for the current state of the session.
    async fn confirmed_hashes(
        &self,
        feed: &LedgerFeed,
        (session, header): (&Session, &Header),
        claims: &[Claim],
    ) -> Result<HashSet<u64>, Failure> {
        // Every change of a session's items, even a redaction, adds a seq: `last_seq` identifies the state.
        let (tenant, id) = (&session.tenant_id, &session.session_id);
        let cache_key =
            |claimed: u64| process_hash(&(tenant.as_str(), id.as_str(), session.last_seq, claimed));
        let title = SearchDocument::from_title(header);
        let mut confirmed: HashSet<u64> = title
            .iter()
            .flat_map(SearchDocument::piece_hashes)
            .collect();
        let hashes = claims.iter().map(|claim| claim.hash);
        confirmed
            .extend(hashes.filter(|claimed| feed.confirmed.get(&cache_key(*claimed)).is_some()));
        // First, only the turns of the claims are read. A text may depend on other turns (a result that joins its call,
        // an id that occurs twice): if a claim remains unconfirmed, the complete session is read.
        for reads_all in [false, true] {
            let unconfirmed = claims
                .iter()
                .filter(|claim| !confirmed.contains(&claim.hash));
            let unconfirmed: BTreeSet<u64> =
                unconfirmed.filter_map(|claim| claim.message).collect();
            if unconfirmed.is_empty() {
                break;
            }
            let extent = match reads_all {
                true => Extent::Entire,
                false => Extent::Turns(unconfirmed.iter().map(|seq| (*seq, *seq)).collect()),
            };
            let at_commit = self
                .engine
                .index_feed
                .read_session(&self.caller, id, extent);
            match at_commit.await {
                Ok(Some(at_commit)) => {
                    let read_hashes = on_blocking_thread(move || {
                        message_hashes(&at_commit.conversation, &unconfirmed)
                    });
                    confirmed.extend(read_hashes.await?);
                }
                Ok(None) => break,
                Err(why) if is_of_session(&why) => {
                    tracing::warn!(session_id = %id, code = %why.code, "a session cannot be read to be shown");
                    break;
                }
                Err(why) => return Err(why),
            }
        }
        for claim in claims.iter().filter(|claim| claim.message.is_some()) {
            if confirmed.contains(&claim.hash) {
                feed.confirmed.insert(cache_key(claim.hash), ());
            }
        }
        Ok(confirmed)
    }
}

/// Returns the hashes of the texts of the messages that begin with one of the items `first_items`.
fn message_hashes(read: &Recorded, first_items: &BTreeSet<u64>) -> Vec<u64> {
    // The session's messages, grouped by turn or loose item.
    let units = units(read).units;
    let messages = units.iter().flat_map(|(_, messages)| messages);
    let claimed = messages.filter(|m| m.seq.is_some_and(|seq| first_items.contains(&seq)));
    claimed
        .flat_map(|m| SearchDocument::from_message(m).piece_hashes())
        .collect()
}
