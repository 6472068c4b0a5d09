//! The format in which Redis stores the copy of a session's recent turns (see the documentation of the crate).

use filrouge_store::hex::from_hex;
use filrouge_store::hot::{HistoryVersion, HotBounds, HotTurn, Recent, RecentFill, RecentUpdate};
use redis::{Cmd, Value};

/// The length of the part of a member before its record: `t`, the 20 digits of the ordinal, and `:`.
const MEMBER_PREFIX_BYTES: usize = 22;

/// Formats 1 as `00000000000000000001`, so that numbers sort as texts in the same order as by value.
pub(crate) fn digits(number: u64) -> String {
    format!("{number:020}")
}

fn turn_member(turn: &HotTurn) -> Vec<u8> {
    let mut member = Vec::with_capacity(MEMBER_PREFIX_BYTES + turn.record.len());
    member.extend_from_slice(format!("t{:020}:", turn.ordinal).as_bytes());
    member.extend_from_slice(&turn.record);
    member
}

/// Adds the arguments of `advance.lua` for an update, except the time to live.
pub(crate) fn push_update_args(command: &mut Cmd, update: &RecentUpdate, bounds: &HotBounds) {
    command.arg(bounds.turns).arg(bounds.bytes);
    for as_of in [&update.before, &update.after] {
        command.arg(digits(as_of.seq)).arg(hex::encode(as_of.link));
    }
    match &update.puts {
        Some(turn) => command.arg(digits(turn.ordinal)).arg(turn_member(turn)),
        None => command.arg("").arg(""),
    };
    for ordinal in &update.removes {
        command.arg(digits(*ordinal));
    }
}

/// Adds the arguments of `fill.lua`, except the time to live: the metadata of the copy, and the newest turns that fit
/// into the bounds.
pub(crate) fn push_fill_args(command: &mut Cmd, fill: &RecentFill, bounds: &HotBounds) {
    let (mut bytes, mut kept) = (0_u64, 0_usize);
    for turn in fill.turns.iter().rev() {
        let total = bytes.saturating_add(turn.record.len() as u64);
        if kept as u64 == bounds.turns || total > bounds.bytes {
            break;
        }
        (bytes, kept) = (total, kept + 1);
    }
    let (dropped, kept) = fill.turns.split_at(fill.turns.len() - kept);
    // The position from which on no turn is missing in the copy.
    let low = match (dropped.last(), kept.first()) {
        (Some(last), _) => format!("{:020}1", last.ordinal),
        (None, _) if fill.all => "0".repeat(21),
        (None, Some(first)) => format!("{:020}0", first.ordinal),
        (None, None) => format!("{:020}0", u64::MAX),
    };
    let (seq, link) = (digits(fill.as_of.seq), hex::encode(fill.as_of.link));
    command.arg(&seq);
    command.arg(format!("z1 {seq} {link} {low} {} {bytes}", kept.len()));
    for turn in kept {
        command.arg(turn_member(turn));
    }
}

/// Parses a copy from its members in descending order: the metadata, then the newest turns, at most `limit`. `None` if
/// there is no copy, or it is invalid; `Err` if no hot store wrote the members.
pub(crate) fn parse(answer: Value, limit: usize) -> Result<Option<Recent>, Damaged> {
    let Value::Array(members) = answer else {
        return Err(Damaged);
    };
    let mut members = members.into_iter().map(|member| match member {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Damaged),
    });
    let Some(metadata) = members.next().transpose()? else {
        return Ok(None);
    };
    let Some((as_of, count, complete)) = parse_metadata(&metadata)? else {
        return Ok(None);
    };
    let mut turns = members
        .map(|member| parse_turn(member?))
        .collect::<Result<Vec<_>, _>>()?;
    if turns.len() as u64 != count.min(limit as u64) {
        return Err(Damaged);
    }
    turns.reverse();
    let all = complete && count == turns.len() as u64;
    Ok(Some(Recent { as_of, turns, all }))
}

/// The error for a value in Redis that no hot store wrote.
#[derive(Debug)]
pub(crate) struct Damaged;

/// Parses the metadata, the last member of a copy: the version of the history, the number of turns, and whether the
/// copy contains all turns of the session. `None` if the copy is marked as invalid.
fn parse_metadata(member: &[u8]) -> Result<Option<(HistoryVersion, u64, bool)>, Damaged> {
    let text = std::str::from_utf8(member).map_err(|_| Damaged)?;
    let words: Vec<&str> = text.split(' ').collect();
    let ["z1", seq, link, low, count, _bytes] = words[..] else {
        return Err(Damaged);
    };
    let seq = seq.parse().map_err(|_| Damaged)?;
    if link == "-" {
        return Ok(None);
    }
    let link = from_hex(link).ok_or(Damaged)?;
    let count = count.parse().map_err(|_| Damaged)?;
    let complete = low.bytes().all(|digit| digit == b'0');
    Ok(Some((HistoryVersion { seq, link }, count, complete)))
}

fn parse_turn(mut member: Vec<u8>) -> Result<HotTurn, Damaged> {
    let prefix = member.get(..MEMBER_PREFIX_BYTES).ok_or(Damaged)?;
    let text = std::str::from_utf8(prefix).map_err(|_| Damaged)?;
    let ordinal = text.strip_prefix('t').and_then(|t| t.strip_suffix(':'));
    let ordinal = ordinal
        .and_then(|digits| digits.parse().ok())
        .ok_or(Damaged)?;
    member.drain(..MEMBER_PREFIX_BYTES);
    Ok(HotTurn {
        ordinal,
        record: member,
    })
}
