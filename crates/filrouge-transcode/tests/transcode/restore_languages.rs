//! Tests of the restoration of turns in two languages (DESIGN §5), in sessions written through the engine.

use filrouge_types::Role;
use serde_json::json;

use crate::sessions::case::*;
use crate::sessions::items;
use crate::sessions::items::text_item;
use crate::test_session::{TestSession, turn_start};

#[test]
fn a_redacted_text_is_not_replaced_by_its_translation() {
    let test = TestSession::new();
    test.start("a", "q");
    test.try_finalize("a", Some("a"), Some("à")).unwrap();
    test.try_redact(&[2]).unwrap();
    let dropped = [(2, "redacted"), (3, "other_variant"), (4, "bookkeeping")];
    let lines = ["user: q", "assistant: <Redacted>"];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
}

#[test]
fn the_other_language_replaces_a_missing_text() {
    let test = TestSession::new();
    test.try_start(filrouge_engine::StartTurn {
        question_translated: Some(filrouge_types::JsonText::from_plain("ktoś")),
        ..turn_start("a", "who")
    })
    .unwrap();
    test.append("a", vec![text_item(Role::Assistant, "plan", "look")]);
    test.try_finalize("a", Some("me"), Some("ja")).unwrap();
    let lines = ["user: who", "assistant: look", "assistant: me"];
    let dropped = [(2, "other_variant"), (5, "other_variant")];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    let lines = ["user: ktoś", "assistant: look", "assistant: ja"];
    let dropped = [(1, "other_variant"), (4, "other_variant")];
    assert_restored(&test, translated(), &lines, &dropped, &[]);
    let mut query = pairs();
    let dropped = [
        (2, "not_in_format"),
        (3, "not_in_format"),
        (5, "not_in_format"),
    ];
    assert_restored(&test, query, &["pair: who / me"], &dropped, &[]);
    query.variant = filrouge_types::Variant::Translated;
    let dropped = [
        (1, "not_in_format"),
        (3, "not_in_format"),
        (4, "not_in_format"),
    ];
    assert_restored(&test, query, &["pair: ktoś / ja"], &dropped, &[]);
}

#[test]
fn calls_in_two_languages_are_distinguished_by_their_ids() {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", vec![items::call("c1"), items::call("c2")]);
    let french = |id, text: &str| items::translated(items::result_with_content(id, json!(text)));
    test.append(
        "a",
        vec![
            items::result("c1"),
            french("c1", "fait"),
            french("c2", "aussi"),
        ],
    );
    let calls_line = "calls c1 f({\"of\":\"c1\"}) = did c1 | c2 f({\"of\":\"c2\"}) = aussi";
    assert_restored(
        &test,
        complete(),
        &["user: q", calls_line],
        &[(5, "other_variant")],
        &[],
    );
    let calls_line = "calls c1 f({\"of\":\"c1\"}) = fait | c2 f({\"of\":\"c2\"}) = aussi";
    assert_restored(
        &test,
        translated(),
        &["user: q", calls_line],
        &[(4, "other_variant")],
        &[],
    );
}

#[test]
fn only_items_with_a_counterpart_in_the_other_language_are_left_out() {
    let test = TestSession::new();
    test.start("r", "q");
    test.append(
        "r",
        vec![
            text_item(Role::Assistant, "hitl_request", "Where?"),
            text_item(Role::User, "hitl_response", "Paris"),
            items::translated(text_item(Role::User, "hitl_response", "Paryż")),
            text_item(Role::Assistant, "hitl_request", "When?"),
            text_item(Role::User, "hitl_response", "Monday"),
        ],
    );
    let lines = [
        "user: q",
        "assistant: Where?",
        "user: Paryż",
        "assistant: When?",
        "user: Monday",
    ];
    assert_restored(&test, translated(), &lines, &[(3, "other_variant")], &[]);
}
