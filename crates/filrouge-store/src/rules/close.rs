//! Ends a turn: finalize, fail or cancel (DESIGN §4.3, §4.4). A recording can also interrupt it. The first ending is
//! final.

use filrouge_types::{
    ANSWER_IS_COPY, Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, Turn,
    TurnStatus, Variant, flag_metadata,
};

use super::writing::{
    ActiveWrite, TURN_ITEMS_MAX, append_to_turn, check_count, check_finals, check_not_empty,
    check_unique_ids, new_batch, turn_closed,
};
use super::{draft, lease};

use crate::command::{Close, Ending, Outcome};
use crate::keyring::Entropy;
use crate::read::{VerifiedSession, merge_metadata};
use crate::record::{Batch, CloseEvent, Entry, Event, StartEvent};
use crate::rows::{TurnRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, close: &Close) -> Result<Outcome, Failure> {
    let (mut session, mut row) = w.turn(&close.session_id, &close.turn_id)?;
    if let Some(request) = &close.request_id {
        let start = start_of(w, &session, &row)?;
        if start.request_id != *request {
            return Err(ErrorCode::TurnMismatch.failure(format!(
                "turn {} was started by request_id {:?}",
                close.turn_id,
                start.request_id.as_str()
            )));
        }
    }
    let status = match close.ending {
        Ending::Finalize { .. } | Ending::Recorded(_) => TurnStatus::Finalized,
        Ending::Fail(_) => TurnStatus::Failed,
        Ending::Cancel(_) => TurnStatus::Cancelled,
        Ending::Interrupt(_) => TurnStatus::Interrupted,
    };
    if row.status.is_closed() {
        // A different ending is not a replay. If the caller also lacks the lease, the refusal states the missing lease.
        if row.status != status {
            lease::check_and_release(w, &mut session)?;
        }
        let outcome = replay(w, &session, &row, status, close)?;
        lease::release_if_requested(w, session)?;
        return Ok(outcome);
    }
    lease::check_and_release(w, &mut session)?;
    if row.status != TurnStatus::Open {
        return Err(turn_closed(&row));
    }
    let draft_entries = draft::entries_at_close(w, &session, &row, close)?;
    let entries = match &close.ending {
        Ending::Recorded(entries) => recorded_entries(w, &session, &row, close, entries)?,
        Ending::Finalize {
            neutral,
            translated,
            fallback,
        } => {
            let answers = GivenAnswers {
                neutral: neutral.as_ref(),
                translated: translated.as_ref(),
                fallback: *fallback,
            };
            let answer = answers.entries(w, &session, &row, close)?;
            // The text of a draft that the previous holder left precedes the answer.
            draft_entries
                .iter()
                .flatten()
                .cloned()
                .chain(answer)
                .collect()
        }
        Ending::Fail(entries) | Ending::Cancel(entries) | Ending::Interrupt(entries) => {
            let entries = draft_entries.as_ref().unwrap_or(entries).clone();
            with_close_event(entries, status, false, close, None)
        }
    };
    let entries = draft::without_used_item_ids(w, &session, entries)?;
    let batch = match close.packed.get() {
        Some(batch) if *batch.entries() == entries => batch.clone(),
        _ => Batch::pack(entries, w.ctx.entropy)?,
    };
    check_not_empty(&batch)?;
    if matches!(close.ending, Ending::Recorded(_)) {
        check_unique_ids(&batch)?;
        check_finals(&batch, row.finals.map(|seq| seq != 0))?;
    }
    // A full turn can still end: eight places are reserved for the items of its end.
    check_count(row.items.min(TURN_ITEMS_MAX - 8), &batch)?;
    row.status = status;
    session.head.open_turns = session.head.open_turns.saturating_sub(1);
    session.head.updated_at = w.ctx.now;
    let first = session.head.last_seq + 1;
    let (session, row, written) = append_to_turn(w, session, row, &[&batch])?;
    if draft_entries.is_some() {
        w.tx.delete_draft(session.pk, row.place())?;
    }
    let new_batch = new_batch(w.ctx, &batch, row.turn_id, first);
    let turn = w
        .snapshot()
        .project_with_new_batch(&session, &row, new_batch)?;
    Ok(Outcome::Turn(Box::new(turn), written))
}

/// The start event of a turn. If it was kept, its fingerprint is that of the request, not the stored one.
fn start_of<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Result<StartEvent, Failure> {
    match w.tx.started_turn(session.pk, row.first_seq) {
        Some(kept) => Ok(kept.start.event.clone()),
        None => w.snapshot().start_of(session, row),
    }
}

