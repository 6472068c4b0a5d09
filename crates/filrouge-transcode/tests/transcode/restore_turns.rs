//! Tests of the selection and order of restored turns and items (DESIGN §5), in sessions written through the engine.

use filrouge_types::Role;
use serde_json::json;

use crate::sessions::case::*;
use crate::sessions::items;
use crate::sessions::items::{item, note, text_item};
use crate::test_session::{TestSession, turn_start};

/// The start of a turn that already has its answer.
fn answered_start(request: &str, question: &str, answer: &str) -> filrouge_engine::StartTurn {
    filrouge_engine::StartTurn {
        answer_neutral: Some(filrouge_types::JsonText::from_plain(answer)),
        ..turn_start(request, question)
    }
}

#[test]
fn an_empty_session_has_no_context() {
    let test = TestSession::new();
    let request = filrouge_engine::CreateSession {
        session_id: Some(test.session.clone()),
        ..Default::default()
    };
    let created = test.engine.sessions.create(&test.caller, request);
    test.runtime.block_on(created).unwrap();
    assert_restored(&test, complete(), &[], &[], &[]);
    assert_restored(&test, pairs(), &[], &[], &[]);
}

#[test]
fn turns_are_ordered_by_ordinal_and_items_by_seq() {
    let test = TestSession::new();
    test.start("a", "q1");
    test.start("b", "q2");
    test.append("b", vec![text_item(Role::Assistant, "plan", "p2")]);
    test.append("a", vec![text_item(Role::Assistant, "plan", "p1")]);
    test.finalize("b", "a2");
    test.finalize("a", "a1");
    let lines = [
        "user: q1",
        "assistant: p1",
        "assistant: a1",
        "user: q2",
        "assistant: p2",
        "assistant: a2",
    ];
    assert_restored(&test, complete(), &lines, &[], &[]);
}

#[test]
fn a_replacement_turn_has_the_position_of_the_replaced_turn() {
    let test = TestSession::new();
    test.record_turn("a", "q1", "a1");
    test.record_turn("b", "q2", "a2");
    test.try_replace("a", answered_start("c", "q1'", "a1'"))
        .unwrap();
    let lines = ["user: q1'", "assistant: a1'", "user: q2", "assistant: a2"];
    let dropped = [(1, "turn_replaced"), (2, "turn_replaced")];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    let lines = ["pair: q1' / a1'", "pair: q2 / a2"];
    assert_restored(&test, pairs(), &lines, &dropped, &[]);
}

#[test]
fn a_redacted_turn_is_left_out_with_all_its_versions() {
    let test = TestSession::new();
    test.record_turn("a", "q1", "a1");
    test.try_replace("a", answered_start("c", "q1'", "a1'"))
        .unwrap();
    test.record_turn("b", "q2", "a2");
    test.try_redact_turn("a").unwrap();
    let redacted = |seq| (seq, "redacted");
    let dropped = [
        redacted(1),
        redacted(2),
        redacted(3),
        redacted(4),
        (7, "bookkeeping"),
    ];
    assert_restored(
        &test,
        complete(),
        &["user: q2", "assistant: a2"],
        &dropped,
        &[],
    );
    assert_restored(&test, pairs(), &["pair: q2 / a2"], &dropped, &[]);
}

