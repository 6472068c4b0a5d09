//! Sends commands to Redis, with the breaker's permission and within one time limit.

use std::sync::Mutex;
use std::time::Duration;

use filrouge_types::Failure;
use redis::{Cmd, RedisError, Value};
use tokio::task::JoinSet;

use crate::breaker::Breaker;
use crate::connect::{BorrowedConnection, Connection, Connections};
use crate::counts::RedisCounts;
use crate::error::{RequestFailure, damaged_value, unavailable};
use crate::rewrites::Rewrites;
use crate::writes::WriteState;

/// Sends requests to Redis, and records failures.
pub(crate) struct RedisClient {
    pub(crate) connections: Connections,
    pub(crate) breaker: Breaker,
    pub(crate) counts: Mutex<RedisCounts>,
    pub(crate) writes: WriteState,
    pub(crate) rewrites: Rewrites,
    /// The time limit for a request, including connecting.
    pub(crate) timeout: Duration,
}

/// Commands for the keys of one session, which are in the same slot of a cluster.
pub(crate) type Group = Vec<Cmd>;

/// A request: the commands that are sent together.
pub(crate) enum Request {
    /// Commands, each with one answer.
    Commands(Vec<Group>),
    /// A command that is sent to the server, or to every master of a cluster, each of which answers.
    AllMasters(Cmd),
}

impl Request {
    fn commands(&self) -> Vec<&Cmd> {
        match self {
            Self::Commands(groups) => groups.iter().flatten().collect(),
            Self::AllMasters(command) => vec![command],
        }
    }
}

impl RedisClient {
    /// Sends one command, and returns the answer.
    ///
    /// # Errors
    /// `hot_unavailable` if Redis does not answer, or answers with an error.
    pub(crate) async fn send_one(&self, command: Cmd) -> Result<Value, Failure> {
        let answers = self
            .send_all(Request::Commands(vec![vec![command]]))
            .await?;
        let first = answers.into_iter().next();
        self.unless_error(first.unwrap_or(Value::Nil))
    }

    /// Sends all commands, and returns the answers in order. An error that Redis returns for a single command is among
    /// the answers.
    ///
    /// # Errors
    /// `hot_unavailable` if Redis does not answer, or the breaker blocks requests.
    pub(crate) async fn send_all(&self, request: Request) -> Result<Vec<Value>, Failure> {
        let permit = self.breaker.request_permit().map_err(|why| {
            RedisCounts::increment(&self.counts, |counts| &mut counts.skipped);
            unavailable(why)
        })?;
        let outcome = tokio::time::timeout(self.timeout, self.send_with_retry(&request)).await;
        let reason = match outcome {
            Ok(Ok(answers)) => {
                permit.record_answer();
                return Ok(answers);
            }
            Ok(Err(RequestFailure::Down(why))) => why,
            Ok(Err(other)) => {
                permit.record_answer();
                return Err(self.record_refusal(&other));
            }
            Err(_) => {
                self.connections.drop_current();
                format!(
                    "Redis does not answer within {} ms",
                    self.timeout.as_millis()
                )
            }
        };
        RedisCounts::increment(&self.counts, |counts| &mut counts.unanswered);
        permit.record_failure(&reason);
        Err(unavailable(reason))
    }

    /// Sends commands. If a reused connection turns out to be lost, sends the commands again over a new one. This is
    /// safe: a commit that Redis has already applied is recognized by its nonce, and reported as applied.
    async fn send_with_retry(&self, request: &Request) -> Result<Vec<Value>, RequestFailure> {
        loop {
            let borrowed = self.connections.get().await;
            let borrowed = borrowed.map_err(|e| self.connections.classify_connect_error(&e))?;
            let result = send(&borrowed, request).await;
            let failure = match result {
                Ok(answers) => match answers.iter().find_map(down_failure) {
                    None => return Ok(answers),
                    Some(failure) => failure,
                },
                Err(error) => {
                    let failure = RequestFailure::from_client_error(&error);
                    if matches!(failure, RequestFailure::Down(_)) {
                        self.connections.drop_borrowed(&borrowed);
                    }
                    if error.is_connection_dropped() && borrowed.reused {
                        continue;
                    }
                    return Err(failure);
                }
            };
            // The server serves no requests. In a cluster, another node may have replaced it; a new connection finds
            // that node.
            self.connections.drop_borrowed(&borrowed);
            return Err(failure);
        }
    }

