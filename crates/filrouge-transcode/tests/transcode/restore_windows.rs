//! Tests of windows, summaries and pairs (DESIGN §5), in sessions written through the engine.

use filrouge_engine::restore::{RestoreQuery, Selection};
use filrouge_types::{ErrorCode, JsonText, Role};
use serde_json::json;

use crate::sessions::case::*;
use crate::sessions::items::*;
use crate::test_session::{TestSession, turn_start};

/// A session with the turns `1` to `count`, each of two items and ten tokens.
fn session_with_turns(count: u64) -> TestSession {
    let test = TestSession::new();
    (1..=count)
        .for_each(|i| test.record_turn(&format!("r{i}"), &format!("q{i}"), &format!("a{i}")));
    test
}

/// The lines of these turns.
fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers
        .flat_map(|i| [format!("user: q{i}"), format!("assistant: a{i}")])
        .collect()
}

#[track_caller]
fn check_restored(test: &TestSession, query: RestoreQuery, lines: &[String], dropped: Reasons<'_>) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_restored(test, query, &lines, dropped, &[]);
}

#[test]
fn last_turns_are_the_newest() {
    let test = session_with_turns(4);
    for n in 1..=4_u64 {
        let query = last_turns(usize::try_from(n).unwrap());
        check_restored(&test, query, &lines(5 - n..=4), &[]);
        let window = test.plan(query).dispositions.window;
        assert_eq!(window.first_seq, Some((4 - n) * 2 + 1));
        assert_eq!((window.last_seq, window.cut), (Some(8), n < 4));
    }
    check_restored(&test, last_turns(usize::MAX), &lines(1..=4), &[]);
}

#[test]
fn replaced_and_redacted_turns_do_not_count() {
    let test = session_with_turns(4);
    test.try_redact_turn("r3").unwrap();
    let mut replacement = turn_start("r4'", "q4");
    replacement.answer_neutral = Some(filrouge_types::JsonText::from_plain("a4"));
    test.try_replace("r4", replacement).unwrap();
    let expected: Vec<String> = lines(2..=2).into_iter().chain(lines(4..=4)).collect();
    let dropped = [
        (5, "redacted"),
        (6, "redacted"),
        (7, "turn_replaced"),
        (8, "turn_replaced"),
        (9, "bookkeeping"),
    ];
    check_restored(&test, last_turns(2), &expected, &dropped);
}

#[test]
fn a_window_leaves_out_later_items_of_older_turns() {
    let test = TestSession::new();
    test.start("old", "q0");
    test.start("new", "q1");
    test.append("old", vec![text_item(Role::Assistant, "plan", "late")]);
    test.finalize("new", "a1");
    check_restored(
        &test,
        last_turns(1),
        &lines(1..=1),
        &[(3, "outside_window")],
    );
}

#[test]
fn max_tokens_admits_as_many_complete_turns_as_fit() {
    let test = session_with_turns(5);
    for tokens in 1..=60 {
        let n = (tokens / 10).min(5);
        check_restored(&test, within_tokens(tokens), &lines(6 - n..=5), &[]);
    }
    let window = test.plan(within_tokens(9)).dispositions.window;
    assert_eq!(
        (window.first_seq, window.last_seq, window.cut),
        (None, None, true)
    );
}

#[test]
fn the_mark_of_an_open_turn_is_counted() {
    let test = TestSession::new();
    test.start("a", "q0");
    test.record_turn("b", "q1", "a1");
    // The question has 5 tokens, the mark 13.
    let all_lines = [
        "user: q0",
        "assistant: <Unanswered>",
        "user: q1",
        "assistant: a1",
    ];
    assert_restored(&test, within_tokens(28), &all_lines, &[], &[]);
    check_restored(&test, within_tokens(27), &lines(1..=1), &[]);
}

