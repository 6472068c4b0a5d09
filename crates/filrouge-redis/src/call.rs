//! Sends commands to Redis, with the breaker's permission and within one time limit.

use std::sync::Mutex;
use std::time::Duration;

use filrouge_types::Failure;
use redis::{Cmd, RedisError, Value};
use tokio::task::JoinSet;

use crate::breaker::Breaker;
use crate::connect::{Connection, Connections, Lent};
use crate::counts::RedisCounts;
use crate::error::{Trouble, damaged, unavailable};
use crate::writes::Writes;

/// Sends requests to Redis, and records failures.
pub(crate) struct Caller {
    pub(crate) connections: Connections,
    pub(crate) breaker: Breaker,
    pub(crate) counts: Mutex<RedisCounts>,
    pub(crate) writes: Writes,
    /// The time limit for a request, including connecting.
    pub(crate) timeout: Duration,
}

/// Commands for the keys of one session, which are in the same slot of a cluster.
pub(crate) type Group = Vec<Cmd>;

/// A request: the commands that are sent together.
pub(crate) enum Ask {
    /// Commands, each with one answer.
    Of(Vec<Group>),
    /// A command that is sent to the server, or to every master of a cluster, each of which answers.
    Masters(Cmd),
}

impl Ask {
    fn commands(&self) -> Vec<&Cmd> {
        match self {
            Self::Of(groups) => groups.iter().flatten().collect(),
            Self::Masters(command) => vec![command],
        }
    }
}

impl Caller {
    /// Sends one command, and returns the answer.
    ///
    /// # Errors
    /// `hot_unavailable` if Redis does not answer, or answers with an error.
    pub(crate) async fn one(&self, command: Cmd) -> Result<Value, Failure> {
        let answers = self.answers(Ask::Of(vec![vec![command]])).await?;
        let first = answers.into_iter().next();
        self.unless_error(first.unwrap_or(Value::Nil))
    }

    /// Sends all commands, and returns the answers in order. An error that Redis returns for a single command is among
    /// the answers.
    ///
    /// # Errors
    /// `hot_unavailable` if Redis does not answer, or the breaker blocks requests.
    pub(crate) async fn answers(&self, request: Ask) -> Result<Vec<Value>, Failure> {
        let permit = self.breaker.enter().map_err(|why| {
            RedisCounts::increment(&self.counts, |counts| &mut counts.skipped);
            unavailable(why)
        })?;
        let outcome = tokio::time::timeout(self.timeout, self.exchange(&request)).await;
        let trouble = match outcome {
            Ok(Ok(answers)) => {
                permit.answered();
                return Ok(answers);
            }
            Ok(Err(Trouble::Down(why))) => why,
            Ok(Err(other)) => {
                permit.answered();
                return Err(self.refused(&other));
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
        permit.failed(&trouble);
        Err(unavailable(trouble))
    }

    /// Sends commands. If the connection was open before and turns out to be lost, sends the commands again over a new
    /// one. This is safe: a commit that Redis has already applied is recognized by its nonce, and reported as applied.
    async fn exchange(&self, request: &Ask) -> Result<Vec<Value>, Trouble> {
        loop {
            let lent = self.connections.get().await;
            let lent = lent.map_err(|e| self.connections.trouble(&e))?;
            let sent = send(&lent, request).await;
            let trouble = match sent {
                Ok(answers) => match answers.iter().find_map(down) {
                    None => return Ok(answers),
                    Some(trouble) => trouble,
                },
                Err(error) => {
                    let trouble = Trouble::of(&error);
                    if matches!(trouble, Trouble::Down(_)) {
                        self.connections.drop_lent(&lent);
                    }
                    if error.is_connection_dropped() && lent.reused {
                        continue;
                    }
                    return Err(trouble);
                }
            };
            // The server serves no requests. In a cluster, another node may have replaced it; a new connection finds
            // that node.
            self.connections.drop_lent(&lent);
            return Err(trouble);
        }
    }

    /// Returns `answer`, or a failure if it is an error.
    pub(crate) fn unless_error(&self, answer: Value) -> Result<Value, Failure> {
        match answer {
            Value::ServerError(error) => Err(self.refused(&Trouble::answered(&error))),
            answer => Ok(answer),
        }
    }

    /// Counts and logs a refusal by Redis, and returns the failure for the caller.
    pub(crate) fn refused(&self, trouble: &Trouble) -> Failure {
        match trouble {
            Trouble::Damaged => self.damaged(),
            Trouble::Down(why) | Trouble::Refused(why) | Trouble::NoWrites(why) => {
                if let Trouble::NoWrites(_) = trouble {
                    self.writes.refused(why);
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
    pub(crate) fn damaged(&self) -> Failure {
        if let Some(damaged) = RedisCounts::increment(&self.counts, |counts| &mut counts.damaged) {
            tracing::warn!(
                damaged,
                "[SESSIONS][HOT_DAMAGED] values in Redis are not what a hot store wrote"
            );
        }
        damaged()
    }
}

/// Returns the reason if an answer is an error which means that the server serves no requests at the moment.
fn down(answer: &Value) -> Option<Trouble> {
    match answer {
        Value::ServerError(error) => {
            Some(Trouble::answered(error)).filter(|trouble| matches!(trouble, Trouble::Down(_)))
        }
        _ => None,
    }
}

/// Sends a request. A single server gets all commands in one pipeline. The client library for clusters follows
/// redirections only for single commands, so there the commands of one session are sent one by one, and those of
/// different sessions concurrently.
async fn send(lent: &Lent, request: &Ask) -> Result<Vec<Value>, RedisError> {
    let mut connection = lent.connection.clone();
    match (request, &connection) {
        (Ask::Masters(command), Connection::Cluster(_)) => connection.ask_masters(command).await,
        (Ask::Of(groups), Connection::Cluster(_)) => match &groups[..] {
            [group] => one_by_one(connection, group).await,
            groups => concurrently(&connection, groups).await,
        },
        _ => connection.send(&request.commands()).await,
    }
}

async fn one_by_one(mut connection: Connection, group: &Group) -> Result<Vec<Value>, RedisError> {
    let mut answers = Vec::with_capacity(group.len());
    for command in group {
        answers.extend(connection.send(&[command]).await?);
    }
    Ok(answers)
}

async fn concurrently(connection: &Connection, groups: &[Group]) -> Result<Vec<Value>, RedisError> {
    let mut sending = JoinSet::new();
    for (n, group) in groups.iter().enumerate() {
        let (connection, group) = (connection.clone(), group.clone());
        sending.spawn(async move { (n, one_by_one(connection, &group).await) });
    }
    let mut answers = vec![Vec::new(); groups.len()];
    while let Some(sent) = sending.join_next().await {
        let (n, answer) = sent.map_err(std::io::Error::other)?;
        answers[n] = answer?;
    }
    Ok(answers.into_iter().flatten().collect())
}