    /// Returns `answer`, or a failure if it is an error.
    pub(crate) fn unless_error(&self, answer: Value) -> Result<Value, Failure> {
        match answer {
            Value::ServerError(error) => {
                Err(self.record_refusal(&RequestFailure::from_server_error(&error)))
            }
            answer => Ok(answer),
        }
    }

    /// Counts and logs a refusal by Redis, and returns the failure for the caller.
    pub(crate) fn record_refusal(&self, failure: &RequestFailure) -> Failure {
        match failure {
            RequestFailure::Damaged => self.record_damage(),
            RequestFailure::Down(why)
            | RequestFailure::Refused(why)
            | RequestFailure::NoWrites(why) => {
                if let RequestFailure::NoWrites(_) = failure {
                    self.writes.record_refusal(why);
                }
                if let Some(refused) =
                    RedisCounts::increment(&self.counts, |counts| &mut counts.refused)
                {
                    tracing::warn!(
                        why,
                        refused,
                        "[SESSIONS][HOT_REFUSED] Redis refuses requests"
                    );
                }
                unavailable(why)
            }
        }
    }

    /// Counts and logs a value that no hot store wrote, and returns the failure for the caller.
    pub(crate) fn record_damage(&self) -> Failure {
        if let Some(damaged) = RedisCounts::increment(&self.counts, |counts| &mut counts.damaged) {
            tracing::warn!(
                damaged,
                "[SESSIONS][HOT_DAMAGED] values in Redis are not what a hot store wrote"
            );
        }
        damaged_value()
    }
}

/// Returns the failure if an answer is the error of a server that serves no requests at the moment.
fn down_failure(answer: &Value) -> Option<RequestFailure> {
    match answer {
        Value::ServerError(error) => Some(RequestFailure::from_server_error(error))
            .filter(|failure| matches!(failure, RequestFailure::Down(_))),
        _ => None,
    }
}

/// Sends a request. A single server gets all commands in one pipeline. The client library for clusters follows
/// redirections only for single commands, so there the commands of one session are sent one by one, and those of
/// different sessions concurrently.
async fn send(borrowed: &BorrowedConnection, request: &Request) -> Result<Vec<Value>, RedisError> {
    let mut connection = borrowed.connection.clone();
    match (request, &connection) {
        (Request::AllMasters(command), Connection::Cluster(_)) => {
            connection.send_to_masters(command).await
        }
        (Request::Commands(groups), Connection::Cluster(_)) => match &groups[..] {
            [group] => send_one_by_one(connection, group).await,
            groups => send_concurrently(&connection, groups).await,
        },
        _ => connection.send(&request.commands()).await,
    }
}

async fn send_one_by_one(
    mut connection: Connection,
    group: &Group,
) -> Result<Vec<Value>, RedisError> {
    let mut answers = Vec::with_capacity(group.len());
    for command in group {
        answers.extend(connection.send(&[command]).await?);
    }
    Ok(answers)
}

async fn send_concurrently(
    connection: &Connection,
    groups: &[Group],
) -> Result<Vec<Value>, RedisError> {
    let mut sending = JoinSet::new();
    for (n, group) in groups.iter().enumerate() {
        let (connection, group) = (connection.clone(), group.clone());
        sending.spawn(async move { (n, send_one_by_one(connection, &group).await) });
    }
    let mut answers = vec![Vec::new(); groups.len()];
    while let Some(sent) = sending.join_next().await {
        let (n, answer) = sent.map_err(std::io::Error::other)?;
        answers[n] = answer?;
    }
    Ok(answers.into_iter().flatten().collect())
}
