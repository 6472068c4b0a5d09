//! The conditions on a decoder's output for any input.

use anyhow::{Context, Result, ensure};
use filrouge_engine::stream::{ReadyItem, StreamBlock, StreamEnd, StreamError};
use filrouge_store::draft::{DraftPiece, PieceHead, PieceKind, StreamId, partial_entries};
use filrouge_transcode::Decoder;
use filrouge_types::{ItemBody, JsonText, Object, RawJson};
use serde::Deserialize;

use super::input::Input;

/// The memory that a decoder may hold: this many bytes per input byte, which allows for escapes that are escaped a
/// second time and for buffers that double.
const MAX_HELD_PER_BYTE: usize = 16;
/// The memory that a decoder may hold in addition.
const MAX_HELD_BASE: usize = 64 << 10;
/// One input in this many is also decoded in other chunks, and one in this many with another spelling of its events.
const RECHECK_INTERVAL: usize = 3;

/// The numbers of events and items that a decoder found in one input.
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) items: u64,
}

#[derive(Deserialize)]
struct PartShape {
    #[serde(rename = "type")]
    kind: Box<str>,
}

/// The end of a stream.
#[derive(Clone, Copy)]
enum Ending {
    Complete,
    Cancelled,
    Disconnected,
}

/// Checks one input.
pub(super) fn check(input: &Input) -> Result<Counts> {
    let mut input = Input {
        format: input.format,
        bytes: input.bytes.clone(),
        random: input.random.clone(),
    };
    let end = match input.random.below(6) {
        0 => Ending::Cancelled,
        1 => Ending::Disconnected,
        _ => Ending::Complete,
    };
    let (decoder, items) = decode(&mut input, end)?;
    if input.random.below(RECHECK_INTERVAL) == 0 {
        let (other, other_items) = decode(&mut input, end)?;
        ensure_equal("items in other chunks", &items, &other_items)?;
        let summary = |decoder: &Decoder| {
            let transcript = decoder.transcript();
            let blocks: Vec<_> = transcript.blocks().cloned().collect();
            (
                transcript.ended().cloned(),
                transcript.events(),
                transcript.reported(),
                format!("{blocks:?}"),
            )
        };
        ensure_equal("ends in other chunks", &summary(&decoder), &summary(&other))?;
    }
    if input.random.below(RECHECK_INTERVAL) == 0 && decoder.transcript().events().1 == 0 {
        input.bytes = respell(&input.bytes);
        let (other, other_items) = decode(&mut input, end)?;
        if other.transcript().events().1 == 0 {
            ensure_equal(
                "items of the same events in another spelling",
                &items,
                &other_items,
            )?;
        }
    }
    Ok(Counts {
        events: decoder.transcript().events().0,
        items: items.len() as u64,
    })
}

/// The same events with an additional member that no decoder reads, spelled so that no shortcut of a decoder matches.
/// Continuation lines of an event, and inputs with carriage returns, stay unchanged.
fn respell(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    // Whether the next line may continue an event.
    let mut continues = bytes.contains(&b'\r');
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line.strip_prefix(b"data: {\"") {
            Some(rest) if !continues => {
                out.extend_from_slice(b"data: {\"\\u005f\":0,\"");
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(line),
        }
        continues |= line.starts_with(b"data");
        continues &= line != b"\n" || bytes.contains(&b'\r');
    }
    out
}

fn ensure_equal<T: std::fmt::Debug + PartialEq>(
    subject: &str,
    first: &T,
    second: &T,
) -> Result<()> {
    ensure!(
        first == second,
        "different {subject}:\n{first:?}\n{second:?}"
    );
    Ok(())
}

