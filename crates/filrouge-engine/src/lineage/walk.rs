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
    pub found: Vec<T>,
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
    pub found: Vec<(usize, T)>,
    /// Whether the session is its own ancestor.
    pub cycle: bool,
    /// Whether more descendants exist than the limit.
    pub truncated: bool,
}

/// Finds at most `limit` ancestors of the session `own`. Each call of `next` is one step up.
///
/// # Errors
/// Those of `next`.
pub fn ancestors<I: Clone + Eq + Hash, T, E>(
    own: I,
    limit: usize,
    mut next: impl FnMut() -> Result<Step<I, T>, E>,
) -> Result<Ancestors<I, T>, E> {
    let mut up = Ancestors {
        found: Vec::new(),
        gap: None,
        cycle: false,
        truncated: false,
    };
    let mut visited = HashSet::from([own]);
    loop {
        match next()? {
            Step::End => return Ok(up),
            Step::Gap(id) => up.gap = Some(id),
            Step::To(id, one) => {
                up.cycle = !visited.insert(id);
                up.truncated = !up.cycle && up.found.len() == limit;
                if !up.cycle && !up.truncated {
                    up.found.push(one);
                    continue;
                }
            }
        }
        return Ok(up);
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
    let mut down = Descendants {
        found: Vec::new(),
        cycle: false,
        truncated: false,
    };
    let mut waiting = VecDeque::from([(root.clone(), 1)]);
    while let Some((parent, depth)) = waiting.pop_front() {
        // Requests one more than fit: the root itself may be among them, which closes a cycle.
        let room = (limit - down.found.len()).saturating_add(1);
        let (found, more) = children(&parent, room)?;
        for one in found {
            let id = id_of(&one);
            // A session has one parent, so only the root can occur a second time.
            if id == *root {
                down.cycle = true;
            } else if down.found.len() == limit {
                down.truncated = true;
            } else {
                waiting.push_back((id, depth + 1));
                down.found.push((depth, one));
            }
        }
        down.truncated |= more;
        if down.truncated {
            break;
        }
    }
    Ok(down)
}

/// Reorders the descendants of `root` from breadth first to depth first, so that each parent is followed by its
/// subtree. `ids_of` returns a session's own id and its parent's.
pub fn tree<I: Eq + Hash, T>(
    root: I,
    found: impl DoubleEndedIterator<Item = T>,
    ids_of: impl Fn(&T) -> (I, Option<I>),
) -> Vec<T> {
    let mut children: HashMap<Option<I>, Vec<(I, T)>> = HashMap::new();
    for one in found.rev() {
        let (id, parent) = ids_of(&one);
        children.entry(parent).or_default().push((id, one));
    }
    let mut tree = Vec::new();
    let mut waiting = children.remove(&Some(root)).unwrap_or_default();
    while let Some((id, one)) = waiting.pop() {
        tree.push(one);
        waiting.extend(children.remove(&Some(id)).unwrap_or_default());
    }
    tree
}
