//! Utterances: an utterance is the text of one speaker, recorded as a draft while it grows.

use std::sync::{Arc, OnceLock};

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
use crate::core::Core;
use crate::engine::Streams;
use crate::requests::ErrorBody;
use crate::shared::unexpected_outcome;
use crate::turns::{Appended, ending_without_answer};
use crate::written::Written;

/// The item number of all pieces of an utterance's draft: an unfinished utterance becomes one item.
const ITEM_NUMBER: u64 = 0;
/// The number of the utterance's text among the item's parts.
const TEXT_PART: u64 = 0;
/// The number of `description` among the item's parts.
const DESCRIPTION_PART: u64 = 1;

/// The data of an utterance at its beginning.
#[derive(Debug, Clone)]
pub struct UtteranceHead {
    /// A number of the caller's choice. If the utterance is never finished, the key of the item that it becomes
    /// contains this number, and [`mark_of`] returns it.
    pub mark: u32,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
    /// A part that accompanies the text in the draft: a JSON object with a `type`. It identifies the speaker of an
    /// utterance that is never finished.
    pub description: RawJson,
}

/// The end of a turn that is ended together with an utterance.
#[derive(Debug, Clone)]
pub enum TurnEnd {
    /// The utterance is the answer: one of its items is on the channel `final`.
    Answered,
    /// An error follows the utterance.
    Failed(ErrorBody),
    /// The user cancelled the turn.
    Cancelled,
}

/// The text of one speaker in an open turn. It is a growing draft until one write removes the draft and adds items. A
/// turn has at most one utterance at a time.
pub struct Utterance {
    core: Arc<Core>,
    session_id: SessionId,
    turn_id: TurnId,
    stream: StreamId,
    /// The number of the newest write that added to the draft.
    chunk: u64,
}

/// A draft of a session: an utterance in progress, or one whose process has ended without finishing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedUtterance {
    /// The turn of the utterance.
    pub turn_id: TurnId,
    /// The drafted text.
    pub text: String,
    /// The part that accompanies the text ([`UtteranceHead::description`]); `None` if the draft is of a provider's
    /// stream.
    pub description: Option<RawJson>,
    stream: StreamId,
    chunk: u64,
}

/// The number that the caller chose ([`UtteranceHead::mark`]), read from the key of an item that an unfinished
/// utterance became. `None` for a key of another form.
pub fn mark_of(key: &ItemId) -> Option<u32> {
    let name = key.as_str().strip_prefix("st_")?;
    let (name, _) = name.split_once('.')?;
    let name = u64::from_str_radix(name, 16).ok()?;
    u32::try_from(name & u64::from(u32::MAX)).ok()
}

fn json_inner(text: &str) -> String {
    JsonText::from_plain(text).inner().to_owned()
}

fn head(kind: PieceKind, agent: Option<Box<str>>) -> PieceHead {
    PieceHead {
        kind,
        role: Role::Assistant,
        // As in a provider's stream, a growing text counts as the answer until it ends.
        channel: Channel::Final,
        call: None,
        agent,
        model: None,
    }
}

const fn delta(part: u64, head: Option<PieceHead>, text: String) -> Delta {
    Delta {
        number: ITEM_NUMBER,
        part,
        head,
        replaces: false,
        text,
        done: false,
    }
}

impl Streams {
    /// Begins an utterance in an open turn of a session whose lease the caller holds.
    ///
    /// # Errors
    /// `stream_open` if the turn has another utterance or recording in progress; `turn_closed`, `session_not_found`,
    /// `turn_not_found`, the errors of fences, `invalid` for a `description` that is not a part, and the ledger's
    /// errors.
    pub async fn begin_utterance(
        &self,
        caller: &Caller,
        session: SessionId,
        turn: TurnId,
        utterance_head: UtteranceHead,
    ) -> Result<Utterance, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let agent = utterance_head.agent;
        self.limits().check_label(agent.as_deref(), "agent")?;
        let item = ItemBody::new(
            Role::Assistant,
            Channel::Partial,
            RawJson::from_checked(format!("[{}]", utterance_head.description.as_str())),
        );
        self.validated_items(scope, vec![item])?;
        let mut random = [0; 4];
        self.entropy.fill(&mut random)?;
        let name = u64::from(u32::from_be_bytes(random)) << 32 | u64::from(utterance_head.mark);
        let mut utterance = Utterance {
            core: self.0.clone(),
            session_id: session,
            turn_id: turn,
            stream: StreamId(name.to_be_bytes()),
            chunk: 0,
        };
        let description = utterance_head.description.as_str().to_owned();
        let text = head(PieceKind::Text, agent.clone());
        let deltas = vec![
            delta(TEXT_PART, Some(text), String::new()),
            delta(
                DESCRIPTION_PART,
                Some(head(PieceKind::Complete, agent)),
                description,
            ),
        ];
        utterance.write_draft(scope, deltas, true).await?;
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
    ) -> Result<Vec<UnfinishedUtterance>, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        let ledger = &self.ledger;
        let drafts = ledger.drafts(scope, session, Default::default()).await?;
        let unfinished = drafts.into_iter().map(|draft| {
            let pieces = assemble(draft.deltas).unwrap_or_default();
            let of_kind = |kind: PieceKind| {
                move |p: &&DraftPiece| p.number == ITEM_NUMBER && p.head.kind == kind
            };
            let text = pieces.iter().find(of_kind(PieceKind::Text));
            let description = pieces.iter().find(of_kind(PieceKind::Complete));
            UnfinishedUtterance {
                turn_id: draft.turn_id,
                text: text.map_or_else(String::new, |p| plain(&p.text)),
                description: description.and_then(|p| RawJson::parse(&p.text).ok()),
                stream: draft.stream,
                chunk: draft.chunk,
            }
        });
        Ok(unfinished.collect())
    }

    /// An utterance that continues another process's unfinished one, so that the present holder of the session's lease
    /// can write its items.
    pub fn continue_utterance(
        &self,
        session: &SessionId,
        unfinished: &UnfinishedUtterance,
    ) -> Utterance {
        Utterance {
            core: self.0.clone(),
            session_id: session.clone(),
            turn_id: unfinished.turn_id,
            stream: unfinished.stream,
            chunk: unfinished.chunk,
        }
    }
}

