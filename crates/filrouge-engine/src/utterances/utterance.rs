//! Utterances: the speech of one speaker, recorded while it is spoken.

use std::sync::Arc;

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{
    Append, Close, DraftProgress, Ending, Outcome, PutDraft, Scope, Write,
};
use filrouge_store::draft::{Delta, DraftPiece, PieceHead, PieceKind, StreamId, assemble};
use filrouge_store::record::{Batch, Entry};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ItemId, JsonText, RawJson, Role, SessionId, Turn, TurnId,
};

use crate::caller::{Caller, Permission};
use crate::core::{Core, unexpected};
use crate::engine::Streams;
use crate::requests::ErrorBody;
use crate::turns::{Appended, ending_without_answer};
use crate::written::Written;

/// The item number of an utterance in the draft: all of it becomes one item.
const NUMBER: u64 = 0;
/// The part number of its text, the first part of that item.
const TEXT: u64 = 0;
/// The part number of `description`, the second part.
const DESCRIPTION: u64 = 1;

/// The beginning of an utterance.
#[derive(Debug, Clone)]
pub struct UtteranceHead {
    /// A number of the caller's choice. The key of the item that an unfinished utterance leaves contains it: [`mark_of`].
    pub mark: u32,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
    /// A part that accompanies the text while it is a draft: a JSON object with a `type`. It identifies the speaker in the item
    /// of an unfinished utterance.
    pub description: RawJson,
}

/// The end of a turn that ends together with an utterance.
#[derive(Debug, Clone)]
pub enum TurnEnd {
    /// The utterance is the answer: one of its items is on the channel `final`.
    Answered,
    /// An error follows the utterance.
    Failed(ErrorBody),
    /// The user cancelled the turn.
    Cancelled,
}

/// The speech of one speaker in an open turn: a growing draft, then items in the write that removes the draft. A turn has at most
/// one at a time.
pub struct Utterance {
    core: Arc<Core>,
    session_id: SessionId,
    turn_id: TurnId,
    stream: StreamId,
    /// The number of the newest chunk.
    chunk: u64,
}

/// An utterance that has only been drafted so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Its turn.
    pub turn_id: TurnId,
    /// The drafted text.
    pub text: String,
    /// The accompanying part; absent when the draft is a provider's stream.
    pub description: Option<RawJson>,
    stream: StreamId,
    chunk: u64,
}

/// The caller's number in the key of an item that an unfinished utterance left.
#[must_use]
pub fn mark_of(key: &ItemId) -> Option<u32> {
    let name = key.as_str().strip_prefix("st_")?;
    let (name, _) = name.split_once('.')?;
    let name = u64::from_str_radix(name, 16).ok()?;
    u32::try_from(name & u64::from(u32::MAX)).ok()
}

fn inner(text: &str) -> String {
    JsonText::from_plain(text).inner().to_owned()
}

fn head(kind: PieceKind, agent: Option<Box<str>>) -> PieceHead {
    PieceHead {
        kind,
        role: Role::Assistant,
        // As in a stream, the text may turn out to be the answer.
        channel: Channel::Final,
        call: None,
        agent,
        model: None,
    }
}

const fn delta(part: u64, head: Option<PieceHead>, text: String) -> Delta {
    Delta {
        number: NUMBER,
        part,
        head,
        replaces: false,
        text,
        done: false,
    }
}

impl Streams {
    /// Begins an utterance in an open turn of a session that the caller holds.
    ///
    /// # Errors
    /// `stream_open` when another recording is in progress; `turn_closed`, `session_not_found`, `turn_not_found`, those of
    /// fences, `invalid` for a `description` that is not a part, and the ledger's errors.
    pub async fn begin_utterance(
        &self,
        caller: &Caller,
        session: SessionId,
        turn: TurnId,
        beginning: UtteranceHead,
    ) -> Result<Utterance, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let agent = beginning.agent;
        self.limits().label(agent.as_deref(), "agent")?;
        let shown = ItemBody::new(
            Role::Assistant,
            Channel::Partial,
            RawJson::from_checked(format!("[{}]", beginning.description.as_str())),
        );
        self.own_items(scope, vec![shown])?;
        let mut random = [0; 4];
        self.entropy.fill(&mut random)?;
        let name = u64::from(u32::from_be_bytes(random)) << 32 | u64::from(beginning.mark);
        let mut utterance = Utterance {
            core: self.0.clone(),
            session_id: session,
            turn_id: turn,
            stream: StreamId(name.to_be_bytes()),
            chunk: 0,
        };
        let description = beginning.description.as_str().to_owned();
        let text = head(PieceKind::Text, agent.clone());
        let deltas = vec![
            delta(TEXT, Some(text), String::new()),
            delta(
                DESCRIPTION,
                Some(head(PieceKind::Complete, agent)),
                description,
            ),
        ];
        utterance.put(scope, deltas, true).await?;
        Ok(utterance)
    }

    /// The drafts of a session: the utterances in progress, and those whose process was killed.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn unfinished(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> Result<Vec<Unfinished>, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let ledger = &self.ledger;
        let drafts = ledger.drafts(scope, session, Default::default()).await?;
        let unfinished = drafts.into_iter().map(|draft| {
            let pieces = assemble(draft.deltas).unwrap_or_default();
            let of_kind =
                |kind: PieceKind| move |p: &&DraftPiece| p.number == NUMBER && p.head.kind == kind;
            let text = pieces.iter().find(of_kind(PieceKind::Text));
            let description = pieces.iter().find(of_kind(PieceKind::Complete));
            Unfinished {
                turn_id: draft.turn_id,
                text: text.map_or_else(String::new, |p| plain(&p.text)),
                description: description.and_then(|p| RawJson::parse(&p.text).ok()),
                stream: draft.stream,
                chunk: draft.chunk,
            }
        });
        Ok(unfinished.collect())
    }

    /// Takes over another caller's unfinished utterance, to write its items: for the present holder.
    #[must_use]
    pub fn take_over(&self, session: &SessionId, unfinished: &Unfinished) -> Utterance {
        Utterance {
            core: self.0.clone(),
            session_id: session.clone(),
            turn_id: unfinished.turn_id,
            stream: unfinished.stream,
            chunk: unfinished.chunk,
        }
    }
}

