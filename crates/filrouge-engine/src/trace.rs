//! Log lines for writes, `[SESSIONS][PERSIST_TRACE]`: a write that adds items to a session has become durable
//! (DESIGN §12). They contain ids, seqs, counts and times, but never contents.

use std::time::{Duration, Instant};

use filrouge_store::command::{Command, Ending, Outcome, PutDraft, Write, WrittenRange};
use filrouge_types::{IdentityId, SessionId};

use crate::calls::{log_call_items, log_word};

/// A write in progress that may need a log line when it ends.
pub(crate) struct Trace {
    /// The name of the write in the log; `None` for one that adds neither items nor a draft.
    operation: Option<&'static str>,
    command: Command,
    session: SessionId,
    started_at: Instant,
}

/// The fields of a log line that come from the write's outcome: the items it wrote, the status, and whether it is a
/// replay.
type OutcomeFields<'a> = (Option<&'a WrittenRange>, Option<&'static str>, bool);

impl Trace {
    /// Starts to time a write; `None` if the write needs no log line.
    pub(crate) fn begin(command: &Command) -> Option<Self> {
        let operation = operation_of(&command.write);
        if operation.is_none() && claimed_owner(command).is_none() {
            return None;
        }
        Some(Self {
            operation,
            session: command.write.session_id()?.clone(),
            command: command.clone(),
            started_at: Instant::now(),
        })
    }

    /// The write.
    pub(crate) const fn command(&self) -> &Command {
        &self.command
    }

    /// Logs a write that has become durable. A replay is logged with 0 items; an outcome without a turn, session or
    /// items is not logged, for example an interrupt that did not take place.
    pub(crate) fn log_committed(&self, outcome: &Outcome) {
        let Some(operation) = self.operation else {
            return;
        };
        if let Write::PutDraft(draft) = &self.command.write {
            return self.log_draft(operation, draft);
        }
        if let Some(fields) = fields(outcome) {
            self.log(operation, outcome, fields);
        }
        // A write under a lease belongs to a live call.
        if self.command.scope.fence.is_some() {
            log_call_items(&self.command.scope.tenant, &self.session, outcome);
        }
    }

    fn log(
        &self,
        operation: &str,
        outcome: &Outcome,
        (written, status, replayed): OutcomeFields<'_>,
    ) {
        let (mut turn, mut request, mut stream) = (None, None, None);
        match &self.command.write {
            Write::Append(append) => {
                turn = Some(append.turn_id);
                stream = append.progress.as_ref().map(|progress| progress.stream);
            }
            Write::Close(close) => (turn, stream) = (Some(close.turn_id), close.stream),
            Write::Interrupt(interrupt) => {
                (turn, stream) = (Some(interrupt.turn_id), interrupt.stream);
            }
            _ => {}
        }
        match outcome {
            Outcome::Turn(written, _) => {
                (turn, request) = (Some(written.turn_id), Some(&written.request_id));
            }
            Outcome::Redacted(redacted) => turn = redacted.turn.as_ref().map(|turn| turn.turn_id),
            _ => {}
        }
        let items = written.map_or(0, |written| written.last_seq + 1 - written.first_seq);
        tracing::info!(
            op = %operation,
            tenant_id = %log_word(self.command.scope.tenant.as_str()),
            session_id = %log_word(self.session.as_str()),
            turn_id = turn.map(display),
            request_id = request.map(|id| display(log_word(id.as_str()))),
            stream = stream.map(display),
            first_seq = written.map(|written| written.first_seq),
            last_seq = written.map(|written| written.last_seq),
            items,
            status = status.map(display),
            replayed,
            duration_ms = millis(self.started_at.elapsed()),
            "[SESSIONS][PERSIST_TRACE]"
        );
    }

    fn log_draft(&self, operation: &str, draft: &PutDraft) {
        tracing::debug!(
            op = %operation,
            tenant_id = %log_word(self.command.scope.tenant.as_str()),
            session_id = %log_word(self.session.as_str()),
            turn_id = %draft.turn_id,
            stream = %draft.stream,
            chunk = draft.number,
            pieces = draft.deltas.len(),
            duration_ms = millis(self.started_at.elapsed()),
            "[SESSIONS][PERSIST_TRACE]"
        );
    }
}

/// The name of a write; `None` for one that adds neither items nor drafts.
fn operation_of(write: &Write) -> Option<&'static str> {
    Some(match write {
        // Only an import, or a late turn that is moved like one, starts a turn with `reopen: false`.
        Write::Start(start) if !start.reopen => "import",
        Write::Start(start) if start.event.replaces.is_some() => "replace",
        Write::Start(_) => "start",
        Write::Append(_) => "append",
        Write::Close(close) => match close.ending {
            Ending::Finalize { .. } | Ending::Recorded(_) => "finalize",
            Ending::Fail(_) => "fail",
            Ending::Cancel(_) => "cancel",
            Ending::Interrupt(_) => "interrupt",
        },
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

/// The fields of the log line; `None` for an outcome without a turn, session or items.
fn fields(outcome: &Outcome) -> Option<OutcomeFields<'_>> {
    Some(match outcome {
        Outcome::Turn(turn, written) => {
            (written.as_ref(), Some(turn.status.as_str()), turn.replayed)
        }
        Outcome::Appended {
            replayed, written, ..
        } => (written.as_ref(), None, *replayed),
        Outcome::Session {
            session, written, ..
        } => (
            written.as_ref(),
            Some(session.status.as_str()),
            written.is_none(),
        ),
        Outcome::Interrupted(Some(written)) => (Some(written), Some("interrupted"), false),
        Outcome::Redacted(redacted) => {
            let turn = redacted.turn.as_ref();
            (
                redacted.written.as_ref(),
                turn.map(|t| t.status.as_str()),
                redacted.replayed,
            )
        }
        _ => return None,
    })
}

/// A duration in milliseconds, rounded to three decimals.
pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The identity that becomes the session's owner if the write creates or links the session.
pub(crate) const fn claimed_owner(command: &Command) -> Option<&IdentityId> {
    match &command.write {
        Write::Link(link) => Some(&link.identity_id),
        Write::Start(_) | Write::CreateSession(_) => command.scope.viewer.identity(),
        _ => None,
    }
}
