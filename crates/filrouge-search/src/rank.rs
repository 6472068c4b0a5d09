//! Which session was meant: what was said by the user over what a tool printed, a phrase over scattered words, a title
//! over all, what is recent over what is old (DESIGN §10).

use filrouge_sources::Role;

use crate::fields::Field;

const DAY_MS: f64 = 86_400_000.0;

/// How telling the place is where something was found; the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Weight {
    /// What a tool printed, errors, what is kept as written.
    #[default]
    Printed,
    /// What a tool was asked, names of tools and files.
    Asked,
    /// Reasoning and summaries.
    Thought,
    /// What an agent or the application said.
    Answered,
    /// What the user said.
    Said,
}

impl Weight {
    /// All, the least telling first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Printed,
        Self::Asked,
        Self::Thought,
        Self::Answered,
        Self::Said,
    ];

    /// That of a text.
    pub(crate) const fn of(field: Field, role: Option<Role>) -> Self {
        match (field, role) {
            (Field::Title, _) | (Field::Text, Some(Role::User)) => Self::Said,
            (Field::Text, _) => Self::Answered,
            (Field::Reasoning | Field::Summary, _) => Self::Thought,
            (Field::Tool | Field::ToolInput | Field::ToolTitle | Field::File | Field::Patch, _) => {
                Self::Asked
            }
            (Field::ToolOutput | Field::ToolError | Field::Error | Field::Other, _) => {
                Self::Printed
            }
        }
    }

    const fn points(self) -> f64 {
        match self {
            Self::Printed => 0.0,
            Self::Asked => 0.5,
            Self::Thought => 0.8,
            Self::Answered => 1.5,
            Self::Said => 2.5,
        }
    }
}

/// What speaks for a session.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Evidence {
    /// How many of its messages hold what is looked for; the title counts as one.
    pub(crate) matches: usize,
    /// Whether `matches` was counted; else it is estimated.
    pub(crate) exact: bool,
    /// Whether the title holds it.
    pub(crate) title: bool,
    /// The most telling place.
    pub(crate) weight: Weight,
    /// Whether all words stand there as whole words.
    pub(crate) whole: bool,
    /// Whether the words stand there side by side, in the order they were asked for.
    pub(crate) near: bool,
}

impl Evidence {
    /// What speaks for a session of which nothing was found.
    pub(crate) const NONE: Self = Self {
        matches: 0,
        exact: true,
        title: false,
        weight: Weight::Printed,
        whole: false,
        near: false,
    };

    /// Adds what speaks for another message of the session.
    pub(crate) fn add(&mut self, other: Self) {
        self.matches += other.matches;
        self.exact &= other.exact;
        self.title |= other.title;
        self.weight = self.weight.max(other.weight);
        self.whole |= other.whole;
        self.near |= other.near;
    }

    /// How much it is worth, of a session that last changed at `updated` and is looked for at `now`.
    pub(crate) fn score(&self, updated: i64, now: i64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let (age, matches) = (
            now.saturating_sub(updated).max(0) as f64 / DAY_MS,
            self.matches as f64,
        );
        let if_so = |so: bool, points: f64| if so { points } else { 0.0 };
        if_so(self.title, 3.0)
            + self.weight.points()
            + if_so(self.whole, 1.0)
            + if_so(self.near, 1.5)
            + 0.4 * matches.ln_1p()
            + 1.0 / (1.0 + age / 30.0)
    }
}

/// Scores as they are compared, sent and read again: whole numbers, the best the greatest.
pub(crate) fn rounded(score: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = (score * 1e9).round() as i64;
    rounded
}

/// What a place in one of several lists is worth (reciprocal rank fusion): lists need no common measure.
pub(crate) fn worth(rank: usize) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let worth = 1.0 / (60.0 + rank as f64);
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn found(field: Field, role: Role) -> Evidence {
        Evidence {
            matches: 1,
            exact: true,
            weight: Weight::of(field, Some(role)),
            ..Evidence::default()
        }
    }

    #[test]
    fn what_was_said_comes_before_what_was_printed() {
        let order = [
            found(Field::Text, Role::User),
            found(Field::Text, Role::Assistant),
            found(Field::Reasoning, Role::Assistant),
            found(Field::ToolInput, Role::Assistant),
            found(Field::ToolOutput, Role::Assistant),
        ];
        let scores = order.map(|one| one.score(NOW, NOW));
        assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
    }

    #[test]
    fn titles_phrases_and_newer_sessions_come_first() {
        let plain = found(Field::Text, Role::User);
        let (title, near) = (
            Evidence {
                title: true,
                ..plain
            },
            Evidence {
                near: true,
                ..plain
            },
        );
        assert!(title.score(NOW, NOW) > near.score(NOW, NOW));
        assert!(near.score(NOW, NOW) > plain.score(NOW, NOW));
        assert!(plain.score(NOW, NOW) > plain.score(NOW - 86_400_000, NOW));
        // Many mentions in what a tool printed are not worth the user's own words.
        let many = Evidence {
            matches: 50,
            ..found(Field::ToolOutput, Role::Assistant)
        };
        assert!(plain.score(NOW, NOW) > many.score(NOW, NOW));
    }

    #[test]
    fn times_that_cannot_be_are_old_or_new() {
        let plain = found(Field::Text, Role::User);
        let (old, new) = (plain.score(i64::MIN, NOW), plain.score(i64::MAX, NOW));
        assert!(old < plain.score(0, NOW) && new >= plain.score(NOW, NOW));
    }

    #[test]
    fn two_lists_are_one() {
        assert!(worth(0) + worth(5) > worth(0));
        assert!(worth(1) + worth(1) > worth(0));
        // Far down in long lists, too, places are told apart.
        assert!(
            (0..10_000)
                .map(|rank| rounded(worth(rank)))
                .is_sorted_by(|a, b| a > b)
        );
    }
}
