//! Writes: the rules run on the cached rows, and one commit stores the changed rows in the hot store.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, Result, TurnId};

use super::cached::{CachedSession, SessionName};
use super::{ATTEMPTS_MAX, EphemeralSessions, too_many_writers};
use crate::command::{Command, Interrupt, Outcome, RedactionTarget, Scope, Viewer, Write};
use crate::hot::rows::{EphemeralRows, TrimContext};
use crate::hot::{Edition, turn_expired};
use crate::lane::Lane;
use crate::rules::{self, CommitGroup, RuleContext};

/// The number of random low bits of an incarnation; the microseconds above them fit until the year 2112.
const INCARNATION_RANDOM_BITS: u32 = 12;

/// The result of one attempt at a write.
enum Attempt {
    /// The write is answered. The session, if given, stays in the cache.
    Answered(Result<(Outcome, Edition)>, Option<CachedSession>),
    /// The hot store has another version, so the write must be attempted again. The session, if given, is the unchanged
    /// cached one.
    Stale(Option<CachedSession>),
}

impl EphemeralSessions {
    /// Executes a write on the slot's session and leaves the resulting session in the slot. The slot is empty during
    /// the write, so that a cancelled write leaves no partial state.
    pub(super) async fn execute(
        &self,
        name: SessionName<'_>,
        slot: &mut Option<CachedSession>,
        command: &Command,
    ) -> Result<(Outcome, Edition)> {
        let cached = match slot.take() {
            Some(cached) => self.check_gate_again(name, cached).await?,
            None => None,
        };
        // The cached rows may be used without a query of the store's version, because the commit compares the versions.
        let mut is_current = cached.is_none();
        let mut cached = if is_current {
            self.load_session(name).await?
        } else {
            cached
        };
        for attempt in 0..ATTEMPTS_MAX {
            match self.attempt(name, cached, is_current, command).await? {
                Attempt::Answered(answer, cached) => {
                    *slot = cached;
                    return answer;
                }
                Attempt::Stale(unchanged) => {
                    self.back_off(attempt).await;
                    cached = self.load_current(name, unchanged).await?;
                    is_current = true;
                }
            }
        }
        Err(too_many_writers(name))
    }

    /// Attempts the write on the cached session. `is_current` states whether the hot store is known to have this
    /// version, or no session.
    async fn attempt(
        &self,
        name: SessionName<'_>,
        cached: Option<CachedSession>,
        is_current: bool,
        command: &Command,
    ) -> Result<Attempt> {
        let (mut rows, expected) = match cached {
            Some(cached) => (cached.rows, Some(cached.edition)),
            None => (EphemeralRows::default(), None),
        };
        let result = self.apply_rules(&mut rows, command);
        let is_changed = rows.is_changed();
        let session = |rows, edition| CachedSession { rows, edition };
        let outcome = match (result, expected) {
            (Ok((outcome, trimmed)), _) if is_changed => {
                self.count(|counts| counts.trimmed_turns += trimmed);
                outcome
            }
            // A write without changes may only be answered from the store's current version.
            (_, Some(edition)) if !is_current && self.hot.edition(&name.key).await? != expected => {
                let cached = (!is_changed).then(|| session(rows, edition));
                return Ok(Attempt::Stale(cached));
            }
            (result, Some(edition)) => {
                // If a refused write changed rows, the rows are discarded.
                let cached = (!is_changed).then(|| session(rows, edition));
                let answer = result.map(|(outcome, _)| (outcome, edition));
                return Ok(Attempt::Answered(answer, cached));
            }
            (result, None) => {
                let failure = match result {
                    Err(failure) => absent_session_failure(command, failure),
                    Ok(_) => Failure::new(ErrorCode::Internal, "a write created no session"),
                };
                return Ok(Attempt::Answered(Err(failure), None));
            }
        };
        let incarnation = match expected {
            Some(edition) => edition.incarnation,
            None => self.new_incarnation(&name)?,
        };
        let change = rows.take_change();
        let committed = self.hot.commit(&name.key, expected, incarnation, change);
        let Some(edition) = committed.await? else {
            self.count(|counts| counts.conflicts += 1);
            return Ok(Attempt::Stale(None));
        };
        self.remember_edition(name.key, edition);
        self.wake_followers();
        Ok(Attempt::Answered(
            Ok((outcome, edition)),
            Some(session(rows, edition)),
        ))
    }

