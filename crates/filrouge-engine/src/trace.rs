//! One line for each write that puts items into a session, once it is durable: `[SESSIONS][PERSIST_TRACE]`
//! (DESIGN §12). Ids, seqs, counts and times; never content.

use std::time::{Duration, Instant};

use filrouge_store::command::{Close, Ending, Outcome, Put, PutDraft, Scope, Start, Write};
use filrouge_store::draft::StreamId;
use filrouge_types::{RequestId, SessionId, TenantId, TurnId};

use crate::calls::{journal, word};

/// A write under way, as its line will tell of it.
pub(crate) struct Trace {
    op: &'static str,
    tenant: TenantId,
    session: SessionId,
    turn: Option<TurnId>,
    request: Option<RequestId>,
    stream: Option<StreamId>,
    /// Of a draft: its chunk, and how many pieces have grown.
    draft: Option<(u64, usize)>,
    /// Whether it is made under a lease: its items are of a live call.
    of_call: bool,
    began: Instant,
}

/// What an outcome tells.
struct Told<'a> {
    put: Option<&'a Put>,
    status: Option<&'static str>,
    replayed: bool,
}

impl Trace {
    /// Begins to measure a write; `None` for one that puts neither items nor drafts.
    pub(crate) fn begin(scope: &Scope, write: &Write) -> Option<Self> {
        let mut trace = Self {
            op: op(write)?,
            tenant: scope.tenant.clone(),
            session: write.session_id()?.clone(),
            turn: None,
            request: None,
            stream: None,
            draft: None,
            of_call: scope.hold.is_some(),
            began: Instant::now(),
        };
        match write {
            Write::Start(start) => trace.request = Some(start.event.request_id.clone()),
            Write::Append(append) => {
                trace.turn = Some(append.turn_id);
                trace.stream = append.progress.as_ref().map(|p| p.stream);
            }
            Write::Close(close) => {
                trace.turn = Some(close.turn_id);
                trace.stream = close.stream;
            }
            Write::Interrupt(interrupt) => {
                trace.turn = Some(interrupt.turn_id);
                trace.stream = interrupt.stream;
            }
            Write::PutDraft(draft) => {
                trace.turn = Some(draft.turn_id);
                trace.stream = Some(draft.stream);
                trace.draft = Some(grown(draft));
            }
            _ => {}
        }
        Some(trace)
    }

    /// Tells of the write that is durable now. One that found nothing to do is not told of.
    pub(crate) fn done(mut self, outcome: &Outcome) {
        let duration_ms = millis(self.began.elapsed());
        if let Outcome::Turn(turn, _) = outcome {
            self.turn = Some(turn.turn_id);
            self.request = Some(turn.request_id.clone());
        }
        if let Outcome::Redacted(redacted) = outcome {
            self.turn = redacted.turn.as_ref().map(|turn| turn.turn_id);
        }
        if let Some((chunk, pieces)) = self.draft {
            return self.log_draft(chunk, pieces, duration_ms);
        }
        if let Some(told) = told(outcome) {
            self.log(&told, duration_ms);
        }
        if self.of_call {
            journal(&self.tenant, &self.session, outcome);
        }
    }

    fn log(&self, told: &Told<'_>, duration_ms: f64) {
        let items = told.put.map_or(0, |put| put.last_seq + 1 - put.first_seq);
        tracing::info!(
            op = %self.op,
            tenant_id = %word(self.tenant.as_str()),
            session_id = %word(self.session.as_str()),
            turn_id = self.turn.map(display),
            request_id = self.request.as_ref().map(|id| display(word(id.as_str()))),
            stream = self.stream.map(display),
            first_seq = told.put.map(|put| put.first_seq),
            last_seq = told.put.map(|put| put.last_seq),
            items,
            status = told.status.map(display),
            replayed = told.replayed,
            duration_ms,
            "[SESSIONS][PERSIST_TRACE]"
        );
    }

    fn log_draft(&self, chunk: u64, pieces: usize, duration_ms: f64) {
        tracing::debug!(
            op = %self.op,
            tenant_id = %word(self.tenant.as_str()),
            session_id = %word(self.session.as_str()),
            turn_id = self.turn.map(display),
            stream = self.stream.map(display),
            chunk,
            pieces,
            duration_ms,
            "[SESSIONS][PERSIST_TRACE]"
        );
    }
}

/// The word for a write; `None` for one that puts neither items nor drafts.
fn op(write: &Write) -> Option<&'static str> {
    Some(match write {
        Write::Start(start) => started(start),
        Write::Append(_) => "append",
        Write::Close(close) => closed(close),
        Write::Interrupt(_) => "interrupt",
        Write::Redact(_) => "redact",
        Write::Adopt(_) => "import",
        Write::CloseSession(_) => "close",
        Write::Link(_) => "link",
        Write::PutDraft(_) => "draft",
        Write::CreateSession(_)
        | Write::Patch(_)
        | Write::Erase(_)
        | Write::RecordEvent(_)
        | Write::Lease(_)
        | Write::PutCheckpoint(_)
        | Write::PutNote(_) => return None,
    })
}

const fn started(start: &Start) -> &'static str {
    // A history that is brought in opens no turn again.
    if !start.reopen {
        "import"
    } else if start.event.replaces.is_some() {
        "replace"
    } else {
        "start"
    }
}

const fn closed(close: &Close) -> &'static str {
    match close.ending {
        Ending::Finalize { .. } | Ending::Recorded(_) => "finalize",
        Ending::Fail(_) => "fail",
        Ending::Cancel(_) => "cancel",
    }
}

const fn grown(draft: &PutDraft) -> (u64, usize) {
    (draft.number, draft.deltas.len())
}

/// `None` for an outcome of nothing.
fn told(outcome: &Outcome) -> Option<Told<'_>> {
    let told = |put, status, replayed| Told {
        put,
        status,
        replayed,
    };
    Some(match outcome {
        Outcome::Turn(turn, put) => told(put.as_ref(), Some(turn.status.as_str()), turn.replayed),
        Outcome::Appended { replayed, put, .. } => told(put.as_ref(), None, *replayed),
        Outcome::Session { session, put, .. } => {
            told(put.as_ref(), Some(session.status.as_str()), put.is_none())
        }
        Outcome::Interrupted(Some(put)) => told(Some(put), Some("interrupted"), false),
        Outcome::Redacted(redacted) => {
            let turn = redacted.turn.as_ref();
            told(
                redacted.put.as_ref(),
                turn.map(|t| t.status.as_str()),
                redacted.replayed,
            )
        }
        _ => return None,
    })
}

/// Milliseconds, to a thousandth.
pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
