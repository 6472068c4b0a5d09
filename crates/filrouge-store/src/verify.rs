//! Verification beyond single rows: whole sessions rebuilt from their items, the commit log, and what is
//! missing altogether (DESIGN §9).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId, TurnId, TurnStatus};
use serde::Serialize;

use crate::chain::{Digest, GENESIS};
use crate::keyring::Keyring;
use crate::read::{ALL_PLACES, Loaded, Sight};
use crate::record::Event;
use crate::rows::{LogRow, SessionPk, TurnRow, View};

/// Sessions that are known not to be what was written; reads and writes of them are refused.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    sessions: BTreeMap<SessionPk, String>,
    lost: BTreeSet<(TenantId, SessionId)>,
    all: Option<String>,
}

impl Suspects {
    /// The whole store is not what was written.
    #[must_use]
    pub fn everything(what: impl Into<String>) -> Self {
        Self { all: Some(what.into()), ..Self::default() }
    }

    /// Whether nothing is suspect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.lost.is_empty() && self.all.is_none()
    }

    pub(crate) fn check(&self, pk: SessionPk, id: &SessionId) -> Result<(), Failure> {
        self.check_all()?;
        match self.sessions.get(&pk) {
            Some(what) => Err(Failure::integrity(id.as_str(), None, what)),
            None => Ok(()),
        }
    }

    pub(crate) fn check_absent(&self, tenant: &TenantId, id: &SessionId) -> Result<(), Failure> {
        self.check_all()?;
        if self.lost.contains(&(tenant.clone(), id.clone())) {
            return Err(Failure::integrity(id.as_str(), None, "the session was deleted outside filrouge"));
        }
        Ok(())
    }

    pub(crate) fn check_listing(&self, tenant: &TenantId) -> Result<(), Failure> {
        self.check_all()?;
        match self.lost.iter().find(|(t, _)| t == tenant) {
            Some((_, id)) => Err(Failure::integrity(id.as_str(), None, "the session was deleted outside filrouge")),
            None => Ok(()),
        }
    }

    fn check_all(&self) -> Result<(), Failure> {
        match &self.all {
            Some(what) => Err(Failure::new(ErrorCode::IntegrityError, what.clone())
                .with_hint("restore the newest copy, or accept the loss with `filrouge anchor accept`")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Suspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.all {
            Some(what) => f.write_str(what),
            None => write!(f, "{} sessions changed, {} deleted", self.sessions.len(), self.lost.len()),
        }
    }
}

/// Compares all heads with the commit log and names the sessions that do not agree; cheap when all is well.
///
/// # Errors
/// When the store does not answer, or the log itself cannot be read.
pub fn find_suspects<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Suspects, Failure> {
    let newest = view.newest_log()?;
    let expected = newest.as_ref().map_or_else(Digest::default, |row| row.digest);
    if let Some(row) = &newest {
        let before = if row.commit_no > 1 { view.log(row.commit_no - 2, 1)?.pop() } else { None };
        if row.follows(before.as_ref(), keyring) == Some(false) {
            return Ok(Suspects::everything(format!("commit {} was changed", row.commit_no)));
        }
    }
    if view.digest()? == expected {
        return Ok(Suspects::default());
    }
    name_suspects(view, keyring)
}

/// Reads the whole log, so that each session's newest head is known.
fn name_suspects<V: View + ?Sized>(view: &V, keyring: &Keyring) -> Result<Suspects, Failure> {
    let mut expected: BTreeMap<SessionPk, [u8; 8]> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut previous: Option<LogRow> = None;
    loop {
        let rows = view.log(previous.as_ref().map_or(0, |p| p.commit_no), 1024)?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            if row.follows(previous.as_ref(), keyring) == Some(false) {
                return Ok(Suspects::everything(format!("the commit log is broken at commit {}", row.commit_no)));
            }
            let Some(entries) = row.entries() else {
                return Ok(Suspects::everything(format!("commit {} is malformed", row.commit_no)));
            };
            for entry in entries {
                expected.insert(entry.pk, entry.head);
                if let Some(name) = entry.created {
                    names.insert(entry.pk, name);
                }
            }
            previous = Some(row);
        }
    }
    let mut suspects = Suspects::default();
    for (pk, head) in &expected {
        match view.session_by_pk(*pk)? {
            Some(stored) => {
                if stored.head.is_none_or(|h| h.mac[..8] != head[..]) {
                    let what = "the session is not in its newest state (older rows were put back, or its end was cut)";
                    suspects.sessions.insert(*pk, what.to_owned());
                }
            }
            None => {
                suspects.lost.extend(names.get(pk).cloned());
            }
        }
    }
    if suspects.is_empty() {
        suspects.all = Some("the store holds sessions that no commit made".to_owned());
    }
    Ok(suspects)
}

