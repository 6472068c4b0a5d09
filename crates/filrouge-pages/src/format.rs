//! How pages write times, numbers and names.

use filrouge_types::Timestamp;
use maud::{Markup, html};

/// A time to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    let short = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) { (short) } }
}

/// A number with its digits in groups of three, which narrow no-break spaces separate.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The name of a history as its program writes itself.
pub(crate) fn program_label(name: &str) -> &str {
    match name {
        "claude-code" => "Claude Code",
        "codex" => "Codex",
        "opencode" => "OpenCode",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1\u{202f}000"),
            (1_234_567, "1\u{202f}234\u{202f}567"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
