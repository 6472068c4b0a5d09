//! Writes the contents of a transcript: complete pieces as items, growing ones as drafts (DESIGN §4).
//!
//! Every write of a recording is idempotent: items by their keys, drafts by their numbers, the end by the recording's id. So an
//! outage of the ledger only delays the recording.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::command::{Append, DraftProgress, Outcome, PutDraft, Scope, Viewer, Write};
use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId};
use filrouge_store::hot::ItemRetention;
use filrouge_store::record::{Batch, Entry};
use filrouge_types::{ErrorCode, Failure, JsonText, RawJson, SessionId, TurnId};
use tokio::time::Instant;

use super::block::{StreamBlock, StreamPart};
use super::draft_masker::DraftedPiece;
use super::transcript::Transcript;
use crate::caller::{Caller, Permission};
use crate::core::{Core, unexpected};
use crate::engine::Streams;
use crate::secrets::{Masked, TurnSecrets};

/// The shortest interval between two drafts of growing text.
pub const DRAFT_EVERY: Duration = Duration::from_millis(250);
/// The longest interval between two heartbeats of a recording; shorter if the stream timeout is short.
pub const BEAT: Duration = Duration::from_secs(10);
/// The time that a recording waits for a ledger that does not answer.
const OUTAGE: Duration = Duration::from_secs(10);

/// The settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// The format's name, for the item metadata.
    pub format: &'static str,
    /// Whether an answer ends the turn. Otherwise the caller ends it, for example after a translation.
    pub finalize: bool,
    /// The agent whose stream it is.
    pub agent: Option<Box<str>>,
}

/// A stream that is being recorded into an open turn.
pub struct Recording {
    pub(super) core: Arc<Core>,
    pub(super) scope: Scope,
    /// The items that are kept. For a session that is only in the hot store, all items are kept: a login ends its recordings.
    pub(super) record: ItemRetention,
    pub(super) session_id: SessionId,
    pub(super) turn_id: TurnId,
    pub(super) stream: StreamId,
    pub(super) writer: Box<str>,
    pub(super) settings: RecordSettings,
    /// The number of the newest draft chunk.
    pub(super) chunk: u64,
    /// The drafted state of each piece.
    pub(super) shown: HashMap<(u64, usize), DraftedPiece>,
    /// The version of the transcript that was last checked for growth.
    pub(super) examined: u64,
    /// The secrets of the turn's runtime context.
    pub(super) secrets: Option<Arc<TurnSecrets>>,
    pub(super) masked: u64,
    /// The durability of its newest write.
    pub(super) durability: Durability,
    pub(super) began: Instant,
    pub(super) written: Instant,
    pub(super) items: u64,
    pub(super) drafts: u64,
}

impl Streams {
    /// Starts to record a stream into an open turn, exclusively.
    ///
    /// # Errors
    /// `stream_open` if another stream is being recorded into the turn; `turn_closed`, `session_not_found`, `turn_not_found`,
    /// `turn_mismatch`, those of the fence, which applies to all writes of the recording, and those of the ledger.
    pub async fn record(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        settings: RecordSettings,
    ) -> Result<Recording, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.limits().label(settings.agent.as_deref(), "agent")?;
        // Access is checked now. Later writes belong to the turn even if the session gets an owner in the meantime.
        self.ledger.turn(scope, &session_id, turn_id).await?;
        let in_hot = self.in_hot(scope, &session_id).await?;
        let recorder = if in_hot {
            // A login ends the stream: its recorder may not write to the session any more.
            scope.clone()
        } else {
            Scope::new(scope.tenant.clone(), Viewer::Operator).with_fence(scope.fence)
        };
        let mut stream = [0; 8];
        self.entropy.fill(&mut stream)?;
        let now = Instant::now();
        let mut recording = Recording {
            core: self.0.clone(),
            record: self.keep(scope, &session_id).await?.record,
            scope: recorder,
            session_id,
            turn_id,
            stream: StreamId(stream),
            writer: self.ledger.writer().into(),
            settings,
            chunk: 0,
            shown: HashMap::new(),
            examined: 0,
            secrets: self.secrets_of(turn_id),
            masked: 0,
            durability: self.ledger.backend().durability,
            began: now,
            written: now,
            items: 0,
            drafts: 0,
        };
        recording.put_draft(0, Vec::new(), true).await?;
        Ok(recording)
    }
}

