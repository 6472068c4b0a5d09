//! Counts the sessions of a period, within bounds.

use std::sync::Arc;

use filrouge_engine::{Caller, SessionDays};
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_types::{ErrorCode, Failure, ProjectId, Session, Timestamp};

use super::breakdown::{Breakdown, Counted};
use crate::Pages;
use crate::prices::DAY;

/// The number of sessions per list.
const LISTED: usize = 200;
/// The maximum number of sessions of one page of statistics.
const SESSIONS_MAX: u64 = 5000;
/// The maximum number of items that one request reads, except of a single longer session. Sessions that were counted
/// before are not read again.
const ITEMS_MAX: u64 = 100_000;

/// The sums of a period, and what they lack.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) sums: Breakdown,
    /// Sessions that this request did not read; the next one reads some of them.
    pub(super) unread: u64,
    /// Whether the period has more sessions than are counted.
    pub(super) has_more: bool,
    /// Damaged sessions, which are left out.
    pub(super) damaged: usize,
}

/// Counts the sessions that the caller sees and that were active in the period, the last active first.
///
/// # Errors
/// Those of the ledger.
pub(super) async fn gather(
    pages: &Pages,
    caller: &Caller,
    counted: &Counted,
    project: Option<ProjectId>,
) -> Result<Gathered, Failure> {
    let (first, last) = counted.days.unwrap_or((0, 0));
    let begin = Timestamp::from_micros(first.saturating_mul(DAY));
    let filter = SessionFilter {
        project_id: project,
        agent: counted.agent.clone(),
        until: Some(Timestamp::from_micros((last + 1).saturating_mul(DAY))),
        order: SessionSort::Updated,
        ..SessionFilter::default()
    };
    let mut gathered = Gathered::default();
    let (mut cursor, mut listed, mut items_left) = (None, 0, ITEMS_MAX);
    loop {
        let list = pages
            .sessions
            .list_with_findings(caller, filter.clone(), cursor, LISTED);
        let ((sessions, next), findings) = list.await?;
        gathered.damaged = gathered.damaged.max(findings.len());
        for session in sessions {
            if session.updated_at < begin {
                return Ok(gathered);
            }
            listed += 1;
            let may_read = session.last_seq <= items_left || items_left == ITEMS_MAX;
            match kept_or_counted(pages, caller, &session, may_read).await {
                Ok(Some((days, read))) => {
                    items_left = items_left.saturating_sub(read);
                    gathered.sums.add(&days, counted, pages.prices());
                }
                Ok(None) => gathered.unread += 1,
                Err(failure) if is_damage(&failure) => gathered.damaged += 1,
                Err(failure) if is_erased(&failure) => {}
                Err(failure) => return Err(failure),
            }
        }
        cursor = next;
        if cursor.is_none() || listed >= SESSIONS_MAX {
            gathered.has_more = cursor.is_some();
            return Ok(gathered);
        }
    }
}

/// The figures of a session that was just listed, and how many items were read for them. `None` if they are not kept, and
/// the session may not be read.
async fn kept_or_counted(
    pages: &Pages,
    caller: &Caller,
    session: &Session,
    may_read: bool,
) -> Result<Option<(Arc<SessionDays>, u64)>, Failure> {
    if let Some(days) = pages.counted().get(session) {
        return Ok(Some((days, 0)));
    }
    if !may_read {
        return Ok(None);
    }
    let days = count(pages, caller, session).await?;
    Ok(Some((days, session.last_seq)))
}

/// Counts a session from all of its items, and keeps the figures.
pub(crate) async fn count(
    pages: &Pages,
    caller: &Caller,
    session: &Session,
) -> Result<Arc<SessionDays>, Failure> {
    let days = pages.stats.by_day(caller, &session.session_id).await?;
    let days = Arc::new(days);
    pages.counted().add(session, &days);
    Ok(days)
}

fn is_damage(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing
    )
}

/// Whether the session was erased after it was listed.
fn is_erased(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::SessionErased | ErrorCode::SessionNotFound
    )
}
