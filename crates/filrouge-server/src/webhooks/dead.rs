//! Dead letters of a webhook, in the note "webhook/NAME/dead".

use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Failure, Timestamp};
use serde::{Deserialize, Serialize};

use super::WebhookName;
use super::post::Refusal;
use super::state::{self, load};

/// The maximum number of letters kept; older ones are only counted.
const LETTERS_MAX: usize = 1000;

/// An abandoned batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// The cursor of the feed after which it begins.
    pub after: String,
    /// The cursor at which it ends.
    pub next_cursor: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The outcome of the last attempt: `status_500`, `timeout`, `connect`, `broken`.
    pub error: String,
    /// When it was abandoned.
    pub at: Timestamp,
}

/// The dead letters of a webhook, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dead {
    /// The number of older letters that were dropped.
    pub(super) dropped: u64,
    pub(super) letters: Vec<DeadLetter>,
}

impl Dead {
    /// Adds a letter, replacing one of the same changes.
    pub(super) fn put(&mut self, letter: DeadLetter) {
        self.letters
            .retain(|l| (&l.after, &l.next_cursor) != (&letter.after, &letter.next_cursor));
        self.letters.push(letter);
        let excess = self.letters.len().saturating_sub(LETTERS_MAX);
        self.letters.drain(..excess);
        self.dropped += excess as u64;
    }

    fn find(&mut self, letter: &DeadLetter) -> Option<&mut DeadLetter> {
        self.letters.iter_mut().find(|l| *l == letter)
    }

    /// Records that the first part of a letter was delivered.
    pub(super) fn advance(&mut self, letter: &DeadLetter, to: ChangeCursor) {
        if let Some(letter) = self.find(letter) {
            letter.after = to.to_string();
        }
    }

    /// Records that a letter was resent and failed.
    pub(super) fn count_refusal(&mut self, letter: &DeadLetter, why: Refusal) {
        if let Some(letter) = self.find(letter) {
            letter.attempts += 1;
            letter.error = why.to_string();
        }
    }
}

fn note_name(webhook: &WebhookName) -> String {
    format!("webhook/{webhook}/dead")
}

/// The letters of a webhook.
pub(super) async fn letters(ledger: &dyn Ledger, webhook: &WebhookName) -> Result<Dead, Failure> {
    let stored = load(ledger, &note_name(webhook)).await?;
    Ok(stored.map(|stored| stored.value).unwrap_or_default())
}

/// Changes the letters; retries when another process wrote first.
pub(super) async fn change(
    ledger: &dyn Ledger,
    webhook: &WebhookName,
    change: impl Fn(&mut Dead),
) -> Result<(), Failure> {
    state::change(ledger, &note_name(webhook), |dead: Option<Dead>| {
        let before = dead.unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        Ok((after != before).then_some(after))
    })
    .await
}

#[cfg(test)]
mod tests {
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
        let mut dead = Dead::default();
        for n in 0..1003 {
            dead.put(letter(n));
        }
        dead.put(letter(1002));
        assert_eq!((dead.letters.len(), dead.dropped), (1000, 3));
        assert_eq!(dead.letters[0], letter(3));
        assert_eq!(dead.letters[999], letter(1002));
        let bytes = serde_json::to_vec(&dead).unwrap().len();
        assert!(bytes < 1 << 20, "{bytes}");
    }
}
