//! What no receiver took, in the note "webhook/NAME/dead".

use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{Failure, Timestamp};
use serde::{Deserialize, Serialize};

use super::WebhookName;
use super::post::Refusal;
use super::state::{self, load};

/// Most letters kept; of those before only the number.
const LETTERS_MAX: usize = 1000;

/// A batch that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// It begins behind this cursor of the feed.
    pub after: String,
    /// It ends at this cursor.
    pub next_cursor: String,
    /// How often it was sent.
    pub attempts: u32,
    /// How the last attempt ended: `status_500`, `timeout`, `connect`, `broken`.
    pub error: String,
    /// When it was given up.
    pub at: Timestamp,
}

/// The dead letters of a webhook, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dead {
    /// How many older ones are gone.
    pub(super) dropped: u64,
    pub(super) letters: Vec<DeadLetter>,
}

impl Dead {
    /// Puts a letter in; one of the same changes is in once.
    pub(super) fn put(&mut self, letter: DeadLetter) {
        self.letters
            .retain(|l| (&l.after, &l.next_cursor) != (&letter.after, &letter.next_cursor));
        self.letters.push(letter);
        let over = self.letters.len().saturating_sub(LETTERS_MAX);
        self.letters.drain(..over);
        self.dropped += over as u64;
    }

    fn find(&mut self, letter: &DeadLetter) -> Option<&mut DeadLetter> {
        self.letters.iter_mut().find(|l| *l == letter)
    }

    /// The first part of a letter was taken.
    pub(super) fn advance(&mut self, letter: &DeadLetter, to: ChangeCursor) {
        if let Some(letter) = self.find(letter) {
            letter.after = to.to_string();
        }
    }

    /// A letter was sent once more, in vain.
    pub(super) fn refused_again(&mut self, letter: &DeadLetter, why: Refusal) {
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
    let found = load(ledger, &note_name(webhook)).await?;
    Ok(found.map(|stored| stored.value).unwrap_or_default())
}

/// Changes the letters; again when somebody else was first.
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
    fn the_oldest_go_and_are_counted_and_none_is_in_twice() {
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
