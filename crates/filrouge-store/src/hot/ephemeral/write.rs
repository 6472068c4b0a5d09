//! Writing: the rules run over the held rows, and what they have changed is committed.

use std::time::Duration;

use filrouge_types::{ErrorCode, Failure, TurnId};

use super::held::{Held, Named};
use super::{EphemeralSessions, TRIES, contended};
use crate::command::{Command, Interrupt, Outcome, Scope, Target, Viewer, Write};
use crate::hot::rows::{Bounds, HeldRows};
use crate::hot::{Edition, turn_expired};
use crate::rules::{self, Context, Group};

/// How many bits of an incarnation are random: the microseconds before them have room until the year 2112.
const LIFE_RANDOM_BITS: u32 = 12;

/// A write that was tried on a held state.
enum Tried {
    /// It is answered; the session is as given then.
    Answered(Result<(Outcome, Edition), Failure>, Option<Held>),
    /// The hot store has another state.
    Stale(Option<Held>),
}

impl EphemeralSessions {
    /// Does a write on the session that the slot holds, and leaves there what is known of it then. While a write is under
    /// way the slot is empty, so that one that is given up leaves nothing half done.
    pub(super) async fn written(
        &self,
        named: Named<'_>,
        slot: &mut Option<Held>,
        command: &Command,
    ) -> Result<(Outcome, Edition), Failure> {
        let held = match slot.take() {
            Some(held) => self.admitted(named, held).await?,
            None => None,
        };
        // A held state may be tried as it is: the commit says whether it is the store's.
        let mut current = held.is_none();
        let mut held = if current {
            self.fetched(named).await?
        } else {
            held
        };
        for tries in 0..TRIES {
            match self.tried(named, held, current, command).await? {
                Tried::Answered(answer, left) => {
                    *slot = left;
                    return answer;
                }
                Tried::Stale(left) => {
                    self.pause(tries).await;
                    held = self.current(named, left).await?;
                    current = true;
                }
            }
        }
        Err(contended(named))
    }

    async fn tried(
        &self,
        named: Named<'_>,
        held: Option<Held>,
        current: bool,
        command: &Command,
    ) -> Result<Tried, Failure> {
        let (mut rows, expected) = match held {
            Some(held) => (held.rows, Some(held.edition)),
            None => (HeldRows::default(), None),
        };
        let ruled = self.ruled(&mut rows, command);
        let changed = rows.is_changed();
        let held = |rows, edition| Held { rows, edition };
        let outcome = match (ruled, expected) {
            (Ok((outcome, trimmed)), _) if changed => {
                self.count(|counts| counts.trimmed_turns += trimmed);
                outcome
            }
            // What changes nothing is answered only from the state that the store has.
            (_, Some(edition)) if !current && self.hot.edition(&named.key).await? != expected => {
                let left = (!changed).then(|| held(rows, edition));
                return Ok(Tried::Stale(left));
            }
            (ruled, Some(edition)) => {
                // A refusal that had put something comes with rows that are of no use.
                let left = (!changed).then(|| held(rows, edition));
                let answer = ruled.map(|(outcome, _)| (outcome, edition));
                return Ok(Tried::Answered(answer, left));
            }
            (ruled, None) => {
                let failure = match ruled {
                    Err(failure) => absent(command, failure),
                    Ok(_) => Failure::new(ErrorCode::Internal, "a write made no session"),
                };
                return Ok(Tried::Answered(Err(failure), None));
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
            return Ok(Tried::Stale(None));
        };
        self.see(named.key, edition);
        self.told();
        Ok(Tried::Answered(
            Ok((outcome, edition)),
            Some(held(rows, edition)),
        ))
    }

    /// Runs the rules; gives how many turns had to go.
    fn ruled(&self, rows: &mut HeldRows, command: &Command) -> Result<(Outcome, u64), Failure> {
        let suspects = self.suspects();
        let ctx = Context {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
        };
        let mut group = Group::begin(&rows.rows)?;
        let written = self.written_turn(command);
        if let Write::Start(start) = &command.write {
            for id in self.silent(rows, &ctx, written) {
                let interrupt = Interrupt {
                    session_id: start.session.session_id.clone(),
                    turn_id: id,
                    before: self.silence(ctx.now),
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
                most: self.hot.bounds(),
                written,
                keyring: &self.keyring,
            })?;
        }
        Ok((outcome, trimmed))
    }

    /// The open turns that nobody has written to for long. No sweep looks after ephemeral sessions, so the next turn does.
    fn silent(&self, rows: &HeldRows, ctx: &Context<'_>, starting: Option<TurnId>) -> Vec<TurnId> {
        let before = self.silence(ctx.now);
        let silent = rows.open_turns().filter(|turn| turn.touched_at < before);
        // Who starts a turn again is there.
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

    /// Lets others go first, longer after each time; at once after the first.
    async fn pause(&self, tries: u32) {
        if tries == 0 {
            return;
        }
        let mut word = [0; 2];
        // Without random numbers, all wait the same.
        let _ = self.entropy.fill(&mut word);
        let most = 500 << tries.min(5);
        let micros = u64::from(u16::from_be_bytes(word)) % most;
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }

    /// The time, then a random number: it is greater than that of a life that began before, so that an earlier life that
    /// comes back is known for one.
    fn incarnation(&self, named: &Named<'_>) -> Result<u64, Failure> {
        let mut word = [0; 8];
        self.entropy.fill(&mut word).map_err(|e| {
            let what = format!("the random source failed: {e}");
            Failure::new(ErrorCode::Internal, what)
        })?;
        let random = u64::from_be_bytes(word) % (1 << LIFE_RANDOM_BITS);
        let micros = u64::try_from(self.clock.now().as_micros()).unwrap_or(0);
        let drawn = (micros << LIFE_RANDOM_BITS) | random;
        // Whatever the clock says, it is later than the life that was seen here.
        let seen = self.seen(&named.key).map(|seen| seen.incarnation);
        Ok(seen.map_or(drawn, |seen| drawn.max(seen.saturating_add(1))))
    }
}

/// Whether a write is held to the session's bounds. Any other one adds little, and neither costs a turn nor is refused for
/// want of room: a login takes in all there is, and what is to be erased can be erased.
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

/// What is said of a turn whose session is not there: to who is nobody, that it has expired, for it may have been there.
fn absent(command: &Command, failure: Failure) -> Failure {
    let nobody = command.scope.viewer == Viewer::EndUser(None);
    let turn = match &command.write {
        Write::Append(append) => Some(append.turn_id),
        Write::Close(close) => Some(close.turn_id),
        Write::Interrupt(interrupt) => Some(interrupt.turn_id),
        Write::PutDraft(draft) => Some(draft.turn_id),
        Write::Start(start) => start.event.replaces,
        Write::Redact(redact) => match &redact.target {
            Target::Turn(id) => Some(*id),
            Target::Items(_) => None,
        },
        _ => None,
    };
    match turn {
        Some(id) if nobody && failure.code == ErrorCode::SessionNotFound => turn_expired(&id),
        _ => failure,
    }
}
