//! The page `docs/projections-tables.md` lists the tables as they are.

use filrouge_projections::parquet::NOT_ERASED;
use filrouge_projections::tables::{Kind, TABLES};

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Integer => "bigint",
        Kind::Small => "integer",
        Kind::Boolean => "boolean",
        Kind::Time => "timestamptz",
        Kind::Json => "jsonb",
        Kind::Uuid => "uuid",
    }
}

#[test]
fn the_page_lists_all_tables_and_columns() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/projections-tables.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let section = page.split("## Tables and columns").nth(1).unwrap();
    let section = section.split("\n##").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<&str> = rows.collect();
    let expected: Vec<String> = TABLES
        .iter()
        .map(|table| {
            let columns = table.columns.iter();
            let columns: Vec<_> = columns
                .map(|column| match column.kind {
                    Kind::Text => format!("`{}`", column.name),
                    kind => format!("`{}` {}", column.name, word(kind)),
                })
                .collect();
            let key: Vec<_> = table.key.iter().map(|name| format!("`{name}`")).collect();
            let (columns, key) = (columns.join(", "), key.join(", "));
            format!("| `{}` | {columns} | {key} | `{}` |", table.name, table.day)
        })
        .collect();
    assert_eq!(listed, expected, "\n{}", expected.join("\n"));
    assert!(page.contains(NOT_ERASED));
}