impl Recording {
    /// Its id, which the keys of its items begin with.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Number of drafts written.
    #[must_use]
    pub const fn drafts(&self) -> u64 {
        self.drafts
    }

    /// The moment at which [`Self::tick`] is due.
    #[must_use]
    pub fn due(&self, transcript: &Transcript) -> Instant {
        let grown = transcript.version() != self.examined;
        self.written + if grown { DRAFT_EVERY } else { self.beat() }
    }

    /// The heartbeat interval: two heartbeats may be late before the stream times out.
    fn beat(&self) -> Duration {
        BEAT.min(self.core.settings.stream_timeout / 3)
    }

    /// Writes items that have become complete, and the remaining draft.
    ///
    /// # Errors
    /// `turn_closed` and `stream_lost` if another writer has ended the turn, and `limit_exceeded` if it has reached a limit:
    /// pass them to [`Self::refused`]. `session_erased`; and those of the ledger if it does not answer for long.
    pub async fn advance(&mut self, transcript: &mut Transcript) -> Result<(), Failure> {
        if transcript.ended().is_some() {
            return Ok(());
        }
        let ready = transcript.take_ready();
        if ready.is_empty() {
            return Ok(());
        }
        let entries = self.entries(ready)?;
        if entries.is_empty() {
            return self.withdraw(transcript).await;
        }
        let rest = self.rest(transcript);
        let append = self.batch(entries, rest, false)?;
        self.append(&append).await
    }

