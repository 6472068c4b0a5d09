//! What lies in the key of a copy of recent turns.

use filrouge_store::chain::Link;
use filrouge_store::hot::{AsOf, Fill, HotBounds, HotTurn, Recent, Step};
use redis::{Cmd, Value};

/// What a member has before its record: `t`, the ordinal's 20 digits, `:`.
const HEAD: usize = 22;

/// `1` as `00000000000000000001`: the order of texts is that of numbers.
pub(crate) fn digits(number: u64) -> String {
    format!("{number:020}")
}

fn member(turn: &HotTurn) -> Vec<u8> {
    let mut member = Vec::with_capacity(HEAD + turn.record.len());
    member.extend_from_slice(format!("t{:020}:", turn.ordinal).as_bytes());
    member.extend_from_slice(&turn.record);
    member
}

/// Adds what `advance.lua` is told of a step.
pub(crate) fn write_step(to: &mut Cmd, step: &Step, bounds: &HotBounds) {
    to.arg(bounds.turns).arg(bounds.bytes);
    for as_of in [&step.before, &step.after] {
        to.arg(digits(as_of.seq)).arg(hex::encode(as_of.link));
    }
    match &step.puts {
        Some(turn) => to.arg(digits(turn.ordinal)).arg(member(turn)),
        None => to.arg("").arg(""),
    };
    for ordinal in &step.removes {
        to.arg(digits(*ordinal));
    }
}

/// Adds what `fill.lua` is told: the newest turns within the bounds, and what is known of them.
pub(crate) fn write_fill(to: &mut Cmd, fill: &Fill, bounds: &HotBounds) {
    let (mut bytes, mut kept) = (0_u64, 0_usize);
    for turn in fill.turns.iter().rev() {
        let more = bytes.saturating_add(turn.record.len() as u64);
        if kept as u64 == bounds.turns || more > bounds.bytes {
            break;
        }
        (bytes, kept) = (more, kept + 1);
    }
    let (dropped, kept) = fill.turns.split_at(fill.turns.len() - kept);
    // From where on no turn is missing.
    let low = match (dropped.last(), kept.first()) {
        (Some(last), _) => format!("{:020}1", last.ordinal),
        (None, _) if fill.all => "0".repeat(21),
        (None, Some(first)) => format!("{:020}0", first.ordinal),
        (None, None) => format!("{:020}0", u64::MAX),
    };
    let (seq, link) = (digits(fill.as_of.seq), hex::encode(fill.as_of.link));
    to.arg(&seq);
    to.arg(format!("z1 {seq} {link} {low} {} {bytes}", kept.len()));
    for turn in kept {
        to.arg(member(turn));
    }
}

/// Reads the last members of a copy, newest first; `Err` when they are not what is put there.
pub(crate) fn read(answer: Value, limit: usize) -> Result<Option<Recent>, Damaged> {
    let Value::Array(members) = answer else {
        return Err(Damaged);
    };
    let mut members = members.into_iter().map(|member| match member {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Damaged),
    });
    let Some(about) = members.next().transpose()? else {
        return Ok(None);
    };
    let Some((as_of, count, whole)) = about_copy(&about)? else {
        return Ok(None);
    };
    let mut turns = members
        .map(|member| read_turn(member?))
        .collect::<Result<Vec<_>, _>>()?;
    if turns.len() as u64 != count.min(limit as u64) {
        return Err(Damaged);
    }
    turns.reverse();
    let all = whole && count == turns.len() as u64;
    Ok(Some(Recent { as_of, turns, all }))
}

/// What is in Redis was not put there by a hot store.
#[derive(Debug)]
pub(crate) struct Damaged;

/// The history, how many turns there are, and whether none is missing before them; `None`: the copy is no use.
fn about_copy(member: &[u8]) -> Result<Option<(AsOf, u64, bool)>, Damaged> {
    let text = std::str::from_utf8(member).map_err(|_| Damaged)?;
    let words: Vec<&str> = text.split(' ').collect();
    let ["z1", known, link, low, count, _bytes] = words[..] else {
        return Err(Damaged);
    };
    let seq = known.parse().map_err(|_| Damaged)?;
    if link == "-" {
        return Ok(None);
    }
    let link = read_link(link).ok_or(Damaged)?;
    let count = count.parse().map_err(|_| Damaged)?;
    let whole = low.bytes().all(|digit| digit == b'0');
    Ok(Some((AsOf { seq, link }, count, whole)))
}

fn read_link(text: &str) -> Option<Link> {
    let mut link = Link::default();
    hex::decode_to_slice(text, &mut link).ok()?;
    Some(link)
}

fn read_turn(mut member: Vec<u8>) -> Result<HotTurn, Damaged> {
    let head = member.get(..HEAD).ok_or(Damaged)?;
    let text = std::str::from_utf8(head).map_err(|_| Damaged)?;
    let ordinal = text.strip_prefix('t').and_then(|t| t.strip_suffix(':'));
    let ordinal = ordinal
        .and_then(|digits| digits.parse().ok())
        .ok_or(Damaged)?;
    member.drain(..HEAD);
    Ok(HotTurn {
        ordinal,
        record: member,
    })
}
