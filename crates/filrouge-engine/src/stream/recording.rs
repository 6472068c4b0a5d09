//! Writes the contents of a transcript to the ledger: complete blocks as items, growing ones as drafts (DESIGN §4).
//!
//! Every write of a recording can be repeated without effect: the ledger recognizes items by their keys, drafts by
//! their numbers, and the end by the recording's id. So a short outage of the ledger only delays the recording.

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
use crate::core::Core;
use crate::engine::Streams;
use crate::secrets::{Masked, TurnSecrets};
use crate::shared::unexpected_outcome;

/// The shortest interval between two drafts of growing text.
pub const DRAFT_EVERY: Duration = Duration::from_millis(250);
/// The longest interval between two heartbeats of a recording. If the stream timeout is short, the interval is a third
/// of it.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// The maximum time for which a recording retries a write while the ledger does not answer.
const RETRY_FOR: Duration = Duration::from_secs(10);

/// The settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// The name of the stream's format, which is recorded in the metadata of the last item.
    pub format: &'static str,
    /// Whether the recording ends the turn when the answer is complete. Otherwise the caller ends it, for example after
    /// it has added a translation.
    pub finalize: bool,
    /// The agent that speaks in the stream.
    pub agent: Option<Box<str>>,
}

/// A stream that is being recorded into an open turn.
pub struct Recording {
    pub(super) core: Arc<Core>,
    pub(super) scope: Scope,
    /// Which items are recorded. In an ephemeral session all items are recorded: a login, which moves the session into
    /// the ledger, ends its recordings.
    pub(super) retention: ItemRetention,
    pub(super) session_id: SessionId,
    pub(super) turn_id: TurnId,
    pub(super) stream: StreamId,
    pub(super) writer: Box<str>,
    pub(super) settings: RecordSettings,
    /// The number of the newest write that changed the draft or added items.
    pub(super) chunk: u64,
    /// The drafted state of each piece, by the block's number and the piece's index in the block.
    pub(super) drafted_pieces: HashMap<(u64, usize), DraftedPiece>,
    /// The version of the transcript for which the newest deltas were computed.
    pub(super) examined_version: u64,
    /// The known secrets of the turn; `None` if it has none.
    pub(super) secrets: Option<Arc<TurnSecrets>>,
    pub(super) masked: u64,
    /// The durability of the recording's newest write.
    pub(super) durability: Durability,
    pub(super) started_at: Instant,
    /// When the newest write succeeded.
    pub(super) last_write: Instant,
    pub(super) items: u64,
    pub(super) drafts: u64,
}

impl Streams {
    /// Starts to record a stream into an open turn, exclusively.
    ///
    /// # Errors
    /// `stream_open` if another stream is being recorded into the turn; `turn_closed`, `session_not_found`,
    /// `turn_not_found`, `turn_mismatch`, the errors of the caller's fence, under which all writes of the recording are
    /// made, and the ledger's.
    pub async fn record(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        settings: RecordSettings,
    ) -> Result<Recording, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.limits()
            .check_label(settings.agent.as_deref(), "agent")?;
        // Access is checked only here. The recording continues even if the session gets an owner in the meantime.
        self.ledger.turn(scope, &session_id, turn_id).await?;
        let is_only_hot = self.in_hot(scope, &session_id).await?;
        let recorder = if is_only_hot {
            // After a login, this anonymous scope no longer has access to the session, which ends the recording.
            scope.clone()
        } else {
            Scope {
                viewer: Viewer::Operator,
                token: None,
                ..scope.clone()
            }
        };
        let mut stream = [0; 8];
        self.entropy.fill(&mut stream)?;
        let now = Instant::now();
        let mut recording = Recording {
            core: self.0.clone(),
            retention: self.retention(scope, &session_id).await?.record,
            scope: recorder,
            session_id,
            turn_id,
            stream: StreamId(stream),
            writer: self.ledger.writer().into(),
            settings,
            chunk: 0,
            drafted_pieces: HashMap::new(),
            examined_version: 0,
            secrets: self.secrets_of(turn_id),
            masked: 0,
            durability: self.ledger.backend().durability,
            started_at: now,
            last_write: now,
            items: 0,
            drafts: 0,
        };
        recording.put_draft(0, Vec::new(), true).await?;
        Ok(recording)
    }
}

