//! The conditions on a decoder's output for any input.

use anyhow::{Context, Result, ensure};
use filrouge_engine::stream::{Ended, ReadyItem, StreamBlock, StreamError};
use filrouge_store::draft::{DraftPiece, PieceHead, PieceKind, StreamId, partial_entries};
use filrouge_transcode::Decoder;
use filrouge_types::{ItemBody, JsonText, Object, RawJson};
use serde::Deserialize;

use super::input::Input;

/// The memory limit: bytes per input byte, and a constant. They allow for escapes that are escaped a second time and for
/// buffers that double.
const HELD: (usize, usize) = (16, 64 << 10);
/// One input in this many is also decoded in other chunks.
const AGAIN: usize = 3;

/// The result for one input.
pub(super) struct Seen {
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
enum End {
    Whole,
    Cancelled,
    Gone,
}

/// Checks one input.
pub(super) fn check(input: &Input) -> Result<Seen> {
    let mut input = Input {
        format: input.format,
        bytes: input.bytes.clone(),
        random: input.random.clone(),
    };
    let end = match input.random.below(6) {
        0 => End::Cancelled,
        1 => End::Gone,
        _ => End::Whole,
    };
    let (decoder, items) = decoded(&mut input, end)?;
    if input.random.below(AGAIN) == 0 {
        let (other, other_items) = decoded(&mut input, end)?;
        same("items", &items, &other_items)?;
        let of = |decoder: &Decoder| {
            let transcript = decoder.transcript();
            let blocks: Vec<_> = transcript.blocks().cloned().collect();
            (
                transcript.ended().cloned(),
                transcript.events(),
                transcript.reported(),
                format!("{blocks:?}"),
            )
        };
        same("ends", &of(&decoder), &of(&other))?;
    }
    if input.random.below(AGAIN) == 0 && decoder.transcript().events().1 == 0 {
        input.bytes = respelled(&input.bytes);
        let (other, other_items) = decoded(&mut input, end)?;
        if other.transcript().events().1 == 0 {
            same(
                "items of the same events in another spelling",
                &items,
                &other_items,
            )?;
        }
    }
    Ok(Seen {
        events: decoder.transcript().events().0,
        items: items.len() as u64,
    })
}

/// The same events with an additional member that no decoder reads, spelled so that no shortcut matches. Continuation
/// lines of an event, and lines that do not end with a line feed, stay unchanged.
fn respelled(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut goes_on = bytes.contains(&b'\r');
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line.strip_prefix(b"data: {\"") {
            Some(rest) if !goes_on => {
                out.extend_from_slice(b"data: {\"\\u005f\":0,\"");
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(line),
        }
        goes_on |= line.starts_with(b"data");
        goes_on &= line != b"\n" || bytes.contains(&b'\r');
    }
    out
}

fn same<T: std::fmt::Debug + PartialEq>(what: &str, one: &T, other: &T) -> Result<()> {
    ensure!(
        one == other,
        "other chunks, different {what}:\n{one:?}\n{other:?}"
    );
    Ok(())
}

fn decoded(input: &mut Input, end: End) -> Result<(Decoder, Vec<ReadyItem>)> {
    let chunks = input.chunks();
    let mut decoder = Decoder::new(input.format);
    let (mut items, mut given) = (Vec::new(), 0);
    let drafts = chunks.len() / 4 + 1;
    for (number, chunk) in chunks.into_iter().enumerate() {
        given += chunk.len();
        decoder.push(&input.bytes[chunk]);
        items.extend(decoder.transcript_mut().take_ready());
        if number % drafts == 0 {
            drafted(&decoder)?;
        }
        let (held, most) = (decoder.held(), HELD.0 * given + HELD.1);
        ensure!(held <= most, "{held} bytes are held of {given}");
    }
    match end {
        End::Whole => decoder.end(),
        End::Cancelled => decoder.break_off(Ended::Cancelled),
        End::Gone => decoder.break_off(Ended::Failed(StreamError::of_stream("gone", "gone"))),
    }
    drafted(&decoder)?;
    items.extend(decoder.transcript_mut().take_ready());
    drafted(&decoder)?;
    recorded(&items).context("items")?;
    ended(&decoder).context("the end")?;
    Ok((decoder, items))
}

/// The engine's conditions on items (`Limits`), and their order.
fn recorded(items: &[ReadyItem]) -> Result<()> {
    let mut last = None;
    for ready in items {
        item(&ready.item).with_context(|| format!("{:?}", ready.item))?;
        if ready.number.is_some() {
            ensure!(ready.number > last, "{:?} after {last:?}", ready.number);
            last = ready.number;
        }
    }
    Ok(())
}

fn item(item: &ItemBody) -> Result<()> {
    let parts = RawJson::parse(item.parts.as_str())?;
    let parts: Vec<Object<PartShape>> = serde_json::from_str(parts.as_str())?;
    ensure!(!parts.is_empty(), "no parts");
    ensure!(
        parts.iter().all(|part| !part.0.kind.is_empty()),
        "a type is empty"
    );
    for json in [&item.usage, &item.metadata].into_iter().flatten() {
        object(json)?;
    }
    let label = item.model.as_deref().unwrap_or_default();
    ensure!(
        label.len() <= 4096 && !label.contains('\0'),
        "the model's name"
    );
    Ok(())
}

fn object(json: &RawJson) -> Result<()> {
    ensure!(
        RawJson::parse(json.as_str())?.is_object(),
        "not an object: {json:?}"
    );
    Ok(())
}

/// Anything that is not an item yet can be drafted, and the drafts can become items.
fn drafted(decoder: &Decoder) -> Result<()> {
    let mut pieces = Vec::new();
    for block in decoder.transcript().blocks() {
        for part in 0..block.parts.len() {
            pieces.push(piece(block, part).with_context(|| format!("{block:?}"))?);
        }
    }
    for entry in partial_entries(StreamId([7; 8]), &pieces) {
        item(&entry.item).with_context(|| format!("a draft's {:?}", entry.item))?;
    }
    Ok(())
}

fn piece(block: &StreamBlock, at: usize) -> Result<DraftPiece> {
    let part = block.parts.get(at).context("no part")?;
    if part.kind == PieceKind::Complete {
        RawJson::parse(&part.text)?;
    } else {
        string(&format!("\"{}\"", part.text))?;
    }
    let call = match &block.call {
        Some((id, name)) => Some((string(id)?, string(name)?)),
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

fn string(token: &str) -> Result<JsonText> {
    Ok(JsonText::from_raw(RawJson::parse(token)?)?)
}

/// Checks how the stream ended, and the response's final report.
fn ended(decoder: &Decoder) -> Result<()> {
    let transcript = decoder.transcript();
    if let Ended::Failed(error) = transcript.ended().context("it has not ended")? {
        string(error.message.as_token())?;
        ensure!(!error.code.is_empty(), "an error without a code");
        if let Some(raw) = &error.raw {
            RawJson::parse(raw.as_str())?;
        }
    }
    let (usage, metadata) = transcript.reported();
    [usage, metadata].iter().flatten().try_for_each(object)
}
