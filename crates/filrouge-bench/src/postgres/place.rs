//! Finds the use of each parameter in a statement's text.

use anyhow::{Context, Result};

/// The use of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The value of a column, in one of several rows.
    Rows(String),
    /// The value of a column, in a single row.
    One(String),
    /// Compared with a column for equality.
    Equal(String),
    /// A bound in a comparison with a column.
    Bound(String),
    /// Another use: an argument of a function, or a LIMIT.
    Elsewhere,
}

/// The uses of `$1`, `$2`, ….
pub(crate) fn places(text: &str) -> Result<Vec<Place>> {
    let listed = listed(text)?;
    if !listed.is_empty() {
        return Ok(listed);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let column = |word: &str| {
        let bare = word.rsplit(['.', '(']).next().unwrap_or(word);
        bare.to_owned()
    };
    let mut places = Vec::new();
    for at in 0..words.len() {
        let number = format!("${}", places.len() + 1);
        let word = words[at].rsplit('(').next().unwrap_or(words[at]);
        if word.trim_end_matches([')', ',', ';']) != number {
            continue;
        }
        places.push(match words[..at] {
            [.., of, "="] => Place::Equal(column(of)),
            [.., of, "BETWEEN"]
            | [.., of, "BETWEEN", _, "AND"]
            | [.., of, ">" | ">=" | "<" | "<="] => Place::Bound(column(of)),
            _ => Place::Elsewhere,
        });
    }
    Ok(places)
}

/// The columns named for `unnest` by `AS q (…)`, or else those of the INSERT.
fn listed(text: &str) -> Result<Vec<Place>> {
    let (opening, place): (_, fn(String) -> Place) = match text.find("unnest($1") {
        Some(at) => (at + "unnest".len(), Place::Rows),
        None => match text.find("VALUES ($1") {
            Some(at) => (at + "VALUES ".len(), Place::One),
            None => return Ok(Vec::new()),
        },
    };
    let (before, rest) = text.split_at(opening);
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    let list = match after.trim_start().strip_prefix("AS ") {
        Some(named) => named,
        None => before
            .split_once("INSERT INTO ")
            .map(|(_, insert)| insert)
            .with_context(|| format!("where do its values go? {text}"))?,
    };
    let list = list
        .split_once('(')
        .and_then(|(_, list)| list.split_once(')'))
        .map_or("", |(list, _)| list);
    Ok(list
        .split(',')
        .map(|column| place(column.trim().to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_parameters_are_found() {
        let text =
            "SELECT x FROM t WHERE t.pk = $1 AND place BETWEEN $2 AND $3 ORDER BY place LIMIT $4";
        let (pk, place) = ("pk".to_owned(), "place".to_owned());
        assert_eq!(
            places(text).unwrap(),
            [
                Place::Equal(pk),
                Place::Bound(place.clone()),
                Place::Bound(place),
                Place::Elsewhere
            ]
        );
        assert!(places("SELECT $2").unwrap().is_empty());
    }
}