impl Recording {
    /// The recording's id. The keys of its items begin with it.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// The number of drafts that were written.
    pub const fn drafts(&self) -> u64 {
        self.drafts
    }

    /// When the next call of [`Self::tick`] is due.
    pub fn due(&self, transcript: &Transcript) -> Instant {
        match transcript.version() != self.examined_version {
            true => self.last_write + DRAFT_EVERY,
            false => self.last_write + self.heartbeat_interval(),
        }
    }

    /// The interval between heartbeats. Two in a row may fail before the stream times out. Heartbeats under a fence also
    /// extend the lease.
    fn heartbeat_interval(&self) -> Duration {
        let settings = &self.core.settings;
        let interval = HEARTBEAT_EVERY.min(settings.stream_timeout / 3);
        let of_lease = self.scope.fence.map(|_| settings.calls.lease_ttl / 3);
        interval.min(of_lease.unwrap_or(interval))
    }

    /// Writes the items that have become complete, and replaces the draft by the text that remains.
    ///
    /// # Errors
    /// `turn_closed` and `stream_lost` if another writer has ended the turn, and `limit_exceeded` if the turn has
    /// reached a limit: pass these three to [`Self::handle_refusal`]. Also `session_erased`, and the ledger's errors
    /// after about 10 s of retries.
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
            return self.remove_unrecorded_drafts(transcript).await;
        }
        let full_draft = self.full_draft(transcript);
        let append = self.append_of(entries, full_draft, false)?;
        self.append(&append).await
    }

    /// Drafts the text that has grown since the last draft, without waiting for [`Self::due`]. For a caller that knows
    /// that another writer is about to end the turn.
    ///
    /// # Errors
    /// Like [`Self::advance`].
    pub async fn flush(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let deltas = self.new_deltas(transcript);
        if deltas.is_empty() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    /// Drafts the text that has grown since the last draft, or writes a heartbeat; does nothing if neither is due.
    ///
    /// # Errors
    /// Like [`Self::advance`].
    pub async fn tick(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let elapsed = self.last_write.elapsed();
        if elapsed < DRAFT_EVERY {
            return Ok(());
        }
        let deltas = self.new_deltas(transcript);
        if deltas.is_empty() && elapsed < self.heartbeat_interval() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    pub(super) async fn draft(&mut self, deltas: Vec<Delta>) -> Result<(), Failure> {
        let number = self.chunk + u64::from(!deltas.is_empty());
        let draft = self.put_draft(number, deltas, false).await?;
        self.record_drafted(&draft.deltas);
        self.chunk = number;
        self.drafts += 1;
        self.last_write = Instant::now();
        Ok(())
    }

    async fn put_draft(
        &mut self,
        number: u64,
        deltas: Vec<Delta>,
        starts_recording: bool,
    ) -> Result<Arc<PutDraft>, Failure> {
        let draft = Arc::new(PutDraft {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            stream: self.stream,
            starts_recording,
            writer: self.writer.clone(),
            number,
            deltas,
        });
        match self.write(Write::PutDraft(draft.clone())).await? {
            Outcome::Drafted => Ok(draft),
            _ => Err(unexpected_outcome()),
        }
    }

    /// The drafted state of a piece, after the piece's new text was masked.
    fn drafted_piece(
        &mut self,
        block: &StreamBlock,
        index: usize,
        part: &StreamPart,
    ) -> &mut DraftedPiece {
        let (policy, secrets) = (self.core.settings.credentials, self.secrets.as_ref());
        let new_piece = || DraftedPiece::new(part.kind, part.generation, policy, secrets);
        let piece = self
            .drafted_pieces
            .entry((block.number, index))
            .or_insert_with(new_piece);
        if piece.generation != part.generation {
            let replaces = piece.head.is_some();
            *piece = new_piece();
            piece.replaces = replaces;
        }
        piece.process(&part.text, block.done);
        piece
    }

    /// The changes of the remaining blocks since the last draft.
    pub(super) fn new_deltas(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.examined_version = transcript.version();
        let mut deltas = Vec::new();
        let retention = self.retention;
        for block in transcript.blocks().filter(|b| b.is_recorded(retention)) {
            for (index, part) in block.parts.iter().enumerate() {
                let head = self.head(block, part.kind, transcript);
                let piece = self.drafted_piece(block, index, part);
                let text = piece.undrafted(&part.text, block.done).to_owned();
                let is_head_drafted = piece.head.as_ref() == Some(&head);
                if is_head_drafted && text.is_empty() && piece.done == block.done && !piece.replaces
                {
                    continue;
                }
                deltas.push(Delta {
                    number: block.number,
                    part: index as u64,
                    head: (!is_head_drafted).then_some(head),
                    replaces: piece.replaces,
                    text,
                    done: block.done,
                });
            }
        }
        deltas
    }

    /// Records that these deltas were written to the draft.
    fn record_drafted(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let part = usize::try_from(delta.part).unwrap_or(usize::MAX);
            if let Some(piece) = self.drafted_pieces.get_mut(&(delta.number, part)) {
                piece.drafted_bytes += delta.text.len();
                (piece.done, piece.replaces) = (delta.done, false);
                if let Some(head) = &delta.head {
                    piece.head = Some(head.clone());
                }
            }
        }
    }

    /// Like [`Self::flush`], for a stream from which no more text will arrive. Includes text that was held back because
    /// it might have become a credential.
    pub(super) async fn flush_all(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        self.new_deltas(transcript);
        for block in transcript.blocks() {
            for (index, part) in block.parts.iter().enumerate() {
                if let Some(piece) = self.drafted_pieces.get_mut(&(block.number, index)) {
                    piece.process(&part.text, true);
                }
            }
        }
        self.flush(transcript).await
    }

    pub(super) fn head(
        &self,
        block: &StreamBlock,
        kind: PieceKind,
        transcript: &Transcript,
    ) -> PieceHead {
        let (role, channel) = block.role_and_channel();
        let secrets = self.secrets.as_ref();
        let token = |text: &String| {
            let masked = secrets.and_then(|s| s.mask_json(text, &mut Masked::default()));
            let text = masked.as_deref().unwrap_or(text);
            JsonText::from_raw(RawJson::from_checked(text)).ok()
        };
        let label = |text: &str| -> Box<str> {
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

    /// Forgets the drafted state of pieces that were taken from the transcript.
    pub(super) fn forget_taken_pieces(&mut self, transcript: &Transcript) {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        self.drafted_pieces
            .retain(|(number, _), _| *number >= first);
    }

    /// The entire text of the remaining blocks, as a new draft without the blocks that are already items. Records it as
    /// drafted.
    pub(super) fn full_draft(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.forget_taken_pieces(transcript);
        for piece in self.drafted_pieces.values_mut() {
            (piece.drafted_bytes, piece.head, piece.replaces) = (0, None, false);
        }
        let full_draft = self.new_deltas(transcript);
        self.record_drafted(&full_draft);
        full_draft
    }

    /// An append of items that also replaces the draft by `full_draft`, or deletes the draft if the recording has
    /// ended.
    pub(super) fn append_of(
        &self,
        entries: Vec<Entry>,
        full_draft: Vec<Delta>,
        has_ended: bool,
    ) -> Result<Arc<Append>, Failure> {
        Ok(Arc::new(Append {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            batch: Batch::pack(entries, self.core.entropy.as_ref())?,
            expected_seq: None,
            progress: Some(DraftProgress {
                stream: self.stream,
                number: self.chunk + 1,
                remainder: full_draft,
                has_ended,
            }),
        }))
    }

    pub(super) async fn append(&mut self, append: &Arc<Append>) -> Result<(), Failure> {
        match self.write(Write::Append(append.clone())).await? {
            Outcome::Appended { .. } => {
                self.chunk += 1;
                self.items += append.batch.count();
                self.last_write = Instant::now();
                Ok(())
            }
            _ => Err(unexpected_outcome()),
        }
    }

    /// Sends a write of the recording to the ledger, and retries it for up to [`RETRY_FOR`] while the ledger does not
    /// answer.
    pub(super) async fn write(&mut self, write: Write) -> Result<Outcome, Failure> {
        let deadline = Instant::now() + RETRY_FOR;
        let mut pause = Duration::from_millis(50);
        loop {
            match self.core.write(&self.scope, write.clone()).await {
                Err(failure) if is_transient(&failure) && Instant::now() + pause < deadline => {
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

/// Whether a retry of the write may succeed soon.
fn is_transient(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable
            | ErrorCode::StoreFull
            | ErrorCode::Overloaded
            | ErrorCode::HotUnavailable
    )
}
