//! Writes the rows of one transaction of a copy, with one statement for each table.

use filrouge_store::copy::CopyRow;
use filrouge_store::rows::{LogRow, NoteRow, SessionPk};
use tokio::try_join;
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use crate::rows::sql_int;
use crate::session::{Param, Session, Sql};
use crate::stage::Pending;

static PUT_NOTES: Sql = Sql::new(
    "INSERT INTO filrouge.note (name, data) SELECT * FROM unnest($1, $2)
     ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data",
    &[Type::TEXT_ARRAY, Type::BYTEA_ARRAY],
);
static INSERT_COMMITS: Sql = Sql::new(
    "INSERT INTO filrouge.commit_log (commit_no, data) SELECT * FROM unnest($1, $2)",
    &[Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);

/// Writes all rows. Deletes sessions first, because `rows` may contain their replacements.
pub(super) async fn send_rows(session: &Session, rows: &[CopyRow]) -> Result<(), Error> {
    let mut pending = Pending::default();
    let (mut removed_sessions, mut notes, mut commits) = (vec![], vec![], vec![]);
    for row in rows {
        match row {
            CopyRow::RemoveSession(pk) => removed_sessions.push(*pk),
            CopyRow::Session(pk, row) => pending.insert_session(*pk, row),
            CopyRow::Turn(pk, row) => pending.put_turn(*pk, row, true),
            CopyRow::Record(pk, row) => drop(pending.insert_record(*pk, row)),
            CopyRow::Key(pk, row) => pending.insert_key(*pk, row.key, row.seq),
            CopyRow::Agent(pk, agent) => pending.insert_agent(*pk, agent),
            CopyRow::Event(pk, row) => pending.insert_event(*pk, row),
            CopyRow::Checkpoint(pk, row) => pending.put_checkpoint(*pk, row),
            CopyRow::Draft(pk, row) => pending.put_draft(*pk, row),
            CopyRow::Chunk(pk, place, chunk) => pending.insert_chunk(*pk, *place, chunk),
            CopyRow::Head(pk, head) => pending.put_head(*pk, head),
            CopyRow::Note(row) => notes.push(row),
            CopyRow::Commit(row) => commits.push(row),
        }
    }
    for pk in removed_sessions {
        session.run(&delete_session(pk)).await?;
    }
    try_join!(
        biased;
        pending.send(session),
        send_notes(session, &notes),
        send_commits(session, &commits),
    )?;
    Ok(())
}

/// SQL that deletes all rows of a session. The database's guards, which prevent deletes, permit these because the
/// setting `filrouge.erases` names the session.
fn delete_session(pk: SessionPk) -> String {
    let pk = sql_int(pk);
    let tables = [
        "record",
        "item_key",
        "session_agent",
        "event",
        "draft_chunk",
        "draft",
        "checkpoint",
        "turn",
    ];
    let deletes = tables.map(|t| format!("DELETE FROM filrouge.{t} WHERE session_pk = {pk};"));
    format!(
        "SELECT set_config('filrouge.erases', '{pk}', true); {}
         DELETE FROM filrouge.head WHERE pk = {pk}; DELETE FROM filrouge.session WHERE pk = {pk}",
        deletes.concat()
    )
}

async fn send_notes(session: &Session, rows: &[&NoteRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    let data: Vec<Vec<u8>> = rows.iter().map(|row| row.encode()).collect();
    session.query(&PUT_NOTES, &[&names, &data]).await.map(drop)
}

async fn send_commits(session: &Session, rows: &[&LogRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = rows.iter().map(|row| sql_int(row.commit_no)).collect();
    let data: Vec<Vec<u8>> = rows.iter().map(|row| row.encode()).collect();
    let params: [Param<'_>; 2] = [&numbers, &data];
    session.query(&INSERT_COMMITS, &params).await.map(drop)
}
