//! Determines the use of each parameter of a statement.

use anyhow::{Context, Result};

/// The use of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The value of a column, in one of several rows.
    Rows(String),
    /// The value of a column, in a single row.
    SingleRow(String),
    /// Compared with a column for equality.
    Equal(String),
    /// A bound in a comparison with a column.
    Bound(String),
    /// Another use: an argument of a function, or a LIMIT.
    Other,
}

/// The uses of `$1`, `$2`, ….
pub(crate) fn usages(text: &str) -> Result<Vec<Usage>> {
    let columns = column_values(text)?;
    if !columns.is_empty() {
        return Ok(columns);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let column = |word: &str| {
        let bare = word.rsplit(['.', '(']).next().unwrap_or(word);
        bare.to_owned()
    };
    let mut usages = Vec::new();
    for at in 0..words.len() {
        let number = format!("${}", usages.len() + 1);
        let word = words[at].rsplit('(').next().unwrap_or(words[at]);
        if word.trim_end_matches([')', ',', ';']) != number {
            continue;
        }
        usages.push(match words[..at] {
            [.., name, "="] => Usage::Equal(column(name)),
            [.., name, "BETWEEN"]
            | [.., name, "BETWEEN", _, "AND"]
            | [.., name, ">" | ">=" | "<" | "<="] => Usage::Bound(column(name)),
            _ => Usage::Other,
        });
    }
    Ok(usages)
}

/// Parameters whose columns the statement lists: those of `unnest` after `AS q (…)`, otherwise those of the INSERT.
fn column_values(text: &str) -> Result<Vec<Usage>> {
    let (opening, usage): (_, fn(String) -> Usage) = match text.find("unnest($1") {
        Some(at) => (at + "unnest".len(), Usage::Rows),
        None => match text.find("VALUES ($1") {
            Some(at) => (at + "VALUES ".len(), Usage::SingleRow),
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
            .with_context(|| format!("cannot find the columns of the parameters: {text}"))?,
    };
    let list = list
        .split_once('(')
        .and_then(|(_, list)| list.split_once(')'))
        .map_or("", |(list, _)| list);
    Ok(list
        .split(',')
        .map(|column| usage(column.trim().to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_each_parameter_is_found() {
        let text =
            "SELECT x FROM t WHERE t.pk = $1 AND place BETWEEN $2 AND $3 ORDER BY place LIMIT $4";
        let (pk, place) = ("pk".to_owned(), "place".to_owned());
        assert_eq!(
            usages(text).unwrap(),
            [
                Usage::Equal(pk),
                Usage::Bound(place.clone()),
                Usage::Bound(place),
                Usage::Other
            ]
        );
        assert!(usages("SELECT $2").unwrap().is_empty());
    }
}
