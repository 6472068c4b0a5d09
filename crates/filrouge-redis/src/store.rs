//! Implements the port [`HotStore`] on Redis.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use filrouge_store::hot::{
    Change, Edition, HotBounds, HotHealth, HotKey, HotSession, HotStore, Recent, RecentFill,
    RecentUpdate,
};
use filrouge_types::Failure;
use redis::{Cmd, Value};

use crate::breaker::Breaker;
use crate::call::{Ask, Caller, Group};
use crate::connect::Connections;
use crate::copy::{self, Damaged};
use crate::counts::RedisCounts;
use crate::error::Trouble;
use crate::options::Options;
use crate::scripts::{ADVANCE, COMMIT, FILL, FORGET, FORGET_RECENT, name};
use crate::writes::Writes;
use crate::{health, session, url};

/// The maximum number of updates in one request. More updates are sent as several requests, each with the full time
/// limit.
const UPDATES_MAX: usize = 256;
const PREFIX_MAX: usize = 64;

/// A hot store on Redis. It connects when it is first used, and again after the connection was lost.
pub struct RedisHot {
    caller: Caller,
    prefix: String,
    bounds: HotBounds,
}

impl RedisHot {
    /// Parses the options. Opens no connection, so that the program starts even if Redis does not answer.
    ///
    /// # Errors
    /// `invalid` for a malformed URL or prefix, and for certificates that cannot be read.
    pub fn open(options: &Options) -> Result<Self, Failure> {
        let prefix = &options.prefix;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.bytes().all(allowed) {
            return Err(url::invalid(
                "the prefix of keys is not 1 to 64 letters, digits and _-.:/",
            ));
        }
        Ok(Self {
            caller: Caller {
                connections: Connections::new(options)?,
                breaker: Breaker::default(),
                counts: Mutex::default(),
                writes: Writes::default(),
                timeout: options.timeout,
            },
            prefix: prefix.clone(),
            bounds: options.bounds,
        })
    }

    /// The counts of failures so far.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        let counts = self.caller.counts.lock();
        *counts.unwrap_or_else(PoisonError::into_inner)
    }

    fn session_key(&self, key: &HotKey) -> String {
        name(&self.prefix, key, 'e')
    }

    fn copy_key(&self, key: &HotKey) -> String {
        name(&self.prefix, key, 'r')
    }

    /// The time to live of a key in milliseconds: at least one, because Redis refuses zero.
    fn ttl(&self) -> u64 {
        let millis = u64::try_from(self.bounds.ttl.as_millis()).unwrap_or(u64::MAX);
        // Redis adds the value to the current time, so a larger one could overflow.
        millis.clamp(1, 1 << 52)
    }

    /// Runs a script, or a command that returns a number, and returns the number.
    async fn number(&self, command: Cmd) -> Result<i64, Failure> {
        let answer = self.caller.one(command).await?;
        self.read_number(answer)
    }

    fn read_number(&self, answer: Value) -> Result<i64, Failure> {
        match self.caller.unless_error(answer)? {
            // A script returns 3 if it has replaced a value that no hot store wrote.
            Value::Int(number) => {
                if number == 3 {
                    self.caller.damaged();
                }
                Ok(number)
            }
            _ => Err(self.caller.damaged()),
        }
    }

    /// Returns what was read; counts and logs a value that no hot store wrote.
    fn undamaged<T>(&self, read: Result<T, Damaged>) -> Result<T, Failure> {
        read.map_err(|Damaged| self.caller.damaged())
    }
}

#[async_trait]
impl HotStore for RedisHot {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn bounds(&self) -> HotBounds {
        self.bounds
    }

    async fn edition(&self, key: &HotKey) -> Result<Option<Edition>, Failure> {
        let mut command = redis::cmd("HGET");
        command.arg(self.session_key(key)).arg(session::EDITION);
        let answer = self.caller.one(command).await?;
        self.undamaged(session::read_edition(answer))
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.session_key(key));
        let answer = self.caller.one(command).await?;
        self.undamaged(session::read(answer))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: Change,
    ) -> Result<Option<Edition>, Failure> {
        let nonce = session::nonce()?;
        let next = match expected {
            None => Edition {
                incarnation,
                version: 1,
                nonce,
            },
            Some(current) => Edition {
                incarnation: current.incarnation,
                version: current.version.saturating_add(1),
                nonce,
            },
        };
        let mut call = COMMIT.on(&self.session_key(key));
        call.arg(self.ttl())
            .arg(
                expected
                    .as_ref()
                    .map(session::format_edition)
                    .unwrap_or_default(),
            )
            .arg(session::format_edition(&next));
        session::write_change(&mut call, &change);
        let answer = self.number(call).await?;
        self.caller.writes.accepted();
        Ok((answer == 1).then_some(next))
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        let Some(expected) = expected else {
            let mut command = redis::cmd("UNLINK");
            command.arg(self.session_key(key));
            return self.number(command).await.map(|_| true);
        };
        let mut call = FORGET.on(&self.session_key(key));
        call.arg(session::format_edition(&expected));
        Ok(self.number(call).await? == 1)
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        let max_turns = usize::try_from(self.bounds.turns).unwrap_or(usize::MAX);
        let limit = limit.min(max_turns);
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.copy_key(key)).arg(0).arg(limit);
        let answers = self.caller.answers(Ask::Of(vec![vec![command]])).await?;
        let read = match answers.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) => match Trouble::answered(&error) {
                Trouble::Damaged => Err(Damaged),
                other => return Err(self.caller.refused(&other)),
            },
            answer => copy::read(answer, limit),
        };
        if let Err(Damaged) = read {
            // A copy that cannot be read is dropped; only the newest seq that it contained is kept, if it can be
            // parsed.
            self.caller.one(self.forget_recent_call(key, 0)).await?;
        }
        self.undamaged(read)
    }

    async fn advance(&self, updates: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        for chunk in updates.chunks(UPDATES_MAX) {
            let answers = self.caller.answers(Ask::Of(self.calls(chunk))).await?;
            // All answers are checked, and so all damaged values are counted, before the first failure is returned.
            let mut read = Ok(());
            for answer in answers {
                read = read.and(self.read_number(answer).map(|_| ()));
            }
            read?;
            self.caller.writes.accepted();
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure> {
        let mut call = FILL.on(&self.copy_key(key));
        call.arg(self.ttl());
        copy::write_fill(&mut call, &fill, &self.bounds);
        self.number(call).await?;
        self.caller.writes.accepted();
        Ok(())
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.number(self.forget_recent_call(key, seq))
            .await
            .map(|_| ())
    }

    async fn health(&self) -> HotHealth {
        health::query(&self.caller).await
    }

    fn failure(&self) -> Option<String> {
        self.caller.breaker.why()
    }
}

impl RedisHot {
    fn forget_recent_call(&self, key: &HotKey, seq: u64) -> Cmd {
        let mut call = FORGET_RECENT.on(&self.copy_key(key));
        call.arg(self.ttl()).arg(copy::digits(seq));
        call
    }

    /// The calls of `advance.lua` for updates, grouped by session. The updates of one session keep their order.
    fn calls(&self, updates: &[(HotKey, RecentUpdate)]) -> Vec<Group> {
        let mut group_indexes = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for (key, update) in updates {
            let mut call = ADVANCE.on(&self.copy_key(key));
            call.arg(self.ttl());
            copy::write_update(&mut call, update, &self.bounds);
            let index = *group_indexes.entry(*key).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.push(call),
                None => groups.push(vec![call]),
            }
        }
        groups
    }
}
