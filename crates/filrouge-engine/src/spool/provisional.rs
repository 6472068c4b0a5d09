//! What a write that waits is answered: as much as is known without the ledger. What only that gives is absent.

use filrouge_store::Link;
use filrouge_store::command::{Append, Close, Command, Ending, Hold, Outcome, Put, Start, Write};
use filrouge_store::read::merged;
use filrouge_store::record::{Batch, Entry, Event};
use filrouge_store::{Entropy, Keyring, random_id};
use filrouge_types::{text_of, 
    Channel, Checkpoint, ErrorCode, Failure, Item, ItemBody, ItemId, JsonText, RawJson,
    SessionEvent, Timestamp, Turn, TurnId, TurnStatus, UNPLACED, Variant,
};

use super::known::Known;

/// In one word what a write is, as `[CALL_JOURNAL_WARN]` says it.
pub(super) fn word(write: &Write) -> &'static str {
    match write {
        Write::Start(_) => "ensure",
        Write::Append(_) => "append",
        Write::Close(_) => "finalize",
        Write::PutCheckpoint(_) => "checkpoint",
        Write::RecordEvent(_) => "event",
        Write::Lease(_) => "lease",
        _ => "write",
    }
}

/// Gives the items of an append of which none has a key one of their own, so that doing it twice does it once. One item
/// that has a key does that for its whole batch, and a retry by the caller must find the others as they were.
pub(super) fn keyed(command: Command, entropy: &dyn Entropy) -> Result<Command, Failure> {
    let Write::Append(append) = command.write else {
        return Ok(command);
    };
    let named = append.batch.items().any(|item| item.item_id.is_some());
    if named || append.progress.is_some() {
        let write = Write::Append(append);
        return Ok(Command { write, ..command });
    }
    let word = random_id(entropy)?;
    let mut entries = append.batch.entries().to_vec();
    for (n, entry) in entries.iter_mut().enumerate() {
        let id = ItemId::new(format!("spool:{word}:{n}"));
        let internal =
            |e: filrouge_types::IdError| Failure::new(ErrorCode::Internal, e.to_string());
        entry.item.item_id = Some(id.map_err(internal)?);
    }
    let append = Append {
        batch: Batch::seal(&entries, entropy)?,
        ..*append
    };
    let write = Write::Append(Box::new(append));
    Ok(Command { write, ..command })
}

/// The command as it waits: late, it is still taken if nobody else has taken the session, and an event happened when it was
/// told.
pub(super) fn queued(command: &Command, now: Timestamp) -> Command {
    let mut command = command.clone();
    if let Write::RecordEvent(event) = &mut command.write {
        event.at.get_or_insert(now);
    }
    command.scope.hold = command.scope.hold.map(|hold| Hold {
        queued: true,
        ..hold
    });
    command
}

/// Items of which nobody knows the place.
const NOWHERE: Put = Put {
    first_seq: UNPLACED,
    last_seq: UNPLACED,
    before: [0; size_of::<Link>()],
    link: [0; size_of::<Link>()],
    roles: Vec::new(),
};

/// The answer to a write that waits; `None` for one that cannot be answered without the ledger.
pub(super) fn outcome(
    command: &Command,
    known: &Known,
    keyring: &Keyring,
    now: Timestamp,
) -> Option<Outcome> {
    Some(match &command.write {
        Write::Start(start) => {
            let id = turn_id(command, start, keyring);
            Outcome::Turn(Box::new(started(start, id, now)), Some(NOWHERE))
        }
        Write::Append(_) => Outcome::Appended {
            first_seq: UNPLACED,
            last_seq: UNPLACED,
            replayed: false,
            put: Some(NOWHERE),
        },
        Write::Close(close) => {
            let turn = closed(close, &known.turn(close.turn_id)?.turn, now);
            Outcome::Turn(Box::new(turn), Some(NOWHERE))
        }
        Write::PutCheckpoint(put) => Outcome::Checkpoint {
            checkpoint: Box::new(Checkpoint {
                seq: put.seq.unwrap_or(UNPLACED),
                label: put.label.clone(),
                state: put.state.clone(),
                created_at: now,
            }),
            created: true,
            last_seq: known.last_seq,
        },
        Write::RecordEvent(event) => Outcome::Event {
            event: Box::new(SessionEvent {
                key: event.key.clone(),
                kind: event.kind.clone(),
                at: event.at.unwrap_or(now),
                detail: event.detail.clone(),
                created_at: now,
            }),
            created: true,
        },
        _ => return None,
    })
}

pub(super) fn turn_id(command: &Command, start: &Start, keyring: &Keyring) -> TurnId {
    let session = &start.session.session_id;
    keyring.turn_id(&command.scope.tenant, session, &start.event.request_id)
}

