//! The walk from a session to those it comes from, and to those it has started, wherever sessions are kept.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// Where a session leads to.
#[derive(Debug)]
pub enum Step<I, T> {
    /// To no other.
    End,
    /// To one that is not there.
    Gap(I),
    /// To this one.
    To(I, T),
}

/// The sessions that lead up from one.
#[derive(Debug)]
pub struct Ancestors<I, T> {
    /// The nearest first.
    pub found: Vec<T>,
    /// The id that the last one names, if it is not there.
    pub gap: Option<I>,
    /// Whether they lead round in a circle.
    pub cycle: bool,
    /// Whether there are more.
    pub truncated: bool,
}

/// The sessions that one has started, at first or at second hand.
#[derive(Debug)]
pub struct Descendants<T> {
    /// Breadth first, each with how many steps down it is, from 1; those of one parent as they were given.
    pub found: Vec<(usize, T)>,
    /// Whether the session is its own ancestor.
    pub cycle: bool,
    /// Whether there are more.
    pub truncated: bool,
}

/// At most `most` sessions up from `own`; `next` is where the last one leads to.
///
/// # Errors
/// Those of `next`.
pub fn ancestors<I: Clone + Eq + Hash, T, E>(
    own: I,
    most: usize,
    mut next: impl FnMut() -> Result<Step<I, T>, E>,
) -> Result<Ancestors<I, T>, E> {
    let mut up = Ancestors {
        found: Vec::new(),
        gap: None,
        cycle: false,
        truncated: false,
    };
    let mut met = HashSet::from([own]);
    loop {
        match next()? {
            Step::End => return Ok(up),
            Step::Gap(id) => up.gap = Some(id),
            Step::To(id, one) => {
                up.cycle = !met.insert(id);
                up.truncated = !up.cycle && up.found.len() == most;
                if !up.cycle && !up.truncated {
                    up.found.push(one);
                    continue;
                }
            }
        }
        return Ok(up);
    }
}

/// At most `most` sessions down from `root`. `children` gives those that one has started, about as many as it is asked
/// for, and whether there are more; `id_of` is a session's id.
///
/// # Errors
/// Those of `children`.
pub fn descendants<I: Clone + Eq, T, E>(
    root: &I,
    most: usize,
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
        // One more than there is room for: the root itself, which closes a cycle.
        let room = (most - down.found.len()).saturating_add(1);
        let (found, more) = children(&parent, room)?;
        for one in found {
            let id = id_of(&one);
            // A session has one parent, so the root alone can be met again.
            if id == *root {
                down.cycle = true;
            } else if down.found.len() == most {
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

/// Sessions that stand breadth first, each right behind its parent; `ids_of` are its own id and its parent's.
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
