//! Writes: the rules run on the cached rows, and one commit stores the changed rows in the hot store.

use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, TurnId};

use super::held::{HeldSession, SessionName};
use super::{EphemeralSessions, TRIES, contended};
use crate::command::{Command, Interrupt, Outcome, RedactionTarget, Scope, Viewer, Write};
use crate::hot::rows::{Bounds, HeldRows};
use crate::hot::{Edition, turn_expired};
use crate::rules::{self, CommitGroup, RuleContext};

/// The number of random low bits of an incarnation; the microseconds above them fit until the year 2112.
const INCARNATION_RANDOM_BITS: u32 = 12;

/// The result of one attempt at a write.
enum Attempt {
    /// The write is answered. The session, if given, stays in the cache.
    Answered(Result<(Outcome, Edition), Failure>, Option<HeldSession>),
    /// The hot store has another version, so the write must be attempted again. The session, if given, is the unchanged
    /// cached one.
    Stale(Option<HeldSession>),
}

impl EphemeralSessions {
    /// Executes a write on the slot's session and leaves the resulting session in the slot. The slot is empty during
    /// the write, so that a cancelled write leaves no partial state.
    pub(super) async fn written(
        &self,
        named: SessionName<'_>,
        slot: &mut Option<HeldSession>,
        command: &Command,
    ) -> Result<(Outcome, Edition), Failure> {
        let held = match slot.take() {
            Some(held) => self.admitted(named, held).await?,
            None => None,
        };
        // The cached rows may be used without a query of the store's version, because the commit compares the versions.
        let mut current = held.is_none();
        let mut held = if current {
            self.fetched(named).await?
        } else {
            held
        };
        for tries in 0..TRIES {
            match self.attempt(named, held, current, command).await? {
                Attempt::Answered(answer, left) => {
                    *slot = left;
                    return answer;
                }
                Attempt::Stale(left) => {
                    self.pause(tries).await;
                    held = self.current(named, left).await?;
                    current = true;
                }
            }
        }
        Err(contended(named))
    }

    /// Attempts the write on `held`. `current`: whether the hot store is known to have this version, or no session.
    async fn attempt(
        &self,
        named: SessionName<'_>,
        held: Option<HeldSession>,
        current: bool,
        command: &Command,
    ) -> Result<Attempt, Failure> {
        let (mut rows, expected) = match held {
            Some(held) => (held.rows, Some(held.edition)),
            None => (HeldRows::default(), None),
        };
        let ruled = self.apply_rules(&mut rows, command);
        let changed = rows.is_changed();
        let held = |rows, edition| HeldSession { rows, edition };
        let outcome = match (ruled, expected) {
            (Ok((outcome, trimmed)), _) if changed => {
                self.count(|counts| counts.trimmed_turns += trimmed);
                outcome
            }
            // A write without changes may only be answered from the store's current version.
            (_, Some(edition)) if !current && self.hot.edition(&named.key).await? != expected => {
                let cached = (!changed).then(|| held(rows, edition));
                return Ok(Attempt::Stale(cached));
            }
            (ruled, Some(edition)) => {
                // If a refused write changed rows, the rows are discarded.
                let cached = (!changed).then(|| held(rows, edition));
                let answer = ruled.map(|(outcome, _)| (outcome, edition));
                return Ok(Attempt::Answered(answer, cached));
            }
            (ruled, None) => {
                let failure = match ruled {
                    Err(failure) => absent(command, failure),
                    Ok(_) => Failure::new(ErrorCode::Internal, "a write created no session"),
                };
                return Ok(Attempt::Answered(Err(failure), None));
            }
        };
        let incarnation = match expected {
            Some(edition) => edition.incarnation,
            None => self.incarnation(&named)?,
        };
        let change = rows.take_change();
        let committed = self.hot.commit(&named.key, expected, incarnation, change);
        let Some(edition) = committed.await? else {
            self.count(|counts| counts.conflicts += 1);
            return Ok(Attempt::Stale(None));
        };
        self.remember(named.key, edition);
        self.wake_followers();
        Ok(Attempt::Answered(
            Ok((outcome, edition)),
            Some(held(rows, edition)),
        ))
    }

    /// Runs the rules; returns the outcome and the number of trimmed turns.
    fn apply_rules(
        &self,
        rows: &mut HeldRows,
        command: &Command,
    ) -> Result<(Outcome, u64), Failure> {
        let suspects = self.suspects();
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
            known_heads: None,
        };
        let mut group = CommitGroup::begin(&rows.rows, ctx.keyring)?;
        let written = self.written_turn(command);
        if let Write::Start(start) = &command.write {
            for id in self.silent(rows, &ctx, written) {
                let interrupt = Interrupt {
                    session_id: start.session.session_id.clone(),
                    turn_id: id,
                    before: self.idle_since(ctx.now),
                    stream: None,
                };
                let swept = Command {
                    scope: Scope::new(command.scope.tenant.clone(), Viewer::Operator),
                    write: Write::Interrupt(interrupt),
                };
                rules::apply(&mut rows.rows, &mut group, &ctx, &swept)?;
            }
        }
        let outcome = rules::apply(&mut rows.rows, &mut group, &ctx, command)?;
        let mut trimmed = 0;
        if rows.is_changed() && grows(&command.write) {
            trimmed = rows.trim(&Bounds {
                limits: self.hot.bounds(),
                written,
                keyring: &self.keyring,
            })?;
        }
        Ok((outcome, trimmed))
    }

    /// The open turns that were silent for too long, apart from the turn `starting`. No sweep covers ephemeral
    /// sessions, so the next turn interrupts them.
    fn silent(
        &self,
        rows: &HeldRows,
        ctx: &RuleContext<'_>,
        starting: Option<TurnId>,
    ) -> Vec<TurnId> {
        let before = self.idle_since(ctx.now);
        let silent = rows.open_turns().filter(|turn| turn.touched_at < before);
        // A caller that repeats the start of a turn has not abandoned that turn.
        let others = silent.filter(|turn| Some(turn.turn_id) != starting);
        others.map(|turn| turn.turn_id).collect()
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
    async fn pause(&self, tries: u32) {
        if tries == 0 {
            return;
        }
        let mut word = [0; 2];
        // Without random numbers all writers wait equally long.
        let _ = self.entropy.fill(&mut word);
        let limit = 500 << tries.min(5);
        let micros = u64::from(u16::from_be_bytes(word)) % limit;
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }

    /// A new incarnation: the time, then random bits. It is greater than that of any session of this name that started
    /// earlier, so that a restored older one is recognized.
    fn incarnation(&self, named: &SessionName<'_>) -> Result<u64, Failure> {
        let mut word = [0; 8];
        self.entropy.fill(&mut word)?;
        let random = u64::from_be_bytes(word) % (1 << INCARNATION_RANDOM_BITS);
        let micros = u64::try_from(self.clock.now().as_micros()).unwrap_or(0);
        let drawn = (micros << INCARNATION_RANDOM_BITS) | random;
        // Greater than the incarnation seen here, even if the clock was set back.
        let seen = self.seen(&named.key).map(|seen| seen.incarnation);
        Ok(seen.map_or(drawn, |seen| drawn.max(seen.saturating_add(1))))
    }
}

/// Whether a write is subject to the session's limits. Other writes add little. They neither trim turns nor fail for
/// lack of space, so that a login adopts the session as it is, and redaction and erasure are always possible.
const fn grows(write: &Write) -> bool {
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
fn absent(command: &Command, failure: Failure) -> Failure {
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
