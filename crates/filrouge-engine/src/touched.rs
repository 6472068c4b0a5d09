//! What commits have touched, of all tenants, and the turns that are to be read again for it: for an index that is kept in
//! step with the ledger (DESIGN §10).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use filrouge_store::ledger::Position;
use filrouge_store::read::{Gone, Loaded, Sight, in_session};
use filrouge_store::rows::{Change, LogEntry, SessionPk, View};
use filrouge_store::{MAC_BYTES, Scope, Viewer};
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId, TenantId, Timestamp, Turn, TurnId};
use tokio::sync::watch;

use crate::caller::{Caller, Permission};
use crate::conversation::{self, CONTENTS_MAX};
use crate::engine::IndexFeed;

/// A session that commits have touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub session: SessionId,
    /// The newest of those commits.
    pub newest: u64,
    /// Whether it was erased.
    pub erased: bool,
    /// Whether all of it may be new.
    pub whole: bool,
    /// The seqs that were added, from and to, ascending; none when only what is listed of it was changed.
    pub spans: Vec<(u64, u64)>,
}

/// What some commits have touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touches {
    /// The sessions, in the order in which they were first touched.
    pub sessions: Vec<Touched>,
    /// How many sessions have no row that can be read.
    pub unreadable: u64,
    /// The last commit that was looked at; where it was asked from when there was none behind it.
    pub upto: Position,
    /// When the commit was made that was asked from; `None` for the beginning.
    pub since: Option<Timestamp>,
    /// The store's newest commit.
    pub newest: u64,
}

/// How much of a session is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The turns that items with these seqs are of, each whole and in its newest version, and those of the items that are of
    /// no turn.
    Turns(Vec<(u64, u64)>),
}

/// A session as it stands at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The store's newest commit then.
    pub commit_no: u64,
    /// By whom it is listed: [`filrouge_store::Keyring::owner`].
    pub owner: [u8; MAC_BYTES],
    /// What was asked for of it.
    pub conversation: Recorded,
}

impl IndexFeed {
    /// The ledger's newest commit number, whenever there is a new one.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.ledger.commits()
    }

    /// The ledger's newest commit, as far as this process knows.
    #[must_use]
    pub fn position(&self) -> Position {
        self.ledger.position()
    }

    /// What identifies the store among all others.
    #[must_use]
    pub fn store_id(&self) -> &str {
        self.ledger.store_id()
    }

    /// By whom the sessions are listed that lists show to `caller`; `None` when those of the whole tenant are.
    #[must_use]
    pub fn owner(&self, caller: &Caller) -> Option<[u8; MAC_BYTES]> {
        let keyring = self.ledger.keyring();
        match &caller.viewer() {
            Viewer::Operator => None,
            Viewer::EndUser(Some(identity)) => Some(keyring.owner(Some(identity), None)),
            Viewer::EndUser(None) => Some(keyring.owner(None, caller.token())),
        }
    }

    /// What at most `commits` commits behind `after` have touched, in all tenants; a commit number of 0 is the beginning.
    /// `None` when `after` is no commit of this store. The hot store's sessions are not among them.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing` for the commits themselves, and the ledger's.
    pub async fn touched_behind(
        &self,
        after: Position,
        commits: usize,
    ) -> Result<Option<Touches>, Failure> {
        let asked = move |sight: &Sight<'_, dyn View + '_>| touches(sight, after, commits);
        self.ledger.ask(asked).await
    }

    /// A session of the ledger as `caller` sees it, or some of its turns, in one consistent sight; `None` when it was erased
    /// or is not there.
    ///
    /// # Errors
    /// `limit_exceeded` when what is asked for has more than 256 MiB, `integrity_error`, `key_missing`, and the ledger's.
    pub async fn standing(
        &self,
        caller: &Caller,
        session: &SessionId,
        extent: Extent,
    ) -> Result<Option<Standing>, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let id = session.clone();
        let asked = self.ledger.ask(move |sight| {
            let loaded = match sight.find_or_gone(&scope, &id)? {
                Some(Gone::Not(loaded)) => *loaded,
                Some(Gone::Erased(_)) | None => return Ok(None),
            };
            let row = &loaded.row;
            let owner = sight.keyring.owner(row.identity_id.as_ref(), row.token);
            let newest = sight.view.newest_log()?;
            let read = match extent {
                Extent::Whole => conversation::read(sight, loaded),
                Extent::Turns(spans) => turns(sight, &scope, loaded, &spans),
            };
            Ok(Some(Standing {
                commit_no: newest.map_or(0, |row| row.commit_no),
                owner,
                conversation: in_session(&id, read)?,
            }))
        });
        asked.await
    }
}