impl Close {
    /// Packs the items that the turn most likely ends with, so that the transaction, for which other writes wait, does
    /// not have to: those of a turn without a draft and without items that affect its ending.
    ///
    /// # Errors
    /// As [`Batch::pack`].
    pub(crate) fn pack(&self, entropy: &dyn Entropy) -> Result<(), Failure> {
        let mut is_fallback = false;
        let (entries, status) = match &self.ending {
            Ending::Finalize {
                neutral,
                translated,
                fallback,
            } => {
                let is_copy = translated.is_some() && translated == neutral;
                is_fallback = translated.is_some() && fallback.unwrap_or(is_copy);
                let answers = [
                    (neutral, Variant::Neutral),
                    (translated, Variant::Translated),
                ];
                let items = answers
                    .into_iter()
                    .filter_map(|(text, variant)| Some(final_item(text.as_ref()?, variant).into()));
                (items.collect(), TurnStatus::Finalized)
            }
            Ending::Recorded(entries) => (entries.clone(), TurnStatus::Finalized),
            Ending::Fail(entries) => (entries.clone(), TurnStatus::Failed),
            Ending::Cancel(entries) => (entries.clone(), TurnStatus::Cancelled),
            Ending::Interrupt(entries) => (entries.clone(), TurnStatus::Interrupted),
        };
        let entries = with_close_event(entries, status, is_fallback, self, None);
        let batch = Batch::pack(entries, entropy)?;
        // A write that is sent again is packed already.
        self.packed.set(batch).ok();
        Ok(())
    }
}

/// Handles a close of a turn that has ended: returns the turn if the request is a replay, otherwise refuses it.
fn replay<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    status: TurnStatus,
    close: &Close,
) -> Result<Outcome, Failure> {
    if row.status != status {
        return Err(turn_closed(row));
    }
    let snapshot = w.snapshot();
    let first_close = snapshot.close_of(session, row)?;
    let turn = snapshot.project(session, row)?;
    let (stored, current) = (&first_close.fingerprint, &close.fingerprint);
    let is_same = snapshot.is_same_request(session, (row, row.last_seq), stored, current)?
        || has_redacted_answer(&snapshot, session, row)?;
    if !is_same && !has_equal_answer(&turn, close) {
        return Err(Failure::new(
            ErrorCode::IdempotencyMismatch,
            format!("turn {} was {} with another body", row.turn_id, row.status),
        )
        .with_hint("replace the turn to correct it"));
    }
    let turn = Turn {
        replayed: true,
        ..turn
    };
    Ok(Outcome::Turn(Box::new(turn), None))
}

