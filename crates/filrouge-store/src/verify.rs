//! Verification beyond single rows: whole sessions rebuilt from their items, the commit log, and what is
//! missing altogether (DESIGN §9).

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{ErrorCode, Failure, Item, SessionId, TurnStatus};
use serde::Serialize;

use crate::chain::GENESIS;
use crate::read::{ALL_PLACES, Loaded, Sight, in_session};
use crate::record::{Check, Event};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

mod beside;
mod finding;
mod rebuilt;
mod suspects;

pub use finding::Finding;
pub(crate) use rebuilt::Rebuilt;
pub(crate) use suspects::newest_commit;
pub use suspects::{Suspects, find_suspects};

/// Is told how much of how much is done; an error ends the work.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), Failure>;

/// What a verification has looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Verification))]
pub struct Report {
    /// Sessions looked at.
    pub sessions: u64,
    /// Turns looked at.
    pub turns: u64,
    /// Items looked at.
    pub items: u64,
    /// Events looked at.
    pub events: u64,
    /// Checkpoints looked at.
    pub checkpoints: u64,
    /// Notes looked at.
    pub notes: u64,
    /// Commits looked at.
    pub commits: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// The outcome of a verification, and with it the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// Takes down what is wrong with the data; other failures are the caller's.
    fn note(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(f) if matches!(f.code, ErrorCode::IntegrityError | ErrorCode::KeyMissing) => {
                self.add(f.into());
                Ok(())
            }
            other => other,
        }
    }

    /// Takes down a finding; one about everything, which each session meets, once.
    fn add(&mut self, finding: Finding) {
        if finding.session_id.is_some() || !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

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
                // The whole session's redactions are compared with its items below.
                let decoded = self.decode_alone(session, row)?;
                rebuilt.contentless.extend(decoded.redacted.iter().copied());
                if row.first_seq != next {
                    return Err(
                        session.broken(Some(next.min(row.first_seq)), "the item is missing")
                    );
                }
                if decoded.previous != previous {
                    return Err(session.broken(Some(next), "the chain is broken"));
                }
                previous = decoded.last;
                next = row.last_seq() + 1;
                for (item, events) in &decoded.items {
                    report.items += 1;
                    if let Some(id) = &item.body.item_id {
                        rebuilt.keys += 1;
                        if self.view.item_seq(session.pk, id)? != Some(item.seq) {
                            return Err(session.broken(
                                Some(item.seq),
                                "the item's key is missing or points elsewhere",
                            ));
                        }
                    }
                    self.check_request_keys(session, item, events, &mut rebuilt)?;
                    rebuilt.take(session, item, events)?;
                }
            }
        }
        if previous != session.head.link
            || self.view.newest_seq(session.pk)? != session.head.last_seq
        {
            return Err(session.broken(
                Some(session.head.last_seq),
                "the items do not end where the head says",
            ));
        }
        if let Some((seq, what)) = rebuilt.misredacted() {
            return Err(session.broken(Some(seq), what));
        }
        if self.view.item_keys(session.pk)? != rebuilt.keys {
            return Err(session.broken(None, "there are item keys without items"));
        }
        self.compare_turns(session, &rebuilt, report)?;
        self.verify_drafts(session)?;
        self.verify_checkpoints(session, report)?;
        self.verify_events(session, report)
    }

    /// In a session that was taken in from elsewhere each turn is found by its request: by a key of its own, or by
    /// the id that is derived here.
    fn check_request_keys(
        &self,
        session: &Loaded,
        item: &Item,
        events: &[Event],
        rebuilt: &mut Rebuilt,
    ) -> Result<(), Failure> {
        for event in events.iter().filter(|_| session.head.adopted) {
            let Event::Start(start) = event else { continue };
            let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
            let derived = self.keyring.turn_id(tenant, name, &start.request_id);
            let found = self.view.request_seq(session.pk, &start.request_id)?;
            rebuilt.keys += u64::from(found.is_some());
            let by_id = item.turn_id == Some(derived) || self.check == Check::Unverified;
            if found.map_or(!by_id, |seq| seq != item.seq) {
                let what = "the request's key is missing or points elsewhere";
                return Err(session.broken(Some(item.seq), what));
            }
        }
        Ok(())
    }

    fn compare_turns(
        &self,
        session: &Loaded,
        rebuilt: &Rebuilt,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let mut from = ALL_PLACES.0;
        let mut seen = 0;
        loop {
            let rows = self
                .view
                .turns(session.pk, from, ALL_PLACES.1, false, 1024)?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                from = row.place() + 1;
                seen += 1;
                report.turns += 1;
                let row = self.verified_turn(session, row)?;
                if rebuilt
                    .turns
                    .get(&row.turn_id)
                    .is_none_or(|t| !t.row.agrees(&row))
                {
                    let what = format!("turn {} is not what its items say", row.turn_id);
                    return Err(session.broken(Some(row.first_seq), what));
                }
            }
        }
        let open = rebuilt
            .turns
            .values()
            .filter(|t| t.row.status == TurnStatus::Open)
            .count() as u64;
        if seen != rebuilt.turns.len() as u64
            || session.head.turn_rows != seen
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
        let Some((scope, id)) = only else {
            return self.verify_all(&mut |_, _| Ok(()));
        };
        let mut report = Report::default();
        self.note_session(self.get(scope, id), &mut report)?;
        Ok(report)
    }

    /// Verifies the whole store; `watch` is told how many sessions of how many were looked at.
    ///
    /// # Errors
    /// When the store does not answer, and those of `watch`, which end it.
    pub fn verify_all(&self, watch: Watch<'_>) -> Result<Report, Failure> {
        let mut report = Report::default();
        match self.view.structure() {
            Ok(found) => report.findings.extend(
                found
                    .into_iter()
                    .map(|what| Finding::of(ErrorCode::IntegrityError, None, what)),
            ),
            Err(failure) => report.note(Err(failure))?,
        }
        let known = match self.verify_log(&mut report) {
            Err(failure) => {
                report.note(Err(failure))?;
                BTreeMap::new()
            }
            Ok(known) => known,
        };
        let mut pks: BTreeSet<SessionPk> = known.keys().copied().collect();
        match self.view.session_pks() {
            Ok(found) => pks.extend(found),
            Err(failure) => report.note(Err(failure))?,
        }
        for (done, pk) in (0..).zip(&pks) {
            watch(done, pks.len() as u64)?;
            self.verify_pk(*pk, known.get(pk).copied(), &mut report)?;
        }
        self.verify_notes(&mut report)?;
        let found = match self.check {
            Check::Keyed => find_suspects(self.view, self.keyring)?,
            Check::Unverified => Suspects::default(),
        };
        let suspects = found.and(self.suspects.clone());
        for (session_id, what) in suspects.findings() {
            if session_id.is_none() || report.findings.iter().all(|f| f.session_id != session_id) {
                report.add(Finding::of(ErrorCode::IntegrityError, session_id, what));
            }
        }
        Ok(report)
    }

    fn note_session(
        &self,
        session: Result<Loaded, Failure>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let result =
            session.and_then(|s| in_session(&s.row.session_id, self.verify_session(&s, report)));
        report.note(result)
    }

    /// Verifies what stands under one session number; `events` is how many the log tells of, if it made the session.
    fn verify_pk(
        &self,
        pk: SessionPk,
        events: Option<u64>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        match self.view.session_by_pk(pk) {
            Ok(Some(stored)) if let Some(events) = events => {
                let (before, findings) = (report.events, report.findings.len());
                let id = stored.row.session_id.clone();
                self.note_session(self.load(stored), report)?;
                let seen = report.events - before;
                // When something else is wrong with it, not all of its events were looked at.
                if seen != events && report.findings.len() == findings {
                    let what = format!("{events} events were recorded, {seen} are there");
                    let failure = Failure::integrity(id.as_str(), None, what);
                    report.findings.push(failure.into());
                }
                Ok(())
            }
            Ok(Some(stored)) => {
                let id = Some(stored.row.session_id.to_string());
                let what = "no commit made this session".to_owned();
                report
                    .findings
                    .push(Finding::of(ErrorCode::IntegrityError, id, what));
                Ok(())
            }
            Ok(None) => {
                let beside = || -> Result<usize, Failure> {
                    Ok(self.view.drafts(pk)?.len() + self.view.checkpoint_seqs(pk)?.len())
                };
                let beside = match beside() {
                    Ok(found) => found as u64,
                    Err(failure) => return report.note(Err(failure)),
                };
                let strays = beside + self.view.newest_seq(pk)? + self.view.turn_rows(pk)?;
                if strays + self.view.item_keys(pk)? + self.view.newest_event(pk)? > 0 {
                    let what = format!("there are rows of session number {pk}, which is gone");
                    report
                        .findings
                        .push(Finding::of(ErrorCode::IntegrityError, None, what));
                }
                Ok(())
            }
            Err(failure) => report.note(Err(failure)),
        }
    }

    /// Follows the whole commit log; gives the numbers of the sessions it made, and how many events each has.
    fn verify_log(&self, report: &mut Report) -> Result<BTreeMap<SessionPk, u64>, Failure> {
        let mut previous: Option<LogRow> = None;
        let mut known = BTreeMap::new();
        loop {
            let rows = self
                .view
                .log(previous.as_ref().map_or(0, |p| p.commit_no), 1024)?;
            if rows.is_empty() {
                return Ok(known);
            }
            for row in rows {
                report.commits += 1;
                let code = match row.follows(previous.as_ref(), self.keyring) {
                    _ if self.check == Check::Unverified => None,
                    Some(true) => None,
                    Some(false) => Some(ErrorCode::IntegrityError),
                    None => Some(ErrorCode::KeyMissing),
                };
                if let Some(code) = code {
                    let what = format!("the commit log is broken at commit {}", row.commit_no);
                    report.findings.push(Finding::of(code, None, what));
                }
                for entry in row.entries().unwrap_or_default() {
                    count(&mut known, &entry);
                }
                previous = Some(row);
            }
        }
    }
}

/// Counts a session's events as its commits tell.
fn count(known: &mut BTreeMap<SessionPk, u64>, entry: &LogEntry) {
    if matches!(entry.change, Change::Note(_)) {
        return;
    }
    let events = known.entry(entry.pk).or_default();
    match entry.change {
        Change::Event => *events += 1,
        Change::Erased => *events = 0,
        _ => {}
    }
}
