//! Audits that consist of rows alone, and name damaged sessions by rows.

use serde_json::Value;

use crate::audit_rows::{lines, records};
use crate::caller::Caller;

/// The complete audit as JSON lines and as CSV.
pub(super) fn audit_exports(caller: &Caller) -> [String; 2] {
    ["jsonl", "csv"].map(|format| {
        let target = format!("/api/v1/audit?format={format}");
        let response = caller.send("GET", &target, None);
        assert_eq!(response.status, 200, "{response:?}");
        response.text
    })
}

/// Asserts that an audit, as JSON lines and as CSV, has rows of the sessions `intact`, and one row that names each of
/// the sessions `damaged`.
#[track_caller]
pub(super) fn assert_rows_name([jsonl, csv]: &[String; 2], intact: &[&str], damaged: &[&str]) {
    let rows = lines(jsonl);
    let is_damage = |row: &&Value| row["detail"][0]["type"] == "damage";
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for row in &rows {
        let session = row["session_id"].as_str().unwrap();
        if !is_damage(&row) {
            others.push(session);
            continue;
        }
        named.push(session);
        let finding = &row["detail"][0];
        assert_eq!(finding["session_id"], session, "{row}");
        assert_eq!(finding["code"], "integrity_error", "{row}");
        assert!(row["seq"].is_null() && row["channel"].is_null(), "{row}");
    }
    named.sort_unstable();
    others.sort_unstable();
    others.dedup();
    assert_eq!((&named[..], &others[..]), (damaged, intact), "{jsonl}");
    let mut in_csv = records(csv);
    let columns = in_csv.remove(0);
    let [session, detail] = ["session_id", "detail"].map(|name| {
        let position = columns.iter().position(|column| column == name);
        position.unwrap()
    });
    let cells = |row: &Vec<String>| (row[session].clone(), row[detail].contains(r#""damage""#));
    let expected = rows.iter().map(|row| {
        let session = row["session_id"].as_str().unwrap();
        (session.to_owned(), is_damage(&row))
    });
    let in_csv: Vec<_> = in_csv.iter().map(cells).collect();
    assert_eq!(in_csv, expected.collect::<Vec<_>>(), "{csv}");
}