#[test]
fn redacted_items_are_left_out_one_by_one() {
    let test = TestSession::new();
    test.start("a", "q1");
    test.append("a", vec![text_item(Role::Assistant, "plan", "p1")]);
    test.finalize("a", "a1");
    test.try_redact(&[2]).unwrap();
    let dropped = [(2, "redacted"), (4, "bookkeeping")];
    assert_restored(
        &test,
        complete(),
        &["user: q1", "assistant: a1"],
        &dropped,
        &[],
    );
    test.try_redact(&[3]).unwrap();
    let dropped = [
        (2, "redacted"),
        (3, "redacted"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
    ];
    let lines = ["user: q1", "assistant: <Redacted>"];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    let dropped = [
        (1, "no_text"),
        (2, "redacted"),
        (3, "redacted"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
    ];
    assert_restored(&test, pairs(), &[], &dropped, &[]);
}

#[test]
fn a_redacted_answer_is_marked_at_its_place_unless_another_answer_is_shown() {
    let test = TestSession::new();
    test.start("a", "q1");
    test.try_finalize("a", Some("neutral"), Some("translated"))
        .unwrap();
    test.append("a", vec![note("late")]);
    test.try_redact(&[3]).unwrap();
    let dropped = [(3, "redacted"), (5, "bookkeeping")];
    let lines = ["user: q1", "assistant: neutral", "system: late"];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    test.try_redact(&[2]).unwrap();
    let redacted = [(2, "redacted"), (3, "redacted")];
    let dropped = [&redacted[..], &[(5, "bookkeeping"), (6, "bookkeeping")]].concat();
    let lines = ["user: q1", "assistant: <Redacted>", "system: late"];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    // Without a question, there is nothing that the answer would belong to.
    test.try_redact(&[1]).unwrap();
    let dropped = [&[(1, "redacted")][..], &dropped[..], &[(7, "bookkeeping")]].concat();
    assert_restored(&test, complete(), &["system: late"], &dropped, &[]);
}

#[test]
fn an_open_turn_is_restored_and_marked_unanswered_once_others_follow() {
    let test = TestSession::new();
    test.start("a", "q1");
    assert_restored(&test, complete(), &["user: q1"], &[], &[]);
    test.append(
        "a",
        vec![text_item(Role::Assistant, "plan", "p1"), note("n1")],
    );
    test.record_turn("b", "q2", "a2");
    let lines = [
        "user: q1",
        "assistant: p1",
        "system: n1",
        "assistant: <Unanswered>",
        "user: q2",
        "assistant: a2",
    ];
    assert_restored(&test, complete(), &lines, &[], &[]);
    assert_restored(
        &test,
        pairs(),
        &["pair: q2 / a2"],
        &[(1, "turn_open"), (2, "turn_open"), (3, "turn_open")],
        &[],
    );
}

#[test]
fn text_of_an_unfinished_turn_is_restored_and_its_end_is_marked() {
    type EndCase = (&'static str, fn(&TestSession));
    let ends: [EndCase; 3] = [
        ("Failed", |test| test.try_fail("a", Some("so far")).unwrap()),
        ("Cancelled", |test| {
            test.try_cancel("a", Some("so far")).unwrap();
        }),
        ("Interrupted", |test| {
            test.append("a", vec![text_item(Role::Assistant, "partial", "so far")]);
            test.try_interrupt("a").unwrap();
        }),
    ];
    for (mark, end) in ends {
        let test = TestSession::new();
        test.start("a", "q");
        end(&test);
        let mark_line = format!("assistant: <{mark}>");
        let lines = ["user: q", "assistant: so far", &mark_line];
        assert_restored(&test, complete(), &lines, &[], &[]);
        let reason = format!("turn_{}", mark.to_lowercase());
        let dropped = [(1, reason.as_str()), (2, &reason), (3, &reason)];
        assert_restored(&test, pairs(), &[], &dropped, &[]);
    }
}

#[test]
fn a_turn_that_ended_without_text_is_restored_as_its_question_and_a_mark() {
    let test = TestSession::new();
    test.start("a", "q");
    test.try_fail("a", None).unwrap();
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: <Failed>"],
        &[],
        &[],
    );
}

#[test]
fn a_redacted_end_of_a_turn_is_still_marked() {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", vec![text_item(Role::Assistant, "error", "another")]);
    test.try_fail("a", None).unwrap();
    test.try_redact(&[3]).unwrap();
    let dropped = [(2, "error"), (3, "redacted"), (4, "bookkeeping")];
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: <Failed>"],
        &dropped,
        &[],
    );
}

#[test]
fn a_resumed_turn_continues() {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", vec![text_item(Role::Assistant, "partial", "so far")]);
    test.try_interrupt("a").unwrap();
    test.start("a", "q");
    let dropped = [(3, "bookkeeping"), (4, "bookkeeping")];
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: so far"],
        &dropped,
        &[],
    );
    test.finalize("a", "so far and done");
    let dropped = [(2, "superseded"), (3, "bookkeeping"), (4, "bookkeeping")];
    let lines = ["user: q", "assistant: so far and done"];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
}

