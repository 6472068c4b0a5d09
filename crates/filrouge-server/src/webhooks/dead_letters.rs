//! The dead letters of a webhook, stored in the note "webhook/NAME/dead".

use filrouge_engine::notes::{change_note, read_note};
use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Failure, Timestamp};
use serde::{Deserialize, Serialize};

use super::WebhookName;
use super::sender::Refusal;

/// The maximum number of letters kept; older ones are only counted.
const LETTERS_MAX: usize = 1000;
/// The maximum length of all their cursors, which are long in a store of many lanes. With it the note stays below
/// [`filrouge_store::rows::NOTE_MAX`].
const CURSORS_MAX: usize = 768 << 10;

/// A batch that was abandoned after all attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// The cursor of the feed after which the batch begins.
    pub after: String,
    /// The cursor of the feed at which the batch ends.
    pub next_cursor: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The outcome of the newest attempt: `status_` and the number, such as `status_500`, or `timeout`, `connect`,
    /// `broken`.
    pub error: String,
    /// When the batch was abandoned.
    pub at: Timestamp,
}

/// The dead letters of a webhook, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLetters {
    /// The number of older letters that were dropped.
    pub(super) dropped: u64,
    pub(super) letters: Vec<DeadLetter>,
}

impl DeadLetters {
    /// Adds a letter, and removes an earlier letter with the same changes. Drops the oldest letters beyond the maximum.
    pub(super) fn add(&mut self, letter: DeadLetter) {
        self.letters
            .retain(|l| (&l.after, &l.next_cursor) != (&letter.after, &letter.next_cursor));
        self.letters.push(letter);
        let mut cursors = 0;
        let newest = self.letters.iter().rev().take(LETTERS_MAX);
        let kept = newest.take_while(|l| {
            cursors += l.after.len() + l.next_cursor.len();
            cursors <= CURSORS_MAX
        });
        let excess = self.letters.len() - kept.count();
        self.letters.drain(..excess);
        self.dropped += excess as u64;
    }

    fn find_letter(&mut self, letter: &DeadLetter) -> Option<&mut DeadLetter> {
        self.letters.iter_mut().find(|l| *l == letter)
    }

    /// Records that the changes of a letter up to `to` were delivered.
    pub(super) fn advance(&mut self, letter: &DeadLetter, to: &ChangeCursor) {
        if let Some(letter) = self.find_letter(letter) {
            letter.after = to.to_string();
        }
    }

    /// Records that a letter was sent again and refused.
    pub(super) fn count_refusal(&mut self, letter: &DeadLetter, refusal: Refusal) {
        if let Some(letter) = self.find_letter(letter) {
            letter.attempts += 1;
            letter.error = refusal.to_string();
        }
    }
}

fn note_name(webhook: &WebhookName) -> String {
    format!("webhook/{webhook}/dead")
}

/// Reads the letters of a webhook; none if its note does not exist.
pub(super) async fn load_letters(
    ledger: &dyn Ledger,
    webhook: &WebhookName,
) -> Result<DeadLetters, Failure> {
    let stored = read_note(ledger, &note_name(webhook)).await?;
    Ok(stored.map(|stored| stored.value).unwrap_or_default())
}

/// Changes the letters of a webhook. If another process wrote first, applies `change` again to what it wrote.
pub(super) async fn change_letters(
    ledger: &dyn Ledger,
    webhook: &WebhookName,
    change: impl Fn(&mut DeadLetters),
) -> Result<(), Failure> {
    change_note(
        ledger,
        &note_name(webhook),
        |letters: Option<DeadLetters>| {
            let before = letters.unwrap_or_default();
            let mut after = before.clone();
            change(&mut after);
            Ok((after != before).then_some(after))
        },
    )
    .await
}

#[cfg(test)]
mod tests {
    use filrouge_store::rows::NOTE_MAX;

    use super::*;

    fn letter(n: u64) -> DeadLetter {
        DeadLetter {
            after: n.to_string(),
            next_cursor: (n + 1).to_string(),
            attempts: 12,
            error: "timeout".to_owned(),
            at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn the_oldest_letters_are_dropped_and_counted_and_none_is_duplicated() {
        let mut letters = DeadLetters::default();
        for n in 0..1003 {
            letters.add(letter(n));
        }
        letters.add(letter(1002));
        assert_eq!((letters.letters.len(), letters.dropped), (1000, 3));
        assert_eq!(letters.letters[0], letter(3));
        assert_eq!(letters.letters[999], letter(1002));
        let bytes = serde_json::to_vec(&letters).unwrap().len();
        assert!(bytes < NOTE_MAX, "{bytes}");
    }

    #[test]
    fn letters_of_a_store_with_many_lanes_fit_into_a_note() {
        let mut letters = DeadLetters::default();
        for n in 0..1000 {
            letters.add(DeadLetter {
                after: vec!["1234567890.123"; 64].join("_"),
                ..letter(n)
            });
        }
        let kept = letters.letters.len();
        assert!(
            kept > 500 && letters.dropped == 1000 - kept as u64,
            "{kept}"
        );
        assert_eq!(letters.letters[kept - 1].next_cursor, "1000");
        let bytes = serde_json::to_vec(&letters).unwrap().len();
        assert!(bytes < NOTE_MAX, "{bytes}");
    }
}
