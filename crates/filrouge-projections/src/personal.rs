//! Masks personal data in texts: e-mail addresses, phone numbers and IBANs.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// An e-mail address.
const EMAIL: &str = r"[\w.%+'-]+@[\w-]+(?:\.[\w-]+)+";
/// An IBAN, with or without spaces; its check digits are verified.
const IBAN: &str = r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b";
/// A phone number that begins with `+`, `00` or `0`, and has 8 to 14 more digits. Other numbers may be anything.
const PHONE: &str = r"(?:\+|\b00|\b0)[1-9](?:[ ()/-]{0,3}\d){7,13}\b";

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants, which a test compiles"
)]
static PATTERNS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [EMAIL, IBAN, PHONE].map(|pattern| Regex::new(pattern).expect("a valid pattern"))
});

/// Replaces e-mail addresses, phone numbers and IBANs by `[masked:email]`, `[masked:phone]` and `[masked:iban]`; `None`
/// if the text has none.
pub(crate) fn mask_personal(text: &str) -> Option<String> {
    let [email, iban, phone] = &*PATTERNS;
    let masked = email.replace_all(text, "[masked:email]");
    let masked = iban.replace_all(&masked, |found: &Captures<'_>| {
        let found = &found[0];
        match is_iban(found) {
            true => "[masked:iban]".to_owned(),
            false => found.to_owned(),
        }
    });
    let masked = phone.replace_all(&masked, "[masked:phone]");
    (masked != text).then(|| masked.into_owned())
}

/// Whether the check digits are right (ISO 7064, modulo 97).
fn is_iban(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let (country, account) = compact.split_at(4.min(compact.len()));
    let remainder = account.iter().chain(country).fold(0, |sum: u32, byte| {
        match char::from(*byte).to_digit(36) {
            Some(value) if value > 9 => (sum * 100 + value) % 97,
            Some(value) => (sum * 10 + value) % 97,
            None => sum,
        }
    });
    remainder == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_data_is_masked_and_other_numbers_are_not() {
        let masked = |text: &str| mask_personal(text).unwrap();
        assert_eq!(
            masked("write to ann.o'neil+x@mail.example.org."),
            "write to [masked:email]."
        );
        assert_eq!(masked("müller@exämple.de"), "[masked:email]");
        assert_eq!(
            masked("pay to DE89 3704 0044 0532 0130 00 today"),
            "pay to [masked:iban] today"
        );
        assert_eq!(masked("GB82WEST12345698765432"), "[masked:iban]");
        for number in [
            "+49 30 1234567",
            "0041 44 668 18 00",
            "(+1) 555-123-4567",
            "030/1234567",
        ] {
            assert!(
                masked(&format!("call {number}, please")).contains("[masked:phone], please"),
                "{number}"
            );
        }
        for text in [
            "on 2026-11-30 at 09:30:00.123456",
            "order 1234567890",
            "0.123456789",
            "1700000000000000",
            "on 05.06.2026 at 10:30",
            "a@b",
            "",
        ] {
            assert_eq!(mask_personal(text), None, "{text}");
        }
        assert!(!masked("DE88 3704 0044 0532 0130 00").contains("iban"));
        let once = masked("ann@example.org, +49 30 1234567");
        assert_eq!(mask_personal(&once), None);
    }
}
