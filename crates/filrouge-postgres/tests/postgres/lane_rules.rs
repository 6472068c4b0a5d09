//! The rules that let Citus place the lanes on several machines: every statement names the lane of each row, every key
//! begins with the lane, no constraint or trigger crosses lanes, and nothing is used that Citus refuses
//! (docs/scaling.md).

use std::collections::BTreeSet;
use std::path::Path;

use filrouge_testbed::Database;

use super::{SCHEMA, database};

#[path = "../../src/one_lane.rs"]
#[allow(
    dead_code,
    reason = "the types of parameters are not in the sources' literals"
)]
mod one_lane;

use one_lane::text_in_one_lane;

/// The tables without lanes, by the beginning of their names.
static TABLES_WITHOUT_LANES: [(&str, &str); 2] = [
    (
        "store",
        "the store's name, schema, lanes and keys, which no write of a session changes",
    ),
    (
        "search_",
        "the search index, which is derived from the ledger and can be rebuilt",
    ),
];

/// Statements that may break a rule, by a part of their text.
static EXCEPTIONS: [(&str, &str); 10] = [
    (
        "plan_cache_mode = force_generic_plan",
        "the setting of a store that is not distributed",
    ),
    (
        "pg_advisory_xact_lock({MIGRATION_LOCK})",
        "migrations go through one node",
    ),
    (
        "pg_advisory_lock_shared({})",
        "servers of a distributed store lock no names",
    ),
    ("pg_advisory_xact_lock({LOCK})", SEARCH),
    ("PERFORM pg_advisory_xact_lock", SEARCH),
    ("set_config('filrouge.forgot'", SEARCH),
    (
        "pg_notify('filrouge', $1)",
        "servers of a distributed store do not notify each other",
    ),
    ("VALUES ('store_id', gen_random_uuid()", "a new store"),
    (
        "INTO filrouge.store (name, value) VALUES ($1, $2)",
        "marks of keys and of an unfinished copy, in transactions of their own",
    ),
    (
        "DELETE FROM filrouge.store WHERE name IN ('copying', 'copier')",
        "the end of a copy, in a transaction of its own",
    ),
];
const SEARCH: &str = "the search index, which has no lanes";

/// Statements that cover several lanes at once, by a part of their text. Their parameter `$1` is an array of lanes. On
/// PostgreSQL one statement costs less than one for each lane. In a distributed store each of them is run once per lane,
/// in another form.
static OVER_SEVERAL_LANES: [(&str, &str); 8] = [
    (
        "lane = ANY($1) ORDER BY lane FOR NO KEY UPDATE SKIP LOCKED",
        "locks the lanes of a transaction",
    ),
    (
        "AS q (lane, first_commit)",
        "fetches the newest commits of the locked lanes",
    ),
    (
        "AS q (lane, tenant_id, session_id, ",
        "fetches the rows of sessions before a write",
    ),
    ("AS q (lane, pk, seq)", "fetches records before a write"),
    (
        "SELECT * FROM unnest($1, ",
        "inserts or replaces the rows that a transaction writes",
    ),
    ("lane = ANY (ARRAY[q.lane])", "deletes rows by their keys"),
    (
        "l.data, pg_is_in_recovery(),",
        "reads the newest commit of each lane of a snapshot",
    ),
    ("AS q (lane, after)", "reads pages of the commit logs"),
];

/// What a distributed engine refuses, or does in a way that filrouge must not rely on, as a part of a statement.
static REFUSED: [(&str, &str); 8] = [
    ("pg_advisory", "the lock holds on one entry node only"),
    ("pg_notify", "the notification reaches one entry node only"),
    ("set_config('filrouge.", UNREACHED),
    ("set_config($", UNREACHED),
    (
        "force_generic_plan",
        "no plan is made for a statement with arrays",
    ),
    ("INTO filrouge.store", TWO_PHASES),
    ("UPDATE filrouge.store", TWO_PHASES),
    ("DELETE FROM filrouge.store", TWO_PHASES),
];
const UNREACHED: &str =
    "the setting does not reach the triggers of another node; a SET LOCAL of its own does";
const TWO_PHASES: &str = "every node has the table, so that the transaction commits in two phases";