#[test]
fn a_file_of_text_counts_by_its_bytes() {
    let test = session_with_turns(1);
    test.start("r2", "q2");
    let data = "AAAA".repeat(4000);
    let file = json!([{"type": "file", "mime": "text/markdown", "data": data}]);
    test.append("r2", vec![item(Role::User, "observation", file)]);
    // The question has 5 tokens, the item 4, and the 12,000 bytes have 3,000.
    assert_eq!(
        test.plan(complete()).dispositions.window.tokens,
        10 + 5 + 4 + 3000
    );
    assert_eq!(test.plan(within_tokens(3008)).turns.len(), 0);
    assert_eq!(test.plan(within_tokens(3009)).turns.len(), 1);
}

#[test]
fn a_window_respects_both_bounds() {
    let test = session_with_turns(5);
    let both = RestoreQuery {
        max_tokens: Some(20),
        ..last_turns(4)
    };
    check_restored(&test, both, &lines(4..=5), &[]);
    let both = RestoreQuery {
        max_tokens: Some(40),
        ..last_turns(1)
    };
    check_restored(&test, both, &lines(5..=5), &[]);
}

#[test]
fn an_empty_window_is_refused() {
    let test = session_with_turns(1);
    for query in [last_turns(0), within_tokens(0)] {
        assert_eq!(test.try_plan(query).unwrap_err().code, ErrorCode::Invalid);
    }
}

/// Four turns, the third of which contains a summary.
fn summarized(covers: Option<serde_json::Value>) -> TestSession {
    let test = session_with_turns(2);
    test.start("r3", "q3");
    test.append("r3", vec![summary("so far", covers)]);
    test.finalize("r3", "a3");
    test.record_turn("r4", "q4", "a4");
    test
}

/// The line of the summary and the lines of these turns.
fn with_summary(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let mut all_lines = vec!["user: summary so far".to_owned()];
    all_lines.extend(lines(numbers));
    all_lines
}

#[test]
fn a_summary_replaces_the_turns_that_a_window_cuts() {
    let cases = [
        None,
        Some(json!([1, 4])),
        Some(json!({"first_seq": 1, "last_seq": 4})),
        Some(json!({"first_seq": 2})),
    ];
    for covers in cases {
        let test = summarized(covers);
        check_restored(&test, last_turns(2), &with_summary(3..=4), &[]);
        assert_eq!(
            test.plan(last_turns(2)).dispositions.window.summary_seq,
            Some(6)
        );
        check_restored(&test, last_turns(3), &with_summary(2..=4), &[]);
        check_restored(
            &test,
            last_turns(4),
            &lines(1..=4),
            &[(6, "summary_not_needed")],
        );
        check_restored(&test, last_turns(1), &with_summary(4..=4), &[]);
        let window = test.plan(last_turns(1)).dispositions.window;
        assert_eq!((window.first_seq, window.summary_seq), (Some(8), Some(6)));
    }
}

#[test]
fn a_summary_of_shown_turns_is_left_out() {
    let test = summarized(Some(json!([5, 5])));
    check_restored(
        &test,
        last_turns(2),
        &lines(3..=4),
        &[(6, "summary_not_needed")],
    );
}

#[test]
fn turns_that_a_summary_covers_give_way_to_it() {
    // The summary has 6 tokens.
    let test = summarized(None);
    check_restored(&test, within_tokens(36), &with_summary(2..=4), &[]);
    check_restored(&test, within_tokens(35), &with_summary(3..=4), &[]);
    check_restored(&test, within_tokens(26), &with_summary(3..=4), &[]);
    check_restored(
        &test,
        within_tokens(25),
        &lines(3..=4),
        &[(6, "summary_not_needed")],
    );
    // The summary does not cover turn 2, so the window shows turn 2 and not the summary.
    let test = summarized(Some(json!([1, 2])));
    check_restored(
        &test,
        within_tokens(35),
        &lines(2..=4),
        &[(6, "summary_not_needed")],
    );
    check_restored(&test, within_tokens(36), &with_summary(2..=4), &[]);
    check_restored(&test, within_tokens(29), &with_summary(3..=4), &[]);
}