    /// Drafts growth at once, because another writer is about to end the turn.
    ///
    /// # Errors
    /// Like [`Self::advance`].
    pub async fn flush(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let deltas = self.growth(transcript);
        if deltas.is_empty() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    /// Drafts growth if an interval is over, or writes a heartbeat.
    ///
    /// # Errors
    /// Like [`Self::advance`].
    pub async fn tick(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let since = self.written.elapsed();
        if since < DRAFT_EVERY {
            return Ok(());
        }
        let deltas = self.growth(transcript);
        if deltas.is_empty() && since < self.beat() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    pub(super) async fn draft(&mut self, deltas: Vec<Delta>) -> Result<(), Failure> {
        let number = self.chunk + u64::from(!deltas.is_empty());
        let draft = self.put_draft(number, deltas, false).await?;
        self.drafted(&draft.deltas);
        self.chunk = number;
        self.drafts += 1;
        self.written = Instant::now();
        Ok(())
    }

    async fn put_draft(
        &mut self,
        number: u64,
        deltas: Vec<Delta>,
        begins: bool,
    ) -> Result<Arc<PutDraft>, Failure> {
        let draft = Arc::new(PutDraft {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            stream: self.stream,
            begins,
            writer: self.writer.clone(),
            number,
            deltas,
        });
        match self.write(Write::PutDraft(draft.clone())).await? {
            Outcome::Drafted => Ok(draft),
            _ => Err(unexpected()),
        }
    }

    /// The drafted state of a piece, with its new text processed.
    fn piece_state(
        &mut self,
        block: &StreamBlock,
        index: usize,
        part: &StreamPart,
    ) -> &mut DraftedPiece {
        let (policy, secrets) = (self.core.settings.credentials, self.secrets.as_ref());
        let fresh = || DraftedPiece::new(part.kind, part.generation, policy, secrets);
        let shown = self
            .shown
            .entry((block.number, index))
            .or_insert_with(fresh);
        if shown.generation != part.generation {
            let replaces = shown.head.is_some();
            *shown = fresh();
            shown.replaces = replaces;
        }
        shown.process(&part.text, block.done);
        shown
    }

    /// The growth since the last draft.
    pub(super) fn growth(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.examined = transcript.version();
        let mut deltas = Vec::new();
        let record = self.record;
        for block in transcript.blocks().filter(|b| b.is_kept(record)) {
            for (index, part) in block.parts.iter().enumerate() {
                let head = self.head(block, part.kind, transcript);
                let shown = self.piece_state(block, index, part);
                let text = shown.undrafted(&part.text, block.done).to_owned();
                let head_drafted = shown.head.as_ref() == Some(&head);
                if head_drafted && text.is_empty() && shown.done == block.done && !shown.replaces {
                    continue;
                }
                deltas.push(Delta {
                    number: block.number,
                    part: index as u64,
                    head: (!head_drafted).then_some(head),
                    replaces: shown.replaces,
                    text,
                    done: block.done,
                });
            }
        }
        deltas
    }

    /// Records that deltas were drafted.
    fn drafted(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let part = usize::try_from(delta.part).unwrap_or(usize::MAX);
            if let Some(shown) = self.shown.get_mut(&(delta.number, part)) {
                shown.drafted_bytes += delta.text.len();
                (shown.done, shown.replaces) = (delta.done, false);
                if let Some(head) = &delta.head {
                    shown.head = Some(head.clone());
                }
            }
        }
    }

    /// Like [`Self::growth`], including text held back as a possible credential: no more text will arrive.
    pub(super) fn last_growth(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.growth(transcript);
        for block in transcript.blocks() {
            for (index, part) in block.parts.iter().enumerate() {
                if let Some(shown) = self.shown.get_mut(&(block.number, index)) {
                    shown.process(&part.text, true);
                }
            }
        }
        self.growth(transcript)
    }

    pub(super) fn head(
        &self,
        block: &StreamBlock,
        kind: PieceKind,
        transcript: &Transcript,
    ) -> PieceHead {
        let (role, channel) = block.role_and_channel();
        let token = |text: &String| {
            let masked = self.masked_json(text);
            let text = masked.as_deref().unwrap_or(text);
            JsonText::from_raw(RawJson::from_checked(text)).ok()
        };
        let label = |text: &str| -> Box<str> {
            let secrets = self.secrets.as_ref();
            let masked = secrets.and_then(|s| s.mask_text(text, &mut Masked::default()));
            masked.map_or_else(|| text.into(), Into::into)
        };
        let call = block.call.as_ref();
        PieceHead {
            kind,
            role,
            channel,
            call: call.and_then(|(id, name)| Some((token(id)?, token(name)?))),
            agent: self.settings.agent.as_deref().map(label),
            model: transcript.model_name().map(label),
        }
    }

    /// Masks the secrets of the turn's runtime context in JSON; `None` if it has none.
    fn masked_json(&self, json: &str) -> Option<String> {
        let secrets = self.secrets.as_ref()?;
        secrets.mask_json(json, &mut Masked::default())
    }

    /// Forgets pieces that are no longer in the transcript.
    pub(super) fn forget_shown(&mut self, transcript: &Transcript) {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        self.shown.retain(|(number, _), _| *number >= first);
    }

    /// The entire remaining draft, without pieces that are items already; marks it as drafted.
    pub(super) fn rest(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.forget_shown(transcript);
        for shown in self.shown.values_mut() {
            (shown.drafted_bytes, shown.head, shown.replaces) = (0, None, false);
        }
        let rest = self.growth(transcript);
        self.drafted(&rest);
        rest
    }

    /// An append of items with the remaining draft, which is deleted if the recording is `over`.
    pub(super) fn batch(
        &self,
        entries: Vec<Entry>,
        rest: Vec<Delta>,
        over: bool,
    ) -> Result<Arc<Append>, Failure> {
        Ok(Arc::new(Append {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            batch: Batch::seal(entries, self.core.entropy.as_ref())?,
            expected_seq: None,
            progress: Some(DraftProgress {
                stream: self.stream,
                number: self.chunk + 1,
                rest,
                over,
            }),
        }))
    }

    pub(super) async fn append(&mut self, append: &Arc<Append>) -> Result<(), Failure> {
        match self.write(Write::Append(append.clone())).await? {
            Outcome::Appended { .. } => {
                self.chunk += 1;
                self.items += append.batch.count();
                self.written = Instant::now();
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// Writes; retries while the ledger does not answer.
    pub(super) async fn write(&mut self, write: Write) -> Result<Outcome, Failure> {
        let until = Instant::now() + OUTAGE;
        let mut pause = Duration::from_millis(50);
        loop {
            match self.core.write(&self.scope, write.clone()).await {
                Err(failure) if is_transient(&failure) && Instant::now() + pause < until => {
                    tracing::warn!(code = failure.code.as_str(), stream = %self.stream, "a stream waits for the ledger");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                stored => {
                    let stored = stored?;
                    self.durability = stored.durability;
                    return Ok(stored.outcome);
                }
            }
        }
    }
}

/// Whether a retry may succeed soon.
fn is_transient(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable
            | ErrorCode::StoreFull
            | ErrorCode::Overloaded
            | ErrorCode::HotUnavailable
    )
}
