//! Writes many documents with few requests.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::http::{Answer, Body, Client, ClientError};
use crate::{Refused, Row, SessionKey, TargetError};

/// The maximum number of bytes of a request, unless one document is larger. OpenSearch recommends 5 to 15 MB.
const MAX_BYTES: usize = 5 << 20;
/// The maximum number of documents of a request.
const MAX_ACTIONS: usize = 1_000;

/// A write or the deletion of one document.
pub(super) struct Action<'a> {
    key: &'a SessionKey,
    lines: String,
}

impl<'a> Action<'a> {
    /// Writes a document, unless the index has it with a greater version. `added` are the members that its content does
    /// not have.
    pub(super) fn write(
        key: &'a SessionKey,
        digest: &str,
        version: u64,
        row: &Row,
        added: Map<String, Value>,
    ) -> Self {
        let mut document = row.content.clone();
        document.extend(added);
        let id = format!("{}-{}", row.table, row.id);
        let head = json!({ "index": meta(&id, digest, version) });
        let lines = format!("{head}\n{}\n", Value::Object(document));
        Self { key, lines }
    }

    /// Deletes a document, unless the index has it with a greater version.
    pub(super) fn delete(key: &'a SessionKey, digest: &str, version: u64, id: &str) -> Self {
        let head = json!({ "delete": meta(id, digest, version) });
        let lines = format!("{head}\n");
        Self { key, lines }
    }
}

/// Which document an action changes. The documents of a session are in one shard, chosen by its digest.
fn meta(id: &str, digest: &str, version: u64) -> Value {
    json!({
        "_id": id,
        "routing": digest,
        "version": version,
        "version_type": "external_gte",
    })
}

/// What the actions did.
#[derive(Default)]
pub(super) struct Outcome {
    /// The sessions of which documents were refused, and the first reason for each.
    refused: BTreeMap<SessionKey, String>,
    /// The number of documents that were changed.
    pub(super) changed: usize,
}

impl Outcome {
    pub(super) fn refused(self) -> Vec<Refused> {
        let refused = self.refused.into_iter();
        refused
            .map(|(key, reason)| Refused { key, reason })
            .collect()
    }
}

/// Carries out actions in any order: OpenSearch compares versions. Two requests are sent at a time, so that one is
/// executed while the other is transferred or flushed.
///
/// # Errors
/// Any part of the actions may have been carried out.
pub(super) async fn run(
    client: &Client,
    write_alias: &str,
    actions: &[Action<'_>],
) -> Result<Outcome, TargetError> {
    let mut outcome = Outcome::default();
    // The alias is required, so that a missing index is not created without its fields.
    let path = format!("{write_alias}/_bulk?require_alias=true");
    let mut remaining = batches(actions);
    remaining.reverse();
    while !remaining.is_empty() {
        let (first, second) = (remaining.pop(), remaining.pop());
        let answers = tokio::join!(send(client, &path, first), send(client, &path, second));
        for (batch, answer) in [(first, answers.0), (second, answers.1)] {
            if let (Some(batch), Some(answer)) = (batch, answer?) {
                remaining.extend(read_answer(batch, &answer, &mut outcome)?);
            }
        }
    }
    Ok(outcome)
}

/// Sends a batch, if there is one.
async fn send(
    client: &Client,
    path: &str,
    batch: Option<&[Action<'_>]>,
) -> Result<Option<Answer>, ClientError> {
    let Some(batch) = batch else {
        return Ok(None);
    };
    let body: String = batch.iter().map(|action| action.lines.as_str()).collect();
    let answer = client.send(Method::POST, path, Body::Lines(body)).await?;
    Ok(Some(answer))
}

/// Reads the results of a batch. Returns its halves if the request was too large.
fn read_answer<'a, 'b>(
    batch: &'a [Action<'b>],
    answer: &Answer,
    outcome: &mut Outcome,
) -> Result<Vec<&'a [Action<'b>]>, TargetError> {
    if answer.status == StatusCode::PAYLOAD_TOO_LARGE {
        if let [action] = batch {
            let reason = "the document is larger than OpenSearch accepts".to_owned();
            outcome.refused.entry(action.key.clone()).or_insert(reason);
            return Ok(Vec::new());
        }
        let (first, second) = batch.split_at(batch.len() / 2);
        return Ok(vec![second, first]);
    }
    let results = answer.body["items"].as_array();
    let results = results.filter(|results| results.len() == batch.len());
    let Some(results) = results.filter(|_| answer.status.is_success()) else {
        return Err(super::unexpected(answer));
    };
    for (action, result) in batch.iter().zip(results) {
        read_result(action.key, result, outcome)?;
    }
    Ok(Vec::new())
}

