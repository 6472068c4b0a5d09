//! The selection and order of restored turns and items (DESIGN §5), from sessions written through the engine.

use filrouge_types::Role;
use serde_json::json;

use crate::journal::{TestSession, asking};
use crate::journals::case::*;
use crate::journals::items;
use crate::journals::items::{item, note, text_item};

fn answered(request: &str, question: &str, answer: &str) -> filrouge_engine::StartTurn {
    filrouge_engine::StartTurn {
        answer_neutral: Some(filrouge_types::JsonText::from_plain(answer)),
        ..asking(request, question)
    }
}

#[test]
fn an_empty_session_has_no_context() {
    let j = TestSession::new();
    let created = filrouge_engine::CreateSession {
        session_id: Some(j.session.clone()),
        ..Default::default()
    };
    let made = j.engine.sessions.create(&j.caller, created);
    j.runtime.block_on(made).unwrap();
    restored(&j, all(), &[], &[], &[]);
    restored(&j, pairs(), &[], &[], &[]);
}

#[test]
fn turns_are_ordered_by_ordinal_and_items_by_seq() {
    let j = TestSession::new();
    j.start("a", "q1");
    j.start("b", "q2");
    j.append("b", vec![text_item(Role::Assistant, "plan", "p2")]);
    j.append("a", vec![text_item(Role::Assistant, "plan", "p1")]);
    j.finalize("b", "a2");
    j.finalize("a", "a1");
    let lines = [
        "user: q1",
        "assistant: p1",
        "assistant: a1",
        "user: q2",
        "assistant: p2",
        "assistant: a2",
    ];
    restored(&j, all(), &lines, &[], &[]);
}

#[test]
fn a_replaced_turn_is_left_out_and_its_successor_takes_its_place() {
    let j = TestSession::new();
    j.ask("a", "q1", "a1");
    j.ask("b", "q2", "a2");
    j.try_replace("a", answered("c", "q1'", "a1'")).unwrap();
    let lines = ["user: q1'", "assistant: a1'", "user: q2", "assistant: a2"];
    let dropped = [(1, "turn_replaced"), (2, "turn_replaced")];
    restored(&j, all(), &lines, &dropped, &[]);
    let lines = ["pair: q1' / a1'", "pair: q2 / a2"];
    restored(&j, pairs(), &lines, &dropped, &[]);
}

#[test]
fn a_redacted_turn_is_left_out_with_all_its_versions() {
    let j = TestSession::new();
    j.ask("a", "q1", "a1");
    j.try_replace("a", answered("c", "q1'", "a1'")).unwrap();
    j.ask("b", "q2", "a2");
    j.try_redact_turn("a").unwrap();
    let gone = |seq| (seq, "redacted");
    let dropped = [gone(1), gone(2), gone(3), gone(4), (7, "bookkeeping")];
    restored(&j, all(), &["user: q2", "assistant: a2"], &dropped, &[]);
    restored(&j, pairs(), &["pair: q2 / a2"], &dropped, &[]);
}

