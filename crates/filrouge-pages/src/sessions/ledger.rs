//! The sessions of the ledger.

use filrouge_engine::{Caller, ListTurns};
use filrouge_http::problem::Problem;
use filrouge_store::WorkSize;
use filrouge_store::verify::Finding;
use filrouge_types::{ErrorCode, Session, SessionId, TurnStatus};

use super::question::Question;
use crate::Pages;

/// The maximum number of sessions whose newest turn is read for one page of failed sessions.
const EXAMINED_MAX: usize = 500;

/// Sessions of the ledger in the order of the list.
pub(super) struct LedgerSessions {
    pub(super) sessions: Vec<Session>,
    /// Continues after them.
    pub(super) next: Option<String>,
    /// The damaged sessions that are left out.
    pub(super) findings: Vec<Finding>,
}

/// Reads `limit` sessions that the caller may see. With a filter that only the newest turns can answer, reads at most
/// [`EXAMINED_MAX`] sessions, and returns those that pass it: none, or up to twice the limit.
///
/// # Errors
/// `invalid` for a bad cursor, and the ledger's errors.
pub(super) async fn read(
    pages: &Pages,
    caller: &Caller,
    question: &Question,
    cursor: Option<String>,
    limit: usize,
) -> Result<LedgerSessions, Problem> {
    if !question.only_failed {
        return read_page(pages, caller, question, cursor, limit).await;
    }
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let mut found = LedgerSessions {
        sessions: Vec::new(),
        next: cursor,
        findings: Vec::new(),
    };
    let mut examined = 0;
    loop {
        let page = read_page(pages, caller, question, found.next.take(), limit).await?;
        examined += page.sessions.len();
        found.next = page.next;
        found.findings.extend(page.findings);
        for session in page.sessions {
            let id = &session.session_id;
            if bad_end(pages, caller, id).await?.is_some() {
                found.sessions.push(session);
            }
        }
        let is_enough = found.sessions.len() >= limit || examined >= EXAMINED_MAX;
        if is_enough || found.next.is_none() {
            return Ok(found);
        }
    }
}

async fn read_page(
    pages: &Pages,
    caller: &Caller,
    question: &Question,
    cursor: Option<String>,
    limit: usize,
) -> Result<LedgerSessions, Problem> {
    let filter = question.filter.clone();
    let list = pages
        .sessions
        .list_with_findings(caller, filter, cursor, limit);
    let ((mut sessions, mut next), findings) = list.await?;
    if let Some(since) = question.active_since.filter(|_| !question.is_by_creation())
        && let Some(end) = sessions.iter().position(|s| s.updated_at < since)
    {
        // All later sessions were active even earlier.
        sessions.truncate(end);
        next = None;
    }
    Ok(LedgerSessions {
        sessions,
        next,
        findings,
    })
}

/// The state of a session's newest turn, if it failed or was interrupted. A session that cannot be read has none.
///
/// # Errors
/// The ledger's errors, except those that concern the session alone.
pub(super) async fn bad_end(
    pages: &Pages,
    caller: &Caller,
    session: &SessionId,
) -> Result<Option<TurnStatus>, Problem> {
    let newest = ListTurns {
        newest: true,
        limit: 1,
        ..ListTurns::default()
    };
    match pages.turns.list(caller, session, newest).await {
        Ok((turns, _)) => {
            let status = turns.first().map(|turn| turn.status);
            let is_bad = |status: &TurnStatus| {
                matches!(status, TurnStatus::Failed | TurnStatus::Interrupted)
            };
            Ok(status.filter(is_bad))
        }
        Err(failure) => match failure.code {
            ErrorCode::SessionNotFound | ErrorCode::SessionErased | ErrorCode::IntegrityError => {
                Ok(None)
            }
            _ => Err(failure.into()),
        },
    }
}