/// The string literals of a Rust source.
fn literals(source: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut chars = source.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            // A character such as `"` or `\"`, which begins no literal.
            '\'' if matches!(chars.peek(), Some('"' | '\\')) => {
                chars.nth(1);
            }
            '"' => {
                let is_raw = previous == 'r' || previous == '#';
                let mut literal = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    match c {
                        '\\' if !is_raw => literal.extend(chars.next().filter(|c| *c != '\n')),
                        c => literal.push(c),
                    }
                }
                literals.push(literal);
            }
            _ => {}
        }
        previous = c;
    }
    literals
}

/// Adds the statements of all sources in a folder, except tests.
fn add_statements(folder: &Path, statements: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_statements(&path, statements);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let found = literals(source);
            statements.extend(found.into_iter().filter(|text| is_sql(text)));
        }
    }
}

fn is_sql(text: &str) -> bool {
    let parts = [
        "filrouge.",
        "pg_advisory",
        "pg_notify",
        "set_config(",
        "plan_cache_mode",
    ];
    parts.iter().any(|part| text.contains(part))
}

/// The statements of the program.
fn statements() -> Vec<String> {
    let mut statements = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    add_statements(&folder, &mut statements);
    assert!(statements.len() > 60, "{}", statements.len());
    statements
}

fn has_lanes(table: &str) -> bool {
    TABLES_WITHOUT_LANES
        .iter()
        .all(|(beginning, _)| !table.starts_with(beginning))
}

/// The tables of lanes that a statement reads or writes, each time it does.
fn tables(statement: &str) -> Vec<&str> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let is_read = |word: &str| ["FROM", "JOIN", "INTO", "UPDATE", "USING"].contains(&word);
    let pairs = words.windows(2).filter(|pair| is_read(pair[0]));
    let names = pairs.filter_map(|pair| pair[1].strip_prefix("filrouge."));
    let names = names.map(|name| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.split(|c| !is_name(c)).next().unwrap()
    });
    names.filter(|table| has_lanes(table)).collect()
}

/// The lanes that a statement names: for each condition the parameter or column that the lane equals, or `ANY` for an
/// array, and for each insertion the word `insert`.
fn named_lanes(statement: &str) -> Vec<&str> {
    let conditions = statement.split("lane = ").skip(1);
    let values = conditions.map(|rest| {
        let is_value = |c: char| c.is_ascii_alphanumeric() || "$_.{}".contains(c);
        rest.split(|c| !is_value(c)).next().unwrap()
    });
    // The parameter of a statement that is built at run time is in braces.
    let is_lane =
        |value: &&str| value.starts_with(['$', '{']) || value.ends_with(".lane") || *value == "ANY";
    let values = values.filter(is_lane);
    let inserts = statement.split("INTO filrouge.").skip(1);
    let inserts = inserts.filter(|rest| {
        let columns = rest.split_once('(').map_or("", |(_, columns)| columns);
        columns.starts_with("lane,") || columns.starts_with("lane)")
    });
    values.chain(inserts.map(|_| "insert")).collect()
}

/// The rule that a statement breaks.
fn broken_rule(statement: &str) -> Option<String> {
    let (tables, lanes) = (tables(statement), named_lanes(statement));
    if lanes.len() < tables.len() {
        return Some(format!("lacks the lane of one of {tables:?}"));
    }
    let is_parameter = |lane: &&str| lane.starts_with(['$', '{']);
    let parameters: BTreeSet<&str> = lanes.into_iter().filter(is_parameter).collect();
    if parameters.len() > 1 {
        return Some(format!("names several lanes: {parameters:?}"));
    }
    let refused = REFUSED.iter().find(|(part, _)| statement.contains(part));
    refused.map(|(part, reason)| format!("{part}: {reason}"))
}

fn covers_several_lanes(statement: &str) -> bool {
    let arrays = ["lane = ANY", "unnest($1", "AS q (lane"];
    !tables(statement).is_empty() && arrays.iter().any(|array| statement.contains(array))
}

/// The parts of a statement for which a list permits that it breaks a rule, or covers several lanes.
///
/// # Errors
/// The rule, if no list permits this.
fn permissions(statement: &str) -> Result<BTreeSet<&'static str>, String> {
    let several = covers_several_lanes(statement).then(|| "covers several lanes".to_owned());
    let several = several.map(|rule| (rule, &OVER_SEVERAL_LANES[..]));
    let broken = broken_rule(statement).map(|rule| (rule, &EXCEPTIONS[..]));
    let needed = several.into_iter().chain(broken).map(|(rule, permitted)| {
        let permitted = permitted.iter().map(|(part, _)| *part);
        let mut found = permitted.filter(|part| statement.contains(part));
        found.next().ok_or(rule)
    });
    needed.collect()
}