fn text_in(entries: &[Entry], channel: &Channel, variant: Variant) -> Option<JsonText> {
    let mut items = entries.iter().map(|entry| &entry.item);
    let item = items.find(|item| item.channel == *channel && item.variant == variant)?;
    text_of(&item.parts)
}

fn started(start: &Start, turn_id: TurnId, now: Timestamp) -> Turn {
    let (event, entries) = (&start.event, start.batch.entries());
    let copied = entries.iter().flat_map(|entry| &entry.events);
    let fallback = copied
        .filter_map(|event| match event {
            Event::Close(close) => Some(close.fallback),
            _ => None,
        })
        .any(|fallback| fallback);
    Turn {
        turn_id,
        session_id: start.session.session_id.clone(),
        request_id: event.request_id.clone(),
        ordinal: UNPLACED,
        status: start.status,
        identity_id: event.identity_id.clone(),
        question_neutral: text_in(entries, &Channel::Question, Variant::Neutral),
        question_translated: text_in(entries, &Channel::Question, Variant::Translated),
        answer_neutral: text_in(entries, &Channel::Final, Variant::Neutral),
        answer_translated: text_in(entries, &Channel::Final, Variant::Translated),
        answer_translated_is_fallback: fallback,
        translate_chat: event.translate_chat,
        pipeline_name: event.pipeline_name.clone(),
        consultant: event.consultant.clone(),
        repository: event.repository.clone(),
        metadata: merged(event.metadata.as_ref(), None),
        first_seq: UNPLACED,
        last_seq: UNPLACED,
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: now,
        finalized_at: start.status.is_closed().then_some(now),
        deleted_at: None,
        replayed: false,
        differs: false,
    }
}

/// A turn as its end leaves it.
fn closed(close: &Close, turn: &Turn, now: Timestamp) -> Turn {
    let mut turn = Turn {
        last_seq: UNPLACED,
        finalized_at: Some(now),
        replayed: false,
        differs: false,
        ..turn.clone()
    };
    let entries = match &close.ending {
        Ending::Finalize {
            neutral,
            translated,
            fallback,
        } => {
            turn.status = TurnStatus::Finalized;
            turn.answer_neutral = neutral.clone().or(turn.answer_neutral);
            turn.answer_translated = translated.clone().or(turn.answer_translated);
            if turn.translate_chat && turn.answer_translated.is_none() {
                turn.answer_translated = turn.answer_neutral.clone();
                turn.answer_translated_is_fallback = turn.answer_translated.is_some();
            }
            if translated.is_some() {
                turn.answer_translated_is_fallback = fallback.unwrap_or(false);
            }
            &[]
        }
        Ending::Fail(entries) => {
            turn.status = TurnStatus::Failed;
            entries.as_slice()
        }
        Ending::Cancel(entries) => {
            turn.status = TurnStatus::Cancelled;
            entries.as_slice()
        }
        Ending::Recorded(entries) => {
            turn.status = TurnStatus::Finalized;
            entries.as_slice()
        }
    };
    let answer = text_in(entries, &Channel::Final, Variant::Neutral);
    turn.answer_neutral = answer.or(turn.answer_neutral);
    if let Some(metadata) = &close.metadata {
        turn.metadata = merged(Some(&turn.metadata), Some(metadata));
    }
    turn
}

/// The items of a write that waits, without seqs.
pub(super) fn items(command: &Command, keyring: &Keyring, at: Timestamp) -> Vec<Item> {
    let text = |channel, variant, text: &JsonText| {
        let parts = format!(r#"[{{"type":"text","text":{}}}]"#, text.as_token());
        let parts = RawJson::from_checked(parts);
        ItemBody {
            variant,
            ..ItemBody::new(filrouge_types::Role::Assistant, channel, parts)
        }
    };
    let of = |entries: &[Entry]| entries.iter().map(|e| e.item.clone()).collect::<Vec<_>>();
    let (turn_id, items) = match &command.write {
        Write::Start(start) => (turn_id(command, start, keyring), of(start.batch.entries())),
        Write::Append(append) => (append.turn_id, of(append.batch.entries())),
        Write::Close(close) => {
            let items = match &close.ending {
                Ending::Finalize {
                    neutral,
                    translated,
                    ..
                } => {
                    let answers = [
                        (Variant::Neutral, neutral),
                        (Variant::Translated, translated),
                    ];
                    let answers = answers.into_iter().filter_map(|(variant, answer)| {
                        Some(text(Channel::Final, variant, answer.as_ref()?))
                    });
                    answers.collect()
                }
                Ending::Fail(e) | Ending::Cancel(e) | Ending::Recorded(e) => of(e),
            };
            (close.turn_id, items)
        }
        _ => return Vec::new(),
    };
    let placed = items.into_iter().map(|body| Item {
        seq: UNPLACED,
        turn_id: Some(turn_id),
        created_at: at,
        redacted: false,
        body,
    });
    placed.collect()
}
