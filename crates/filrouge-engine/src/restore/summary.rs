//! A summary that may replace the turns before a window (DESIGN §5).

use filrouge_types::{Channel, Item, Members, Variant};

use super::content::text;
use super::plan::{Content, Say, Speaker};
use super::sound::is_blank;

/// A summary that can be used.
pub(super) struct Summary {
    /// The seq of the summary's item.
    pub(super) seq: u64,
    /// The first seq that it covers; 1 unless the summary says otherwise.
    pub(super) from: u64,
    /// The last seq that it covers.
    pub(super) to: u64,
    /// The change to report if the item also has parts other than text, which are left out.
    pub(super) rest: Option<&'static str>,
    /// The message in the context.
    pub(super) say: Say,
}

/// The newest summary of a turn. If the turn has a summary in the requested language, even a redacted one, summaries in
/// the other language are ignored.
pub(super) fn newest(items: &[Item], variant: Variant) -> Option<Summary> {
    let summaries = || {
        items
            .iter()
            .rev()
            .filter(|i| i.body.channel == Channel::Summary)
    };
    let in_wanted = summaries().any(|i| i.body.variant == variant);
    summaries()
        .filter(|i| (i.body.variant == variant) == in_wanted)
        .find_map(read)
}

fn read(item: &Item) -> Option<Summary> {
    let (token, rest) = item.body.text_and_rest()?;
    let text = text(token.as_token()).filter(|t| !is_blank(t))?;
    let (from, to) = covers(item).unwrap_or((1, item.seq));
    Some(Summary {
        seq: item.seq,
        from,
        to,
        rest: rest.then_some("not_in_format"),
        say: Say {
            seq: Some(item.seq),
            speaker: Speaker::User,
            reasoning: Vec::new(),
            contents: vec![Content::Summary(text)],
        },
    })
}

/// Reads `metadata.covers`: `{"first_seq":a,"last_seq":b}` or `[a,b]`. Without an end, the range ends at the summary.
fn covers(item: &Item) -> Option<(u64, u64)> {
    let metadata = Members::of(item.body.metadata.as_ref()?.as_str())?;
    let covers = metadata.get("covers")?;
    if let Ok([first, last]) = serde_json::from_str::<[u64; 2]>(covers) {
        return Some((first, last));
    }
    let covers = Members::of(covers)?;
    let number = |name| serde_json::from_str(covers.get(name)?).ok();
    let last = number("last_seq").unwrap_or(item.seq);
    Some((number("first_seq")?, last))
}
