//! Windows, summaries and pairs (DESIGN §5), restored from sessions written through the engine.

use filrouge_engine::restore::{RestoreQuery, Selection};
use filrouge_types::{ErrorCode, Role};
use serde_json::json;

use crate::journal::{TestSession, asking};
use crate::journals::case::*;
use crate::journals::items::*;

/// Turns `1` to `n`, each of two items and ten tokens.
fn turns(n: u64) -> TestSession {
    let j = TestSession::new();
    (1..=n).for_each(|i| j.ask(&format!("r{i}"), &format!("q{i}"), &format!("a{i}")));
    j
}

fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers
        .flat_map(|i| [format!("user: q{i}"), format!("assistant: a{i}")])
        .collect()
}

#[track_caller]
fn check_restored(j: &TestSession, query: RestoreQuery, lines: &[String], dropped: Reasons<'_>) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    restored(j, query, &lines, dropped, &[]);
}

#[test]
fn last_turns_are_the_newest() {
    let j = turns(4);
    for n in 1..=4_u64 {
        let query = last(usize::try_from(n).unwrap());
        check_restored(&j, query, &lines(5 - n..=4), &[]);
        let window = j.plan(query).dispositions.window;
        assert_eq!(window.first_seq, Some((4 - n) * 2 + 1));
        assert_eq!((window.last_seq, window.cut), (Some(8), n < 4));
    }
    check_restored(&j, last(usize::MAX), &lines(1..=4), &[]);
}

#[test]
fn replaced_and_redacted_turns_do_not_count() {
    let j = turns(4);
    j.try_redact_turn("r3").unwrap();
    let mut again = asking("r4'", "q4");
    again.answer_neutral = Some(filrouge_types::JsonText::from_plain("a4"));
    j.try_replace("r4", again).unwrap();
    let two: Vec<String> = lines(2..=2).into_iter().chain(lines(4..=4)).collect();
    let dropped = [
        (5, "redacted"),
        (6, "redacted"),
        (7, "turn_replaced"),
        (8, "turn_replaced"),
        (9, "bookkeeping"),
    ];
    check_restored(&j, last(2), &two, &dropped);
}

#[test]
fn a_window_leaves_out_later_items_of_older_turns() {
    let j = TestSession::new();
    j.start("old", "q0");
    j.start("new", "q1");
    j.append("old", vec![text_item(Role::Assistant, "plan", "late")]);
    j.finalize("new", "a1");
    check_restored(&j, last(1), &lines(1..=1), &[(3, "outside_window")]);
}

#[test]
fn max_tokens_admits_as_many_complete_turns_as_fit() {
    let j = turns(5);
    for tokens in 1..=60 {
        let n = (tokens / 10).min(5);
        check_restored(&j, most(tokens), &lines(6 - n..=5), &[]);
    }
    let window = j.plan(most(9)).dispositions.window;
    assert_eq!(
        (window.first_seq, window.last_seq, window.cut),
        (None, None, true)
    );
}

#[test]
fn the_mark_of_an_open_turn_is_counted() {
    let j = TestSession::new();
    j.start("a", "q0");
    j.ask("b", "q1", "a1");
    // 5 for the question, 13 for the mark.
    let whole = [
        "user: q0",
        "assistant: <Unanswered>",
        "user: q1",
        "assistant: a1",
    ];
    restored(&j, most(28), &whole, &[], &[]);
    check_restored(&j, most(27), &lines(1..=1), &[]);
}

#[test]
fn a_file_of_text_counts_by_its_bytes() {
    let j = turns(1);
    j.start("r2", "q2");
    let data = "AAAA".repeat(4000);
    let file = json!([{"type": "file", "mime": "text/markdown", "data": data}]);
    j.append("r2", vec![item(Role::User, "observation", file)]);
    // 5 for the question, 4 for the item, 12,000 bytes.
    assert_eq!(j.plan(all()).dispositions.window.tokens, 10 + 5 + 4 + 3000);
    assert_eq!(j.plan(most(3008)).turns.len(), 0);
    assert_eq!(j.plan(most(3009)).turns.len(), 1);
}

#[test]
fn a_window_respects_both_bounds() {
    let j = turns(5);
    let both = RestoreQuery {
        max_tokens: Some(20),
        ..last(4)
    };
    check_restored(&j, both, &lines(4..=5), &[]);
    let both = RestoreQuery {
        max_tokens: Some(40),
        ..last(1)
    };
    check_restored(&j, both, &lines(5..=5), &[]);
}

#[test]
fn an_empty_window_is_refused() {
    let j = turns(1);
    for query in [last(0), most(0)] {
        assert_eq!(j.try_plan(query).unwrap_err().code, ErrorCode::Invalid);
    }
}

