//! Builds pgbench scripts from the product's statements: the same texts and the same values, except where a value must
//! differ between turns, which depends on its column.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::capture::SentStatement;
use super::server::{DurableServer, FIRST_SESSION};
use super::usage::{Usage, usages};

/// The statements of a turn that a script contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementSelection {
    /// All of them, so that writers take turns.
    All,
    /// All except the writers' lock.
    Unlocked,
    /// Neither the lock nor the notification, which makes PostgreSQL serialize commits.
    Silent,
    /// Like `Silent`, but only the writing statements.
    Writes,
}

/// A script, and the values that stay constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) constants: Vec<(String, String)>,
}

/// Shows the numbers of statements and of round trips.
impl std::fmt::Display for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = |start: &str| self.text.lines().filter(|l| l.starts_with(start)).count();
        let round_trips = lines("\\startpipeline");
        let statements = self.text.lines().count() - lines("\\");
        write!(f, "{statements} statements in {round_trips} round trips")
    }
}

/// The type of every column, by its name.
pub(crate) type Types = BTreeMap<String, String>;

/// The types of the store's columns; columns with the same name have the same type.
pub(crate) fn column_types(server: &DurableServer, database: &str) -> Types {
    let sql = "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'filrouge'";
    let rows = server.sql(database, sql).into_iter();
    rows.filter_map(|row| match <[_; 2]>::try_from(row) {
        Ok([Some(name), Some(kind)]) => Some((name, kind)),
        _ => None,
    })
    .collect()
}

/// A script whose transaction writes one turn of the client's own session, or with `sessions` one turn of each of these
/// sessions in one group. The product's two round trips become two pipelines.
pub(crate) fn build_script(
    sent: &[SentStatement],
    types: &Types,
    selection: StatementSelection,
    sessions: Option<usize>,
) -> Result<Script> {
    // Places and seqs only have to grow with the turns, with room for those of one turn.
    let mut script = Script {
        text: String::from(
            "\\set pk :client_id + 1\n\\set turn :turn + 1\n\\set place :turn * 256\n\\set seq :turn * 16\n\\startpipeline\n",
        ),
        constants: Vec::new(),
    };
    let mut is_reading = selection != StatementSelection::Writes;
    for statement in sent {
        let text = statement.text.as_str();
        let is_lock = text.contains("pg_advisory_xact_lock");
        let is_read = text.starts_with("SELECT");
        if (is_lock && selection != StatementSelection::All)
            || (is_read && selection == StatementSelection::Writes)
        {
            continue;
        }
        if is_reading != is_read
            && !matches!(text, "BEGIN" | "COMMIT")
            && selection != StatementSelection::Writes
        {
            script.text.push_str("\\endpipeline\n\\startpipeline\n");
            is_reading = is_read;
        }
        let bound_text = bind(statement, types, sessions, &mut script.constants)?;
        let bound_text = match selection {
            StatementSelection::All | StatementSelection::Unlocked => bound_text,
            StatementSelection::Silent | StatementSelection::Writes => {
                without_notification(&bound_text)
            }
        };
        let words: Vec<&str> = bound_text.split_whitespace().collect();
        writeln!(script.text, "{};", words.join(" "))?;
    }
    script.text.push_str("\\endpipeline\n");
    Ok(script)
}

/// The statement without its notification.
fn without_notification(text: &str) -> String {
    let Some((before, rest)) = text.split_once("pg_notify(") else {
        return text.to_owned();
    };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}NULL{after}")
}