/// Divides actions into requests.
fn batches<'a, 'b>(actions: &'a [Action<'b>]) -> Vec<&'a [Action<'b>]> {
    let (mut batches, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, action) in actions.iter().enumerate() {
        let is_full = bytes + action.lines.len() > MAX_BYTES || at - begin == MAX_ACTIONS;
        if is_full && at > begin {
            batches.push(&actions[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += action.lines.len();
    }
    if begin < actions.len() {
        batches.push(&actions[begin..]);
    }
    batches
}

fn read_result(key: &SessionKey, result: &Value, outcome: &mut Outcome) -> Result<(), TargetError> {
    let result = result.as_object().and_then(|result| result.values().next());
    let result = result.unwrap_or(&Value::Null);
    let error = &result["error"];
    let kind = error["type"].as_str().unwrap_or("unknown error");
    match result["status"].as_u64().unwrap_or_default() {
        200 | 201 => outcome.changed += 1,
        // The index has a greater version.
        409 => {}
        // The document to delete does not exist.
        404 if error.is_null() => {}
        404 => return Err(TargetError::Altered("the index is missing".to_owned())),
        400 | 413 => {
            let reason = reason(kind, error);
            outcome.refused.entry(key.clone()).or_insert(reason);
        }
        401 | 403 => return Err(TargetError::Refused(kind.to_owned())),
        _ => return Err(TargetError::Unavailable(kind.to_owned())),
    }
    Ok(())
}

/// The type of an error, and the field that it names. The text of the error is not used, because it quotes content.
fn reason(kind: &str, error: &Value) -> String {
    let text = error["reason"].as_str().unwrap_or_default();
    let is_field = |name: &&str| super::mapping::is_field(name);
    // Some errors name a field inside another one, such as `metadata._value`.
    let words = text.split(['[', ']', '"']);
    let mut names = words.filter_map(|word| word.split('.').next());
    match names.find(is_field) {
        Some(field) => format!("{kind} in the field {field}"),
        None => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::http::{Credentials, Endpoint};

    fn key() -> SessionKey {
        SessionKey {
            tenant: "acme".parse().unwrap(),
            session: "s1".parse().unwrap(),
        }
    }

    #[test]
    fn batches_have_a_limited_size() {
        let key = key();
        let action = |bytes| Action {
            key: &key,
            lines: "x".repeat(bytes),
        };
        let lengths = |sizes: &[usize]| -> Vec<usize> {
            let actions: Vec<_> = sizes.iter().copied().map(action).collect();
            batches(&actions).iter().map(|batch| batch.len()).collect()
        };
        assert_eq!(lengths(&[]), [0_usize; 0]);
        assert_eq!(lengths(&[1; 2_500]), [1_000, 1_000, 500]);
        assert_eq!(lengths(&[MAX_BYTES - 1, 1, 1]), [2, 1]);
        assert_eq!(lengths(&[1, 2 * MAX_BYTES, 1]), [1, 1, 1]);
    }

    /// Receives a request; returns the number of lines of its body.
    async fn receive(stream: &mut TcpStream) -> usize {
        let mut request = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&request).to_lowercase();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let mut lines = head.lines();
                let length = lines.find_map(|line| line.strip_prefix("content-length: "));
                if length == Some(body.len().to_string().as_str()) {
                    return body.lines().count();
                }
            }
            let received = stream.read_buf(&mut request).await.unwrap();
            assert!(received > 0, "the request is not complete");
        }
    }

    /// The server answers no request before it has two.
    #[tokio::test]
    async fn two_requests_are_sent_at_a_time() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = Client::new(&Endpoint {
            url: format!("http://{}", listener.local_addr().unwrap()),
            credentials: Credentials::Anonymous,
            timeout: Duration::from_secs(30),
        });
        tokio::spawn(async move {
            let mut streams = Vec::new();
            for _ in 0..2 {
                streams.push(listener.accept().await.unwrap().0);
            }
            for mut stream in streams {
                let items = vec![json!({ "index": { "status": 201 } }); receive(&mut stream).await];
                let body = json!({ "items": items }).to_string();
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
                );
                stream.write_all((head + &body).as_bytes()).await.unwrap();
            }
        });
        let key = key();
        let action = |_| Action {
            key: &key,
            lines: "{}\n".to_owned(),
        };
        let actions: Vec<_> = (0..=MAX_ACTIONS).map(action).collect();
        let outcome = run(&client.unwrap(), "w", &actions).await.unwrap();
        assert_eq!(outcome.changed, MAX_ACTIONS + 1);
    }

    #[test]
    fn a_reason_names_the_field_and_quotes_no_content() {
        let error = json!({
            "type": "mapper_parsing_exception",
            "reason": "failed to parse field [rank] of type [long] in document with id 'x'. Preview of field's value: 'secret'",
        });
        let result = json!({ "index": { "status": 400, "error": error } });
        let mut outcome = Outcome::default();
        read_result(&key(), &result, &mut outcome).unwrap();
        let refused = outcome.refused();
        assert_eq!(refused.len(), 1);
        assert_eq!(
            refused[0].reason,
            "mapper_parsing_exception in the field rank"
        );
    }

    #[test]
    fn results_of_documents_are_distinguished() {
        let read = |result: Value| {
            let mut outcome = Outcome::default();
            read_result(&key(), &json!({ "index": result }), &mut outcome).map(|()| outcome.changed)
        };
        assert_eq!(read(json!({ "status": 201 })).unwrap(), 1);
        let conflict = json!({ "type": "version_conflict_engine_exception" });
        assert_eq!(
            read(json!({ "status": 409, "error": conflict })).unwrap(),
            0
        );
        assert_eq!(read(json!({ "status": 404 })).unwrap(), 0);
        let missing = json!({ "type": "index_not_found_exception" });
        let missing = read(json!({ "status": 404, "error": missing }));
        assert!(matches!(missing, Err(TargetError::Altered(_))));
        let busy = json!({ "type": "rejected_execution_exception" });
        let busy = read(json!({ "status": 429, "error": busy }));
        assert!(matches!(busy, Err(TargetError::Unavailable(_))));
    }
}
