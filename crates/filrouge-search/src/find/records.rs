//! The step that reads what is shown of a ledger: its verified records.
//!
//! An index narrows by its copies of the ledger's texts, and says which of them are to be shown. A copy is shown only if a
//! verified record says the same: a program that edits the index, or restores redacted text in it,
//! changes no word that is shown, nor who said it.

use std::collections::{BTreeSet, HashMap, HashSet};

use filrouge_engine::Extent;
use filrouge_sources::Header;
use filrouge_sources::ledger::{header, units};
use filrouge_types::{Failure, Recorded, Session, SessionId};

use super::ledger::{LedgerSearch, seen};
use crate::answer::{Claim, Excerpt};
use crate::ledger::{LedgerFeed, aside, is_of_session};
use crate::spoken::{Spoken, print};

/// Sessions by their ids, each with the excerpts that its records vouch for.
pub(super) type Vouched = HashMap<Box<str>, Result<Option<(Header, Vec<Excerpt>)>, Failure>>;

impl LedgerSearch {
    /// Reads the records that these excerpts were copied from, of several sessions side by side. `None` of a session that the
    /// caller does not see, and of one whose records vouch for none of its excerpts.
    pub(super) fn vouched(&self, sessions: Vec<(Box<str>, Vec<Excerpt>)>) -> Vouched {
        // Without an index nothing is copied.
        let Some(feed) = &self.feed else {
            return Vouched::new();
        };
        let read = |(id, excerpts): (Box<str>, Vec<Excerpt>)| {
            let (this, feed) = (self.clone(), feed.clone());
            async move {
                let read = this.vouch(&feed, &id, excerpts).await;
                (id, read)
            }
        };
        let read = self.side_by_side(sessions.into_iter().map(read));
        read.into_iter().collect()
    }

    async fn vouch(
        &self,
        feed: &LedgerFeed,
        id: &str,
        mut excerpts: Vec<Excerpt>,
    ) -> Result<Option<(Header, Vec<Excerpt>)>, Failure> {
        let Ok(id) = id.parse::<SessionId>() else {
            return Ok(None);
        };
        let Some(session) = seen(self.engine.sessions.get(&self.caller, &id).await)? else {
            return Ok(None);
        };
        let header = header(&session);
        let claims: Vec<Claim> = excerpts.iter().filter_map(|one| one.claim).collect();
        let read = self
            .read_claimed(feed, (&session, &header), &claims)
            .await?;
        let claimed = excerpts.len();
        excerpts.retain(|one| one.claim.is_some_and(|claim| read.contains(&claim.print)));
        let stale = claimed - excerpts.len();
        if stale > 0 {
            let text =
                "the search index has texts that the ledger's records have not: they are not shown";
            tracing::warn!(session_id = %id, stale, "{text}");
            feed.counting().stale += stale as u64;
        }
        Ok((stale == 0 || stale < claimed).then_some((header, excerpts)))
    }

    /// The prints of what the records of a session say of what is claimed. What they have said already, the session being in
    /// this state, is remembered.
    async fn read_claimed(
        &self,
        feed: &LedgerFeed,
        (session, header): (&Session, &Header),
        claims: &[Claim],
    ) -> Result<HashSet<u64>, Failure> {
        // Whatever becomes of a session's items has a seq of its own, redactions as well.
        let (tenant, id) = (&session.tenant_id, &session.session_id);
        let state =
            |claimed: u64| print(&(tenant.as_str(), id.as_str(), session.last_seq, claimed));
        let title = Spoken::of_title(header);
        let mut read: HashSet<u64> = title.iter().flat_map(Spoken::prints).collect();
        let all = claims.iter().map(|claim| claim.print);
        read.extend(all.filter(|claimed| feed.vouched.get(&state(*claimed)).is_some()));
        // A text may depend on other turns: a result that joins its call, an id that there is twice.
        for reads_whole in [false, true] {
            let open = claims.iter().filter(|claim| !read.contains(&claim.print));
            let open: BTreeSet<u64> = open.filter_map(|claim| claim.message).collect();
            if open.is_empty() {
                break;
            }
            let extent = match reads_whole {
                true => Extent::Whole,
                false => Extent::Turns(open.iter().map(|seq| (*seq, *seq)).collect()),
            };
            let standing = self.engine.index_feed.standing(&self.caller, id, extent);
            match standing.await {
                Ok(Some(standing)) => {
                    let prints = aside(move || prints(&standing.conversation, &open));
                    read.extend(prints.await?);
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
            if read.contains(&claim.print) {
                feed.vouched.insert(state(claim.print), ());
            }
        }
        Ok(read)
    }
}

/// The prints of the messages that begin with these items.
fn prints(read: &Recorded, first: &BTreeSet<u64>) -> Vec<u64> {
    let units = units(read).units;
    let messages = units.iter().flat_map(|(_, messages)| messages);
    let wanted = messages.filter(|m| m.seq.is_some_and(|seq| first.contains(&seq)));
    wanted.flat_map(|m| Spoken::of(m).prints()).collect()
}
