//! Tests of calls, answers and reasoning (DESIGN §5), in sessions written through the engine.

use filrouge_types::{ItemBody, Role};
use serde_json::json;

use crate::sessions::case::*;
use crate::sessions::items::*;
use crate::test_session::TestSession;

/// An open turn with these items after its question.
fn open_turn(items: Vec<ItemBody>) -> TestSession {
    let test = TestSession::new();
    test.start("a", "q");
    test.append("a", items);
    test
}

/// The line of a group of answered calls.
fn calls_line(calls: &[&str]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|id| format!("{id} f({{\"of\":\"{id}\"}}) = did {id}"))
        .collect();
    format!("calls {}", calls.join(" | "))
}

/// Compares the lines after the question.
#[track_caller]
fn check_restored(items: Vec<ItemBody>, lines: &[&str], dropped: Reasons<'_>) {
    let mut all_lines = vec!["user: q"];
    all_lines.extend(lines);
    assert_restored(&open_turn(items), complete(), &all_lines, dropped, &[]);
}

fn text(text: &str) -> ItemBody {
    text_item(Role::Assistant, "plan", text)
}

#[test]
fn a_call_is_restored_with_its_answer() {
    check_restored(vec![call("1"), result("1")], &[&calls_line(&["1"])], &[]);
}

#[test]
fn parallel_calls_are_one_group_in_every_order_of_answers() {
    let items = vec![call("1"), call("2"), result("2"), result("1")];
    check_restored(items, &[&calls_line(&["1", "2"])], &[]);
}

#[test]
fn a_call_after_an_answer_begins_a_new_group() {
    let items = vec![
        call("1"),
        call("2"),
        result("1"),
        call("3"),
        result("2"),
        result("3"),
    ];
    check_restored(items, &[&calls_line(&["1", "2"]), &calls_line(&["3"])], &[]);
}

#[test]
fn a_result_without_its_call_is_dropped() {
    check_restored(
        vec![result("1"), text("t")],
        &["assistant: t"],
        &[(2, "orphan_result")],
    );
}

#[test]
fn a_result_before_its_call_is_dropped() {
    let dropped = [(2, "orphan_result"), (3, "unanswered_call")];
    check_restored(vec![result("1"), call("1")], &[], &dropped);
}

#[test]
fn a_result_answers_only_a_call_of_its_own_turn() {
    let test = TestSession::new();
    test.start("a", "q1");
    test.append("a", vec![call("1")]);
    test.start("b", "q2");
    test.append("b", vec![result("1")]);
    let lines = ["user: q1", "assistant: <Unanswered>", "user: q2"];
    let dropped = [(2, "unanswered_call"), (4, "orphan_result")];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
}

#[test]
fn only_the_first_call_and_the_first_answer_with_an_id_are_restored() {
    let repeated_call = call_with_args("1", json!({"again": 1}));
    let items = vec![
        call("1"),
        repeated_call,
        result("1"),
        result_with_content("1", json!("twice")),
    ];
    let dropped = [(3, "duplicate_call"), (5, "duplicate_result")];
    check_restored(items, &[&calls_line(&["1"])], &dropped);
}

#[test]
fn a_partly_answered_group_is_dropped_completely() {
    let dropped = [
        (2, "call_group_unanswered"),
        (3, "unanswered_call"),
        (4, "call_group_unanswered"),
    ];
    check_restored(
        vec![call("1"), call("2"), result("1"), text("t")],
        &["assistant: t"],
        &dropped,
    );
}

#[test]
fn only_the_unanswered_group_is_dropped() {
    let items = vec![
        call("1"),
        result("1"),
        call("2"),
        text("t"),
        call("3"),
        result("3"),
    ];
    let lines = [&*calls_line(&["1"]), "assistant: t", &*calls_line(&["3"])];
    check_restored(items, &lines, &[(4, "unanswered_call")]);
}

#[test]
fn missing_answers_become_errors_on_request() {
    let test = open_turn(vec![call("1"), call("2"), result("2")]);
    let lines = [
        "user: q",
        "calls 1 f({\"of\":\"1\"}) = failed No result of this call was recorded. | 2 f({\"of\":\"2\"}) = did 2",
    ];
    assert_restored(
        &test,
        with_error_results(),
        &lines,
        &[],
        &[(2, "error_result_added")],
    );
}

#[test]
fn a_redacted_answer_drops_its_group() {
    let test = open_turn(vec![call("1"), call("2"), result("1"), result("2")]);
    test.try_redact(&[4]).unwrap();
    let dropped = [
        (2, "unanswered_call"),
        (3, "call_group_unanswered"),
        (4, "redacted"),
        (5, "call_group_unanswered"),
        (6, "bookkeeping"),
    ];
    assert_restored(&test, complete(), &["user: q"], &dropped, &[]);
}

#[test]
fn a_redacted_call_drops_only_its_group() {
    let items = vec![
        call("0"),
        result("0"),
        thought("t"),
        call("1"),
        call("2"),
        result("1"),
        result("2"),
        call("3"),
        result("3"),
    ];
    let test = open_turn(items);
    test.try_redact(&[5]).unwrap();
    let dropped = [
        (4, "reasoning_of_dropped_call"),
        (5, "redacted"),
        (6, "call_group_redacted"),
        (7, "orphan_result"),
        (8, "call_group_redacted"),
        (11, "bookkeeping"),
    ];
    let lines = ["user: q", &calls_line(&["0"]), &calls_line(&["3"])];
    assert_restored(&test, complete(), &lines, &dropped, &[]);
    assert_restored(&test, with_error_results(), &lines, &dropped, &[]);
    test.try_redact(&[7]).unwrap();
    assert_eq!(
        crate::sessions::plan_lines::plan_lines(&test.plan(complete())),
        lines
    );
}

