//! The findings that a diagnosis derives from a session.

use crate::caller::Caller;
use filrouge_store::draft::PieceKind;
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode, JsonText, Role};

use super::{Diagnosis, Level, TEXT_MAX, TURNS_MAX, findings, format_count, format_duration};
use crate::CancelTurn;

mod world;

use world::{DiagnosisWorld, call, delta, item, result, text_item};

fn codes(diagnosis: &Diagnosis) -> Vec<(Level, &'static str)> {
    let findings = diagnosis.findings.iter();
    findings
        .map(|finding| (finding.level, finding.code))
        .collect()
}

#[tokio::test]
async fn an_intact_session_has_no_findings() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    world.append(&turn, vec![call("c"), result("c")]).await;
    world.finalize(&turn).await;
    let diagnosis = world.diagnose().await;
    assert!(diagnosis.has_no_problem() && diagnosis.findings.is_empty());
    assert_eq!(diagnosis.verification.status, Verdict::Intact);
    assert_eq!(diagnosis.verification.items, 4);
    assert_eq!(diagnosis.turns.finalized, 1);
    let texts: Vec<_> = diagnosis.items.iter().map(|i| i.text.as_str()).collect();
    assert_eq!(texts, ["?", r#"look {"n":1.0}"#, "x", "!"]);
    assert!(diagnosis.unanswered.is_empty() && diagnosis.pending.is_empty());
}

#[tokio::test]
async fn a_failed_turn_is_reported_with_its_complete_error() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    world.fail(&turn, "model_down").await;
    world.wait(5);
    let diagnosis = world.diagnose().await;
    assert_eq!(codes(&diagnosis), [(Level::Problem, "turn_failed")]);
    let finding = &diagnosis.findings[0];
    let expected_text = format!("turn {} failed 5 s ago: model_down: it broke", turn.turn_id);
    assert_eq!(finding.what, expected_text);
    assert_eq!(
        (finding.turn_id, finding.seq),
        (Some(turn.turn_id), Some(3))
    );
    let error = &diagnosis.errors[0];
    assert_eq!(error.code.as_deref(), Some("model_down"));
    assert_eq!(error.source.as_deref(), Some("caller"));
    assert_eq!((error.seq, error.retryable), (3, Some(true)));
    assert!(error.part.as_str().contains(r#""message":"it broke""#));
    // Once newer turns exist, the failure is only a note.
    let next = world.start("r2").await;
    world.finalize(&next).await;
    let diagnosis = world.diagnose().await;
    assert_eq!(codes(&diagnosis), [(Level::Note, "turn_failed")]);
    assert!(diagnosis.has_no_problem());
}

#[tokio::test]
async fn unanswered_calls_are_reported_by_the_state_of_their_turn() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    // Of several calls with one id, the first counts. A result before its call does not count.
    world
        .append(&turn, vec![call("a"), result("a"), call("a")])
        .await;
    world
        .append(&turn, vec![result("b"), call("b"), call("c")])
        .await;
    world.wait(90);
    let open = world.diagnose().await;
    let unanswered: Vec<_> = open.unanswered.iter().collect();
    let ids: Vec<_> = unanswered
        .iter()
        .map(|c| (c.call_id.as_str(), c.seq))
        .collect();
    assert_eq!(ids, [("b", 6), ("c", 7)]);
    assert_eq!(
        unanswered[0].args.as_ref().unwrap().as_str(),
        r#"{"n": 1.0}"#
    );
    assert_eq!(unanswered[0].tool.as_deref(), Some("look"));
    assert_eq!(unanswered[0].age_ms, 90_000);
    assert_eq!(
        codes(&open),
        [(Level::Note, "turn_open"), (Level::Note, "unanswered_call")]
    );
    let expected_text = format!(
        "turn {} has unanswered calls b (look), c (look)",
        turn.turn_id
    );
    assert_eq!(open.findings[1].what, expected_text);
    world.finalize(&turn).await;
    let ended = world.diagnose().await;
    assert_eq!(codes(&ended), [(Level::Problem, "unanswered_call")]);
}

#[tokio::test]
async fn an_open_turn_shows_when_it_will_be_interrupted() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    world.wait(60);
    let diagnosis = world.diagnose().await;
    let pending = &diagnosis.pending[0];
    assert_eq!(pending.request_id.as_ref().unwrap().as_str(), "r");
    assert_eq!(
        (pending.silent_ms, pending.interrupted_in_ms),
        (60_000, Some(840_000))
    );
    assert!(
        diagnosis.findings[0]
            .what
            .ends_with("in 14 min unless something is written")
    );
    world.wait(900);
    let silent = world.diagnose().await;
    assert_eq!(codes(&silent), [(Level::Problem, "turn_silent")]);
    assert_eq!(silent.pending[0].interrupted_in_ms, Some(0));
    let question = [text_item(Channel::HitlRequest, "may I?")];
    world.append(&turn, question.to_vec()).await;
    world.wait(100_000);
    let waiting = world.diagnose().await;
    assert_eq!(codes(&waiting), [(Level::Note, "waits_for_human")]);
    assert!(waiting.pending[0].waits_for_human);
    assert_eq!(waiting.pending[0].interrupted_in_ms, None);
    world
        .append(&turn, vec![text_item(Channel::HitlResponse, "yes")])
        .await;
    world.wait(1000);
    assert_eq!(world.engine.upkeep.sweep().await.unwrap(), 1);
    let interrupted = world.diagnose().await;
    assert_eq!(codes(&interrupted), [(Level::Problem, "turn_interrupted")]);
    assert!(interrupted.findings[0].hint.contains("request_id \"r\""));
    let next = world.start("r2").await;
    world.finalize(&next).await;
    let later = world.diagnose().await;
    assert_eq!(codes(&later), [(Level::Note, "turn_interrupted")]);
}

