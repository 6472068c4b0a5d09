//! `record`, which records a complete stream: how it ends, and how it notices that another caller has ended the turn.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use filrouge_engine::CancelTurn;
use filrouge_engine::caller::Permission;
use filrouge_engine::stream::StreamError;
use filrouge_store::command::{Command, Interrupt, Write};
use filrouge_transcode::{GiveUp, StreamFormat, record};
use filrouge_types::{ErrorCode, Failure, Timestamp, Turn, TurnStatus};
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::journal::{TestSession, asking};
use crate::record::{journal, what};

const SAYS: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"To the left"}}]}

"#;
const STOPS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Chunks of a response, and what follows them.
struct Body {
    chunks: VecDeque<Result<Vec<u8>, &'static str>>,
    /// Whether nothing follows, not even the end.
    hangs: bool,
}

impl Body {
    fn of(chunks: &[Result<&str, &'static str>]) -> Self {
        let chunk = |chunk: &Result<&str, _>| chunk.map(|text| text.as_bytes().to_vec());
        Self {
            chunks: chunks.iter().map(chunk).collect(),
            hangs: false,
        }
    }

    fn hanging(chunks: &[Result<&str, &'static str>]) -> Self {
        Self {
            hangs: true,
            ..Self::of(chunks)
        }
    }
}

impl Stream for Body {
    type Item = Result<Vec<u8>, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.chunks.pop_front() {
            None if self.hangs => Poll::Pending,
            chunk => Poll::Ready(chunk),
        }
    }
}

async fn recorded(
    j: &TestSession,
    body: Body,
    give_up: impl Future<Output = GiveUp>,
) -> Result<Turn, Failure> {
    let what = what(j, StreamFormat::OpenaiChat);
    let recorded = record(&j.engine, &j.caller, what, body, give_up).await;
    recorded.map(filrouge_engine::Written::into_value)
}

/// The channels of the items after the question, and the parts of the last item.
fn kept(j: &TestSession) -> (Vec<String>, Value) {
    let items = j.items();
    let kept = items.iter().skip(1);
    let channels = kept
        .map(|item| item.body.channel.as_str().to_owned())
        .collect();
    let last = items.last().unwrap();
    j.intact();
    (
        channels,
        serde_json::from_str(last.body.parts.as_str()).unwrap(),
    )
}

#[test]
fn a_stream_is_recorded_up_to_its_end_and_no_further() {
    for body in [
        Body::of(&[Ok(SAYS), Ok(STOPS)]),
        Body::hanging(&[Ok(SAYS), Ok(STOPS)]),
        Body::of(&[Ok(SAYS), Ok(STOPS), Err("reset")]),
    ] {
        let j = journal();
        let turn = j.runtime.block_on(recorded(&j, body, pending())).unwrap();
        assert_eq!(turn.status, TurnStatus::Finalized);
        let parts = json!([{"type": "text", "text": "To the left"}]);
        assert_eq!(kept(&j), (vec!["final".to_owned()], parts));
    }
}

/// The body is the provider's connection: an error of the body is an error of the stream.
#[test]
fn a_failing_body_is_a_truncated_stream_with_the_bodys_error() {
    let j = journal();
    let body = Body::hanging(&[Ok(SAYS), Err("connection \"reset\" by peer")]);
    let turn = j.runtime.block_on(recorded(&j, body, pending())).unwrap();
    assert_eq!(turn.status, TurnStatus::Failed);
    let (channels, parts) = kept(&j);
    assert_eq!(channels, ["partial", "error"]);
    let error = json!([{
        "type": "error", "code": "stream_truncated", "message": "the stream broke off before its end",
        "source": "stream", "retryable": true, "detail": "connection \"reset\" by peer",
    }]);
    assert_eq!(parts, error);
}

#[test]
fn a_stream_that_is_given_up_ends_as_requested() {
    let failed = || GiveUp::Failed(StreamError::of_stream("stream_idle", "nothing came"));
    for (why, status, last) in [
        (GiveUp::Cancelled, TurnStatus::Cancelled, "cancelled"),
        (GiveUp::Interrupted, TurnStatus::Interrupted, "interrupted"),
        (failed(), TurnStatus::Failed, "error"),
        (GiveUp::client_gone(), TurnStatus::Failed, "error"),
    ] {
        let j = journal();
        let give_up = async {
            sleep(Duration::from_secs(5)).await;
            why.clone()
        };
        let body = Body::hanging(&[Ok(SAYS)]);
        let turn = j.runtime.block_on(recorded(&j, body, give_up)).unwrap();
        assert_eq!(turn.status, status, "{why:?}");
        let (channels, _) = kept(&j);
        assert_eq!(channels.first().unwrap(), "partial", "{why:?}");
        assert_eq!(channels.last().unwrap(), last, "{why:?}");
    }
}

/// Records a stream that sends some text and then hangs, while the closure acts after a delay; returns how long the recording
/// continued after that.
fn while_it_hangs(j: &TestSession, done: impl AsyncFnOnce()) -> (Result<Turn, Failure>, Duration) {
    let elsewhere = async {
        sleep(Duration::from_millis(3_300)).await;
        done().await;
        Instant::now()
    };
    let body = Body::hanging(&[Ok(SAYS)]);
    let recording = async {
        let turn = recorded(j, body, pending()).await;
        (turn, Instant::now())
    };
    let both = async { tokio::join!(recording, elsewhere) };
    let ((turn, over), done) = j.runtime.block_on(both);
    (turn, over.saturating_duration_since(done))
}

#[test]
fn a_cancel_by_another_caller_is_noticed_without_new_bytes() {
    let j = journal();
    let (turn, later) = while_it_hangs(&j, async || {
        let (session, turn) = (j.session.clone(), j.turn("r"));
        let body = CancelTurn {
            partial_text: None,
            fence: None,
            release: false,
        };
        let cancelled = j.engine.turns.cancel(&j.caller, session, turn, body).await;
        cancelled.unwrap();
    });
    assert_eq!(turn.unwrap().status, TurnStatus::Cancelled);
    assert!(later <= Duration::from_secs(1), "{later:?}");
    assert_eq!(kept(&j).0, ["partial", "cancelled"]);
}

#[test]
fn erasing_the_session_ends_the_recording() {
    let j = journal();
    let (turn, later) = while_it_hangs(&j, async || {
        let erased = j.engine.erasure.erase(&j.caller, j.session.clone());
        erased.await.unwrap();
    });
    assert_eq!(turn.unwrap_err().code, ErrorCode::SessionErased);
    assert!(later <= Duration::from_secs(1), "{later:?}");
}

/// The turn is open again, but no longer belongs to this recording.
#[test]
fn a_restarted_turn_ends_the_recording() {
    let j = journal();
    let (turn, _) = while_it_hangs(&j, async || {
        let write = Write::Interrupt(Interrupt {
            session_id: j.session.clone(),
            turn_id: j.turn("r"),
            before: Timestamp::from_micros(i64::MAX),
            stream: None,
        });
        let caller = j.caller.clone();
        let ledger = j.engine.ledger();
        ledger
            .write(Command {
                scope: caller.scope(Permission::Write).unwrap(),
                write,
            })
            .await
            .unwrap();
        let (session, start) = (j.session.clone(), asking("r", "Which way?"));
        let started = j
            .engine
            .turns
            .start(&j.caller, session, start)
            .await
            .unwrap();
        assert_eq!(started.value.status, TurnStatus::Open);
    });
    assert_eq!(turn.unwrap_err().code, ErrorCode::StreamLost);
}

/// A chat stream with this many calls, in typical chunks.
fn many_calls(count: usize) -> String {
    let mut stream = String::new();
    for n in 0..count {
        stream += &format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"id\":\"c{n}\",\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
        );
    }
    stream
}

#[test]
fn a_turn_that_exceeds_its_limits_fails_and_keeps_its_items() {
    let j = journal();
    let stream = many_calls(10_050);
    let chunks = stream.as_bytes().chunks(4_096);
    let body = Body {
        chunks: chunks.map(|chunk| Ok(chunk.to_vec())).collect(),
        hangs: true,
    };
    let turn = j.runtime.block_on(recorded(&j, body, pending())).unwrap();
    assert_eq!(turn.status, TurnStatus::Failed);
    let (channels, parts) = kept(&j);
    assert!(channels.len() > 9_900, "{}", channels.len());
    assert_eq!(
        (&parts[0]["code"], &parts[0]["retryable"]),
        (&json!("limit_exceeded"), &json!(false))
    );
}