fn plain(json_inner: &str) -> String {
    let token = RawJson::from_checked(format!("\"{json_inner}\""));
    JsonText::from_raw(token).map_or_else(|_| String::new(), |text| text.to_plain())
}

impl Utterance {
    /// The turn of the utterance.
    pub const fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// Appends `text`, the new text since the last call, to the draft; an empty text is a heartbeat. Leave at least
    /// [`crate::stream::DRAFT_EVERY`] between two calls.
    ///
    /// # Errors
    /// `stream_lost` and `turn_closed` if another caller has ended the utterance or its turn, the errors of fences, and
    /// the ledger's. After a failure, pass the same text again; more may follow it.
    pub async fn add_text(&mut self, caller: &Caller, text: &str) -> Result<(), Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let deltas = match text {
            "" => Vec::new(),
            text => vec![delta(TEXT_PART, None, json_inner(text))],
        };
        self.write_draft(scope, deltas, false).await
    }

    /// Marks the draft as complete. Replaces its `description` by the final one, and its text by `text`; `None` keeps
    /// the text.
    ///
    /// # Errors
    /// The errors of [`Self::add_text`].
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
        let mut deltas = vec![replaced(DESCRIPTION_PART, description.as_str().to_owned())];
        deltas.extend(text.map(|text| replaced(TEXT_PART, json_inner(text))));
        self.write_draft(scope, deltas, false).await
    }

    async fn write_draft(
        &mut self,
        scope: &Scope,
        deltas: Vec<Delta>,
        starts_recording: bool,
    ) -> Result<(), Failure> {
        let number = self.chunk + u64::from(!deltas.is_empty());
        let draft = PutDraft {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            stream: self.stream,
            starts_recording,
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
            _ => Err(unexpected_outcome()),
        }
    }

    /// Finishes the utterance: one write adds the caller's own items and removes the draft. The turn stays open. After
    /// a failure the call can be repeated.
    ///
    /// # Errors
    /// The errors of [`Self::add_text`] and of [`crate::Turns::append`].
    pub async fn append(
        &mut self,
        caller: &Caller,
        items: Vec<ItemBody>,
    ) -> Result<Written<Appended>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let (items, masked) = self.core.validated_items(scope, items)?;
        let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        let append = Append {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            batch: Batch::pack(entries, self.core.entropy.as_ref())?,
            expected_seq: None,
            progress: Some(DraftProgress {
                stream: self.stream,
                number: self.chunk + 1,
                remainder: Vec::new(),
                has_ended: true,
            }),
        };
        self.core.write_append(scope, append, &masked).await
    }

    /// Finishes the utterance and ends the turn: one write adds the caller's own items, removes the draft and ends the
    /// turn. After a failure the call can be repeated.
    ///
    /// # Errors
    /// The errors of [`Self::append`]; `invalid` also for [`TurnEnd::Answered`] without an item on the channel `final`.
    pub async fn end_turn(
        &mut self,
        caller: &Caller,
        items: Vec<ItemBody>,
        end: TurnEnd,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let has_answer = items.iter().any(|item| item.channel == Channel::Final);
        let (items, masked) = self.core.validated_items(scope, items)?;
        let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        let ending = match end {
            TurnEnd::Answered if has_answer => Ending::Recorded(entries),
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
                .keyed_fingerprint(fingerprint(&[b"utterance", &self.stream.0])),
            stream: Some(self.stream),
            packed: OnceLock::new(),
        };
        self.core
            .write_turn(scope, Write::Close(Arc::new(close)), &masked)
            .await
    }
}
