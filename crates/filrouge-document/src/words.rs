//! The wording that the Markdown and HTML documents share.

use filrouge_types::{Channel, Item, Members, Role, Session, Timestamp, Turn, TurnStatus};

/// A session's heading.
pub(crate) fn title(session: &Session) -> &str {
    match session.title.as_deref() {
        Some(title) if !title.trim().is_empty() => title,
        _ => "Untitled conversation",
    }
}

fn to_text(value: &Option<impl ToString>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

/// The facts of a session: names and values.
pub(crate) fn facts(session: &Session) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Session", session.session_id.to_string())];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|v| (name, v)));
    let owner = to_text(&session.identity_id).unwrap_or_else(|| "anonymous".to_owned());
    add("Project", to_text(&session.project_id));
    add("Owner", Some(owner));
    add("Team", to_text(&session.team_id));
    add("Parent", to_text(&session.parent_session_id));
    add("Status", Some(session.status.to_string()));
    add("State", to_text(&session.state));
    add("Created", Some(moment(session.created_at)));
    add("Updated", Some(moment(session.updated_at)));
    add("Turns", Some(session.turn_count.to_string()));
    add("Items", Some(session.last_seq.to_string()));
    facts
}

/// The label of a channel.
pub(crate) fn channel(channel: &Channel) -> &str {
    match channel {
        Channel::Question => "Question",
        Channel::Final => "Answer",
        Channel::Partial => "Partial answer",
        Channel::Plan => "Plan",
        Channel::Thought => "Thought",
        Channel::Observation => "Observation",
        Channel::ToolCall => "Tool call",
        Channel::ToolResult => "Tool result",
        Channel::Error => "Error",
        Channel::SystemNote => "Note",
        Channel::HitlRequest => "Question to a human",
        Channel::HitlResponse => "Answer of a human",
        Channel::Summary => "Summary",
        Channel::Interrupted => "Interrupted",
        Channel::Cancelled => "Cancelled",
        Channel::Link => "Link",
        Channel::Redaction => "Redaction",
        Channel::Other(word) => word,
    }
}

/// The label of an item's role.
pub(crate) const fn role(role: Role) -> &'static str {
    match role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool",
        Role::System => "System",
    }
}

/// The label of an item's language; `None` unless the items are in two languages.
pub(crate) fn variant(item: &Item, bilingual: bool, turn: Option<&Turn>) -> Option<&'static str> {
    if !bilingual {
        return None;
    }
    let copied = turn.is_some_and(|t| t.answer_translated_is_fallback)
        && item.body.channel == Channel::Final;
    Some(item.body.variant.display_name(copied))
}

/// The facts of a turn, without its number and status: names and values.
pub(crate) fn turn_facts(turn: &Turn) -> Vec<(&'static str, &str)> {
    let mut facts = Vec::new();
    let mut add = |name, value| facts.extend(std::iter::zip([name], value));
    add("asked by", turn.identity_id.as_ref().map(|i| i.as_str()));
    for label in turn.application.labels() {
        add(label.title, label.value);
    }
    facts
}

/// The labels that supplement a turn's status.
pub(crate) fn status_labels(turn: &Turn) -> impl Iterator<Item = &'static str> {
    let labels = [
        ("replaced", turn.replaced_by_turn_id.is_some()),
        ("replacement", turn.record_version > 1),
        ("redacted", turn.deleted_at.is_some()),
    ];
    let applying = labels.into_iter().filter(|(_, applies)| *applies);
    applying.map(|(label, _)| label)
}

/// Whether a turn's status is shown as a warning.
pub(crate) const fn is_bad(status: TurnStatus) -> bool {
    matches!(
        status,
        TurnStatus::Failed | TurnStatus::Interrupted | TurnStatus::Cancelled
    )
}

/// A time with the precision of a second.
pub(crate) fn moment(time: Timestamp) -> String {
    let text = time.to_string();
    match (text.get(..10), text.get(11..19), text.ends_with('Z')) {
        (Some(day), Some(clock), true) => format!("{day} {clock} UTC"),
        _ => text,
    }
}

/// The time at which a turn began: the earliest `occurred_at` of its items if all have one; otherwise the time at which
/// the turn was recorded.
pub(crate) fn began(turn: &Turn, items: &[Item]) -> Timestamp {
    // A missing time is less than any other, so it is the minimum.
    let earliest = items.iter().map(|i| i.body.occurred_at).min();
    earliest.flatten().unwrap_or(turn.created_at)
}

/// The duration of a turn; `None` for less than a tenth of a second.
pub(crate) fn duration(turn: &Turn) -> Option<String> {
    let micros = turn
        .finalized_at?
        .as_micros()
        .checked_sub(turn.created_at.as_micros())?;
    let (seconds, tenths) = (micros / 1_000_000, micros / 100_000 % 10);
    Some(match seconds {
        // A turn that was recorded in one write does not show how long it took.
        _ if micros < 100_000 => return None,
        0..60 => format!("{seconds}.{tenths} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    })
}

/// A size in bytes, kB or MB, with units of a thousand.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        // A size that rounds to 1000 kB is shown as 1.0 MB.
        1_000..999_500 => format!("{} kB", (bytes + 500) / 1_000),
        _ => format!(
            "{}.{} MB",
            (bytes + 50_000) / 1_000_000,
            (bytes + 50_000) / 100_000 % 10
        ),
    }
}

/// Ranges of seqs, as `item 9` or `items 3 to 9, 12`.
pub(crate) fn ranges(seqs: &[(u64, u64)]) -> String {
    let format_range = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    let ranges: Vec<String> = seqs.iter().map(format_range).collect();
    let noun = match seqs {
        [(first, last)] if first == last => "item",
        _ => "items",
    };
    format!("{noun} {}", ranges.join(", "))
}

/// The counts in an item's `usage`, on one line; `None` if there are none.
pub(crate) fn usage(item: &Item) -> Option<String> {
    let members = Members::parse(item.body.usage.as_ref()?.as_str())?;
    let counts = members.iter().filter(|(_, v)| !matches!(*v, "null" | "{}"));
    let list: Vec<String> = counts
        .map(|(n, v)| format!("{} {v}", n.replace('_', " ")))
        .collect();
    (!list.is_empty()).then(|| list.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_reported_to_the_second() {
        assert_eq!(
            moment(Timestamp::from_micros(1_500_000)),
            "1970-01-01 00:00:01 UTC"
        );
        assert_eq!(
            moment(Timestamp::from_micros(i64::MAX)),
            format!("{}us", i64::MAX)
        );
    }
}