fn plain(inner: &str) -> String {
    let token = RawJson::from_checked(format!("\"{inner}\""));
    JsonText::from_raw(token).map_or_else(|_| String::new(), |text| text.to_plain())
}

impl Utterance {
    /// Its turn.
    #[must_use]
    pub const fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// Drafts the text said since the last call; an empty text is a heartbeat. Call it at most every
    /// [`crate::stream::DRAFT_EVERY`].
    ///
    /// # Errors
    /// `stream_lost` and `turn_closed` when another caller ended it, those of fences, and the ledger's. After a failure the same
    /// text may be passed again, followed by more.
    pub async fn say(&mut self, caller: &Caller, text: &str) -> Result<(), Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let deltas = match text {
            "" => Vec::new(),
            text => vec![delta(TEXT, None, inner(text))],
        };
        self.put(scope, deltas, false).await
    }

    /// Drafts that the utterance is complete: `description` in its final form, and `text` if it differs from what was said.
    ///
    /// # Errors
    /// As [`Self::say`].
    pub async fn complete(
        &mut self,
        caller: &Caller,
        description: &RawJson,
        text: Option<&str>,
    ) -> Result<(), Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let replaced = |part, text| Delta {
            replaces: true,
            done: true,
            ..delta(part, None, text)
        };
        let mut deltas = vec![replaced(DESCRIPTION, description.as_str().to_owned())];
        deltas.extend(text.map(|text| replaced(TEXT, inner(text))));
        self.put(scope, deltas, false).await
    }

    async fn put(
        &mut self,
        scope: &Scope,
        deltas: Vec<Delta>,
        begins: bool,
    ) -> Result<(), Failure> {
        let number = self.chunk + u64::from(!deltas.is_empty());
        let draft = PutDraft {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            stream: self.stream,
            begins,
            writer: self.core.ledger.writer().into(),
            number,
            deltas,
        };
        let write = Write::PutDraft(Arc::new(draft));
        match self.core.write(scope, write).await?.outcome {
            Outcome::Drafted => {
                self.chunk = number;
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// Writes the utterance as the caller's own items and removes the draft; the turn stays open. It can be retried after a
    /// failure.
    ///
    /// # Errors
    /// As [`Self::say`], and those of [`crate::Turns::append`].
    pub async fn append(
        &mut self,
        caller: &Caller,
        items: Vec<ItemBody>,
    ) -> Result<Written<Appended>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let (items, masked) = self.core.own_items(scope, items)?;
        let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        let append = Append {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            batch: Batch::seal(entries, self.core.entropy.as_ref())?,
            expected_seq: None,
            progress: Some(DraftProgress {
                stream: self.stream,
                number: self.chunk + 1,
                rest: Vec::new(),
                over: true,
            }),
        };
        self.core.write_append(scope, append, &masked).await
    }

    /// Writes the utterance as the caller's own items and ends the turn with them. It can be retried after a failure.
    ///
    /// # Errors
    /// As [`Self::append`]; `invalid` for an answer without an item on the channel `final`.
    pub async fn end_turn(
        &mut self,
        caller: &Caller,
        items: Vec<ItemBody>,
        end: TurnEnd,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let answers = items.iter().any(|item| item.channel == Channel::Final);
        let (items, masked) = self.core.own_items(scope, items)?;
        let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        let ending = match end {
            TurnEnd::Answered if answers => Ending::Recorded(entries),
            TurnEnd::Answered => {
                let what = "an answer needs an item on the channel final";
                return Err(Failure::new(ErrorCode::Invalid, what));
            }
            TurnEnd::Failed(error) => ending_without_answer(entries, Some(&error))?,
            TurnEnd::Cancelled => ending_without_answer(entries, None)?,
        };
        let close = Close {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            request_id: None,
            ending,
            metadata: None,
            fingerprint: self
                .core
                .keyed(fingerprint(&[b"utterance", &self.stream.0])),
            stream: Some(self.stream),
        };
        self.core
            .write_turn(scope, Write::Close(Arc::new(close)), &masked)
            .await
    }
}
