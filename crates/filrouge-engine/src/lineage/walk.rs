//! Walks from a session to its ancestors and descendants, in any kind of store.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// The next step up from a session.
#[derive(Debug)]
pub enum Step<I, T> {
    /// The session has no parent.
    End,
    /// The session names this id as its parent, but no such session exists.
    Gap(I),
    /// The session's parent, with its id.
    To(I, T),
}

/// The ancestors of a session.
#[derive(Debug)]
pub struct Ancestors<I, T> {
    /// The ancestors, nearest first.
    pub sessions: Vec<T>,
    /// The id that the farthest ancestor names as its parent, if no such session exists.
    pub gap: Option<I>,
    /// Whether the ancestors form a cycle.
    pub cycle: bool,
    /// Whether more ancestors exist than the limit.
    pub truncated: bool,
}

/// The descendants of a session.
#[derive(Debug)]
pub struct Descendants<T> {
    /// The descendants breadth first, each with the number of steps from the session down to it, from 1. The children
    /// of one parent are in the order in which they were returned.
    pub sessions: Vec<(usize, T)>,
    /// Whether the session is its own ancestor.
    pub cycle: bool,
    /// Whether more descendants exist than the limit.
    pub truncated: bool,
}

/// Finds at most `limit` ancestors of the session `start`. Each call of `next` returns the parent of the session that
/// the previous call returned.
///
/// # Errors
/// Those of `next`.
pub fn ancestors<I: Clone + Eq + Hash, T, E>(
    start: I,
    limit: usize,
    mut next: impl FnMut() -> Result<Step<I, T>, E>,
) -> Result<Ancestors<I, T>, E> {
    let mut ancestors = Ancestors {
        sessions: Vec::new(),
        gap: None,
        cycle: false,
        truncated: false,
    };
    let mut visited = HashSet::from([start]);
    loop {
        match next()? {
            Step::End => return Ok(ancestors),
            Step::Gap(id) => ancestors.gap = Some(id),
            Step::To(id, session) => {
                ancestors.cycle = !visited.insert(id);
                ancestors.truncated = !ancestors.cycle && ancestors.sessions.len() == limit;
                if !ancestors.cycle && !ancestors.truncated {
                    ancestors.sessions.push(session);
                    continue;
                }
            }
        }
        return Ok(ancestors);
    }
}

/// Finds at most `limit` descendants of `root`. `children` returns the children of a session, about as many as
/// requested, and whether there are further ones; `id_of` returns a session's id.
///
/// # Errors
/// Those of `children`.
pub fn descendants<I: Clone + Eq, T, E>(
    root: &I,
    limit: usize,
    id_of: impl Fn(&T) -> I,
    mut children: impl FnMut(&I, usize) -> Result<(Vec<T>, bool), E>,
) -> Result<Descendants<T>, E> {
    let mut descendants = Descendants {
        sessions: Vec::new(),
        cycle: false,
        truncated: false,
    };
    let mut pending = VecDeque::from([(root.clone(), 1)]);
    while let Some((parent, depth)) = pending.pop_front() {
        // Requests one more than the limit allows: the root itself may be among them, which closes a cycle.
        let limit_left = (limit - descendants.sessions.len()).saturating_add(1);
        let (sessions, more) = children(&parent, limit_left)?;
        for session in sessions {
            let id = id_of(&session);
            // A session has one parent, so only the root can occur a second time.
            if id == *root {
                descendants.cycle = true;
            } else if descendants.sessions.len() == limit {
                descendants.truncated = true;
            } else {
                pending.push_back((id, depth + 1));
                descendants.sessions.push((depth, session));
            }
        }
        descendants.truncated |= more;
        if descendants.truncated {
            break;
        }
    }
    Ok(descendants)
}

/// Reorders the descendants of `root` from breadth first to depth first, so that each parent is followed by its
/// subtree. `ids_of` returns a session's own id and its parent's.
pub fn tree<I: Eq + Hash, T>(
    root: I,
    descendants: impl DoubleEndedIterator<Item = T>,
    ids_of: impl Fn(&T) -> (I, Option<I>),
) -> Vec<T> {
    let mut children: HashMap<Option<I>, Vec<(I, T)>> = HashMap::new();
    for session in descendants.rev() {
        let (id, parent) = ids_of(&session);
        children.entry(parent).or_default().push((id, session));
    }
    let mut tree = Vec::new();
    let mut pending = children.remove(&Some(root)).unwrap_or_default();
    while let Some((id, session)) = pending.pop() {
        tree.push(session);
        pending.extend(children.remove(&Some(id)).unwrap_or_default());
    }
    tree
}
