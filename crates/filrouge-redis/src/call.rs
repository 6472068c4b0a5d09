//! Asking Redis: within one timeout, past the breaker, on a connection that is there.

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

/// Whom requests go to, and how they fared.
pub(crate) struct Caller {
    pub(crate) connections: Connections,
    pub(crate) breaker: Breaker,
    pub(crate) counts: Mutex<RedisCounts>,
    pub(crate) writes: Writes,
    pub(crate) timeout: Duration,
}

/// Commands about one slot.
pub(crate) type Group = Vec<Cmd>;

/// What is asked.
pub(crate) enum Ask {
    /// Commands, each of which has one answer.
    Of(Vec<Group>),
    /// A command that every master answers.
    Everybody(Cmd),
}

impl Ask {
    fn commands(&self) -> Vec<&Cmd> {
        match self {
            Self::Of(groups) => groups.iter().flatten().collect(),
            Self::Everybody(command) => vec![command],
        }
    }
}

impl Caller {
    /// One command's answer.
    pub(crate) async fn one(&self, command: Cmd) -> Result<Value, Failure> {
        let answers = self.answers(Ask::Of(vec![vec![command]])).await?;
        let first = answers.into_iter().next();
        self.plain(first.unwrap_or(Value::Nil))
    }

    /// The answers of all commands, in order.
    pub(crate) async fn answers(&self, ask: Ask) -> Result<Vec<Value>, Failure> {
        let permit = self.breaker.enter().map_err(|why| {
            RedisCounts::one_more(&self.counts, |counts| &mut counts.skipped);
            unavailable(why)
        })?;
        let asked = tokio::time::timeout(self.timeout, self.exchange(&ask)).await;
        let trouble = match asked {
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
        RedisCounts::one_more(&self.counts, |counts| &mut counts.unanswered);
        permit.failed(&trouble);
        Err(unavailable(trouble))
    }

    /// Sends commands. On a connection that was lost since it was last used they are sent once more on a new one: a change
    /// that was made nevertheless is known by its word and answered as made.
    async fn exchange(&self, ask: &Ask) -> Result<Vec<Value>, Trouble> {
        loop {
            let lent = self.connections.get().await;
            let lent = lent.map_err(|e| self.connections.trouble(&e))?;
            let sent = send(&lent, ask).await;
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
                    if error.is_connection_dropped() && lent.old {
                        continue;
                    }
                    return Err(trouble);
                }
            };
            // Another node may serve by now: it is found when connecting.
            self.connections.drop_lent(&lent);
            return Err(trouble);
        }
    }

    /// An answer that is no error.
    pub(crate) fn plain(&self, answer: Value) -> Result<Value, Failure> {
        match answer {
            Value::ServerError(error) => Err(self.refused(&Trouble::answered(&error))),
            answer => Ok(answer),
        }
    }

    /// Counts what was refused, and says so.
    pub(crate) fn refused(&self, trouble: &Trouble) -> Failure {
        match trouble {
            Trouble::Damaged => self.damaged(),
            Trouble::Down(why) | Trouble::Refused(why) | Trouble::NoWrites(why) => {
                if let Trouble::NoWrites(_) = trouble {
                    self.writes.refused(why);
                }
                if let Some(refused) =
                    RedisCounts::one_more(&self.counts, |counts| &mut counts.refused)
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

    /// Counts what is not ours, and says so.
    pub(crate) fn damaged(&self) -> Failure {
        if let Some(damaged) = RedisCounts::one_more(&self.counts, |counts| &mut counts.damaged) {
            tracing::warn!(
                damaged,
                "[SESSIONS][HOT_DAMAGED] values in Redis are not what was put there"
            );
        }
        damaged()
    }
}

/// An answer that says that nobody is served.
fn down(answer: &Value) -> Option<Trouble> {
    match answer {
        Value::ServerError(error) => {
            Some(Trouble::answered(error)).filter(|trouble| matches!(trouble, Trouble::Down(_)))
        }
        _ => None,
    }
}

/// One server takes everything in one piece. A cluster's client follows redirections for single commands only: what is
/// about one session goes one by one, sessions at the same time.
async fn send(lent: &Lent, ask: &Ask) -> Result<Vec<Value>, RedisError> {
    let mut connection = lent.connection.clone();
    match (ask, &connection) {
        (Ask::Everybody(command), Connection::Cluster(_)) => connection.everybody(command).await,
        (Ask::Of(groups), Connection::Cluster(_)) => match &groups[..] {
            [group] => one_by_one(connection, group).await,
            groups => apart(&connection, groups).await,
        },
        _ => connection.send(&ask.commands()).await,
    }
}

async fn one_by_one(mut connection: Connection, group: &Group) -> Result<Vec<Value>, RedisError> {
    let mut answers = Vec::with_capacity(group.len());
    for command in group {
        answers.extend(connection.send(&[command]).await?);
    }
    Ok(answers)
}

async fn apart(connection: &Connection, groups: &[Group]) -> Result<Vec<Value>, RedisError> {
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