/// One thing that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The session, when it is about one.
    pub session_id: Option<String>,
    /// The first seq concerned.
    pub seq: Option<u64>,
    /// The error code.
    pub code: &'static str,
    /// What is wrong.
    pub what: String,
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self {
            session_id: failure.place.as_ref().map(|p| p.session_id.clone()),
            seq: failure.place.as_ref().and_then(|p| p.seq),
            code: failure.code.as_str(),
            what: failure.detail,
        }
    }
}

/// What a verification has looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Sessions looked at.
    pub sessions: u64,
    /// Turns looked at.
    pub turns: u64,
    /// Items looked at.
    pub items: u64,
    /// Commits looked at.
    pub commits: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// The outcome of a verification, and with it the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is as it was written.
    Intact,
    /// Something is not.
    Broken,
    /// A key is missing or the store does not answer.
    CannotTell,
}

impl Report {
    /// What the findings amount to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let of = |code: ErrorCode| self.findings.iter().any(|f| f.code == code.as_str());
        if of(ErrorCode::IntegrityError) {
            Verdict::Broken
        } else if self.findings.is_empty() {
            Verdict::Intact
        } else {
            Verdict::CannotTell
        }
    }
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// Rebuilds a session from its items and compares it with its rows.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify_session(&self, session: &Loaded, report: &mut Report) -> Result<(), Failure> {
        report.sessions += 1;
        let mut rebuilt = Rebuilt::default();
        let (mut next, mut previous) = (1, GENESIS);
        while next <= session.head.last_seq {
            let rows = self.view.records(session.pk, next, 256)?;
            if rows.is_empty() {
                return Err(session.broken(Some(next), "the item is missing"));
            }
            for row in &rows {
                let decoded = self.decode(session, row)?;
                if row.first_seq != next {
                    return Err(session.broken(Some(next.min(row.first_seq)), "the item is missing"));
                }
                if decoded.previous != previous {
                    return Err(session.broken(Some(next), "the chain is broken"));
                }
                previous = decoded.last;
                next = row.last_seq() + 1;
                for (item, events) in &decoded.items {
                    report.items += 1;
                    if let Some(id) = &item.item_id {
                        rebuilt.keys += 1;
                        if self.view.item_seq(session.pk, id)? != Some(item.seq) {
                            return Err(session.broken(Some(item.seq), "the item's key is missing or points elsewhere"));
                        }
                    }
                    rebuilt.take(session, item, events)?;
                }
            }
        }
        if previous != session.head.link || self.view.newest_seq(session.pk)? != session.head.last_seq {
            return Err(session.broken(Some(session.head.last_seq), "the items do not end where the head says"));
        }
        if self.view.item_keys(session.pk)? != rebuilt.keys {
            return Err(session.broken(None, "there are item keys without items"));
        }
        self.compare_turns(session, &rebuilt, report)
    }

    fn compare_turns(&self, session: &Loaded, rebuilt: &Rebuilt, report: &mut Report) -> Result<(), Failure> {
        let mut from = ALL_PLACES.0;
        let mut seen = 0;
        loop {
            let rows = self.view.turns(session.pk, from, ALL_PLACES.1, false, 1024)?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                from = row.place() + 1;
                seen += 1;
                report.turns += 1;
                let row = self.verified_turn(session, row)?;
                if rebuilt.turns.get(&row.turn_id).is_none_or(|t| !t.agrees(&row)) {
                    let what = format!("turn {} is not what its items say", row.turn_id);
                    return Err(session.broken(Some(row.first_seq), what));
                }
            }
        }
        let open = rebuilt.turns.values().filter(|t| t.status == TurnStatus::Open).count() as u64;
        if seen != rebuilt.turns.len() as u64
            || session.head.turn_count != rebuilt.ordinals
            || session.head.open_turns != open
        {
            return Err(session.broken(None, "turns are missing or were added"));
        }
        Ok(())
    }

    /// Verifies one session or the whole store; never stops at the first broken session.
    ///
    /// # Errors
    /// Only when the store does not answer; what is wrong is in the report.
    pub fn verify(&self, only: Option<(&crate::Scope, &SessionId)>) -> Result<Report, Failure> {
        let mut report = Report::default();
        let note = |result: Result<(), Failure>, report: &mut Report| match result {
            Err(f) if matches!(f.code, ErrorCode::IntegrityError | ErrorCode::KeyMissing) => {
                report.findings.push(f.into());
                Ok(())
            }
            other => other,
        };
        if let Some((scope, id)) = only {
            let result = self.get(scope, id).and_then(|s| self.verify_session(&s, &mut report));
            note(result, &mut report)?;
            return Ok(report);
        }
        let newest = self.verify_log(&mut report)?;
        for pk in 1..=newest {
            if let Some(stored) = self.view.session_by_pk(pk)? {
                let result = self.load(stored).and_then(|s| self.verify_session(&s, &mut report));
                note(result, &mut report)?;
            }
        }
        if report.findings.is_empty() || !self.suspects.is_empty() {
            let suspects = find_suspects(self.view, self.keyring)?;
            for what in [&suspects, self.suspects].into_iter().filter(|s| !s.is_empty()).take(1) {
                let first = what.lost.first().map(|(_, id)| id.to_string());
                report.findings.push(Finding {
                    session_id: first,
                    seq: None,
                    code: ErrorCode::IntegrityError.as_str(),
                    what: what.to_string(),
                });
            }
        }
        Ok(report)
    }

    /// Follows the whole commit log; gives the highest session number in it.
    fn verify_log(&self, report: &mut Report) -> Result<SessionPk, Failure> {
        let mut previous: Option<LogRow> = None;
        let mut highest = 0;
        loop {
            let rows = self.view.log(previous.as_ref().map_or(0, |p| p.commit_no), 1024)?;
            if rows.is_empty() {
                return Ok(highest);
            }
            for row in rows {
                report.commits += 1;
                let code = match row.follows(previous.as_ref(), self.keyring) {
                    Some(true) => None,
                    Some(false) => Some(ErrorCode::IntegrityError),
                    None => Some(ErrorCode::KeyMissing),
                };
                if let Some(code) = code {
                    report.findings.push(Finding {
                        session_id: None,
                        seq: None,
                        code: code.as_str(),
                        what: format!("the commit log is broken at commit {}", row.commit_no),
                    });
                }
                highest = row.entries().unwrap_or_default().iter().map(|e| e.pk).fold(highest, u64::max);
                previous = Some(row);
            }
        }
    }
}

