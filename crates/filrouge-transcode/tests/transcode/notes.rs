//! Property test of texts at every position of a turn: notes of the application, and what a human was asked and decided.

use filrouge_engine::restore::Mark;
use filrouge_transcode::Format;
use filrouge_types::{Channel, ItemBody, Role};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::sessions::check::assert_accepted;
use crate::sessions::items::{call, note, result, text_item};
use crate::test_session::{TestSession, query};

/// An inserted item; `None` for the kind 0.
fn inserted(kind: usize, text: &str) -> Option<ItemBody> {
    match kind {
        0 => None,
        1 => Some(note(text)),
        2 => Some(text_item(Role::Assistant, "hitl_request", text)),
        _ => Some(text_item(Role::User, "hitl_response", text)),
    }
}

fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn texts_at_every_position_of_an_answered_turn_are_kept_in_order(
        kinds in prop::collection::vec(0..4_usize, 9),
        is_redacted: bool,
    ) {
        let answer = text_item(Role::Assistant, "final", "answer");
        let steps = [
            call("c1"), result("c1"), call("c2"), call("c3"), result("c2"), result("c3"), call("c4"), result("c4"), answer,
        ];
        let test = TestSession::new();
        test.start("a", "q");
        let mut texts = Vec::new();
        for (at, (kind, step)) in kinds.iter().zip(steps).enumerate() {
            let text = format!("inserted {at}");
            let item = inserted(*kind, &text);
            texts.extend(item.is_some().then_some(text));
            test.append("a", item.into_iter().chain([step]).collect());
        }
        test.append("a", vec![note("the last note")]);
        test.try_finalize("a", None, None).unwrap();
        let shown_answer = if is_redacted {
            let answer = test.items().into_iter().find(|i| i.body.channel == Channel::Final);
            test.try_redact(&[answer.unwrap().seq]).unwrap();
            Mark::Redacted.text()
        } else {
            "answer"
        };
        texts.extend([shown_answer.to_owned(), "the last note".to_owned()]);
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let context = test.context(format, query(format));
            let messages = assert_accepted(format, &context).to_string();
            prop_assert!(!messages.contains(Mark::Unanswered.text()), "{format}: {messages}");
            let places: Vec<_> = texts.iter().map(|text| messages.find(text.as_str())).collect();
            prop_assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{format}: {messages}");
        }
    }
}