/// Replaces `$1`, `$2`, … by expressions.
fn bind(
    statement: &SentStatement,
    types: &Types,
    sessions: Option<usize>,
    constants: &mut Vec<(String, String)>,
) -> Result<String> {
    let mut text = statement.text.clone();
    let usages = usages(&text)?;
    ensure!(
        usages.len() == statement.values.len(),
        "{} parameters found for {} values: {text}",
        usages.len(),
        statement.values.len()
    );
    // In descending order, because $1 is a prefix of $10.
    for (index, (usage, value)) in usages.iter().zip(&statement.values).enumerate().rev() {
        let value = value.as_deref();
        let value = value.with_context(|| format!("{usage:?} is NULL: {text}"))?;
        let mut constant = || {
            let name = format!("c{}", constants.len());
            constants.push((name.clone(), value.to_owned()));
            name
        };
        let kind = |column: &str| {
            let kind = types.get(column);
            kind.with_context(|| format!("the store has no column {column}: {text}"))
        };
        let expression = match usage {
            Usage::Other => format!("'{}'", value.replace('\'', "''")),
            Usage::Rows(column) => match varying_expression(column) {
                Some(element) => varying_array(value, element, kind(column)?, sessions),
                None => repeated_array(&constant(), kind(column)?, sessions),
            },
            Usage::SingleRow(column) => match varying_expression(column) {
                Some(element) => fill_placeholders(element, ":pk", "0"),
                None => format!(":{}::{}", constant(), kind(column)?),
            },
            Usage::Equal(column) => {
                match varying_expression(column).filter(|_| column != COMMIT_NO) {
                    Some(element) => fill_placeholders(element, ":pk", "0"),
                    None => format!(":{}::{}", constant(), kind(column)?),
                }
            }
            Usage::Bound(column) => match bound_expression(column) {
                Some(element) => fill_placeholders(element, ":pk", "0"),
                None => format!(":{}::{}", constant(), kind(column)?),
            },
        };
        text = text.replace(&format!("${}", index + 1), &expression);
    }
    Ok(text)
}

/// The column whose next value comes from a sequence where it is written, and only there.
const COMMIT_NO: &str = "commit_no";

/// An expression for a column whose values must differ between turns or between sessions: the `{k}`-th value of the
/// current turn of session `{pk}`. `None` if the value may be constant.
fn varying_expression(column: &str) -> Option<&'static str> {
    Some(match column {
        "pk" | "session_pk" => "{pk}::bigint",
        "session_id" => "'session-' || ({pk}::bigint + {offset})",
        "place" => ":place::bigint",
        "first_seq" => ":seq::bigint + {k}",
        "turn_id" => "md5(concat({pk}::bigint, '/', :turn::bigint))::uuid",
        "key" => "md5(concat({pk}::bigint, '+', :turn::bigint, '+', {k}))::uuid",
        COMMIT_NO => "nextval('turns')",
        _ => return None,
    })
}

/// The bound of a comparison with a varying column: the newest value, in a form that PostgreSQL computes once per
/// statement. If it computed the value for each row, it would scan the table.
fn bound_expression(column: &str) -> Option<&'static str> {
    match column {
        COMMIT_NO => Some("(SELECT last_value FROM turns)"),
        // These statements search for turns after the written one.
        "place" => Some("(:place::bigint + 1)"),
        "first_seq" => Some(":seq::bigint"),
        other => varying_expression(other),
    }
}

/// Replaces the placeholders of an expression.
fn fill_placeholders(element: &str, pk: &str, k: &str) -> String {
    // The first session has pk 1.
    let offset = (FIRST_SESSION - 1).to_string();
    let element = element.replace("{pk}", pk).replace("{offset}", &offset);
    element.replace("{k}", k)
}

/// An array with as many elements per session as were sent.
fn varying_array(value: &str, element: &str, kind: &str, sessions: Option<usize>) -> String {
    // Changing values are numbers, names and ids, which contain no comma.
    let each = value.split(',').count();
    match sessions {
        None => {
            let elements = (0..each).map(|k| fill_placeholders(element, ":pk", &k.to_string()));
            let elements: Vec<String> = elements.collect();
            format!("ARRAY[{}]::{kind}[]", elements.join(", "))
        }
        Some(sessions) => format!(
            "ARRAY(SELECT ({})::{kind} FROM generate_series(1, {sessions}) i, generate_series(0, {}) k)",
            fill_placeholders(element, "i", "k"),
            each - 1
        ),
    }
}

