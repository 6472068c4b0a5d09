//! A summary that may replace the turns before a window (DESIGN §5).

use filrouge_types::{Item, Members, Variant};

use super::content::text;
use super::plan::{Content, Message, Speaker};
use super::sound::is_blank;

/// A summary that can be used.
pub(super) struct Summary {
    /// The seq of the summary's item.
    pub(super) seq: u64,
    /// The first seq that it covers; 1 unless the summary says otherwise.
    pub(super) from: u64,
    /// The last seq that it covers.
    pub(super) to: u64,
    /// The change to report if the item also has other parts than text, which are left out.
    pub(super) change: Option<&'static str>,
    /// The message in the context.
    pub(super) message: Message,
}

/// The first of these summaries that can be used and covers items before `oldest`. If a turn has a summary in the
/// requested language, even a redacted one, its summaries in the other language are ignored.
pub(super) fn first_before(summaries: &[Item], variant: Variant, oldest: u64) -> Option<Summary> {
    let has_counterpart = |item: &Item| {
        let mut of_turn = summaries.iter().filter(|i| i.turn_id == item.turn_id);
        of_turn.any(|i| i.body.variant == variant)
    };
    let summaries = summaries.iter();
    let in_language = summaries.filter(|i| i.body.variant == variant || !has_counterpart(i));
    in_language
        .filter_map(read)
        .find(|summary| summary.from < oldest)
}

fn read(item: &Item) -> Option<Summary> {
    let (token, has_other_parts) = item.body.text_and_rest()?;
    let text = text(token.as_token()).filter(|t| !is_blank(t))?;
    let (from, to) = covered_range(item).unwrap_or((1, item.seq));
    Some(Summary {
        seq: item.seq,
        from,
        to,
        change: has_other_parts.then_some("not_in_format"),
        message: Message {
            seq: Some(item.seq),
            speaker: Speaker::User,
            reasoning: Vec::new(),
            contents: vec![Content::Summary(text)],
        },
    })
}

/// The first and the last seq that `metadata.covers` names, as `{"first_seq":a,"last_seq":b}` or `[a,b]`. Without
/// `last_seq`, the range ends at the summary.
fn covered_range(item: &Item) -> Option<(u64, u64)> {
    let metadata = Members::parse(item.body.metadata.as_ref()?.as_str())?;
    let covers = metadata.get("covers")?;
    if let Ok([first, last]) = serde_json::from_str::<[u64; 2]>(covers) {
        return Some((first, last));
    }
    let covers = Members::parse(covers)?;
    let number = |name| serde_json::from_str(covers.get(name)?).ok();
    let last = number("last_seq").unwrap_or(item.seq);
    Some((number("first_seq")?, last))
}
