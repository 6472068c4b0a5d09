//! The lines of a drawn tree.

/// The maximum number of levels that are indented.
pub(super) const LEVELS_MAX: usize = 16;

/// What is drawn before a session at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rail {
    /// Nothing.
    Blank,
    /// A line that passes by, to a later session of this level.
    Past,
    /// The branch to the session; further ones follow.
    Branch,
    /// The branch to the last session of its parent.
    Last,
}

impl Rail {
    /// The class that draws it.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Blank => "rail",
            Self::Past => "rail past",
            Self::Branch => "rail branch",
            Self::Last => "rail last",
        }
    }
}

/// What is drawn before each session of a tree, given the levels of its sessions, each parent before its children. Levels
/// beyond [`LEVELS_MAX`] are drawn at the last one.
pub(super) fn rails(levels: &[usize]) -> Vec<Vec<Rail>> {
    // Whether a later session of each level follows before one of a lower level.
    let mut follows: Vec<bool> = Vec::new();
    let mut drawn = Vec::with_capacity(levels.len());
    for level in levels.iter().rev() {
        let level = (*level).min(LEVELS_MAX);
        follows.resize(level + 1, false);
        let passing = (1..level).map(|at| match follows.get(at) {
            Some(true) => Rail::Past,
            _ => Rail::Blank,
        });
        let own = match follows.get(level) {
            Some(true) => Rail::Branch,
            _ => Rail::Last,
        };
        drawn.push(passing.chain((level > 0).then_some(own)).collect());
        if let Some(follows) = follows.get_mut(level) {
            *follows = true;
        }
    }
    drawn.reverse();
    drawn
}

#[cfg(test)]
mod tests {
    use super::Rail::{Blank, Branch, Last, Past};
    use super::*;

    #[test]
    fn lines_lead_from_parents_to_children() {
        // root, a, a1, a2, b, b1
        let drawn = rails(&[0, 1, 2, 2, 1, 2]);
        assert_eq!(
            drawn,
            [
                vec![],
                vec![Branch],
                vec![Past, Branch],
                vec![Past, Last],
                vec![Last],
                vec![Blank, Last],
            ]
        );
        assert_eq!(rails(&[40]).first().map(Vec::len), Some(LEVELS_MAX));
    }
}
