//! What has to hold of whatever a decoder makes of an input.

use anyhow::{Context, Result, ensure};
use filrouge_engine::stream::{Block, Ended, ReadyItem, StreamError};
use filrouge_store::draft::{Piece, PieceHead, PieceKind, StreamId, partial_entries};
use filrouge_transcode::Decoder;
use filrouge_types::{ItemBody, JsonText, Object, RawJson};
use serde::Deserialize;

use super::input::Input;

/// Bytes that a decoder may hold for each byte that it was given, and beside them: an escape that is escaped again and
/// the doubling of buffers.
const HELD: (usize, usize) = (16, 64 << 10);
/// One input in so many is decoded in other chunks, too.
const AGAIN: usize = 3;

/// What came of an input.
pub(super) struct Seen {
    pub(super) events: u64,
    pub(super) items: u64,
}

#[derive(Deserialize)]
struct PartShape {
    #[serde(rename = "type")]
    kind: Box<str>,
}

/// How an input ends.
#[derive(Clone, Copy)]
enum End {
    Whole,
    Cancelled,
    Gone,
}

/// Checks it.
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
                transcript.told(),
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
                "items of the same events in other words",
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

/// The same events with a member more that nobody asks for, spelled so that no quick look takes it. Lines that go on
/// with an event, and those that end otherwise than with a line feed, stay as they are.
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
        "other chunks, other {what}:\n{one:?}\n{other:?}"
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

/// What the engine asks of items (`Limits`), and that they come in order.
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
        "no object: {json:?}"
    );
    Ok(())
}

/// What is not an item yet can be drafted, and from the drafts become items.
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

fn piece(block: &Block, at: usize) -> Result<Piece> {
    let part = block.parts.get(at).context("no part")?;
    if part.kind == PieceKind::Whole {
        RawJson::parse(&part.text)?;
    } else {
        string(&format!("\"{}\"", part.text))?;
    }
    let call = match &block.call {
        Some((id, name)) => Some((string(id)?, string(name)?)),
        None => None,
    };
    let (role, channel) = block.place();
    Ok(Piece {
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

/// How it ended, and what the response told at its end.
fn ended(decoder: &Decoder) -> Result<()> {
    let transcript = decoder.transcript();
    if let Ended::Failed(error) = transcript.ended().context("it has not ended")? {
        string(error.message.as_token())?;
        ensure!(!error.code.is_empty(), "an error without a code");
        if let Some(raw) = &error.raw {
            RawJson::parse(raw.as_str())?;
        }
    }
    let (usage, metadata) = transcript.told();
    [usage, metadata].iter().flatten().try_for_each(object)
}
