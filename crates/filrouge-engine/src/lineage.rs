//! The lineage of a session: its ancestors and descendants (DESIGN §10).

pub mod walk;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::read::{Findings, LedgerSnapshot, SessionOrTombstone};
use filrouge_store::verify::Finding;
use filrouge_types::{Failure, Result, Session, SessionId, SessionStatus, Timestamp};
use serde::Serialize;

use crate::caller::{Caller, Permission};
use crate::engine::Stats;
use walk::Step;

/// The maximum number of sessions in each list of a lineage.
pub const RELATIVES_MAX: usize = 1000;

/// The number of sessions per read.
const SESSIONS_PER_READ: usize = 50;

/// The part of a session that a lineage shows. Metadata, which may be megabytes, is only in `GET …/sessions/{session_id}`, so
/// that an answer with a thousand relatives stays small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = RelatedSession)]
pub struct Relative {
    /// Its id.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Its status: active, paused or closed.
    pub status: SessionStatus,
    /// When it was created.
    pub created_at: Timestamp,
}

impl From<Session> for Relative {
    fn from(session: Session) -> Self {
        Self {
            session_id: session.session_id,
            parent_session_id: session.parent_session_id,
            title: session.title,
            status: session.status,
            created_at: session.created_at,
        }
    }
}

/// A session that another one started, directly or through its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Descendant {
    /// The session.
    pub session: Relative,
    /// The number of steps down to it, from 1.
    pub depth: u64,
}

/// The lineage of a session, as far as the caller can see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Lineage {
    /// The session.
    pub session_id: SessionId,
    /// From the parent up to the root; at most 1,000.
    pub parents: Vec<Relative>,
    /// Breadth first, the children of one parent in the order of creation; at most 1,000.
    pub descendants: Vec<Descendant>,
    /// The other sessions with the same parent, in the order of creation; at most 1,000.
    pub siblings: Vec<Relative>,
    /// Sessions that began as a copy of a part of this one. No call creates such sessions.
    pub forks: Vec<Relative>,
    /// Ids that are named as a parent, but under which the caller sees no session.
    pub gaps: Vec<SessionId>,
    /// Whether the session, or one of its ancestors, is its own ancestor.
    pub cycle: bool,
    /// Whether relatives were left out because there are too many.
    pub truncated: bool,
    /// Damaged sessions that may be relatives; they and the sessions beyond them are left out. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl Lineage {
    /// The descendants, each directly after its parent.
    pub fn tree(&self) -> Vec<&Descendant> {
        let ids = |one: &&Descendant| {
            let session = &one.session;
            (
                session.session_id.clone(),
                session.parent_session_id.clone(),
            )
        };
        walk::tree(self.session_id.clone(), self.descendants.iter(), ids)
    }
}

impl Stats {
    /// The lineage of a session, from one consistent snapshot of the store. An ancestor that the caller cannot see is a
    /// gap, and a descendant that the caller cannot see is not listed: a foreign id looks absent (P6).
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's errors.
    pub async fn lineage(&self, caller: &Caller, session: &SessionId) -> Result<Lineage> {
        let scope = &caller.scope(Permission::Read)?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                lineage(snapshot, scope, id.clone())
            })
            .await
    }
}

fn lineage(snapshot: &LedgerSnapshot<'_>, scope: &Scope, session_id: SessionId) -> Result<Lineage> {
    let mut findings = Findings::default();
    let session = Relative::from(snapshot.session(scope, &session_id)?);
    let mut parent_id = session.parent_session_id.clone();
    let ancestors = walk::ancestors(session_id.clone(), RELATIVES_MAX, || {
        let Some(id) = parent_id.take() else {
            return Ok(Step::End);
        };
        let parent = match snapshot.find_or_tombstone(scope, &id) {
            Ok(Some(SessionOrTombstone::Live(parent))) => parent,
            Ok(_) => return Ok(Step::Gap(id)),
            Err(failure) => {
                findings.add(failure)?;
                return Ok(Step::End);
            }
        };
        parent_id.clone_from(&parent.row.parent_session_id);
        let parent = parent.row.with_head(&parent.head);
        Ok::<_, Failure>(Step::To(id, Relative::from(parent)))
    })?;
    let below = descendants(snapshot, scope, &session_id, &mut findings)?;
    let parent = session.parent_session_id.filter(|p| *p != session_id);
    let (siblings, too_many) = match &parent {
        Some(parent) => {
            let limit = RELATIVES_MAX + 1;
            let (mut sessions, more) = children(snapshot, scope, parent, limit, &mut findings)?;
            sessions.retain(|s| s.session_id != session_id);
            let more = more || sessions.len() > RELATIVES_MAX;
            sessions.truncate(RELATIVES_MAX);
            (sessions, more)
        }
        None => (Vec::new(), false),
    };
    let descendants = below
        .sessions
        .into_iter()
        .map(|(depth, session)| Descendant {
            session,
            depth: depth as u64,
        });
    Ok(Lineage {
        session_id,
        parents: ancestors.sessions,
        descendants: descendants.collect(),
        siblings,
        forks: Vec::new(),
        gaps: ancestors.gap.into_iter().collect(),
        cycle: ancestors.cycle || below.cycle,
        truncated: ancestors.truncated || below.truncated || too_many,
        findings: findings.into_vec(),
    })
}

/// The descendants of a session, breadth first. Damaged sessions are left out and added to `findings`.
///
/// # Errors
/// Those of the store.
pub(crate) fn descendants(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    root: &SessionId,
    findings: &mut Findings,
) -> Result<walk::Descendants<Relative>> {
    let id = |relative: &Relative| relative.session_id.clone();
    walk::descendants(root, RELATIVES_MAX, id, |parent, limit| {
        children(snapshot, scope, parent, limit, findings)
    })
}

/// The newest `limit` children of a session in the order of creation, and whether the session has older children.
fn children(
    snapshot: &LedgerSnapshot<'_>,
    scope: &Scope,
    parent: &SessionId,
    limit: usize,
    findings: &mut Findings,
) -> Result<(Vec<Relative>, bool)> {
    let filter = SessionFilter {
        parent_session_id: Some(parent.clone()),
        ..SessionFilter::default()
    };
    let mut sessions: Vec<Relative> = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = snapshot.list_sessions(
            scope,
            &filter,
            cursor.as_deref(),
            SESSIONS_PER_READ,
            findings,
        )?;
        sessions.extend(page.into_iter().map(Relative::from));
        if next.is_none() || sessions.len() > limit {
            let more = next.is_some() || sessions.len() > limit;
            sessions.truncate(limit);
            sessions.reverse();
            return Ok((sessions, more));
        }
        cursor = next;
    }
}

#[cfg(test)]
mod tests;