fn touches<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    after: Position,
    commits: usize,
) -> Result<Option<Touches>, Failure> {
    let mut previous = None;
    if after.commit_no > 0 {
        let found = sight.view.log(after.commit_no - 1, 1)?.pop();
        match found.filter(|row| row.commit_no == after.commit_no && row.link == after.link) {
            Some(row) => previous = Some(row),
            None => return Ok(None),
        }
    }
    let newest = sight.view.newest_log()?.map_or(0, |row| row.commit_no);
    let since = previous.as_ref().map(|row| row.at);
    let (mut upto, mut found) = (after, Found::default());
    for row in sight.view.log(after.commit_no, commits)? {
        for entry in sight.entries(&row, previous.as_ref())? {
            found.take(sight, row.commit_no, &entry)?;
        }
        upto = Position {
            commit_no: row.commit_no,
            link: row.link,
        };
        previous = Some(row);
    }
    Ok(Some(Touches {
        sessions: found.sessions,
        unreadable: found.unreadable,
        upto,
        since,
        newest,
    }))
}

#[derive(Default)]
struct Found {
    sessions: Vec<Touched>,
    /// Where a session is among them; `None` for one without a row.
    places: HashMap<SessionPk, Option<usize>>,
    unreadable: u64,
}

impl Found {
    fn take<V: View + ?Sized>(
        &mut self,
        sight: &Sight<'_, V>,
        commit_no: u64,
        entry: &LogEntry,
    ) -> Result<(), Failure> {
        let told = matches!(
            entry.change,
            Change::Items | Change::Created(..) | Change::Patched | Change::Erased
        );
        if !told {
            return Ok(());
        }
        let place = match self.places.get(&entry.pk) {
            Some(place) => *place,
            None => self.find(sight, entry.pk)?,
        };
        let Some(touched) = place.and_then(|place| self.sessions.get_mut(place)) else {
            return Ok(());
        };
        touched.newest = commit_no;
        touched.erased |= entry.change == Change::Erased;
        touched.whole |= match entry.change {
            Change::Created(..) => true,
            // A turn was changed, and nothing says which.
            Change::Items => entry.count == 0,
            _ => false,
        };
        if entry.count > 0 {
            let last = entry.first_seq + entry.count - 1;
            match touched.spans.last_mut() {
                Some(span) if span.1 + 1 == entry.first_seq => span.1 = last,
                _ => touched.spans.push((entry.first_seq, last)),
            }
        }
        Ok(())
    }

    fn find<V: View + ?Sized>(
        &mut self,
        sight: &Sight<'_, V>,
        pk: SessionPk,
    ) -> Result<Option<usize>, Failure> {
        let stored = match sight.view.session_by_pk(pk) {
            Err(failure) if failure.code != ErrorCode::IntegrityError => return Err(failure),
            stored => stored.ok().flatten(),
        };
        let place = stored.map(|stored| {
            self.sessions.push(Touched {
                tenant: stored.row.tenant_id,
                session: stored.row.session_id,
                newest: 0,
                erased: false,
                whole: false,
                spans: Vec::new(),
            });
            self.sessions.len() - 1
        });
        self.unreadable += u64::from(place.is_none());
        self.places.insert(pk, place);
        Ok(place)
    }
}

fn turns<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    loaded: Loaded,
    spans: &[(u64, u64)],
) -> Result<Recorded, Failure> {
    let (mut room, mut ids, mut loose) = (CONTENTS_MAX, BTreeSet::new(), Vec::new());
    for &(first, last) in spans {
        let last = last.min(loaded.head.last_seq);
        // These are read again with their turns.
        let mut apart = room;
        for item in sight.items_between(&loaded, first, last, &mut apart)? {
            match item.turn_id {
                Some(turn) => drop(ids.insert(turn)),
                None => loose.push(item),
            }
        }
    }
    let mut newest = BTreeMap::new();
    for id in ids {
        let turn = newest_version(sight, scope, &loaded.row.session_id, id)?;
        newest.insert(turn.ordinal, turn);
    }
    let mut turns = Vec::with_capacity(newest.len());
    for turn in newest.into_values() {
        let mut items = sight.items_between(&loaded, turn.first_seq, turn.last_seq, &mut room)?;
        // Other turns' items may lie between.
        items.retain(|item| item.turn_id == Some(turn.turn_id));
        turns.push((turn, items));
    }
    Ok(Recorded {
        session: loaded.row.with_head(&loaded.head),
        turns,
        loose,
    })
}

fn newest_version<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    session: &SessionId,
    id: TurnId,
) -> Result<Turn, Failure> {
    let mut turn = sight.turn(scope, session, &id)?;
    while let Some(next) = turn.replaced_by_turn_id {
        turn = sight.turn(scope, session, &next)?;
    }
    Ok(turn)
}