/// The array that was sent, repeated for each session.
fn repeated_array(name: &str, kind: &str, sessions: Option<usize>) -> String {
    match sessions {
        Some(sessions) => format!(
            "ARRAY(SELECT v FROM generate_series(1, {sessions}) i, unnest(:{name}::{kind}[]) v)"
        ),
        None => format!(":{name}::{kind}[]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str, values: &[&str]) -> SentStatement {
        SentStatement {
            text: text.to_owned(),
            values: values.iter().map(|v| Some((*v).to_owned())).collect(),
        }
    }

    /// The statements of a turn, in a short form.
    fn turn() -> [SentStatement; 6] {
        [
            sent("BEGIN", &[]),
            sent("SELECT pg_advisory_xact_lock(5)", &[]),
            sent(
                "SELECT s.pk FROM unnest($1, $2) AS q (tenant_id, session_id) JOIN s USING (session_id)",
                &["{a}", "{session-1000}"],
            ),
            sent("INSERT INTO filrouge.head (pk, data) SELECT * FROM unnest($1, $2)", &["{7,7}", "{x,y}"]),
            sent(
                "WITH put AS (INSERT INTO filrouge.commit_log (commit_no, data) VALUES ($1, $2) RETURNING commit_no)
                 SELECT pg_notify('filrouge', commit_no::text) FROM put",
                &["9", "z"],
            ),
            sent("COMMIT", &[]),
        ]
    }

    /// The lines of the script of [`turn`], without variables.
    fn lines(selection: StatementSelection, sessions: Option<usize>) -> Vec<String> {
        let types = [
            ("pk", "bigint"),
            ("tenant_id", "text"),
            ("session_id", "text"),
            ("data", "bytea"),
            ("commit_no", "bigint"),
        ];
        let types = types.map(|(n, t)| (n.to_owned(), t.to_owned())).into();
        let script = build_script(&turn(), &types, selection, sessions).unwrap();
        let without_variables = script.text.lines().filter(|l| !l.starts_with("\\set"));
        without_variables.map(str::to_owned).collect()
    }

    #[test]
    fn a_script_sends_the_same_statements_in_the_same_round_trips() {
        assert_eq!(
            lines(StatementSelection::All, None),
            [
                "\\startpipeline",
                "BEGIN;",
                "SELECT pg_advisory_xact_lock(5);",
                "SELECT s.pk FROM unnest(:c0::text[], ARRAY['session-' || (:pk::bigint + 999)]::text[]) AS q (tenant_id, session_id) JOIN s USING (session_id);",
                "\\endpipeline",
                "\\startpipeline",
                "INSERT INTO filrouge.head (pk, data) SELECT * FROM unnest(ARRAY[:pk::bigint, :pk::bigint]::bigint[], :c1::bytea[]);",
                "WITH put AS (INSERT INTO filrouge.commit_log (commit_no, data) VALUES (nextval('turns'), :c2::bytea) RETURNING commit_no) SELECT pg_notify('filrouge', commit_no::text) FROM put;",
                "COMMIT;",
                "\\endpipeline",
            ]
        );
    }

    #[test]
    fn each_script_omits_its_statements() {
        let without = |selection: StatementSelection, word: &str| {
            !lines(selection, None)
                .iter()
                .any(|line| line.contains(word))
        };
        assert!(
            !without(StatementSelection::Unlocked, "pg_notify")
                && without(StatementSelection::Unlocked, "advisory")
        );
        assert!(
            without(StatementSelection::Silent, "pg_notify")
                && !without(StatementSelection::Silent, "s.pk")
        );
        assert!(
            without(StatementSelection::Writes, "s.pk")
                && !without(StatementSelection::Writes, "filrouge.head")
        );
        assert_eq!(
            lines(StatementSelection::Writes, None)
                .iter()
                .filter(|l| *l == "\\startpipeline")
                .count(),
            1
        );
        assert!(
            lines(StatementSelection::All, Some(32))
                .iter()
                .any(|line| line.contains("generate_series(1, 32) i"))
        );
    }

    #[test]
    fn constant_values_are_kept_and_unknown_parameters_are_refused() {
        let lock = sent("SELECT pg_advisory_xact_lock($1)", &["5"]);
        let lock = build_script(&[lock], &Types::new(), StatementSelection::All, None).unwrap();
        assert!(lock.text.contains("SELECT pg_advisory_xact_lock('5');"));
        let newest = sent(
            "SELECT data FROM l WHERE commit_no >= $1 ORDER BY 1 LIMIT 16",
            &["7"],
        );
        let types = Types::from([("commit_no".to_owned(), "bigint".to_owned())]);
        let newest = build_script(&[newest], &types, StatementSelection::All, None).unwrap();
        assert!(
            newest
                .text
                .contains("WHERE commit_no >= (SELECT last_value FROM turns) ORDER")
        );
        let unknown = sent("SELECT x WHERE y = $1", &["1"]);
        assert!(build_script(&[unknown], &Types::new(), StatementSelection::All, None).is_err());
        // A parameter whose use is not found is refused, not guessed.
        assert!(
            build_script(
                &[sent("SELECT $2", &["1"])],
                &Types::new(),
                StatementSelection::All,
                None
            )
            .is_err()
        );
    }
}
