//! Asks Redis to rewrite its append-only file.

use std::time::Instant;

use redis::{Cmd, Value};

use crate::client::{RedisClient, Request};

/// Asks Redis for a rewrite, if one is due. If that fails, it stays due.
pub(crate) async fn ask_if_due(client: &RedisClient) {
    if !client.rewrites.begin(Instant::now()) {
        return;
    }
    if let Err(why) = ask(client).await {
        client.rewrites.set_due();
        tracing::warn!(
            why,
            "[SESSIONS][HOT] the append-only file is not rewritten, and may hold erased contents"
        );
    }
}

async fn ask(client: &RedisClient) -> Result<(), String> {
    let mut info = redis::cmd("INFO");
    info.arg("persistence");
    let answers = send(client, info).await?;
    let files: Vec<Option<bool>> = answers.iter().map(has_append_only_file).collect();
    if files.iter().all(|has_file| *has_file == Some(false)) {
        return Ok(());
    }
    // A server without such a file would write one.
    if !files.iter().all(|has_file| *has_file == Some(true)) {
        return Err("not every server of Redis has an append-only file".to_owned());
    }
    send(client, redis::cmd("BGREWRITEAOF")).await.map(drop)
}

/// Sends a command to every master; fails if one refuses it.
async fn send(client: &RedisClient, command: Cmd) -> Result<Vec<Value>, String> {
    let sent = client.send_all(Request::AllMasters(command)).await;
    let answers = sent.map_err(|failure| failure.detail)?;
    let refusal = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(format!("Redis answers {}", error.code())),
        _ => None,
    });
    refusal.map_or(Ok(answers), Err)
}

/// Whether the answer to `INFO` is of a server with an append-only file; `None` if it does not say.
fn has_append_only_file(answer: &Value) -> Option<bool> {
    let Value::BulkString(text) = answer else {
        return None;
    };
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("aof_enabled:"))
        .map(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_append_only_file_is_recognized() {
        let answer = |text: &str| Value::BulkString(text.into());
        let persistence = |enabled: u8| {
            answer(&format!(
                "# Persistence\r\nloading:0\r\naof_enabled:{enabled}\r\naof_rewrite_in_progress:0\r\n"
            ))
        };
        assert_eq!(has_append_only_file(&persistence(1)), Some(true));
        assert_eq!(has_append_only_file(&persistence(0)), Some(false));
        assert_eq!(has_append_only_file(&answer("")), None);
        assert_eq!(has_append_only_file(&Value::Nil), None);
    }
}
