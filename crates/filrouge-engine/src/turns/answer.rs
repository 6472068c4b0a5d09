//! The answer of a turn that one write records completely (DESIGN §4.1).

use filrouge_types::{
    ANSWER_IS_COPY, Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, Variant,
    flag_metadata,
};

/// An answer of the assistant.
pub(super) fn answer_item(variant: Variant, text: &JsonText) -> ItemBody {
    ItemBody::from_text(Role::Assistant, Channel::Final, variant, text)
}

/// Completes the answer in the items of a turn that ends: copies the only variant to the neutral one, or to the
/// translated one if a translation is wanted. An answer without text has nothing to copy. Returns whether the
/// translated answer equals the neutral one, and the metadata that says that the neutral one is a copy.
///
/// # Errors
/// `answer_missing` if no item is an answer.
pub(super) fn complete_answer(
    items: &mut Vec<ItemBody>,
    wants_translation: bool,
) -> Result<(bool, Option<RawJson>), Failure> {
    let answer = |variant: Variant| {
        let is_answer = |item: &&ItemBody| {
            let by_assistant = item.role == Role::Assistant && item.channel == Channel::Final;
            by_assistant && item.variant == variant
        };
        items.iter().find(is_answer).map(ItemBody::text)
    };
    let (copy, fallback, metadata) = match (answer(Variant::Neutral), answer(Variant::Translated)) {
        (None, None) => {
            let missing = ErrorCode::AnswerMissing.failure("no item of the turn is an answer");
            return Err(missing.with_hint(
                "add an item of role assistant and channel final, or send answer_neutral",
            ));
        }
        (Some(neutral), Some(translated)) => {
            (None, neutral.is_some() && neutral == translated, None)
        }
        (Some(neutral), None) => {
            let copy = neutral.filter(|_| wants_translation);
            let copy = copy.map(|text| answer_item(Variant::Translated, &text));
            let is_copied = copy.is_some();
            (copy, is_copied, None)
        }
        (None, Some(translated)) => {
            let copy = translated.map(|text| answer_item(Variant::Neutral, &text));
            let metadata = copy.is_some().then(|| flag_metadata(ANSWER_IS_COPY));
            (copy, false, metadata)
        }
    };
    items.extend(copy);
    Ok((fallback, metadata))
}