/// A session's turns as its items tell them.
#[derive(Default)]
struct Rebuilt {
    turns: BTreeMap<TurnId, RebuiltTurn>,
    ordinals: u64,
    keys: u64,
}

struct RebuiltTurn {
    ordinal: u64,
    record_version: u64,
    status: TurnStatus,
    first_seq: u64,
    last_seq: u64,
    items: u64,
    finals: [u64; 2],
}

impl RebuiltTurn {
    fn agrees(&self, row: &TurnRow) -> bool {
        (self.ordinal, self.record_version, self.status, self.first_seq, self.last_seq, self.items, self.finals)
            == (row.ordinal, row.record_version, row.status, row.first_seq, row.last_seq, row.items, row.finals)
    }
}

impl Rebuilt {
    fn take(&mut self, session: &Loaded, item: &filrouge_types::Item, events: &[Event]) -> Result<(), Failure> {
        let Some(turn_id) = item.turn_id else { return Ok(()) };
        for event in events {
            if let Event::Start(start) = event {
                let (ordinal, record_version) = match start.replaces.and_then(|old| self.turns.get(&old)) {
                    Some(old) => (old.ordinal, old.record_version + 1),
                    None => {
                        self.ordinals += 1;
                        (self.ordinals, 1)
                    }
                };
                self.turns.insert(
                    turn_id,
                    RebuiltTurn {
                        ordinal,
                        record_version,
                        status: TurnStatus::Open,
                        first_seq: item.seq,
                        last_seq: item.seq,
                        items: 0,
                        finals: [0; 2],
                    },
                );
            }
        }
        let Some(turn) = self.turns.get_mut(&turn_id) else {
            return Err(session.broken(Some(item.seq), "the item belongs to a turn that never began"));
        };
        turn.last_seq = item.seq;
        turn.items += 1;
        if item.channel == filrouge_types::Channel::Final {
            turn.finals[usize::from(item.variant.code())] = item.seq;
        }
        for event in events {
            match event {
                Event::Start(_) => {}
                Event::Close(close) => turn.status = close.status,
                Event::Interrupt => turn.status = TurnStatus::Interrupted,
                Event::Reopen => turn.status = TurnStatus::Open,
            }
        }
        Ok(())
    }
}
