//! Implements the port [`HotStore`] on Redis.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use filrouge_store::hot::{
    Edition, FieldChanges, HotBounds, HotHealth, HotKey, HotSession, HotStore, Recent, RecentFill,
    RecentUpdate,
};
use filrouge_types::{Failure, lock};
use redis::{Cmd, Value};

use crate::breaker::Breaker;
use crate::client::{Group, RedisClient, Request};
use crate::connect::Connections;
use crate::copy::{self, Damaged};
use crate::counts::RedisCounts;
use crate::error::RequestFailure;
use crate::options::Options;
use crate::rewrites::{self, Rewrites};
use crate::scripts::{ADVANCE, COMMIT, FILL, FORGET, FORGET_RECENT, key_name};
use crate::writes::WriteState;
use crate::{append_only, health, session, url};

/// The maximum number of updates in one request. More updates are sent as several requests, each with the full time
/// limit.
const MAX_UPDATES: usize = 256;
const MAX_PREFIX_BYTES: usize = 64;

/// A hot store on Redis. It connects when it is first used, and again after the connection was lost.
pub struct RedisHot {
    client: RedisClient,
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
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || !prefix.bytes().all(is_allowed) {
            return Err(url::invalid(
                "the prefix of keys is not 1 to 64 letters, digits and _-.:/",
            ));
        }
        Ok(Self {
            client: RedisClient {
                connections: Connections::new(options)?,
                breaker: Breaker::default(),
                counts: Mutex::default(),
                writes: WriteState::default(),
                rewrites: Rewrites::default(),
                timeout: options.timeout,
            },
            prefix: prefix.clone(),
            bounds: options.bounds,
        })
    }

    /// The counts of failures so far.
    pub fn counts(&self) -> RedisCounts {
        *lock(&self.client.counts)
    }

    fn session_key(&self, key: &HotKey) -> String {
        key_name(&self.prefix, key, 'e')
    }

    fn copy_key(&self, key: &HotKey) -> String {
        key_name(&self.prefix, key, 'r')
    }

    /// The time to live of a key in milliseconds: at least one, because Redis refuses zero.
    fn ttl(&self) -> u64 {
        let millis = u64::try_from(self.bounds.ttl.as_millis()).unwrap_or(u64::MAX);
        // Redis adds the value to the current time, so a larger one could overflow.
        millis.clamp(1, 1 << 52)
    }

    /// Runs a script, or a command that returns a number, and returns the number.
    async fn send_for_number(&self, command: Cmd) -> Result<i64, Failure> {
        let answer = self.client.send_one(command).await?;
        self.parse_number(answer)
    }

    fn parse_number(&self, answer: Value) -> Result<i64, Failure> {
        match self.client.unless_error(answer)? {
            // A script returns 3 if it has replaced a value that no hot store wrote.
            Value::Int(number) => {
                if number == 3 {
                    self.client.record_damage();
                }
                Ok(number)
            }
            _ => Err(self.client.record_damage()),
        }
    }

    /// Returns the parsed value; counts and logs a value that no hot store wrote.
    fn check_undamaged<T>(&self, read: Result<T, Damaged>) -> Result<T, Failure> {
        read.map_err(|Damaged| self.client.record_damage())
    }

    fn forget_recent_call(&self, key: &HotKey, seq: u64) -> Cmd {
        let mut call = FORGET_RECENT.call_on(&self.copy_key(key));
        call.arg(self.ttl()).arg(copy::digits(seq));
        call
    }

    /// The calls of `advance.lua` for updates, grouped by session. The updates of one session keep their order.
    fn advance_calls(&self, updates: &[(HotKey, RecentUpdate)]) -> Vec<Group> {
        let mut group_indexes = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for (key, update) in updates {
            let mut call = ADVANCE.call_on(&self.copy_key(key));
            call.arg(self.ttl());
            copy::push_update_args(&mut call, update, &self.bounds);
            let index = *group_indexes.entry(*key).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.push(call),
                None => groups.push(vec![call]),
            }
        }
        groups
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
        let answer = self.client.send_one(command).await?;
        self.check_undamaged(session::parse_edition_answer(answer))
    }

    async fn load(&self, key: &HotKey) -> Result<Option<HotSession>, Failure> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.session_key(key));
        let answer = self.client.send_one(command).await?;
        self.check_undamaged(session::parse(answer))
    }

    async fn commit(
        &self,
        key: &HotKey,
        expected: Option<Edition>,
        incarnation: u64,
        change: FieldChanges,
    ) -> Result<Option<Edition>, Failure> {
        let next = Edition::after(expected, incarnation, session::new_nonce()?);
        let mut call = COMMIT.call_on(&self.session_key(key));
        call.arg(self.ttl())
            .arg(
                expected
                    .as_ref()
                    .map(session::format_edition)
                    .unwrap_or_default(),
            )
            .arg(session::format_edition(&next));
        session::push_change_args(&mut call, &change);
        let answer = self.send_for_number(call).await?;
        self.client.writes.record_success();
        Ok((answer == 1).then_some(next))
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        let Some(expected) = expected else {
            let mut command = redis::cmd("UNLINK");
            command.arg(self.session_key(key));
            return self.send_for_number(command).await.map(|_| true);
        };
        let mut call = FORGET.call_on(&self.session_key(key));
        call.arg(session::format_edition(&expected));
        Ok(self.send_for_number(call).await? == 1)
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        let max_turns = usize::try_from(self.bounds.turns).unwrap_or(usize::MAX);
        let limit = limit.min(max_turns);
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.copy_key(key)).arg(0).arg(limit);
        let answers = self
            .client
            .send_all(Request::Commands(vec![vec![command]]))
            .await?;
        let read = match answers.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) => match RequestFailure::from_server_error(&error) {
                RequestFailure::Damaged => Err(Damaged),
                other => return Err(self.client.record_refusal(&other)),
            },
            answer => copy::parse(answer, limit),
        };
        if let Err(Damaged) = read {
            // A copy that cannot be read is dropped; only the newest seq that it contained is kept, if it can be
            // parsed.
            self.client
                .send_one(self.forget_recent_call(key, 0))
                .await?;
        }
        self.check_undamaged(read)
    }

    async fn advance(&self, updates: Vec<(HotKey, RecentUpdate)>) -> Result<(), Failure> {
        for chunk in updates.chunks(MAX_UPDATES) {
            let answers = self
                .client
                .send_all(Request::Commands(self.advance_calls(chunk)))
                .await?;
            // All answers are checked, and so all damaged values are counted, before the first failure is returned.
            let mut result = Ok(());
            for answer in answers {
                result = result.and(self.parse_number(answer).map(|_| ()));
            }
            result?;
            self.client.writes.record_success();
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: RecentFill) -> Result<(), Failure> {
        let mut call = FILL.call_on(&self.copy_key(key));
        call.arg(self.ttl());
        copy::push_fill_args(&mut call, &fill, &self.bounds);
        self.send_for_number(call).await?;
        self.client.writes.record_success();
        Ok(())
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.send_for_number(self.forget_recent_call(key, seq))
            .await
            .map(|_| ())
    }

    fn note_erasure(&self) {
        self.client.rewrites.set_due();
    }

    async fn rewrite_if_due(&self) {
        append_only::ask_if_due(&self.client).await;
    }

    fn remains(&self) -> Option<&'static str> {
        self.client.rewrites.is_due().then_some(rewrites::REMAINS)
    }

    async fn health(&self) -> HotHealth {
        health::read(&self.client).await
    }

    fn failure(&self) -> Option<String> {
        self.client.breaker.blocked_reason()
    }
}
