//! Turns the terms of a query into conditions of OpenSearch.
//!
//! A literal of three or more characters is a phrase of its trigrams: a text contains it exactly if the trigrams follow
//! one another. A shorter literal is found by a dense word, or by nothing.
//!
//! OpenSearch refuses a query with more than 1,024 clauses, so long literals are cut: a text that contains a literal
//! contains its beginning. What has no room is left out, and then every document may meet the term.

use serde_json::{Value, json};

use super::rows;

/// The maximum number of trigrams of a query.
const MAX_TRIGRAMS: usize = 900;
/// The lengths to which literals are cut, in characters; the first with which a query has room is used.
const LENGTHS: [usize; 5] = [64, 16, 8, 5, 3];

/// The condition of each term; `None` if every document may meet it.
pub(super) fn conditions(terms: &[Vec<String>]) -> Vec<Option<Value>> {
    let total = |length: usize| {
        terms
            .iter()
            .map(|term| trigrams(term, length))
            .sum::<usize>()
    };
    let length = LENGTHS
        .into_iter()
        .find(|length| total(*length) <= MAX_TRIGRAMS);
    let length = length.unwrap_or(3);
    let mut room = MAX_TRIGRAMS;
    let condition = |term: &Vec<String>| {
        room = room.checked_sub(trigrams(term, length))?;
        if term.is_empty() {
            return Some(json!({ "match_none": {} }));
        }
        let literals = term
            .iter()
            .map(|literal| literal_condition(literal, length));
        let literals = literals.collect::<Option<Vec<Value>>>()?;
        Some(json!({ "bool": { "should": literals, "minimum_should_match": 1 } }))
    };
    terms.iter().map(condition).collect()
}

/// The number of trigrams of a term whose literals are cut.
fn trigrams(term: &[String], length: usize) -> usize {
    let trigrams = |literal: &String| {
        literal
            .chars()
            .take(length)
            .count()
            .saturating_sub(2)
            .max(1)
    };
    term.iter().map(trigrams).sum()
}

/// The condition that a text contains the beginning of a literal, or, if it is short, a word of it; `None` if there is
/// no such condition.
fn literal_condition(literal: &str, length: usize) -> Option<Value> {
    let begins: String = literal.chars().take(length).collect();
    if begins.chars().nth(2).is_some() {
        return Some(json!({ "match_phrase": { "folded": begins } }));
    }
    let word = rows::dense_word(literal)?;
    Some(json!({ "term": { "dense": word } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(literals: &[&str]) -> Vec<String> {
        literals.iter().map(|&literal| literal.to_owned()).collect()
    }

    #[test]
    fn literals_become_phrases_or_dense_words() {
        let terms = [term(&["a b"]), term(&["学习"]), term(&["ab", "abc"])];
        let any = |condition: Value| {
            Some(json!({ "bool": { "should": [condition], "minimum_should_match": 1 } }))
        };
        assert_eq!(
            conditions(&terms),
            [
                any(json!({ "match_phrase": { "folded": "a b" } })),
                any(json!({ "term": { "dense": "学习" } })),
                None
            ]
        );
    }

    #[test]
    fn a_query_has_a_limited_number_of_trigrams() {
        let phrase = |condition: &Option<Value>| {
            let condition = condition.as_ref()?;
            condition["bool"]["should"][0]["match_phrase"]["folded"]
                .as_str()
                .map(str::len)
        };
        let cut = |count: usize, length: usize| -> Vec<Option<usize>> {
            let terms = vec![term(&[&"x".repeat(length)]); count];
            conditions(&terms).iter().map(phrase).collect()
        };
        assert_eq!(cut(1, 5_000), [Some(64)]);
        assert_eq!(cut(100, 5_000), [Some(8); 100]);
        let many = cut(1_000, 5_000);
        assert_eq!(many[..900], [Some(3); 900]);
        assert_eq!(many[900..], [None; 100]);
    }
}