/// Decodes an input in random chunks, and checks the decoder after each of them.
fn decode(input: &mut Input, end: Ending) -> Result<(Decoder, Vec<ReadyItem>)> {
    let chunks = input.chunks();
    let mut decoder = Decoder::new(input.format);
    let (mut items, mut pushed) = (Vec::new(), 0);
    let chunks_per_draft = chunks.len() / 4 + 1;
    for (number, chunk) in chunks.into_iter().enumerate() {
        pushed += chunk.len();
        decoder.push(&input.bytes[chunk]);
        items.extend(decoder.transcript_mut().take_ready());
        if number % chunks_per_draft == 0 {
            check_drafts(&decoder)?;
        }
        let (held, limit) = (
            decoder.buffered_bytes(),
            MAX_HELD_PER_BYTE * pushed + MAX_HELD_BASE,
        );
        ensure!(
            held <= limit,
            "the decoder holds {held} bytes after {pushed} bytes of input"
        );
    }
    match end {
        Ending::Complete => decoder.end(),
        Ending::Cancelled => decoder.break_off(StreamEnd::Cancelled),
        Ending::Disconnected => {
            decoder.break_off(StreamEnd::Failed(StreamError::new("gone", "gone")));
        }
    }
    check_drafts(&decoder)?;
    items.extend(decoder.transcript_mut().take_ready());
    check_drafts(&decoder)?;
    check_items(&items).context("items")?;
    check_end(&decoder).context("the end")?;
    Ok((decoder, items))
}

/// Checks the engine's conditions on items (`Limits`), and their order.
fn check_items(items: &[ReadyItem]) -> Result<()> {
    let mut last = None;
    for ready in items {
        check_item(&ready.item).with_context(|| format!("{:?}", ready.item))?;
        if ready.number.is_some() {
            ensure!(
                ready.number > last,
                "item {:?} follows item {last:?}",
                ready.number
            );
            last = ready.number;
        }
    }
    Ok(())
}

fn check_item(item: &ItemBody) -> Result<()> {
    let parts = RawJson::parse(item.parts.as_str())?;
    let parts: Vec<Object<PartShape>> = serde_json::from_str(parts.as_str())?;
    ensure!(!parts.is_empty(), "an item without parts");
    ensure!(
        parts.iter().all(|part| !part.0.kind.is_empty()),
        "a part with an empty type"
    );
    for json in [&item.usage, &item.metadata].into_iter().flatten() {
        check_object(json)?;
    }
    let label = item.model.as_deref().unwrap_or_default();
    ensure!(
        label.len() <= 4096 && !label.contains('\0'),
        "a model's name that the engine refuses"
    );
    Ok(())
}

fn check_object(json: &RawJson) -> Result<()> {
    ensure!(
        RawJson::parse(json.as_str())?.is_object(),
        "not an object: {json:?}"
    );
    Ok(())
}

/// Checks that everything that is not an item yet can be drafted, and that the drafts can become items.
fn check_drafts(decoder: &Decoder) -> Result<()> {
    let mut pieces = Vec::new();
    for block in decoder.transcript().blocks() {
        for part in 0..block.parts.len() {
            pieces.push(draft_piece(block, part).with_context(|| format!("{block:?}"))?);
        }
    }
    // Any id.
    let stream = StreamId([7; 8]);
    for entry in partial_entries(stream, &pieces) {
        check_item(&entry.item)
            .with_context(|| format!("the item of a draft: {:?}", entry.item))?;
    }
    Ok(())
}

fn draft_piece(block: &StreamBlock, at: usize) -> Result<DraftPiece> {
    let part = block.parts.get(at).context("a missing part")?;
    if part.kind == PieceKind::Complete {
        RawJson::parse(&part.text)?;
    } else {
        json_string(&format!("\"{}\"", part.text))?;
    }
    let call = match &block.call {
        Some((id, name)) => Some((json_string(id)?, json_string(name)?)),
        None => None,
    };
    let (role, channel) = block.role_and_channel();
    Ok(DraftPiece {
        number: block.number,
        part: at as u64,
        head: PieceHead {
            kind: part.kind,
            role,
            channel,
            call,
            agent: None,
            model: None,
        },
        text: part.text.clone(),
        done: block.done,
    })
}

/// Parses a JSON string.
fn json_string(token: &str) -> Result<JsonText> {
    Ok(JsonText::from_raw(RawJson::parse(token)?)?)
}

/// Checks the end of the stream, and the response's final report.
fn check_end(decoder: &Decoder) -> Result<()> {
    let transcript = decoder.transcript();
    if let StreamEnd::Failed(error) = transcript.ended().context("the stream has not ended")? {
        json_string(error.message.as_token())?;
        ensure!(!error.code.is_empty(), "an error without a code");
        if let Some(raw) = &error.raw {
            RawJson::parse(raw.as_str())?;
        }
    }
    let (usage, metadata) = transcript.reported();
    [usage, metadata]
        .iter()
        .flatten()
        .try_for_each(check_object)
}