#[test]
fn redacted_items_are_left_out_one_by_one() {
    let j = TestSession::new();
    j.start("a", "q1");
    j.append("a", vec![text_item(Role::Assistant, "plan", "p1")]);
    j.finalize("a", "a1");
    j.try_redact(&[2]).unwrap();
    let dropped = [(2, "redacted"), (4, "bookkeeping")];
    restored(&j, all(), &["user: q1", "assistant: a1"], &dropped, &[]);
    j.try_redact(&[3]).unwrap();
    let dropped = [
        (2, "redacted"),
        (3, "redacted"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
    ];
    restored(&j, all(), &["user: q1"], &dropped, &[]);
    let dropped = [
        (1, "no_text"),
        (2, "redacted"),
        (3, "redacted"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
    ];
    restored(&j, pairs(), &[], &dropped, &[]);
}

#[test]
fn a_redacted_text_is_not_replaced_by_its_translation() {
    let j = TestSession::new();
    j.start("a", "q");
    j.try_finalize("a", Some("a"), Some("à")).unwrap();
    j.try_redact(&[2]).unwrap();
    let dropped = [(2, "redacted"), (3, "other_variant"), (4, "bookkeeping")];
    restored(&j, all(), &["user: q"], &dropped, &[]);
}

#[test]
fn an_open_turn_is_restored_and_marked_unanswered_once_others_follow() {
    let j = TestSession::new();
    j.start("a", "q1");
    restored(&j, all(), &["user: q1"], &[], &[]);
    j.append(
        "a",
        vec![text_item(Role::Assistant, "plan", "p1"), note("n1")],
    );
    j.ask("b", "q2", "a2");
    let lines = [
        "user: q1",
        "assistant: p1",
        "system: n1",
        "assistant: <Unanswered>",
        "user: q2",
        "assistant: a2",
    ];
    restored(&j, all(), &lines, &[], &[]);
    restored(
        &j,
        pairs(),
        &["pair: q2 / a2"],
        &[(1, "turn_open"), (2, "turn_open"), (3, "turn_open")],
        &[],
    );
}

#[test]
fn text_before_an_interruption_is_restored_and_the_end_is_marked() {
    type End = (&'static str, fn(&TestSession));
    let ends: [End; 3] = [
        ("Failed", |j| j.try_fail("a", Some("so far")).unwrap()),
        ("Cancelled", |j| j.try_cancel("a", Some("so far")).unwrap()),
        ("Interrupted", |j| {
            j.append("a", vec![text_item(Role::Assistant, "partial", "so far")]);
            j.try_interrupt("a").unwrap();
        }),
    ];
    for (mark, end) in ends {
        let j = TestSession::new();
        j.start("a", "q");
        end(&j);
        let ended = format!("assistant: <{mark}>");
        let lines = ["user: q", "assistant: so far", &ended];
        restored(&j, all(), &lines, &[], &[]);
        let reason = format!("turn_{}", mark.to_lowercase());
        let dropped = [(1, reason.as_str()), (2, &reason), (3, &reason)];
        restored(&j, pairs(), &[], &dropped, &[]);
    }
}

#[test]
fn a_turn_that_ended_without_text_is_restored_as_its_question_and_a_mark() {
    let j = TestSession::new();
    j.start("a", "q");
    j.try_fail("a", None).unwrap();
    restored(&j, all(), &["user: q", "assistant: <Failed>"], &[], &[]);
    let j = TestSession::new();
    j.start("a", " ");
    j.append("a", vec![note("n")]);
    j.try_cancel("a", None).unwrap();
    let dropped = [(1, "empty"), (3, "nothing_to_end")];
    restored(&j, all(), &["system: n"], &dropped, &[]);
}

#[test]
fn a_redacted_end_is_still_an_end() {
    let j = TestSession::new();
    j.start("a", "q");
    j.append("a", vec![text_item(Role::Assistant, "error", "another")]);
    j.try_fail("a", None).unwrap();
    j.try_redact(&[3]).unwrap();
    let dropped = [(2, "error"), (3, "redacted"), (4, "bookkeeping")];
    restored(
        &j,
        all(),
        &["user: q", "assistant: <Failed>"],
        &dropped,
        &[],
    );
}

#[test]
fn a_resumed_turn_continues() {
    let j = TestSession::new();
    j.start("a", "q");
    j.append("a", vec![text_item(Role::Assistant, "partial", "so far")]);
    j.try_interrupt("a").unwrap();
    j.start("a", "q");
    let dropped = [(3, "bookkeeping"), (4, "bookkeeping")];
    restored(&j, all(), &["user: q", "assistant: so far"], &dropped, &[]);
    j.finalize("a", "so far and done");
    let dropped = [(2, "superseded"), (3, "bookkeeping"), (4, "bookkeeping")];
    let lines = ["user: q", "assistant: so far and done"];
    restored(&j, all(), &lines, &dropped, &[]);
}

#[test]
fn a_final_item_supersedes_earlier_partials_in_an_unfinalized_turn() {
    let j = TestSession::new();
    j.start("a", "q");
    j.append("a", vec![text_item(Role::Assistant, "partial", "so")]);
    j.append("a", vec![text_item(Role::Assistant, "final", "so it is")]);
    restored(
        &j,
        all(),
        &["user: q", "assistant: so it is"],
        &[(2, "superseded")],
        &[],
    );
    j.try_cancel("a", Some("more")).unwrap();
    let lines = [
        "user: q",
        "assistant: so it is",
        "assistant: more",
        "assistant: <Cancelled>",
    ];
    restored(&j, all(), &lines, &[(2, "superseded")], &[]);
}

#[test]
fn the_other_language_replaces_a_missing_one() {
    let j = TestSession::new();
    j.try_start(filrouge_engine::StartTurn {
        question_translated: Some(filrouge_types::JsonText::from_plain("ktoś")),
        ..asking("a", "who")
    })
    .unwrap();
    j.append("a", vec![text_item(Role::Assistant, "plan", "look")]);
    j.try_finalize("a", Some("me"), Some("ja")).unwrap();
    let lines = ["user: who", "assistant: look", "assistant: me"];
    let dropped = [(2, "other_variant"), (5, "other_variant")];
    restored(&j, all(), &lines, &dropped, &[]);
    let lines = ["user: ktoś", "assistant: look", "assistant: ja"];
    let dropped = [(1, "other_variant"), (4, "other_variant")];
    restored(&j, translated(), &lines, &dropped, &[]);
    let mut asked = pairs();
    let dropped = [
        (2, "not_in_format"),
        (3, "not_in_format"),
        (5, "not_in_format"),
    ];
    restored(&j, asked, &["pair: who / me"], &dropped, &[]);
    asked.variant = filrouge_types::Variant::Translated;
    let dropped = [
        (1, "not_in_format"),
        (3, "not_in_format"),
        (4, "not_in_format"),
    ];
    restored(&j, asked, &["pair: ktoś / ja"], &dropped, &[]);
}

#[test]
fn calls_in_two_languages_are_distinguished_by_their_ids() {
    let j = TestSession::new();
    j.start("a", "q");
    j.append("a", vec![items::call("c1"), items::call("c2")]);
    let french = |id, text: &str| items::translated(items::result_of(id, json!(text)));
    j.append(
        "a",
        vec![
            items::result("c1"),
            french("c1", "fait"),
            french("c2", "aussi"),
        ],
    );
    let both = "calls c1 f({\"of\":\"c1\"}) = did c1 | c2 f({\"of\":\"c2\"}) = aussi";
    restored(&j, all(), &["user: q", both], &[(5, "other_variant")], &[]);
    let both = "calls c1 f({\"of\":\"c1\"}) = fait | c2 f({\"of\":\"c2\"}) = aussi";
    restored(
        &j,
        translated(),
        &["user: q", both],
        &[(4, "other_variant")],
        &[],
    );
}

#[test]
fn human_in_the_loop_questions_and_answers_are_restored() {
    let j = TestSession::new();
    j.start("a", "q");
    let ask = text_item(Role::System, "hitl_request", "may I?");
    let yes = text_item(Role::System, "hitl_response", "yes");
    j.append("a", vec![items::call("c"), ask, yes, items::result("c")]);
    j.finalize("a", "done");
    let lines = [
        "user: q",
        "calls c f({\"of\":\"c\"}) = did c",
        "assistant: may I?",
        "user: yes",
        "assistant: done",
    ];
    restored(&j, all(), &lines, &[], &[]);
}

#[test]
fn channels_that_are_not_for_a_model_are_left_out() {
    let j = TestSession::new();
    j.start("a", "q");
    let words = [
        "error",
        "summary",
        "interrupted",
        "cancelled",
        "link",
        "redaction",
        "x-own",
    ];
    for word in words {
        j.append("a", vec![text_item(Role::System, word, "w")]);
    }
    j.finalize("a", "a");
    let dropped = [
        (2, "error"),
        (3, "summary_not_needed"),
        (4, "bookkeeping"),
        (5, "bookkeeping"),
        (6, "bookkeeping"),
        (7, "bookkeeping"),
        (8, "unknown_channel"),
    ];
    restored(&j, all(), &["user: q", "assistant: a"], &dropped, &[]);
}

#[test]
fn roles_map_to_those_of_a_model() {
    let j = TestSession::new();
    j.start("a", "q");
    for role in [Role::User, Role::Assistant, Role::Tool, Role::System] {
        j.append("a", vec![text_item(role, "observation", "o")]);
    }
    j.append("a", vec![text_item(Role::User, "system_note", "n")]);
    let lines = [
        "user: q",
        "user: o",
        "assistant: o",
        "user: o",
        "system: o",
        "system: n",
    ];
    restored(&j, all(), &lines, &[], &[]);
}

#[test]
fn a_finalized_turn_may_have_no_text_at_all() {
    let j = TestSession::new();
    j.start("a", "q");
    let image = json!([{"type": "image_url", "image_url": {"url": "https://h/a.png"}}]);
    j.append("a", vec![item(Role::Assistant, "final", image)]);
    j.try_finalize("a", None, None).unwrap();
    let lines = ["user: q", "assistant: image ? ? url https://h/a.png"];
    restored(&j, all(), &lines, &[(3, "bookkeeping")], &[]);
    let dropped = [(1, "no_text"), (2, "no_text"), (3, "no_text")];
    restored(&j, pairs(), &[], &dropped, &[]);
}

#[test]
fn pairs_contain_texts_as_recorded() {
    for rest in [
        json!({"type": "code", "code": "x"}),
        json!({"type": "text", "text": ["x"]}),
    ] {
        let j = TestSession::new();
        let mut start = asking("a", "q");
        start.question_neutral = Some(
            filrouge_types::JsonText::from_raw(
                filrouge_types::RawJson::parse(r#""q\ud800""#).unwrap(),
            )
            .unwrap(),
        );
        j.try_start(start).unwrap();
        let parts = json!([{"type": "text", "text": "a"}, rest]);
        j.append("a", vec![item(Role::Assistant, "final", parts)]);
        j.try_finalize("a", None, None).unwrap();
        let lines = [r"pair: q\ud800 / a"];
        let (dropped, adapted) = ([(3, "not_in_format")], [(2, "not_in_format")]);
        restored(&j, pairs(), &lines, &dropped, &adapted);
    }
}

#[test]
fn only_items_with_a_counterpart_in_the_other_language_are_left_out() {
    let j = TestSession::new();
    j.start("r", "q");
    j.append(
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
    restored(&j, translated(), &lines, &[(3, "other_variant")], &[]);
}
