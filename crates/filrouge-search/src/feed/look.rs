//! What has become of the sessions of an index: a quick look at all, a close one at those that had none for a while.
//! Where a close look at one takes as long as at all, all are looked at.

use std::time::{Duration, Instant};

use filrouge_sources::{Look, Overlooks, Since, Stamp};
use filrouge_types::{Failure, Timestamp};

use super::digest;
use super::position::Position;
use super::rounds::{AGAIN, CLOSE, GROUPS, group};
use super::source_index::{SourceIndex, locked};
use super::step::STEP;
use super::validate::{Checked, unlisted};

/// So many groups a background look takes together.
const TOGETHER: usize = 8;

/// Which sessions are looked at closely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Those that an answer cannot go by any more.
    Answer,
    /// Some of those that it soon could not.
    Round,
    /// All.
    All,
}

impl Due {
    const fn age(self) -> Duration {
        match self {
            Self::Answer => CLOSE,
            Self::Round => AGAIN,
            Self::All => Duration::ZERO,
        }
    }
}

/// What a look has found.
#[derive(Default)]
pub(super) struct Looked {
    /// What has become of each session.
    pub(super) since: Vec<Since>,
    /// The groups that were looked at closely and in which something had changed: they are as the index has them once it
    /// was brought in.
    pub(super) owed: Vec<usize>,
    /// Whether all sessions were looked at closely.
    pub(super) closely: bool,
}

impl SourceIndex {
    /// Looks at sessions that had these marks, at a moment.
    pub(super) fn look(
        &self,
        known: &[(&str, Stamp)],
        due: Due,
        now: Timestamp,
    ) -> Result<Looked, Failure> {
        let overlooks = self.source.overlooks();
        if overlooks == Overlooks::Nothing {
            let since = self.since(known, Look::Quick)?;
            return Ok(Looked {
                since,
                owed: Vec::new(),
                closely: true,
            });
        }
        let mut groups = locked(&self.rounds).due(now, due.age());
        if overlooks == Overlooks::Together && !groups.is_empty() {
            groups = (0..GROUPS).collect();
        }
        let mut all: Vec<Option<Since>> = vec![None; known.len()];
        let mut owed = Vec::new();
        let began = Instant::now();
        let is_round = due == Due::Round && overlooks == Overlooks::BySession;
        let together = match is_round {
            true => TOGETHER,
            false => groups.len().max(1),
        };
        for some in groups.chunks(together) {
            if is_round && began.elapsed() >= STEP {
                break;
            }
            owed.extend(self.look_closely(known, some, &mut all, now)?);
        }
        let rest = all.iter().zip(known).filter(|(since, _)| since.is_none());
        let rest: Vec<_> = rest.map(|(_, one)| *one).collect();
        let mut quick = self.since(&rest, Look::Quick)?.into_iter();
        let since = all
            .into_iter()
            .map(|since| since.or_else(|| quick.next()).unwrap_or(Since::Changed))
            .collect();
        let closely = groups.len() == GROUPS && !is_round;
        Ok(Looked {
            since,
            owed,
            closely,
        })
    }

    /// Looks at the sessions of some groups; which groups have changed. The others are noted.
    fn look_closely(
        &self,
        known: &[(&str, Stamp)],
        groups: &[usize],
        all: &mut [Option<Since>],
        now: Timestamp,
    ) -> Result<Vec<usize>, Failure> {
        let mut wanted = [false; GROUPS];
        for group in groups {
            if let Some(one) = wanted.get_mut(*group) {
                *one = true;
            }
        }
        let own = |(_, (id, _)): &(usize, &(&str, Stamp))| {
            wanted.get(group(id)).copied().unwrap_or_default()
        };
        let (places, own): (Vec<_>, Vec<_>) = known.iter().enumerate().filter(own).unzip();
        let own: Vec<(&str, Stamp)> = own.into_iter().copied().collect();
        let mut changed = Vec::new();
        for ((place, (id, _)), since) in places.iter().zip(&own).zip(self.since(&own, Look::Close)?)
        {
            if since == Since::Changed {
                changed.push(group(id));
            }
            if let Some(slot) = all.get_mut(*place) {
                *slot = Some(since);
            }
        }
        let mut rounds = locked(&self.rounds);
        for group in groups.iter().filter(|group| !changed.contains(group)) {
            rounds.found(*group, now);
        }
        Ok(changed)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, Failure> {
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let since = self.source.since(known, look);
        since.map_err(|why| unlisted(&why))
    }

    /// The sessions of what was found out that stand before `taken` have been brought in.
    pub(super) fn brought_in(&self, checked: &Checked, taken: usize) {
        let is_left = |at: usize, id: &str| at >= taken || self.is_unmarked(id);
        let todo = checked.todo.iter().map(|todo| &*todo.header.id).enumerate();
        let left = todo.filter(|(at, id)| is_left(*at, id));
        let left: Vec<usize> = left.map(|(_, id)| group(id)).collect();
        let mut rounds = locked(&self.rounds);
        for group in checked.owed.iter().filter(|group| !left.contains(group)) {
            rounds.found(*group, checked.known.as_of);
        }
    }

    /// The position that the index is to note, if there is another one.
    pub(super) fn position(&self, checked: &Checked) -> Option<Vec<u8>> {
        if checked.is_held {
            return None;
        }
        let whole = checked.whole.filter(|_| checked.is_all_known());
        let rounds = locked(&self.rounds).clone();
        if whole.is_none()
            && (self.source.overlooks() == Overlooks::Nothing || !rounds.is_news(&checked.noted))
        {
            return None;
        }
        let whole = whole.map(digest::whole);
        Some(Position { whole, rounds }.write())
    }

    /// Looks closely at some of the sessions that had no close look for a while, in a step; whether there were some.
    ///
    /// # Errors
    /// Of the index, and of a source that cannot be listed or does not answer.
    pub fn go_round(&self) -> Result<bool, Failure> {
        let now = self.clock.now();
        if self.source.overlooks() == Overlooks::Nothing
            || locked(&self.rounds).due(now, Due::Round.age()).is_empty()
        {
            return Ok(false);
        }
        self.look_again(Due::Round)
            .map(|_| true)
            .inspect_err(|why| self.note(why))
    }

    /// Notes for other processes what was found out, unless one of them feeds the index: of when the last close looks are,
    /// and, of a history with a mark of the whole, that nothing has changed up to there.
    pub fn remember(&self) {
        if let Err(why) = self.try_remember() {
            self.note(&why);
        }
    }

    fn try_remember(&self) -> Result<(), Failure> {
        let Some(checked) = self.last() else {
            return Ok(());
        };
        if checked.is_whole_to_note() {
            return self.try_step(&|| false).map(drop);
        }
        let notes = self.source.notes();
        let position = self.position(&checked);
        if notes.is_none() && position.is_none() {
            return Ok(());
        }
        let Some(_feeding) = self.feeding()? else {
            return Ok(());
        };
        self.write_notes(notes);
        if let Some(position) = position {
            let noted = self.index.apply(&[], Some(&position));
            self.changed();
            noted?;
        }
        Ok(())
    }
}
