//! Restored context in format `pairs`: the neutral questions and answers of finalized turns, in order
//! (DESIGN §5). A filtered view; nothing stored is changed.

use filrouge_store::command::Scope;
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::{ErrorCode, Failure, JsonText, SessionId, Turn, TurnId, TurnStatus, Variant};
use serde::Serialize;

use crate::engine::Engine;

/// Turns read at once.
const PAGE: usize = 500;

/// Which context is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextQuery {
    /// The language; a turn without a translation is left out of the translated one.
    pub variant: Variant,
    /// Only the newest so many turns.
    pub last_turns: Option<usize>,
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The turn they are of.
    pub turn_id: TurnId,
    /// What was asked.
    pub question: JsonText,
    /// What was answered.
    pub answer: JsonText,
}

/// A turn that was left out, by the seq of its first item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The seq of the turn's first item.
    pub seq: u64,
    /// Why: `turn_open`, `turn_interrupted`, `turn_failed`, `turn_cancelled`, `turn_replaced`, `no_text`.
    pub reason: &'static str,
}

/// What the context was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The bound that was asked for.
    pub last_turns: Option<usize>,
    /// The first seq of the oldest turn shown; `null` when none is.
    pub first_seq: Option<u64>,
    /// The last seq of the newest turn shown; `null` when none is.
    pub last_seq: Option<u64>,
}

/// What was kept, and what was left out and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextReport {
    /// How many turns are shown.
    pub kept: usize,
    /// The turns of the window that are not.
    pub dropped: Vec<Dropped>,
    /// The window.
    pub window: Window,
}

/// A context with its report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The pairs, oldest first.
    pub messages: Vec<Pair>,
    /// What was kept and what was not.
    pub report: ContextReport,
}

impl Engine {
    /// The pairs of a session.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a window of no turn, `integrity_error`.
    pub async fn pairs(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: ContextQuery,
    ) -> Result<Context, Failure> {
        if query.last_turns == Some(0) {
            return Err(Failure::new(
                ErrorCode::Invalid,
                "last_turns must be at least 1",
            ));
        }
        let mut found = Found {
            pairs: Vec::new(),
            dropped: Vec::new(),
            seqs: None,
        };
        match query.last_turns {
            Some(n) => {
                self.newest_pairs(scope, session, query.variant, n, &mut found)
                    .await?;
            }
            None => {
                self.all_pairs(scope, session, query.variant, &mut found)
                    .await?;
            }
        }
        tracing::info!(
            session_id = %session, kept = found.pairs.len(), dropped = found.dropped.len(), "[RESTORE][LOAD]"
        );
        let window = Window {
            last_turns: query.last_turns,
            first_seq: found.seqs.map(|s| s.0),
            last_seq: found.seqs.map(|s| s.1),
        };
        let report = ContextReport {
            kept: found.pairs.len(),
            dropped: found.dropped,
            window,
        };
        Ok(Context {
            messages: found.pairs,
            report,
        })
    }

    async fn all_pairs(
        &self,
        scope: &Scope,
        session: &SessionId,
        variant: Variant,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let mut cursor = None;
        loop {
            let query = TurnQuery {
                status: None,
                order: TurnOrder::Oldest,
                cursor,
                limit: PAGE,
            };
            let (turns, next) = self.ledger.turns(scope, session, query).await?;
            for turn in turns {
                found.take(turn, variant);
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    async fn newest_pairs(
        &self,
        scope: &Scope,
        session: &SessionId,
        variant: Variant,
        n: usize,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let (mut newest_first, mut finalized, mut cursor) = (Vec::new(), 0, None);
        'pages: loop {
            let query = TurnQuery {
                status: None,
                order: TurnOrder::Newest,
                cursor,
                limit: (n - finalized).min(PAGE),
            };
            let (turns, next) = self.ledger.turns(scope, session, query).await?;
            for turn in turns.into_iter().rev() {
                finalized += usize::from(turn.status == TurnStatus::Finalized);
                newest_first.push(turn);
                if finalized == n {
                    break 'pages;
                }
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        for turn in newest_first.into_iter().rev() {
            found.take(turn, variant);
        }
        Ok(())
    }
}

struct Found {
    pairs: Vec<Pair>,
    dropped: Vec<Dropped>,
    seqs: Option<(u64, u64)>,
}

impl Found {
    fn take(&mut self, turn: Turn, variant: Variant) {
        let (question, answer) = match variant {
            Variant::Neutral => (turn.question_neutral, turn.answer_neutral),
            Variant::Translated => (turn.question_translated, turn.answer_translated),
        };
        let reason = match turn.status {
            _ if turn.replaced_by_turn_id.is_some() => "turn_replaced",
            TurnStatus::Open => "turn_open",
            TurnStatus::Interrupted => "turn_interrupted",
            TurnStatus::Failed => "turn_failed",
            TurnStatus::Cancelled => "turn_cancelled",
            TurnStatus::Finalized => match (question, answer) {
                (Some(question), Some(answer)) => {
                    let first = self
                        .seqs
                        .map_or(turn.first_seq, |s| s.0.min(turn.first_seq));
                    let last = self.seqs.map_or(turn.last_seq, |s| s.1.max(turn.last_seq));
                    self.seqs = Some((first, last));
                    self.pairs.push(Pair {
                        turn_id: turn.turn_id,
                        question,
                        answer,
                    });
                    return;
                }
                _ => "no_text",
            },
        };
        self.dropped.push(Dropped {
            seq: turn.first_seq,
            reason,
        });
    }
}
