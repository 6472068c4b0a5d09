//! Adds a message to a generated history as OpenCode does.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::corpora::History;

/// Adds a message of the user, with this time in milliseconds.
pub(super) fn add_message(history: &History, session: &str, at: i64, text: &str) -> Result<()> {
    let message = json!({"role": "user", "time": {"created": at}, "agent": "build",
        "model": {"providerID": "mock", "modelID": "atelier-1"}});
    let part = json!({"type": "text", "text": text});
    // The ids sort after all others, whatever the clock says.
    let (message_id, part_id) = (format!("msg_f{at:012x}zzzz"), format!("prt_f{at:012x}zzzz"));
    if history.form == "json" {
        let storage = history.root.join("storage");
        let message = with_members(message, &[("id", &message_id), ("sessionID", session)]);
        let ids = [
            ("id", part_id.as_str()),
            ("messageID", &message_id),
            ("sessionID", session),
        ];
        write_json(
            &storage.join(format!("part/{message_id}/{part_id}.json")),
            &with_members(part, &ids),
        )?;
        write_json(
            &storage.join(format!("message/{session}/{message_id}.json")),
            &message,
        )?;
        return set_updated(&storage, session, at);
    }
    let db = Connection::open(history.root.join("opencode.db"))?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    db.execute(
        "INSERT INTO message(id, session_id, time_created, time_updated, data) VALUES (?1, ?2, ?3, ?3, ?4)",
        (&message_id, session, at, message.to_string()),
    )?;
    db.execute(
        "INSERT INTO part(id, message_id, session_id, time_created, time_updated, data) VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
        (&part_id, &message_id, session, at, part.to_string()),
    )?;
    db.execute(
        "UPDATE session SET time_updated = ?2 WHERE id = ?1",
        (session, at),
    )?;
    Ok(db.execute_batch("COMMIT")?)
}

/// Sets the time of the last change in the session's file.
fn set_updated(storage: &Path, session: &str, at: i64) -> Result<()> {
    for project in fs::read_dir(storage.join("session"))? {
        let path = project?.path().join(format!("{session}.json"));
        if path.exists() {
            let mut value: Value = serde_json::from_slice(&fs::read(&path)?)?;
            let updated = value.pointer_mut("/time/updated").context("time.updated")?;
            *updated = at.into();
            write_json(&path, &value)?;
        }
    }
    Ok(())
}

fn with_members(mut value: Value, members: &[(&str, &str)]) -> Value {
    for (name, text) in members {
        value[*name] = json!(text);
    }
    value
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, serde_json::to_vec_pretty(value)?)?)
}
