//! Where a session comes from and what it has started (DESIGN §10).

pub mod walk;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::read::{Gone, Sight};
use filrouge_store::rows::View;
use filrouge_types::{Failure, Session, SessionId, SessionStatus, Timestamp};
use serde::Serialize;

use crate::caller::{Caller, Permission};
use crate::engine::Stats;
use walk::Step;

/// Most sessions in each of the lists of a lineage.
pub const RELATIVES_MAX: usize = 1000;

/// Sessions read at once.
const PAGE: usize = 50;

/// What a lineage tells of a session: who it is. Its metadata, which may have megabytes, is left to
/// `GET …/sessions/{session_id}`, so that a thousand relatives stay a small answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Relative {
    /// Its id.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Whether it goes on.
    pub status: SessionStatus,
    /// When it was made.
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

/// A session that another one has started, at first or at second hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Descendant {
    /// The session.
    pub session: Relative,
    /// How many steps down it is, from 1.
    pub depth: u64,
}

/// The relatives of a session, as far as they are the caller's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lineage {
    /// The session.
    pub session_id: SessionId,
    /// From the one that started it up to the root; at most 1,000.
    pub parents: Vec<Relative>,
    /// Breadth first, the ones of one parent in the order they were made; at most 1,000.
    pub descendants: Vec<Descendant>,
    /// The others with the same parent, in the order they were made; at most 1,000.
    pub siblings: Vec<Relative>,
    /// Those that began as a part of this one. No call makes such sessions.
    pub forks: Vec<Relative>,
    /// Ids named as a parent under which the caller has no session.
    pub gaps: Vec<SessionId>,
    /// Whether the session is its own ancestor, or one of its ancestors is.
    pub cycle: bool,
    /// Whether relatives were left out because there are too many.
    pub truncated: bool,
}

impl Lineage {
    /// The descendants, each directly after its parent.
    #[must_use]
    pub fn tree(&self) -> Vec<&Descendant> {
        let ids = |one: &&Descendant| {
            let Relative {
                session_id,
                parent_session_id,
                ..
            } = &one.session;
            (session_id.clone(), parent_session_id.clone())
        };
        walk::tree(self.session_id.clone(), self.descendants.iter(), ids)
    }
}

impl Stats {
    /// The relatives of a session, from one consistent sight of the store. What is not the caller's is a gap above
    /// and is not listed below: a foreign id looks absent (P6).
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, and the ledger's.
    pub async fn lineage(&self, caller: &Caller, session: &SessionId) -> Result<Lineage, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let (viewer, id) = (scope.clone(), session.clone());
        self.ledger
            .ask_in(scope, session, move |sight| lineage(sight, &viewer, id))
            .await
    }
}

fn lineage<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    session_id: SessionId,
) -> Result<Lineage, Failure> {
    let own = Relative::from(sight.session(scope, &session_id)?);
    let mut above = own.parent_session_id.clone();
    let up = walk::ancestors(session_id.clone(), RELATIVES_MAX, || {
        let Some(id) = above.take() else {
            return Ok(Step::End);
        };
        let Some(Gone::Not(parent)) = sight.find_or_gone(scope, &id)? else {
            return Ok(Step::Gap(id));
        };
        above.clone_from(&parent.row.parent_session_id);
        let parent = parent.row.with_head(&parent.head);
        Ok::<_, Failure>(Step::To(id, Relative::from(parent)))
    })?;
    let down = descendants(sight, scope, &session_id)?;
    let other_parent = own.parent_session_id.filter(|p| *p != session_id);
    let (siblings, too_many) = match &other_parent {
        Some(parent) => {
            let (mut found, more) = children(sight, scope, parent, RELATIVES_MAX + 1)?;
            found.retain(|s| s.session_id != session_id);
            let more = more || found.len() > RELATIVES_MAX;
            found.truncate(RELATIVES_MAX);
            (found, more)
        }
        None => (Vec::new(), false),
    };
    let below = down.found.into_iter();
    let descendants = below.map(|(depth, session)| Descendant {
        session,
        depth: depth as u64,
    });
    Ok(Lineage {
        session_id,
        parents: up.found,
        descendants: descendants.collect(),
        siblings,
        forks: Vec::new(),
        gaps: up.gap.into_iter().collect(),
        cycle: up.cycle || down.cycle,
        truncated: up.truncated || down.truncated || too_many,
    })
}

/// What a session has started, breadth first.
///
/// # Errors
/// Those of the store.
pub(crate) fn descendants<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    root: &SessionId,
) -> Result<walk::Descendants<Relative>, Failure> {
    let id = |relative: &Relative| relative.session_id.clone();
    walk::descendants(root, RELATIVES_MAX, id, |parent, most| {
        children(sight, scope, parent, most)
    })
}

/// At most `most` of the sessions that one has started, in the order they were made, and whether there are more:
/// those are the oldest.
fn children<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    parent: &SessionId,
    most: usize,
) -> Result<(Vec<Relative>, bool), Failure> {
    let filter = SessionFilter {
        parent_session_id: Some(parent.clone()),
        ..SessionFilter::default()
    };
    let mut found: Vec<Relative> = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = sight.sessions(scope, &filter, cursor.as_deref(), PAGE)?;
        found.extend(page.into_iter().map(Relative::from));
        if next.is_none() || found.len() > most {
            let more = next.is_some() || found.len() > most;
            found.truncate(most);
            found.reverse();
            return Ok((found, more));
        }
        cursor = next;
    }
}

#[cfg(test)]
mod tests;