#[test]
fn a_final_item_supersedes_earlier_partials_in_an_unfinalized_turn() {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", vec![text_item(Role::Assistant, "partial", "so")]);
    test.append("a", vec![text_item(Role::Assistant, "final", "so it is")]);
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: so it is"],
        &[(2, "superseded")],
        &[],
    );
    test.try_cancel("a", Some("more")).unwrap();
    let lines = [
        "user: q",
        "assistant: so it is",
        "assistant: more",
        "assistant: <Cancelled>",
    ];
    assert_restored(&test, complete(), &lines, &[(2, "superseded")], &[]);
}

#[test]
fn human_in_the_loop_questions_and_answers_are_restored() {
    let test = TestSession::new();
    test.start("a", "q");
    let request = text_item(Role::System, "hitl_request", "may I?");
    let response = text_item(Role::System, "hitl_response", "yes");
    test.append(
        "a",
        vec![items::call("c"), request, response, items::result("c")],
    );
    test.finalize("a", "done");
    let lines = [
        "user: q",
        "calls c f({\"of\":\"c\"}) = did c",
        "assistant: may I?",
        "user: yes",
        "assistant: done",
    ];
    assert_restored(&test, complete(), &lines, &[], &[]);
}

#[test]
fn channels_that_are_not_for_a_model_are_left_out() {
    let test = TestSession::new();
    test.start("a", "q");
    let channels = [
        "error",
        "summary",
        "interrupted",
        "cancelled",
        "link",
        "redaction",
        "x-own",
    ];
    for channel in channels {
        test.append("a", vec![text_item(Role::System, channel, "w")]);
    }
    test.finalize("a", "a");
    let dropped = [
        (2, "error"),
        (3, "summary_not_needed"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
        (6, "bookkeeping"),
        (7, "bookkeeping"),
        (8, "unknown_channel"),
    ];
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: a"],
        &dropped,
        &[],
    );
}

#[test]
fn roles_map_to_the_roles_of_a_model() {
    let test = TestSession::new();
    test.start("a", "q");
    for role in [Role::User, Role::Assistant, Role::Tool, Role::System] {
        test.append("a", vec![text_item(role, "observation", "o")]);
    }
    test.append("a", vec![text_item(Role::User, "system_note", "n")]);
    let lines = [
        "user: q",
        "user: o",
        "assistant: o",
        "user: o",
        "system: o",
        "system: n",
    ];
    assert_restored(&test, complete(), &lines, &[], &[]);
}

#[test]
fn a_finalized_turn_may_have_no_text_at_all() {
    let test = TestSession::new();
    test.start("a", "q");
    let image = json!([{"type": "image_url", "image_url": {"url": "https://h/a.png"}}]);
    test.append("a", vec![item(Role::Assistant, "final", image)]);
    test.try_finalize("a", None, None).unwrap();
    let lines = ["user: q", "assistant: image ? ? url https://h/a.png"];
    assert_restored(&test, complete(), &lines, &[(3, "bookkeeping")], &[]);
    let dropped = [(1, "no_text"), (2, "no_text"), (3, "no_text")];
    assert_restored(&test, pairs(), &[], &dropped, &[]);
}

#[test]
fn pairs_contain_unchanged_texts() {
    for other_part in [
        json!({"type": "code", "code": "x"}),
        json!({"type": "text", "text": ["x"]}),
    ] {
        let test = TestSession::new();
        let mut start = turn_start("a", "q");
        start.question_neutral = Some(
            filrouge_types::JsonText::from_raw(
                filrouge_types::RawJson::parse(r#""q\ud800""#).unwrap(),
            )
            .unwrap(),
        );
        test.try_start(start).unwrap();
        let parts = json!([{"type": "text", "text": "a"}, other_part]);
        test.append("a", vec![item(Role::Assistant, "final", parts)]);
        test.try_finalize("a", None, None).unwrap();
        let lines = [r"pair: q\ud800 / a"];
        let (dropped, adapted) = ([(3, "not_in_format")], [(2, "not_in_format")]);
        assert_restored(&test, pairs(), &lines, &dropped, &adapted);
    }
}
