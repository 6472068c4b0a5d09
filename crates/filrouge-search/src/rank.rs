//! Ranks sessions by the probability that the user searches for them: the user's text above tool output, a phrase above
//! scattered words, a title above all other matches, recent sessions above old ones (DESIGN §10).

use filrouge_sources::Role;

use crate::fields::Field;

const DAY_MS: f64 = 86_400_000.0;

/// The significance of the kind of text that contains a match. If a session has several matches, the greatest
/// significance counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Weight {
    /// Tool output, errors, parts of other kinds.
    #[default]
    ToolOutput,
    /// Arguments of calls, names of tools and files.
    CallInput,
    /// Reasoning and summaries.
    Reasoning,
    /// Text of an agent or the application.
    AgentText,
    /// Text of the user, and titles.
    UserText,
}

impl Weight {
    /// All weights, the least significant first.
    pub(crate) const ALL: [Self; 5] = [
        Self::ToolOutput,
        Self::CallInput,
        Self::Reasoning,
        Self::AgentText,
        Self::UserText,
    ];

    /// The weight of a text.
    pub(crate) const fn of(field: Field, role: Option<Role>) -> Self {
        match (field, role) {
            (Field::Title, _) | (Field::Text, Some(Role::User)) => Self::UserText,
            (Field::Text, _) => Self::AgentText,
            (Field::Reasoning | Field::Summary, _) => Self::Reasoning,
            (Field::Tool | Field::ToolInput | Field::ToolTitle | Field::File | Field::Patch, _) => {
                Self::CallInput
            }
            (Field::ToolOutput | Field::ToolError | Field::Error | Field::Other, _) => {
                Self::ToolOutput
            }
        }
    }

    const fn points(self) -> f64 {
        match self {
            Self::ToolOutput => 0.0,
            Self::CallInput => 0.5,
            Self::Reasoning => 0.8,
            Self::AgentText => 1.5,
            Self::UserText => 2.5,
        }
    }
}

/// The evidence that a session is the one that the user searches for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Evidence {
    /// The number of its messages that match; the title counts as one.
    pub(crate) matches: usize,
    /// Whether `matches` was counted rather than estimated.
    pub(crate) exact: bool,
    /// Whether the title matches.
    pub(crate) title: bool,
    /// The most significant text with a match.
    pub(crate) weight: Weight,
    /// Whether one message contains all words of the query as whole words.
    pub(crate) whole_words: bool,
    /// Whether the words of the query occur next to each other, in the order of the query.
    pub(crate) adjacent: bool,
}

impl Evidence {
    /// The evidence of a session without matches.
    pub(crate) const NONE: Self = Self {
        matches: 0,
        exact: true,
        title: false,
        weight: Weight::ToolOutput,
        whole_words: false,
        adjacent: false,
    };

    /// Adds the evidence of another message of the session.
    pub(crate) fn add(&mut self, other: Self) {
        self.matches += other.matches;
        self.exact &= other.exact;
        self.title |= other.title;
        self.weight = self.weight.max(other.weight);
        self.whole_words |= other.whole_words;
        self.adjacent |= other.adjacent;
    }

    /// Returns the score of a session that last changed at `updated`, for a search at `now`, both in milliseconds since
    /// 1970. A greater score is better.
    pub(crate) fn score(&self, updated: i64, now: i64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let (age, matches) = (
            now.saturating_sub(updated).max(0) as f64 / DAY_MS,
            self.matches as f64,
        );
        let points_if = |holds: bool, points: f64| if holds { points } else { 0.0 };
        points_if(self.title, 3.0)
            + self.weight.points()
            + points_if(self.whole_words, 1.0)
            + points_if(self.adjacent, 1.5)
            + 0.4 * matches.ln_1p()
            + 1.0 / (1.0 + age / 30.0)
    }
}

/// Converts a score to the integer that is compared and written into cursors. A greater one is better.
pub(crate) fn rounded(score: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = (score * 1e9).round() as i64;
    rounded
}

/// Returns the weight of a rank, from 0, in one of several lists. The weights of a session in all lists are added
/// (reciprocal rank fusion), so that the scores in different lists need not be comparable.
pub(crate) fn rank_weight(rank: usize) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let weight = 1.0 / (60.0 + rank as f64);
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn evidence(field: Field, role: Role) -> Evidence {
        Evidence {
            matches: 1,
            exact: true,
            weight: Weight::of(field, Some(role)),
            ..Evidence::default()
        }
    }

    #[test]
    fn text_that_was_said_ranks_above_tool_output() {
        let order = [
            evidence(Field::Text, Role::User),
            evidence(Field::Text, Role::Assistant),
            evidence(Field::Reasoning, Role::Assistant),
            evidence(Field::ToolInput, Role::Assistant),
            evidence(Field::ToolOutput, Role::Assistant),
        ];
        let scores = order.map(|one| one.score(NOW, NOW));
        assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
    }

    #[test]
    fn titles_phrases_and_newer_sessions_come_first() {
        let plain = evidence(Field::Text, Role::User);
        let (title, adjacent) = (
            Evidence {
                title: true,
                ..plain
            },
            Evidence {
                adjacent: true,
                ..plain
            },
        );
        assert!(title.score(NOW, NOW) > adjacent.score(NOW, NOW));
        assert!(adjacent.score(NOW, NOW) > plain.score(NOW, NOW));
        assert!(plain.score(NOW, NOW) > plain.score(NOW - 86_400_000, NOW));
        // Many matches in tool output rank below one match in the user's text.
        let many = Evidence {
            matches: 50,
            ..evidence(Field::ToolOutput, Role::Assistant)
        };
        assert!(plain.score(NOW, NOW) > many.score(NOW, NOW));
    }

    #[test]
    fn extreme_times_count_as_old_or_new() {
        let plain = evidence(Field::Text, Role::User);
        let (old, new) = (plain.score(i64::MIN, NOW), plain.score(i64::MAX, NOW));
        assert!(old < plain.score(0, NOW) && new >= plain.score(NOW, NOW));
    }

    #[test]
    fn weights_of_two_lists_add_up() {
        assert!(rank_weight(0) + rank_weight(5) > rank_weight(0));
        assert!(rank_weight(1) + rank_weight(1) > rank_weight(0));
        // Ranks far down in long lists still differ.
        assert!(
            (0..10_000)
                .map(|rank| rounded(rank_weight(rank)))
                .is_sorted_by(|a, b| a > b)
        );
    }
}