/// Four turns, the third of which contains a summary.
fn summarized(covers: Option<serde_json::Value>) -> TestSession {
    let j = turns(2);
    j.start("r3", "q3");
    j.append("r3", vec![summary("so far", covers)]);
    j.finalize("r3", "a3");
    j.ask("r4", "q4", "a4");
    j
}

fn with_summary(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let mut all = vec!["user: summary so far".to_owned()];
    all.extend(lines(numbers));
    all
}

#[test]
fn a_summary_replaces_the_turns_that_a_window_cuts() {
    let words = [
        None,
        Some(json!([1, 4])),
        Some(json!({"first_seq": 1, "last_seq": 4})),
        Some(json!({"first_seq": 2})),
    ];
    for covers in words {
        let j = summarized(covers);
        check_restored(&j, last(2), &with_summary(3..=4), &[]);
        assert_eq!(j.plan(last(2)).dispositions.window.summary_seq, Some(6));
        check_restored(&j, last(3), &with_summary(2..=4), &[]);
        check_restored(&j, last(4), &lines(1..=4), &[(6, "summary_not_needed")]);
        check_restored(&j, last(1), &lines(4..=4), &[]);
    }
}

#[test]
fn a_summary_of_shown_turns_is_left_out() {
    let j = summarized(Some(json!([5, 5])));
    check_restored(&j, last(2), &lines(3..=4), &[(6, "summary_not_needed")]);
}

#[test]
fn a_summary_uses_the_room_of_the_turns_it_covers() {
    // The summary has 6 tokens.
    let j = summarized(None);
    check_restored(&j, most(36), &with_summary(2..=4), &[]);
    check_restored(&j, most(35), &with_summary(3..=4), &[]);
    check_restored(&j, most(26), &with_summary(3..=4), &[]);
    check_restored(&j, most(25), &lines(3..=4), &[(6, "summary_not_needed")]);
    // Turn 2 is not covered: it is shown rather than the summary.
    let j = summarized(Some(json!([1, 2])));
    check_restored(&j, most(35), &lines(2..=4), &[(6, "summary_not_needed")]);
    check_restored(&j, most(36), &with_summary(2..=4), &[]);
    check_restored(&j, most(29), &with_summary(3..=4), &[]);
}

#[test]
fn a_summary_is_restored_as_its_text() {
    let j = turns(2);
    j.start("r3", "q3");
    let parts = json!([{"type": "text", "text": "so far"}, {"type": "link", "url": "https://h"}]);
    j.append("r3", vec![item(Role::System, "summary", parts)]);
    j.finalize("r3", "a3");
    let lines = ["user: summary so far", "user: q3", "assistant: a3"];
    restored(&j, last(1), &lines, &[], &[(6, "not_in_format")]);
}

#[test]
fn the_newest_summary_counts_and_a_blank_or_redacted_one_does_not() {
    let j = turns(1);
    j.start("r2", "q2");
    j.append(
        "r2",
        vec![
            summary("older", None),
            summary("so far", None),
            summary(" ", None),
            summary("later", None),
        ],
    );
    j.finalize("r2", "a2");
    j.try_redact(&[7]).unwrap();
    let dropped = [
        (4, "summary_not_needed"),
        (6, "summary_not_needed"),
        (7, "redacted"),
        (9, "bookkeeping"),
    ];
    let mut dropped = dropped.to_vec();
    dropped.sort_unstable();
    check_restored(&j, last(1), &with_summary(2..=2), &dropped[..]);
}

#[test]
fn pairs_count_only_finalized_turns() {
    let j = turns(3);
    j.start("r4", "q4");
    j.try_fail("r4", None).unwrap();
    j.start("r5", "q5");
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..last(2)
    };
    let dropped = [(7, "turn_failed"), (8, "turn_failed"), (9, "turn_open")];
    let pairs = ["pair: q2 / a2", "pair: q3 / a3"];
    restored(&j, query, &pairs, &dropped, &[]);
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..most(20)
    };
    restored(
        &j,
        query,
        &pairs,
        &[(7, "turn_failed"), (8, "turn_failed"), (9, "turn_open")],
        &[],
    );
}

#[test]
fn pairs_have_no_summaries() {
    let j = summarized(None);
    let query = RestoreQuery {
        selection: Selection::Pairs,
        ..last(2)
    };
    restored(
        &j,
        query,
        &["pair: q3 / a3", "pair: q4 / a4"],
        &[(6, "not_in_format")],
        &[],
    );
}

#[test]
fn many_turns_are_read_from_the_end() {
    let j = turns(70);
    check_restored(&j, last(33), &lines(38..=70), &[]);
    check_restored(&j, most(500), &lines(21..=70), &[]);
    check_restored(&j, all(), &lines(1..=70), &[]);
}