#[tokio::test]
async fn a_draft_is_shown_with_its_recorder() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    world.draft(&turn, 0, Vec::new()).await;
    let pieces = vec![
        delta(0, PieceKind::Text, r"So \u00e9t", false),
        delta(1, PieceKind::ToolCall, r#"{\"a\":"#, false),
    ];
    world.draft(&turn, 1, pieces).await;
    world.wait(3);
    let mut diagnosis = world.diagnose().await;
    assert_eq!(
        codes(&diagnosis),
        [(Level::Note, "turn_recorded"), (Level::Note, "draft")]
    );
    let recorder = diagnosis.pending[0].recorder.as_ref().unwrap();
    assert_eq!((&*recorder.writer, recorder.beat_age_ms), ("w-1", 3_000));
    assert_eq!(recorder.stream, "st_0101010101010101");
    assert_eq!(diagnosis.pending[0].interrupted_in_ms, Some(27_000));
    let [recorded, drafted] = &diagnosis.findings[..] else {
        panic!("{:?}", diagnosis.findings);
    };
    let command = "`filrouge sessions tail s --drafts`";
    assert!(recorded.hint.contains(command), "{recorded:?}");
    assert!(
        drafted.what.ends_with("10 characters in 2 pieces"),
        "{drafted:?}"
    );
    let draft = &diagnosis.drafts[0];
    assert_eq!((draft.chars, draft.chunk, draft.pieces.len()), (10, 1, 2));
    let text = draft.pieces[0].text.as_ref().map(JsonText::to_plain);
    assert_eq!(text.as_deref(), Some("So ét"));
    let piece = &draft.pieces[1];
    assert_eq!(
        (piece.kind, piece.done, piece.text.is_none()),
        ("tool_call", false, true)
    );
    assert_eq!(piece.args.as_ref().unwrap().to_plain(), r#"{"a":"#);
    assert_eq!(piece.name.as_ref().unwrap().to_plain(), "look");

    diagnosis.pending[0].recorder.as_mut().unwrap().gone = true;
    let with_exited_recorder = findings::derive_findings(&diagnosis);
    assert_eq!(
        (with_exited_recorder[0].level, with_exited_recorder[0].code),
        (Level::Problem, "stream_abandoned")
    );
    assert!(
        with_exited_recorder[0]
            .what
            .contains("the recording process is gone, last seen 3 s ago")
    );
    world.wait(60);
    let expired = world.diagnose().await;
    assert_eq!(codes(&expired)[0], (Level::Problem, "stream_abandoned"));
    assert_eq!(world.engine.upkeep.sweep().await.unwrap(), 1);
    let swept = world.diagnose().await;
    assert!(swept.drafts.is_empty() && swept.pending[0].recorder.is_none());
    let texts: Vec<_> = swept.items.iter().map(|i| i.text.as_str()).collect();
    let expected = [
        "?",
        "So ét",
        r#"[tool_call_partial] look {"a":"#,
        "[turn_status] interrupted",
    ];
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn only_the_newest_turns_are_examined_and_all_are_counted() {
    let world = DiagnosisWorld::new();
    let first = world.start("call").await;
    world.append(&first, vec![call("old")]).await;
    world.finalize(&first).await;
    for n in 0..TURNS_MAX + 5 {
        let turn = world.start(&format!("r{n}")).await;
        match n % 3 {
            0 => world.fail(&turn, &format!("e{n}")).await,
            1 => world.finalize(&turn).await,
            _ => {
                let (session, id) = (turn.session_id.clone(), turn.turn_id);
                let cancelled = CancelTurn {
                    partial_text: None,
                    fence: None,
                    release: false,
                };
                let ended = world
                    .engine
                    .turns
                    .cancel(&world.caller, session, id, cancelled);
                ended.await.unwrap();
            }
        }
    }
    let diagnosis = world.diagnose().await;
    let turns = diagnosis.turns;
    assert_eq!((turns.failed, turns.finalized, turns.cancelled), (9, 9, 8));
    assert!(
        diagnosis.unanswered.is_empty(),
        "the call's turn is not among the newest"
    );
    assert_eq!((diagnosis.failed.len(), diagnosis.errors.len()), (9, 9));
    assert_eq!(
        diagnosis.failed[0].request_id.as_ref().unwrap().as_str(),
        "r0"
    );
    assert_eq!(diagnosis.items.len(), 5);
    let last = diagnosis.session.unwrap().last_seq;
    assert_eq!(diagnosis.items[4].seq, last);
    assert_eq!(
        codes(&world.diagnose().await)[0],
        (Level::Problem, "turn_failed")
    );
}

#[tokio::test]
async fn long_texts_are_truncated_and_malformed_parts_are_skipped() {
    let world = DiagnosisWorld::new();
    let turn = world.start("r").await;
    let long = "é".repeat(TEXT_MAX + 1);
    let malformed = r#"[{"type":"unknown","text":7},{"type":"tool_call","call_id":5},{"type":"image_url","url":"u"}]"#;
    let malformed = item(Role::Assistant, Channel::Observation, malformed);
    world
        .append(&turn, vec![text_item(Channel::Thought, &long), malformed])
        .await;
    let diagnosis = world.diagnose().await;
    assert_eq!(diagnosis.items[1].text.chars().count(), TEXT_MAX);
    assert!(diagnosis.items[1].cut && !diagnosis.items[2].cut);
    assert!(
        diagnosis.items[2].text.ends_with("[image_url] u"),
        "{:?}",
        diagnosis.items[2]
    );
    assert!(diagnosis.unanswered.is_empty());
}

#[tokio::test]
async fn absent_foreign_and_erased_sessions_are_refused() {
    let world = DiagnosisWorld::new();
    let id = "s".parse().unwrap();
    let failure = world
        .engine
        .context
        .diagnose(&world.caller, &id, 5)
        .await
        .unwrap_err();
    assert_eq!(failure.code, ErrorCode::SessionNotFound);
    world.start("r").await;
    let caller = Caller::operator("other".parse().unwrap());
    let foreign = world
        .engine
        .context
        .diagnose(&caller, &id, 5)
        .await
        .unwrap_err();
    assert_eq!(foreign.code, ErrorCode::SessionNotFound);
    assert_eq!(
        world
            .engine
            .context
            .diagnose(&world.caller, &id, 0)
            .await
            .unwrap()
            .items,
        []
    );
    world
        .engine
        .erasure
        .erase(&world.caller, id.clone())
        .await
        .unwrap();
    let erased = world
        .engine
        .context
        .diagnose(&world.caller, &id, 5)
        .await
        .unwrap_err();
    assert_eq!(erased.code, ErrorCode::SessionErased);
}

#[test]
fn a_count_of_one_is_singular() {
    let texts = [0, 1, 2].map(|n| format_count(n, "turn"));
    assert_eq!(texts, ["0 turns", "1 turn", "2 turns"]);
}

#[test]
fn durations_are_shown_in_their_largest_unit() {
    for (ms, text) in [
        (0, "0 ms"),
        (1_999, "1999 ms"),
        (2_000, "2 s"),
        (119_999, "119 s"),
        (7_200_000, "2 h"),
        (259_200_000, "3 d"),
    ] {
        assert_eq!(format_duration(ms), text);
    }
}