    /// Runs the rules; returns the outcome and the number of trimmed turns.
    fn apply_rules(&self, rows: &mut EphemeralRows, command: &Command) -> Result<(Outcome, u64)> {
        let suspects = self.suspects();
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            lease_now: self.clock.lease_now(),
            server: &String::new,
            suspects: &suspects,
            known_heads: None,
        };
        let mut group = CommitGroup::begin(&rows.rows, Lane::FIRST, ctx.keyring)?;
        let written = self.written_turn(command);
        let command = self.interrupt_idle_turns(rows, &mut group, &ctx, command)?;
        let outcome = rules::apply(&mut rows.rows, &mut group, &ctx, &command)?;
        let mut trimmed = 0;
        if rows.is_changed() && is_limited(&command.write) {
            trimmed = rows.trim(&TrimContext {
                limits: self.hot.bounds(),
                written_turn: written,
                keyring: &self.keyring,
            })?;
        }
        Ok((outcome, trimmed))
    }

    /// Interrupts idle turns before a start; returns the command to apply afterwards. The interruptions add items, so
    /// the newest seq that a start expects is compared here, before them.
    fn interrupt_idle_turns<'a>(
        &self,
        rows: &mut EphemeralRows,
        group: &mut CommitGroup,
        ctx: &RuleContext<'_>,
        command: &'a Command,
    ) -> Result<Cow<'a, Command>> {
        let Write::Start(start) = &command.write else {
            return Ok(Cow::Borrowed(command));
        };
        let last_seq = rows.head().map_or(0, |head| head.last_seq);
        if start.expected_seq.is_some_and(|seq| seq != last_seq) {
            // The rules refuse this start or find a replay. Neither interrupts turns.
            return Ok(Cow::Borrowed(command));
        }
        let idle = self.idle_turns(rows, ctx, self.written_turn(command));
        for id in &idle {
            let interrupt = Interrupt {
                session_id: start.session.session_id.clone(),
                turn_id: *id,
                before: self.idle_since(ctx.now),
                stream: None,
            };
            let interruption = Command {
                scope: Scope::new(command.scope.tenant.clone(), Viewer::Operator),
                write: Write::Interrupt(interrupt),
            };
            rules::apply(&mut rows.rows, group, ctx, &interruption)?;
        }
        let mut command = Cow::Borrowed(command);
        if start.expected_seq.is_some()
            && !idle.is_empty()
            && let Write::Start(start) = &mut command.to_mut().write
        {
            Arc::make_mut(start).expected_seq = None;
        }
        Ok(command)
    }

    /// The open turns without recent writes, except the turn `starting`. No sweep covers ephemeral sessions, so the
    /// start of the next turn interrupts these turns.
    fn idle_turns(
        &self,
        rows: &EphemeralRows,
        ctx: &RuleContext<'_>,
        starting: Option<TurnId>,
    ) -> Vec<TurnId> {
        let before = self.idle_since(ctx.now);
        let idle = rows.open_turns().filter(|turn| turn.last_write_at < before);
        // A caller that repeats the start of a turn has not abandoned that turn.
        let abandoned = idle.filter(|turn| Some(turn.turn_id) != starting);
        abandoned.map(|turn| turn.turn_id).collect()
    }

    /// The turn that a write adds to.
    fn written_turn(&self, command: &Command) -> Option<TurnId> {
        let tenant = &command.scope.tenant;
        match &command.write {
            Write::Start(start) => {
                let session = &start.session.session_id;
                let request = &start.event.request_id;
                Some(self.keyring.turn_id(tenant, session, request))
            }
            Write::Append(append) => Some(append.turn_id),
            Write::Close(close) => Some(close.turn_id),
            Write::PutDraft(draft) => Some(draft.turn_id),
            _ => None,
        }
    }

    /// Backs off: not at all after the first attempt, then for a random time with a growing limit.
    async fn back_off(&self, attempt: u32) {
        if attempt == 0 {
            return;
        }
        let mut random = [0; 2];
        // If the random source fails, all writers wait equally long.
        let _ = self.entropy.fill(&mut random);
        let limit = 500 << attempt.min(5);
        let micros = u64::from(u16::from_be_bytes(random)) % limit;
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }

    /// A new incarnation: the time, then random bits. It is greater than the incarnation of any earlier session of this
    /// name, so that an older session that was restored is recognized.
    fn new_incarnation(&self, name: &SessionName<'_>) -> Result<u64> {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes)?;
        let random = u64::from_be_bytes(bytes) % (1 << INCARNATION_RANDOM_BITS);
        let micros = u64::try_from(self.clock.now().as_micros()).unwrap_or(0);
        let incarnation = (micros << INCARNATION_RANDOM_BITS) | random;
        // The number is greater than that of the known incarnation, even if the clock was set back.
        let known = self.known_edition(&name.key).map(|known| known.incarnation);
        Ok(known.map_or(incarnation, |known| {
            incarnation.max(known.saturating_add(1))
        }))
    }
}

/// Whether a write is subject to the session's limits. Other writes add little. They neither trim turns nor fail for
/// lack of space, so that a login adopts the unchanged session, and redaction and erasure are always possible.
const fn is_limited(write: &Write) -> bool {
    matches!(
        write,
        Write::CreateSession(_)
            | Write::Start(_)
            | Write::Append(_)
            | Write::Close(_)
            | Write::PutDraft(_)
            | Write::PutCheckpoint(_)
    )
}

/// The failure of a write to an absent session. An anonymous caller's write to a turn fails with `turn_expired`,
/// because the session may have existed.
fn absent_session_failure(command: &Command, failure: Failure) -> Failure {
    let is_anonymous = command.scope.viewer == Viewer::EndUser(None);
    let turn = match &command.write {
        Write::Append(append) => Some(append.turn_id),
        Write::Close(close) => Some(close.turn_id),
        Write::Interrupt(interrupt) => Some(interrupt.turn_id),
        Write::PutDraft(draft) => Some(draft.turn_id),
        Write::Start(start) => start.event.replaces,
        Write::Redact(redact) => match &redact.target {
            RedactionTarget::Turn(id) => Some(*id),
            RedactionTarget::Items(_) => None,
        },
        _ => None,
    };
    match turn {
        Some(id) if is_anonymous && failure.code == ErrorCode::SessionNotFound => turn_expired(&id),
        _ => failure,
    }
}