#[test]
fn reasoning_for_redacted_items_is_dropped() {
    let test = open_turn(vec![thought("t"), text("p"), thought("u")]);
    test.finalize("a", "done");
    test.try_redact(&[3]).unwrap();
    let dropped = [
        (2, "reasoning_of_redacted"),
        (3, "redacted"),
        (6, "bookkeeping"),
    ];
    assert_restored(
        &test,
        complete(),
        &["user: q", "(u anthropic) assistant: done"],
        &dropped,
        &[],
    );
}

#[test]
fn reasoning_precedes_its_content() {
    let items = vec![
        thought("t1"),
        call("1"),
        call("2"),
        result("1"),
        result("2"),
        thought("t2"),
        text("t"),
    ];
    let calls = format!("(t1 anthropic) {}", calls_line(&["1", "2"]));
    check_restored(items, &[&calls, "(t2 anthropic) assistant: t"], &[]);
}

#[test]
fn reasoning_between_calls_begins_a_new_step() {
    let items = vec![call("1"), thought("t"), call("2"), result("1"), result("2")];
    let second_group = format!("(t anthropic) {}", calls_line(&["2"]));
    check_restored(items, &[&calls_line(&["1"]), &second_group], &[]);
}

#[test]
fn reasoning_is_dropped_with_its_call() {
    let items = vec![thought("t"), call("1"), text("t")];
    let dropped = [(2, "reasoning_of_dropped_call"), (3, "unanswered_call")];
    check_restored(items, &["assistant: t"], &dropped);
}

#[test]
fn reasoning_of_a_repeated_call_is_dropped_unless_another_call_shares_it() {
    let items = vec![call("1"), result("1"), thought("t"), call("1"), text("t")];
    let dropped = [(4, "reasoning_of_dropped_call"), (5, "duplicate_call")];
    check_restored(items, &[&calls_line(&["1"]), "assistant: t"], &dropped);
    let items = vec![
        call("1"),
        result("1"),
        thought("t"),
        call("1"),
        call("2"),
        result("2"),
    ];
    let with_reasoning = format!("(t anthropic) {}", calls_line(&["2"]));
    check_restored(
        items,
        &[&calls_line(&["1"]), &with_reasoning],
        &[(5, "duplicate_call")],
    );
}

#[test]
fn reasoning_without_content_is_dropped() {
    check_restored(vec![thought("t")], &[], &[(2, "reasoning_alone")]);
    let items = vec![thought("t"), text_item(Role::User, "hitl_response", "stop")];
    check_restored(items, &["user: stop"], &[(2, "reasoning_alone")]);
    let user_reasoning = item(
        Role::User,
        "question",
        json!([{"type": "reasoning", "text": "t"}]),
    );
    check_restored(vec![user_reasoning], &[], &[(2, "reasoning_alone")]);
}

#[test]
fn reasoning_before_a_mark_is_dropped() {
    let test = open_turn(vec![thought("t")]);
    test.try_interrupt("a").unwrap();
    let lines = ["user: q", "assistant: <Interrupted>"];
    assert_restored(&test, complete(), &lines, &[(2, "reasoning_alone")], &[]);
}

#[test]
fn a_text_in_the_thought_channel_is_reasoning_without_a_seal() {
    let plain = text_item(Role::Assistant, "thought", "hm");
    check_restored(vec![plain, text("t")], &["(hm) assistant: t"], &[]);
}

#[test]
fn one_item_may_contain_a_complete_step() {
    let parts = json!([
        {"type": "reasoning", "text": "r", "provider": "anthropic", "signature": "c2ln"},
        {"type": "text", "text": "Let me see"},
        {"type": "tool_call", "call_id": "1", "name": "f", "args": {"of": "1"}},
        {"type": "tool_result", "call_id": "1", "ok": true, "content": "did 1"},
        {"type": "text", "text": "found"},
    ]);
    let lines = [
        "(r anthropic) assistant: Let me see",
        &calls_line(&["1"]),
        "assistant: found",
    ];
    check_restored(vec![item(Role::Assistant, "final", parts)], &lines, &[]);
}

#[test]
fn a_dropped_part_leaves_the_others() {
    let parts = json!([
        {"type": "text", "text": "t"},
        {"type": "tool_call", "call_id": "1", "name": "f"},
        {"type": "text", "text": " "},
    ]);
    let test = open_turn(vec![item(Role::Assistant, "plan", parts)]);
    assert_restored(
        &test,
        complete(),
        &["user: q", "assistant: t"],
        &[],
        &[(2, "empty")],
    );
}

#[test]
fn calls_and_answers_without_an_id_are_dropped() {
    let without_id = item(
        Role::Assistant,
        "tool_call",
        json!([{"type": "tool_call", "name": "f"}]),
    );
    let empty_id = item(
        Role::Tool,
        "tool_result",
        json!([{"type": "tool_result", "call_id": ""}]),
    );
    let text_only = text_item(Role::Tool, "tool_result", "words alone");
    let dropped = [
        (2, "malformed_call"),
        (3, "orphan_result"),
        (4, "orphan_result"),
    ];
    check_restored(vec![without_id, empty_id, text_only], &[], &dropped);
}
