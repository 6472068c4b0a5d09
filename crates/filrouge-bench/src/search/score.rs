//! The quality of a ranking of sessions, by the grades of the sessions.

use std::collections::BTreeMap;

/// The number of places that are scored.
pub(super) const PLACES: usize = 10;
/// The lowest grade of a session that answers the query.
const GOOD: u8 = 2;

/// The score of a ranking.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Score {
    /// Discounted gain (2^grade - 1) of the first ten places, divided by that of the best possible ranking.
    pub(super) ndcg: f64,
    /// The share of sessions with grade 2 or 3 that are among the first ten.
    pub(super) recall: f64,
    /// One divided by the place of the first session with grade 2 or 3; 0 if there is none.
    pub(super) reciprocal: f64,
}

/// Scores sessions in this order.
pub(super) fn score(order: &[String], grades: &BTreeMap<String, u8>) -> Score {
    let grade = |id: &String| grades.get(id).copied().unwrap_or(0);
    let ranked: Vec<u8> = order.iter().take(PLACES).map(grade).collect();
    let mut best: Vec<u8> = grades.values().copied().collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.truncate(PLACES);
    let good = grades.values().filter(|grade| **grade >= GOOD).count();
    let found = ranked.iter().filter(|grade| **grade >= GOOD).count();
    let first = order.iter().position(|id| grade(id) >= GOOD);
    Score {
        ndcg: gain(&ranked) / gain(&best),
        recall: found as f64 / good.min(PLACES) as f64,
        reciprocal: first.map_or(0.0, |at| 1.0 / (at as f64 + 1.0)),
    }
}

fn gain(grades: &[u8]) -> f64 {
    let discounted =
        |(at, grade): (usize, &u8)| (f64::from(*grade).exp2() - 1.0) / (at as f64 + 2.0).log2();
    grades.iter().enumerate().map(discounted).sum()
}

/// The mean of several scores.
pub(super) fn mean(scores: impl IntoIterator<Item = Score>) -> Score {
    let (mut sum, mut count) = (Score::default(), 0.0_f64);
    for one in scores {
        sum.ndcg += one.ndcg;
        sum.recall += one.recall;
        sum.reciprocal += one.reciprocal;
        count += 1.0;
    }
    Score {
        ndcg: sum.ndcg / count,
        recall: sum.recall / count,
        reciprocal: sum.reciprocal / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score of an order of sessions whose grades are a: 3, b: 2, c: 1.
    fn score_of(order: &[&str]) -> Score {
        let grades = [("a", 3), ("b", 2), ("c", 1)];
        let grades = grades.map(|(id, grade)| (id.to_owned(), grade));
        let order: Vec<String> = order.iter().map(|id| (*id).to_owned()).collect();
        score(&order, &BTreeMap::from(grades))
    }

    #[test]
    fn the_best_order_scores_one() {
        let best = score_of(&["a", "b", "c", "x"]);
        assert_eq!((best.ndcg, best.recall, best.reciprocal), (1.0, 1.0, 1.0));
        assert_eq!(score_of(&[]), Score::default());
    }

    #[test]
    fn gains_are_discounted_by_their_places() {
        // 7 / log2(3) + 3 / log2(2), divided by 7 / log2(2) + 3 / log2(3) + 1 / log2(4).
        let swapped = score_of(&["b", "a"]);
        let (gain, best) = (3.0 + 7.0 / 3_f64.log2(), 7.0 + 3.0 / 3_f64.log2() + 0.5);
        assert!((swapped.ndcg - gain / best).abs() < 1e-12, "{swapped:?}");
        assert_eq!((swapped.recall, swapped.reciprocal), (1.0, 1.0));
        // A session of grade 1 does not answer the query.
        let late = score_of(&["c", "x", "b"]);
        assert_eq!((late.recall, late.reciprocal), (0.5, 1.0 / 3.0));
    }

    #[test]
    fn only_the_first_ten_places_count() {
        let order = ["x"; 10].into_iter().chain(["a"]).collect::<Vec<_>>();
        let late = score_of(&order);
        assert_eq!(
            (late.ndcg, late.recall, late.reciprocal),
            (0.0, 0.0, 1.0 / 11.0)
        );
    }
}
