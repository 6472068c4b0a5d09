//! Sums over sessions: in all, by day, by agent and by model.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::{DayFigures, SessionDays, Tokens};
use filrouge_store::command::matches_pattern;

use crate::prices::{Cost, Prices};

/// The maximum number of agents, and of models. Further ones are counted as unnamed.
const NAMES_MAX: usize = 1000;

/// Sums over the sessions of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) sessions: u64,
    pub(super) turns: u64,
    pub(super) failed: u64,
    pub(super) tokens: Tokens,
    /// Items whose tokens are unknown.
    pub(super) usage_unknown: u64,
    /// What the tokens with a price cost.
    pub(super) cost: Cost,
    /// The tokens with a price, and those without.
    pub(super) priced: u64,
    pub(super) unpriced: u64,
}

/// The sums of a group by name; `None` counts what has no name.
pub(super) type ByName = BTreeMap<Option<Box<str>>, Sums>;

/// Which figures are counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// The first and the last day; `None` for all.
    pub(super) days: Option<(i64, i64)>,
    /// Only those of this agent, or of those whose names fit this pattern.
    pub(super) agent: Option<Box<str>>,
}

/// The sums so far.
#[derive(Debug, Default)]
pub(super) struct Breakdown {
    pub(super) total: Sums,
    pub(super) days: BTreeMap<i64, Sums>,
    pub(super) agents: ByName,
    pub(super) models: ByName,
    /// The models without a price.
    pub(super) unpriced: BTreeSet<Box<str>>,
}

impl Counted {
    fn includes(&self, day: i64, agent: Option<&str>) -> bool {
        let in_period = self
            .days
            .is_none_or(|(first, last)| (first..=last).contains(&day));
        let wanted = self.agent.as_deref();
        in_period && wanted.is_none_or(|w| agent.is_some_and(|agent| matches_pattern(agent, w)))
    }
}

impl Breakdown {
    /// Adds those figures of a session that are counted. In each group, the session counts once.
    pub(super) fn add(&mut self, session: &SessionDays, counted: &Counted, prices: &Prices) {
        let (mut days, mut agents, mut models) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (key, figures) in session {
            if !counted.includes(key.day, key.agent.as_deref()) {
                continue;
            }
            let used = (key.model.as_deref(), key.day, &figures.tokens);
            let cost = prices.cost([used]);
            if let (None, Some(model)) = (cost, &key.model)
                && self.unpriced.len() < NAMES_MAX
            {
                self.unpriced.insert(model.clone());
            }
            self.total.add(figures, cost, days.is_empty());
            let is_new = days.insert(key.day);
            let of_day = self.days.entry(key.day).or_default();
            of_day.add(figures, cost, is_new);
            let is_new = agents.insert(&key.agent);
            named(&mut self.agents, &key.agent).add(figures, cost, is_new);
            let is_new = models.insert(&key.model);
            named(&mut self.models, &key.model).add(figures, cost, is_new);
        }
    }
}

impl Sums {
    fn add(&mut self, figures: &DayFigures, cost: Option<Cost>, is_new_session: bool) {
        self.sessions += u64::from(is_new_session);
        self.turns += figures.turns;
        self.failed += figures.failed;
        self.tokens.add(&figures.tokens);
        self.usage_unknown += figures.usage_unknown;
        let tokens = figures.tokens.total();
        match cost {
            Some(cost) => {
                self.cost.add(cost);
                self.priced = self.priced.saturating_add(tokens);
            }
            None => self.unpriced = self.unpriced.saturating_add(tokens),
        }
    }
}

/// The sums of a name.
fn named<'a>(sums: &'a mut ByName, name: &Option<Box<str>>) -> &'a mut Sums {
    let has_room = sums.len() < NAMES_MAX || sums.contains_key(name);
    sums.entry(name.clone().filter(|_| has_room)).or_default()
}

#[cfg(test)]
mod tests {
    use filrouge_engine::DayKey;

    use super::*;

    const PRICES: &str = r#"
        currency = "USD"
        [[models]]
        model = "known"
        since = "1970-01-01"
        input = 1000000
    "#;

    fn session(rows: &[(i64, &str, &str, u64)]) -> SessionDays {
        let row = |&(day, agent, model, input): &(i64, &str, &str, u64)| {
            let key = DayKey {
                day,
                agent: Some(agent.into()),
                model: Some(model.into()),
            };
            let tokens = Tokens {
                input,
                ..Tokens::default()
            };
            let figures = DayFigures {
                turns: 1,
                failed: 1,
                tokens,
                usage_unknown: 0,
            };
            (key, figures)
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_session_counts_once_in_each_group() {
        let prices = Prices::parse(PRICES).unwrap();
        let mut sums = Breakdown::default();
        let one = session(&[
            (1, "a", "known", 2),
            (1, "b", "other", 3),
            (2, "a", "known", 4),
        ]);
        sums.add(&one, &Counted::default(), &prices);
        sums.add(
            &session(&[(2, "a", "known", 5)]),
            &Counted::default(),
            &prices,
        );
        assert_eq!((sums.total.sessions, sums.total.turns), (2, 4));
        assert_eq!(sums.total.tokens.input, 14);
        assert_eq!(sums.days.values().map(|d| d.sessions).sum::<u64>(), 3);
        let of = |sums: &ByName, name: &str| sums[&Some(Box::<str>::from(name))];
        assert_eq!(of(&sums.agents, "a").sessions, 2);
        let other = of(&sums.models, "other");
        assert_eq!((other.tokens.input, other.priced), (3, 0));
        assert_eq!((sums.total.priced, sums.total.unpriced), (11, 3));
        assert_eq!(sums.total.cost.text(), "11.00");
        assert_eq!(sums.unpriced, BTreeSet::from(["other".into()]));
    }

    #[test]
    fn only_the_period_and_the_agent_are_counted() {
        let prices = Prices::parse(PRICES).unwrap();
        let rows = session(&[
            (1, "a", "known", 1),
            (2, "a", "known", 2),
            (2, "b", "known", 4),
        ]);
        let counted = Counted {
            days: Some((2, 3)),
            agent: Some("a*".into()),
        };
        let mut sums = Breakdown::default();
        sums.add(&rows, &counted, &prices);
        assert_eq!(sums.total.tokens.input, 2);
        assert_eq!((sums.total.sessions, sums.days.len()), (1, 1));
    }
}
