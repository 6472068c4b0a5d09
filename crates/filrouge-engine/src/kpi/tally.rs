//! Counts events as they are read.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use filrouge_types::{ErrorCode, Failure, Result, SessionEvent, SessionId};

use super::figures::{KeyFigures, KindCount};

/// The maximum number of sessions that one tally distinguishes: about 100 MB.
const SESSIONS_MAX: usize = 2_000_000;
/// The maximum number of kinds that one tally distinguishes.
const KINDS_MAX: usize = 1000;

// The marks of a session are bits. Each bit records that the session had an event of one kind.
const STARTED: u8 = 1;
const RECONSTRUCTED: u8 = 2;
const UNKNOWN_STATE: u8 = 4;
const TRANSFERRED: u8 = 8;

/// The events counted so far.
#[derive(Default)]
pub(super) struct KpiTally {
    figures: KeyFigures,
    /// The marks of each session. The map's key is a 128-bit hash of the session's id, made with this tally's random
    /// keys.
    sessions: HashMap<[u64; 2], u8>,
    hashers: [RandomState; 2],
    kinds: HashMap<Box<str>, u64>,
}

impl KpiTally {
    /// Counts an event.
    ///
    /// # Errors
    /// `limit_exceeded` when there are more sessions than a tally distinguishes.
    pub(super) fn count(&mut self, session: &SessionId, event: &SessionEvent) -> Result<()> {
        self.figures.events += 1;
        match &*event.kind {
            "call_lock_timeout" => self.figures.call_lock_timeouts += 1,
            "resume_from_pg" => self.figures.resume_from_pg_count += 1,
            "call_started" => self.mark(session, STARTED, |f| &mut f.calls)?,
            "session_reconstruct_used" => {
                self.mark(session, RECONSTRUCTED, |f| &mut f.sessions_reconstructed)?;
            }
            "unknown_state" => {
                self.mark(session, UNKNOWN_STATE, |f| {
                    &mut f.sessions_with_unknown_state
                })?;
            }
            "transferred" | "transferred_human" => {
                self.mark(session, TRANSFERRED, |f| &mut f.sessions_transferred)?;
            }
            _ => {}
        }
        if let Some(count) = self.kinds.get_mut(&event.kind) {
            *count += 1;
        } else if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(event.kind.clone(), 1);
        } else {
            self.figures.events_of_other_kinds += 1;
        }
        Ok(())
    }

    /// Sets `mark` on the session. If the session did not have the mark, increments the figure that `figure` selects.
    fn mark(
        &mut self,
        session: &SessionId,
        mark: u8,
        figure: fn(&mut KeyFigures) -> &mut u64,
    ) -> Result<()> {
        let session_hash = [0, 1].map(|n: usize| self.hashers[n].hash_one(session.as_str()));
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&session_hash) {
            let detail = format!("there are more than {SESSIONS_MAX} sessions in one row");
            return Err(Failure::new(ErrorCode::LimitExceeded, detail)
                .with_hint("request a shorter window, or one row per day"));
        }
        let marks = self.sessions.entry(session_hash).or_default();
        if *marks & mark == 0 {
            *marks |= mark;
            *figure(&mut self.figures) += 1;
        }
        Ok(())
    }

    /// The figures of all counted events.
    pub(super) fn figures(self) -> KeyFigures {
        let mut kinds: Vec<KindCount> = self
            .kinds
            .into_iter()
            .map(|(kind, events)| KindCount { kind, events })
            .collect();
        kinds.sort_by(|a, b| (b.events, &a.kind).cmp(&(a.events, &b.kind)));
        KeyFigures {
            kinds,
            ..self.figures
        }
        .with_rates()
    }
}