#[test]
fn a_summary_is_restored_as_its_text() {
    let test = session_with_turns(2);
    test.start("r3", "q3");
    let parts = json!([{"type": "text", "text": "so far"}, {"type": "link", "url": "https://h"}]);
    test.append("r3", vec![item(Role::System, "summary", parts)]);
    test.finalize("r3", "a3");
    let lines = ["user: summary so far", "user: q3", "assistant: a3"];
    assert_restored(&test, last_turns(1), &lines, &[], &[(6, "not_in_format")]);
}

#[test]
fn the_newest_summary_that_is_neither_blank_nor_redacted_is_used() {
    let test = session_with_turns(1);
    test.start("r2", "q2");
    test.append(
        "r2",
        vec![
            summary("older", None),
            summary("so far", None),
            summary(" ", None),
            summary("later", None),
        ],
    );
    test.finalize("r2", "a2");
    test.try_redact(&[7]).unwrap();
    let dropped = [
        (4, "summary_not_needed"),
        (6, "summary_not_needed"),
        (7, "redacted"),
        (9, "bookkeeping"),
    ];
    let mut dropped = dropped.to_vec();
    dropped.sort_unstable();
    check_restored(&test, last_turns(1), &with_summary(2..=2), &dropped[..]);
}

#[test]
fn pairs_count_only_finalized_turns() {
    let test = session_with_turns(3);
    test.start("r4", "q4");
    test.try_fail("r4", None).unwrap();
    test.start("r5", "q5");
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..last_turns(2)
    };
    let dropped = [(7, "turn_failed"), (8, "turn_failed"), (9, "turn_open")];
    let pairs = ["pair: q2 / a2", "pair: q3 / a3"];
    assert_restored(&test, query, &pairs, &dropped, &[]);
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..within_tokens(20)
    };
    assert_restored(
        &test,
        query,
        &pairs,
        &[(7, "turn_failed"), (8, "turn_failed"), (9, "turn_open")],
        &[],
    );
}

#[test]
fn pairs_begin_with_the_summary() {
    let test = summarized(None);
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..last_turns(1)
    };
    let expected = ["user: summary so far", "pair: q4 / a4"];
    assert_restored(&test, query, &expected, &[], &[]);
    let messages = test
        .context(filrouge_transcode::Format::Pairs, query)
        .messages;
    assert!(
        messages
            .as_str()
            .starts_with(r#"[{"summary":"so far"},{"turn_id":"#)
    );
}

#[test]
fn a_summary_is_found_however_old_it_is() {
    let test = summarized(None);
    (5..=60).for_each(|i| test.record_turn(&format!("r{i}"), &format!("q{i}"), &format!("a{i}")));
    check_restored(&test, last_turns(2), &with_summary(59..=60), &[]);
    check_restored(&test, within_tokens(26), &with_summary(59..=60), &[]);
    // A newer summary that was redacted is passed over.
    test.start("last", "q61");
    test.append("last", vec![summary("later", None)]);
    test.finalize("last", "a61");
    let seq = test
        .items()
        .iter()
        .rfind(|i| i.body.channel.as_str() == "summary")
        .unwrap()
        .seq;
    test.try_redact(&[seq]).unwrap();
    let dropped = [(seq, "redacted"), (seq + 2, "bookkeeping")];
    check_restored(&test, last_turns(1), &with_summary(61..=61), &dropped);
}

#[test]
fn summaries_of_replaced_turns_are_passed_over() {
    let test = session_with_turns(1);
    test.start("r2", "q2");
    test.append("r2", vec![summary("so far", None)]);
    test.finalize("r2", "a2");
    let mut replacement = turn_start("r2'", "q2");
    replacement.answer_neutral = Some(JsonText::from_plain("a2"));
    test.try_replace("r2", replacement).unwrap();
    test.record_turn("r3", "q3", "a3");
    check_restored(&test, last_turns(1), &lines(3..=3), &[]);
}

#[test]
fn many_turns_are_read_from_the_end() {
    let test = session_with_turns(70);
    check_restored(&test, last_turns(33), &lines(38..=70), &[]);
    check_restored(&test, within_tokens(500), &lines(21..=70), &[]);
    check_restored(&test, complete(), &lines(1..=70), &[]);
}
