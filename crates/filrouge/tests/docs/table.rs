//! Parses tables of documents.

/// Returns the rows of the table under the heading `## heading`; each is a list of cells without backticks.
pub(crate) fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let from = text
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("there is no heading {heading:?}"))
        .1;
    let rows: Vec<_> = from
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let inner = line.trim_matches('|');
            inner
                .split('|')
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect();
    assert!(!rows.is_empty(), "there is no table under {heading:?}");
    rows
}
