//! Compares the table of error codes with the program.

use filrouge_types::ErrorCode;

use crate::page::Page;
use crate::table::rows;

#[test]
fn the_table_of_errors_matches_the_program() {
    let page = Page::read("docs/errors.md");
    let documented: Vec<_> = rows(page.text(), "All codes")
        .into_iter()
        .map(|row| {
            assert!(
                row.len() == 5 && row.iter().all(|c| !c.is_empty()),
                "{row:?}"
            );
            row[..4].to_vec()
        })
        .collect();
    let actual: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let retry = if code.retry() { "yes" } else { "no" };
            [
                code.as_str(),
                &code.status().to_string(),
                retry,
                code.title(),
            ]
            .map(str::to_owned)
            .to_vec()
        })
        .collect();
    assert_eq!(documented, actual);
}