#[test]
fn every_statement_names_the_lane_of_each_row() {
    let statements = [statements(), vec![SCHEMA.to_owned()]].concat();
    // The statements of functions end with semicolons. No other statement contains one in its middle.
    let statements = statements.iter().flat_map(|text| text.split(';'));
    let needed = statements.flat_map(|statement| {
        permissions(statement).unwrap_or_else(|rule| panic!("{rule}\n{statement}"))
    });
    let needed: BTreeSet<&str> = needed.collect();
    let all = EXCEPTIONS.iter().chain(&OVER_SEVERAL_LANES);
    let all: BTreeSet<&str> = all.map(|(part, _)| *part).collect();
    assert_eq!(needed, all, "a permission is not needed any more");
}

#[test]
fn statements_that_break_a_rule_are_found() {
    for statement in [
        "SELECT pk FROM filrouge.session WHERE pk = $1",
        "SELECT 1 FROM filrouge.session s LEFT JOIN filrouge.head h ON h.pk = s.pk WHERE s.lane = $1",
        "SELECT 1 FROM filrouge.head WHERE lane = $1 AND EXISTS (SELECT FROM filrouge.turn WHERE lane = $2)",
        "INSERT INTO filrouge.turn (session_pk, place) SELECT * FROM unnest($1, $2)",
        "INSERT INTO filrouge.turn (lane, place) SELECT lane, place FROM unnest($1, $2) AS new (lane, place)",
        "UPDATE filrouge.head SET data = $1 WHERE pk = $2",
        "DELETE FROM filrouge.draft WHERE lane = ANY($1)",
        "DELETE FROM filrouge.draft d USING unnest($1, $2) AS q (lane, pk) WHERE d.session_pk = q.pk",
        "SELECT lane FROM filrouge.lane WHERE lane IN ($1, $2) FOR NO KEY UPDATE SKIP LOCKED",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_notify('a', $1)",
        "SELECT set_config($1, $2, true)",
        "SELECT set_config('filrouge.erases', $1, true)",
        "UPDATE filrouge.store SET value = $1 WHERE name = 'erasing'",
        "SELECT 1 FROM unnest($1) AS q (lane) CROSS JOIN LATERAL (SELECT FROM filrouge.head h WHERE h.lane = q.lane) h",
    ] {
        assert!(permissions(statement).is_err(), "{statement}");
    }
    for statement in [
        "SELECT lane FROM filrouge.lane WHERE lane = $1 FOR NO KEY UPDATE SKIP LOCKED",
        "SELECT 1 FROM filrouge.session s JOIN filrouge.head h ON h.lane = s.lane AND h.pk = s.pk WHERE s.lane = $1",
        "INSERT INTO filrouge.turn (lane, session_pk) SELECT $1, pk FROM unnest($2) AS q (pk)",
        "SELECT value FROM filrouge.store WHERE name = 'schema'",
    ] {
        assert_eq!(permissions(statement), Ok(BTreeSet::new()), "{statement}");
    }
    let locks = "SELECT lane FROM filrouge.lane WHERE lane = ANY($1) ORDER BY lane FOR NO KEY UPDATE SKIP LOCKED";
    assert_eq!(permissions(locks).map(|parts| parts.len()), Ok(1));
}

/// The statements of the program that cover several lanes.
fn statements_over_several_lanes() -> Vec<String> {
    let mut found = statements();
    found.retain(|statement| covers_several_lanes(statement));
    assert!(found.len() >= OVER_SEVERAL_LANES.len());
    found
}

#[test]
fn every_statement_over_several_lanes_has_a_form_for_one_lane() {
    let arrays = ["unnest($1", "ANY($1)", "q.lane", "q (lane"];
    for statement in statements_over_several_lanes() {
        let in_one_lane = text_in_one_lane(&statement, 2);
        assert_eq!(
            permissions(&in_one_lane),
            Ok(BTreeSet::new()),
            "{in_one_lane}"
        );
        assert!(
            !arrays.iter().any(|array| in_one_lane.contains(array)),
            "{in_one_lane}"
        );
        let is_insertion = statement.contains("INTO filrouge.");
        // New rows from a SELECT would make the transaction commit in two phases.
        let has_values = in_one_lane.contains("VALUES ($1, $2") && !in_one_lane.contains("unnest");
        assert_eq!(has_values, is_insertion, "{in_one_lane}");
        assert!(
            is_insertion || in_one_lane.contains("lane = $1"),
            "{in_one_lane}"
        );
    }
}

