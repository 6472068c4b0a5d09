//! Verification beyond single rows: rebuilds sessions from their items, checks the commit log and finds missing rows
//! (DESIGN §9).

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{ErrorCode, Failure, Item, Result, SessionId, TurnStatus};

use crate::chain::GENESIS;
use crate::lane::Lane;
use crate::read::{ALL_PLACES, VerifiedSession, VerifiedSnapshot, in_session};
use crate::record::{Event, MacCheck};
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

mod finding;
mod heads;
mod known_heads;
mod rebuilt;
mod report;
mod side_rows;
mod suspects;
mod verified_log;

pub use finding::Finding;
pub use heads::compare_with_log;
pub(crate) use heads::newest_commit;
pub(crate) use known_heads::DELETED;
use known_heads::in_lane;
pub use known_heads::{HeadCheck, KnownHeads};
pub(crate) use rebuilt::RebuiltSession;
pub use report::{Verdict, VerificationReport};
use side_rows::LoggedRows;
pub(crate) use suspects::LoggedSession;
pub use suspects::Suspects;
pub use verified_log::VerifiedLog;

/// The number of records per read.
const RECORDS_PER_READ: usize = 256;
/// The number of turn rows or commits per read.
const ROWS_PER_READ: usize = 1024;

/// A callback for progress: receives the number of checked sessions and the total; an error stops the verification.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// A callback for each session: receives its number, the report about it, the number of sessions checked before it, and
/// the total; an error stops the verification.
pub(crate) type OnSession<'a> =
    &'a mut dyn FnMut(SessionPk, &VerificationReport, (u64, u64)) -> Result<()>;

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Rebuilds a session from its items and compares it with its rows.
    ///
    /// # Errors
    /// The first integrity error.
    pub fn verify_session(
        &self,
        session: &VerifiedSession,
        report: &mut VerificationReport,
    ) -> Result<()> {
        report.sessions += 1;
        let mut rebuilt = RebuiltSession::default();
        let (mut next_seq, mut previous_link) = (1, GENESIS);
        while next_seq <= session.head.last_seq {
            let rows = self.view.records(session.pk, next_seq, RECORDS_PER_READ)?;
            if rows.is_empty() {
                return Err(session.integrity_failure(Some(next_seq), "the item is missing"));
            }
            for row in &rows {
                // This check leaves out redactions: `first_redaction_error` compares all of them at the end.
                let decoded = self.decode_without_redactions(session, row)?;
                rebuilt.contentless.extend(decoded.redacted.iter().copied());
                if row.first_seq != next_seq {
                    return Err(session.integrity_failure(
                        Some(next_seq.min(row.first_seq)),
                        "the item is missing",
                    ));
                }
                if decoded.previous_link != previous_link {
                    return Err(session.integrity_failure(Some(next_seq), "the chain is broken"));
                }
                previous_link = decoded.last_link;
                next_seq = row.last_seq() + 1;
                for (item, events) in &decoded.items {
                    report.items += 1;
                    if let Some(id) = &item.body.item_id {
                        rebuilt.keys += 1;
                        if self.view.item_seq(session.pk, id)? != Some(item.seq) {
                            return Err(session.integrity_failure(
                                Some(item.seq),
                                "the item's key is missing or points elsewhere",
                            ));
                        }
                    }
                    self.check_request_keys(session, item, events, &mut rebuilt)?;
                    rebuilt.add_item(session, item, events)?;
                }
            }
        }
        if previous_link != session.head.link
            || self.view.newest_seq(session.pk)? != session.head.last_seq
        {
            return Err(session.integrity_failure(
                Some(session.head.last_seq),
                "the items do not end where the head says",
            ));
        }
        if let Some((seq, detail)) = rebuilt.first_redaction_error() {
            return Err(session.integrity_failure(Some(seq), detail));
        }
        if self.view.item_key_count(session.pk)? != rebuilt.keys {
            return Err(session.integrity_failure(None, "there are item keys without items"));
        }
        self.compare_turns(session, &rebuilt, report)?;
        self.verify_drafts(session)?;
        self.verify_checkpoints(session, report)?;
        self.verify_events(session, report)?;
        match rebuilt.derived_error(&self.agents(session)?, &session.head) {
            Some(detail) => Err(session.integrity_failure(None, detail)),
            None => Ok(()),
        }
    }

    /// Checks, in an adopted session, that each turn can be found by its request id: through a stored request key, or
    /// because this keyring derives the same turn id. Another keyring may have derived the ids of such a session.
    fn check_request_keys(
        &self,
        session: &VerifiedSession,
        item: &Item,
        events: &[Event],
        rebuilt: &mut RebuiltSession,
    ) -> Result<()> {
        for event in events.iter().filter(|_| session.head.adopted) {
            let Event::Start(start) = event else { continue };
            let (tenant, name) = (&session.row.tenant_id, &session.row.session_id);
            let derived = self.keyring.turn_id(tenant, name, &start.request_id);
            let key_seq = self.view.request_seq(session.pk, &start.request_id)?;
            rebuilt.keys += u64::from(key_seq.is_some());
            let is_found_by_id =
                item.turn_id == Some(derived) || self.check == MacCheck::Unverified;
            if key_seq.map_or(!is_found_by_id, |seq| seq != item.seq) {
                let detail = "the request's key is missing or points elsewhere";
                return Err(session.integrity_failure(Some(item.seq), detail));
            }
        }
        Ok(())
    }

    /// Compares the rows of all turns with those that the items describe, and the head's counts of turns with both.
    fn compare_turns(
        &self,
        session: &VerifiedSession,
        rebuilt: &RebuiltSession,
        report: &mut VerificationReport,
    ) -> Result<()> {
        let mut from = ALL_PLACES.0;
        let mut stored_count = 0;
        loop {
            let rows = self
                .view
                .turns(session.pk, from, ALL_PLACES.1, false, ROWS_PER_READ)?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                from = row.place() + 1;
                stored_count += 1;
                report.turns += 1;
                let row = self.verified_turn(session, row)?;
                if rebuilt
                    .turns
                    .get(&row.turn_id)
                    .is_none_or(|t| !t.row.has_same_state(&row))
                {
                    let detail =
                        format!("the row of turn {} does not match its items", row.turn_id);
                    return Err(session.integrity_failure(Some(row.first_seq), detail));
                }
            }
        }
        let open_count = rebuilt
            .turns
            .values()
            .filter(|t| t.row.status == TurnStatus::Open)
            .count() as u64;
        if stored_count != rebuilt.turns.len() as u64
            || session.head.turn_rows != stored_count
            || session.head.turn_count != rebuilt.turn_count
            || session.head.open_turns != open_count
        {
            return Err(session.integrity_failure(None, "turns are missing or were added"));
        }
        Ok(())
    }

    /// Verifies one session; with `None`, verifies the entire store, and continues after a session that fails
    /// verification.
    ///
    /// # Errors
    /// Fails only when the store does not answer; integrity errors are in the report.
    pub fn verify(
        &self,
        session: Option<(&crate::Scope, &SessionId)>,
    ) -> Result<VerificationReport> {
        let Some((scope, id)) = session else {
            return self.verify_all(&mut |_, _| Ok(()));
        };
        let mut report = VerificationReport::default();
        self.verify_and_report(self.get(scope, id), &mut report)?;
        Ok(report)
    }

    /// Verifies the entire store; `on_progress` receives the number of checked sessions and the total.
    ///
    /// # Errors
    /// Fails when the store does not answer, or with an error of `on_progress`, which stops the verification.
    pub fn verify_all(&self, on_progress: OnProgress<'_>) -> Result<VerificationReport> {
        self.verify_each(&mut |_, _, (checked, total)| on_progress(checked, total))
    }

    /// Verifies the entire store; `on_session` receives the report about each session.
    ///
    /// # Errors
    /// Fails when the store does not answer, or with an error of `on_session`, which stops the verification.
    pub(crate) fn verify_each(&self, on_session: OnSession<'_>) -> Result<VerificationReport> {
        let mut report = VerificationReport::default();
        match self.view.check_structure() {
            Ok(details) => report.findings.extend(
                details
                    .into_iter()
                    .map(|detail| Finding::new(ErrorCode::IntegrityError, None, detail)),
            ),
            Err(failure) => report.add_result(Err(failure))?,
        }
        let logged = match self.verify_log(&mut report) {
            Err(failure) => {
                report.add_result(Err(failure))?;
                BTreeMap::new()
            }
            Ok(logged) => logged,
        };
        let mut pks: BTreeSet<SessionPk> = logged.keys().copied().collect();
        match self.view.session_pks() {
            Ok(stored_pks) => pks.extend(stored_pks),
            Err(failure) => report.add_result(Err(failure))?,
        }
        for (checked, pk) in (0..).zip(&pks) {
            let mut session = VerificationReport::default();
            self.verify_session_number(*pk, logged.get(pk), &mut session)?;
            on_session(*pk, &session, (checked, pks.len() as u64))?;
            report.add(session);
        }
        self.verify_notes(&mut report)?;
        let suspects = self.compare_heads()?.merged_with(self.suspects.clone());
        for (session_id, detail) in suspects.findings() {
            if session_id.is_none() || report.findings.iter().all(|f| f.session_id != session_id) {
                report.add_finding(Finding::new(ErrorCode::IntegrityError, session_id, detail));
            }
        }
        Ok(report)
    }

    /// Compares every head and note with its newest entry in the commit log; reads the complete log. Without keys it
    /// compares nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn compare_heads(&self) -> Result<Suspects> {
        match self.check {
            MacCheck::Keyed => compare_with_log(self.view, self.keyring),
            MacCheck::Unverified => Ok(Suspects::default()),
        }
    }

    /// Verifies a session. Records its integrity failure, or that of reading it, as a finding.
    fn verify_and_report(
        &self,
        session: Result<VerifiedSession>,
        report: &mut VerificationReport,
    ) -> Result<()> {
        let result =
            session.and_then(|s| in_session(&s.row.session_id, self.verify_session(&s, report)));
        report.add_result(result)
    }

    /// Verifies all rows of one session number. `logged` is what the log says about them; `None` if no commit created
    /// the session.
    fn verify_session_number(
        &self,
        pk: SessionPk,
        logged: Option<&LoggedRows>,
        report: &mut VerificationReport,
    ) -> Result<()> {
        match self.view.session_by_pk(pk) {
            Ok(Some(stored)) if let Some(logged) = logged => {
                let (events_before, findings_before) = (report.events, report.findings.len());
                let id = stored.row.session_id.clone();
                self.verify_and_report(self.verified_session(stored), report)?;
                // A session with another finding may have events that were not examined, so they are not counted.
                if report.findings.len() > findings_before {
                    return Ok(());
                }
                let (logged_events, stored_events) = (logged.events, report.events - events_before);
                if stored_events != logged_events {
                    let detail =
                        format!("{logged_events} events were recorded, {stored_events} are stored");
                    let failure = Failure::integrity(id.as_str(), None, detail);
                    report.findings.push(failure.into());
                }
                report.add_result(self.compare_drafts(pk, &id, logged))
            }
            Ok(Some(stored)) => {
                let id = Some(stored.row.session_id.to_string());
                let detail = "no commit created this session".to_owned();
                report
                    .findings
                    .push(Finding::new(ErrorCode::IntegrityError, id, detail));
                Ok(())
            }
            Ok(None) => {
                let count_side_rows = || -> Result<usize> {
                    let drafts_and_checkpoints =
                        self.view.drafts(pk)?.len() + self.view.checkpoint_seqs(pk)?.len();
                    let agents = self.view.agents(&[pk])?;
                    Ok(drafts_and_checkpoints + agents.values().map(Vec::len).sum::<usize>())
                };
                let side_rows = match count_side_rows() {
                    Ok(count) => count as u64,
                    Err(failure) => return report.add_result(Err(failure)),
                };
                let orphans =
                    side_rows + self.view.newest_seq(pk)? + self.view.turn_row_count(pk)?;
                if orphans + self.view.item_key_count(pk)? + self.view.newest_event(pk)? > 0 {
                    let detail = format!(
                        "there are rows of session number {pk}, whose session row is missing"
                    );
                    report
                        .findings
                        .push(Finding::new(ErrorCode::IntegrityError, None, detail));
                }
                Ok(())
            }
            Err(failure) => report.add_result(Err(failure)),
        }
    }

    /// Verifies the commit logs of all lanes. Returns what they say about events and drafts of each session that they
    /// name.
    fn verify_log(
        &self,
        report: &mut VerificationReport,
    ) -> Result<BTreeMap<SessionPk, LoggedRows>> {
        let mut logged = BTreeMap::new();
        for lane in self.view.lanes().iter() {
            self.verify_lane(lane, report, &mut logged)?;
        }
        Ok(logged)
    }

    /// Verifies the commit log of a lane, and collects what it says about events and drafts.
    fn verify_lane(
        &self,
        lane: Lane,
        report: &mut VerificationReport,
        logged: &mut BTreeMap<SessionPk, LoggedRows>,
    ) -> Result<()> {
        let mut previous: Option<LogRow> = None;
        loop {
            let after = previous.as_ref().map_or(0, |p| p.commit_no);
            let rows = self.view.log(lane, after, ROWS_PER_READ)?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                report.commits += 1;
                let code = match row.follows(previous.as_ref(), self.keyring) {
                    _ if self.check == MacCheck::Unverified => None,
                    Some(true) => None,
                    Some(false) => Some(ErrorCode::IntegrityError),
                    None => Some(ErrorCode::KeyMissing),
                };
                if let Some(code) = code {
                    let in_lane = in_lane(self.view.lanes(), lane);
                    let detail = format!(
                        "the commit log is broken at commit {}{in_lane}",
                        row.commit_no
                    );
                    report.findings.push(Finding::new(code, None, detail));
                }
                let entries = row.entries().unwrap_or_default();
                let of_sessions = |entry: &&LogEntry| !matches!(entry.change, Change::Note(_));
                for entry in entries.iter().filter(of_sessions) {
                    logged.entry(entry.pk).or_default().apply(entry);
                }
                previous = Some(row);
            }
        }
    }
}