/// Whether an answer of the turn was redacted. If so, every finalize of the turn counts as a replay, so that no
/// response reveals whether a given answer equals the redacted one.
fn has_redacted_answer<T: Tx>(
    snapshot: &crate::read::VerifiedSnapshot<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Result<bool, Failure> {
    for seq in row.finals.into_iter().filter(|seq| *seq != 0) {
        if snapshot.item_at(session, seq)?.redacted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a finalize gives the turn's answer again. The turn may have been finalized by another request, such as one
/// that wrote the complete turn or promoted a final item. Omitted fields are not compared.
fn has_equal_answer(turn: &Turn, close: &Close) -> bool {
    let Ending::Finalize {
        neutral,
        translated,
        fallback,
    } = &close.ending
    else {
        return false;
    };
    let is_equal =
        |given: &Option<JsonText>, stored: &Option<JsonText>| given.is_none() || given == stored;
    let metadata = close.metadata.as_ref();
    is_equal(neutral, &turn.answer_neutral)
        && is_equal(translated, &turn.answer_translated)
        && fallback.is_none_or(|f| f == turn.answer_translated_is_fallback)
        && (metadata.is_none() || merge_metadata(Some(&turn.metadata), metadata) == turn.metadata)
}

/// The last entries of a recording. If the turn needs a translated answer and has none, a copy of the answer is added
/// as the translated answer.
fn recorded_entries<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    close: &Close,
    entries: &[Entry],
) -> Result<Vec<Entry>, Failure> {
    let mut entries = entries.to_vec();
    let wants_translation = start_of(w, session, row)?.application.wants_translation()
        && row.finals[Variant::Translated.slot()] == 0;
    let answer = entries.iter().rfind(|e| e.item.channel == Channel::Final);
    let copy = answer
        .filter(|_| wants_translation)
        .and_then(|e| e.item.text());
    let is_copied = copy.is_some();
    entries.extend(copy.map(|text| final_item(&text, Variant::Translated).into()));
    let status = TurnStatus::Finalized;
    Ok(with_close_event(entries, status, is_copied, close, None))
}

/// Adds the close event, or for an interruption its event, to the last entry. `fallback` states whether the translated
/// answer replaces a missing translation. `own_metadata` is metadata that filrouge adds; the caller's metadata is merged
/// into it.
fn with_close_event(
    mut entries: Vec<Entry>,
    status: TurnStatus,
    fallback: bool,
    close: &Close,
    own_metadata: Option<RawJson>,
) -> Vec<Entry> {
    let metadata = match (&close.metadata, own_metadata) {
        (None, None) => None,
        (given, own_metadata) => Some(merge_metadata(own_metadata.as_ref(), given.as_ref())),
    };
    let event = match status {
        TurnStatus::Interrupted => Event::Interrupt {},
        _ => Event::Close(Box::new(CloseEvent {
            status,
            fingerprint: close.fingerprint,
            fallback,
            metadata,
        })),
    };
    if let Some(last) = entries.last_mut() {
        last.events.push(event);
    }
    entries
}

fn final_item(text: &JsonText, variant: Variant) -> ItemBody {
    ItemBody::from_text(Role::Assistant, Channel::Final, variant, text)
}

/// The answers that a finalize gives.
struct GivenAnswers<'a> {
    neutral: Option<&'a JsonText>,
    translated: Option<&'a JsonText>,
    fallback: Option<bool>,
}

impl GivenAnswers<'_> {
    /// The items to add: the given answers that are not stored yet, and copies for missing variants. If the turn's
    /// existing final item becomes the answer (it is promoted), the only item is a status item with the close event.
    fn entries<T: Tx>(
        &self,
        w: &ActiveWrite<'_, T>,
        session: &VerifiedSession,
        row: &TurnRow,
        close: &Close,
    ) -> Result<Vec<Entry>, Failure> {
        let snapshot = w.snapshot();
        let mut stored_texts = [None, None];
        for (slot, seq) in stored_texts.iter_mut().zip(row.finals) {
            if seq != 0 {
                *slot = snapshot.item_at(session, seq)?.body.text();
            }
        }
        let has_final = row.finals.map(|seq| seq != 0);
        for (slot, given) in [self.neutral, self.translated].into_iter().enumerate() {
            if has_final[slot] && given.is_some() && given != stored_texts[slot].as_ref() {
                return Err(ErrorCode::IdempotencyMismatch
                    .failure(format!(
                        "the turn has another final item at seq {}",
                        row.finals[slot]
                    ))
                    .with_hint("finalize without an answer to promote it"));
            }
        }
        let wants_translation = start_of(w, session, row)?.application.wants_translation()
            || self.fallback == Some(true);
        let [neutral, translated] = stored_texts;
        let answer = self.neutral.cloned().or(neutral);
        let translation = self.translated.cloned().or(translated);
        if answer.is_none() && translation.is_none() && has_final == [false; 2] {
            return Err(Failure::new(
                ErrorCode::AnswerMissing,
                format!("turn {} has no final item and none was given", row.turn_id),
            )
            .with_hint("pass answer_neutral, or append an item on channel final first"));
        }
        // A final item without text (such as an image) is promoted unchanged; it has nothing to copy.
        let mut entries = Vec::new();
        let mut own_metadata = None;
        if !has_final[0]
            && let Some(text) = answer.as_ref().or(translation.as_ref())
        {
            entries.push(final_item(text, Variant::Neutral).into());
            if answer.is_none() {
                own_metadata = Some(flag_metadata(ANSWER_IS_COPY));
            }
        }
        let is_copied =
            translation.is_none() && answer.is_some() && wants_translation && !has_final[1];
        let is_fallback = translation.as_ref().map_or(is_copied, |translation| {
            let equals_answer = answer.as_ref() == Some(translation);
            self.fallback.unwrap_or(equals_answer)
        });
        if !has_final[1]
            && let Some(text) = translation
                .as_ref()
                .or(answer.as_ref().filter(|_| is_copied))
        {
            entries.push(final_item(text, Variant::Translated).into());
        }
        if entries.is_empty() {
            let parts = RawJson::from_checked(r#"[{"type":"turn_status","status":"finalized"}]"#);
            entries.push(ItemBody::new(Role::System, Channel::SystemNote, parts).into());
        }
        Ok(with_close_event(
            entries,
            TurnStatus::Finalized,
            is_fallback,
            close,
            own_metadata,
        ))
    }
}