#[test]
fn an_insertion_in_one_lane_has_the_rows_as_values() {
    let rows = "INSERT INTO filrouge.head (lane, pk, data) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
    assert_eq!(
        text_in_one_lane(rows, 2),
        "INSERT INTO filrouge.head (lane, pk, data) VALUES ($1, $2, $3), ($4, $5, $6) ON CONFLICT DO NOTHING"
    );
    let join = "SELECT q.lane, h.data FROM unnest($1, $2) AS q (lane, pk)
        CROSS JOIN LATERAL (SELECT FROM filrouge.head h WHERE h.lane = q.lane AND h.pk = q.pk) h";
    assert_eq!(
        text_in_one_lane(join, 2),
        "SELECT $1, h.data FROM unnest($2) AS q (pk)
        CROSS JOIN LATERAL (SELECT FROM filrouge.head h WHERE h.lane = $1 AND h.pk = q.pk) h"
    );
}

#[test]
fn literals_are_found_in_a_source() {
    let source = r##"
        // "a comment"
        let a = "one \"two\" \
            three"; let b = '"'; let c = r#"four"#; let d: &'static str = "five";
    "##;
    let found = literals(source).join("; ");
    let words: Vec<&str> = found.split_whitespace().collect();
    assert_eq!(words.join(" "), r#"one "two" three; four; five"#);
}

/// The first column of a query of the catalog.
fn names(database: &Database, sql: &str) -> Vec<String> {
    let rows = database.sql(sql).into_iter();
    rows.map(|mut row| row.remove(0).unwrap()).collect()
}

#[test]
fn every_table_and_key_begins_with_the_lane() {
    let database = database();
    let tables = names(
        &database,
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1
         WHERE c.relnamespace = 'filrouge'::regnamespace AND c.relkind = 'r'
         AND NOT (a.attname = 'lane' AND a.attnotnull AND a.atttypid = 'smallint'::regtype)",
    );
    let exceptions: Vec<&String> = tables.iter().filter(|table| has_lanes(table)).collect();
    assert!(exceptions.is_empty(), "{exceptions:?}");
    for (beginning, _) in TABLES_WITHOUT_LANES {
        assert!(tables.iter().any(|table| table.starts_with(beginning)));
    }
    let indexes = names(
        &database,
        "SELECT t.relname || ' ' || c.relname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
         JOIN pg_class c ON c.oid = i.indexrelid
         LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
         WHERE t.relnamespace = 'filrouge'::regnamespace AND a.attname IS DISTINCT FROM 'lane'",
    );
    let exceptions: Vec<&String> = indexes.iter().filter(|index| has_lanes(index)).collect();
    assert!(exceptions.is_empty(), "{exceptions:?}");
}

#[test]
fn no_constraint_or_trigger_crosses_lanes() {
    // Neither foreign keys nor exclusions; keys are checked with their indexes.
    let others = "SELECT conname FROM pg_constraint
        WHERE connamespace = 'filrouge'::regnamespace AND contype IN ('f', 'x', 't')";
    let database = database();
    assert_eq!(names(&database, others), Vec::<String>::new());
    // Citus calls triggers unsafe, because they run on the node of their row: a guard reads nothing but this row. A
    // distributed store lacks the triggers that call search_forget.
    let called = names(
        &database,
        "SELECT DISTINCT p.proname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE c.relnamespace = 'filrouge'::regnamespace AND NOT t.tgisinternal ORDER BY 1",
    );
    assert_eq!(
        called,
        [
            "guard_always",
            "guard_copy",
            "guard_erasure",
            "guard_record",
            "search_forget"
        ]
    );
    let reading = "SELECT proname FROM pg_proc WHERE pronamespace = 'filrouge'::regnamespace
        AND proname LIKE 'guard%' AND prosrc ~ '(FROM|JOIN|INTO|UPDATE) '";
    assert_eq!(names(&database, reading), Vec::<String>::new());
}
