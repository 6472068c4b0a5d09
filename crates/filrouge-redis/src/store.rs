//! The port, over Redis.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use filrouge_store::hot::{
    Change, Edition, Fill, HotBounds, HotHealth, HotKey, HotStore, Loaded, Recent, Step,
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

/// How many steps are sent in one piece, at most: each piece has the whole timeout.
const STEPS: usize = 256;
const LONGEST_PREFIX: usize = 64;

/// A hot store on Redis. It connects when it is first used, and again when a connection was lost.
pub struct RedisHot {
    caller: Caller,
    prefix: String,
    bounds: HotBounds,
}

impl RedisHot {
    /// Reads what the options say; asks nobody, so that a Redis that is away is no reason not to start.
    ///
    /// # Errors
    /// `invalid` for a URL or prefix that is none, and for certificates that cannot be read.
    pub fn open(options: &Options) -> Result<Self, Failure> {
        let prefix = &options.prefix;
        let taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !prefix.bytes().all(taken) {
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

    /// What went wrong so far.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        let counts = self.caller.counts.lock();
        *counts.unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, key: &HotKey) -> String {
        name(&self.prefix, key, 'e')
    }

    fn copy(&self, key: &HotKey) -> String {
        name(&self.prefix, key, 'r')
    }

    /// Milliseconds, at least one: Redis takes none for "at once".
    fn ttl(&self) -> u64 {
        let millis = u64::try_from(self.bounds.ttl.as_millis()).unwrap_or(u64::MAX);
        // The longest that Redis can add to the time of day.
        millis.clamp(1, 1 << 52)
    }

    /// The number that a script answers.
    async fn number(&self, command: Cmd) -> Result<i64, Failure> {
        let answer = self.caller.one(command).await?;
        self.read_number(answer)
    }

    fn read_number(&self, answer: Value) -> Result<i64, Failure> {
        match self.caller.plain(answer)? {
            // Three is a script's word for what it found unreadable and replaced.
            Value::Int(number) => {
                if number == 3 {
                    self.caller.damaged();
                }
                Ok(number)
            }
            _ => Err(self.caller.damaged()),
        }
    }

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
        command.arg(self.session(key)).arg(session::EDITION);
        let answer = self.caller.one(command).await?;
        self.undamaged(session::read_edition(answer))
    }

    async fn load(&self, key: &HotKey) -> Result<Option<Loaded>, Failure> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.session(key));
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
        let word = session::word()?;
        let next = match expected {
            None => Edition {
                incarnation,
                version: 1,
                word,
            },
            Some(found) => Edition {
                incarnation: found.incarnation,
                version: found.version.saturating_add(1),
                word,
            },
        };
        let mut call = COMMIT.on(&self.session(key));
        call.arg(self.ttl())
            .arg(expected.as_ref().map(session::written).unwrap_or_default())
            .arg(session::written(&next));
        session::write_change(&mut call, &change);
        let answer = self.number(call).await?;
        self.caller.writes.taken();
        Ok((answer == 1).then_some(next))
    }

    async fn forget(&self, key: &HotKey, expected: Option<Edition>) -> Result<bool, Failure> {
        let Some(expected) = expected else {
            let mut command = redis::cmd("UNLINK");
            command.arg(self.session(key));
            return self.number(command).await.map(|_| true);
        };
        let mut call = FORGET.on(&self.session(key));
        call.arg(session::written(&expected));
        Ok(self.number(call).await? == 1)
    }

    async fn recent(&self, key: &HotKey, limit: usize) -> Result<Option<Recent>, Failure> {
        let most = usize::try_from(self.bounds.turns).unwrap_or(usize::MAX);
        let limit = limit.min(most);
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.copy(key)).arg(0).arg(limit);
        let answers = self.caller.answers(Ask::Of(vec![vec![command]])).await?;
        let read = match answers.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) => match Trouble::answered(&error) {
                Trouble::Damaged => Err(Damaged),
                other => return Err(self.caller.refused(&other)),
            },
            answer => copy::read(answer, limit),
        };
        if let Err(Damaged) = read {
            // What cannot be read is dropped; what is known of a newer history stays, where that can be read.
            self.caller.one(self.forgetting(key, 0)).await?;
        }
        self.undamaged(read)
    }

    async fn advance(&self, steps: Vec<(HotKey, Step)>) -> Result<(), Failure> {
        for piece in steps.chunks(STEPS) {
            let answers = self.caller.answers(Ask::Of(self.calls(piece))).await?;
            // Every step is looked at before the first failure is told.
            let mut read = Ok(());
            for answer in answers {
                read = read.and(self.read_number(answer).map(|_| ()));
            }
            read?;
            self.caller.writes.taken();
        }
        Ok(())
    }

    async fn fill(&self, key: &HotKey, fill: Fill) -> Result<(), Failure> {
        let mut call = FILL.on(&self.copy(key));
        call.arg(self.ttl());
        copy::write_fill(&mut call, &fill, &self.bounds);
        self.number(call).await?;
        self.caller.writes.taken();
        Ok(())
    }

    async fn forget_recent(&self, key: &HotKey, seq: u64) -> Result<(), Failure> {
        self.number(self.forgetting(key, seq)).await.map(|_| ())
    }

    async fn health(&self) -> HotHealth {
        health::ask(&self.caller).await
    }

    fn failure(&self) -> Option<String> {
        self.caller.breaker.why()
    }
}

impl RedisHot {
    fn forgetting(&self, key: &HotKey, seq: u64) -> Cmd {
        let mut call = FORGET_RECENT.on(&self.copy(key));
        call.arg(self.ttl()).arg(copy::digits(seq));
        call
    }

    /// Calls for steps, those of one session together and in order.
    fn calls(&self, steps: &[(HotKey, Step)]) -> Vec<Group> {
        let mut places = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for (key, step) in steps {
            let mut call = ADVANCE.on(&self.copy(key));
            call.arg(self.ttl());
            copy::write_step(&mut call, step, &self.bounds);
            let place = *places.entry(*key).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(call),
                None => groups.push(vec![call]),
            }
        }
        groups
    }
}
