//! Tests of `record`, which records a complete stream: its ends, and its reaction when another caller ends the turn.

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

use crate::record::{open_turn, recording_of};
use crate::test_session::{TestSession, turn_start};

/// An event with text.
const TEXT: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"To the left"}}]}

"#;
/// The last events of a stream.
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The body of a response: chunks, then its end or silence.
struct Body {
    chunks: VecDeque<Result<Vec<u8>, &'static str>>,
    /// Whether the body stays open after the chunks.
    never_ends: bool,
}

impl Body {
    fn complete(chunks: &[Result<&str, &'static str>]) -> Self {
        let chunk = |chunk: &Result<&str, _>| chunk.map(|text| text.as_bytes().to_vec());
        Self {
            chunks: chunks.iter().map(chunk).collect(),
            never_ends: false,
        }
    }

    fn endless(chunks: &[Result<&str, &'static str>]) -> Self {
        Self {
            never_ends: true,
            ..Self::complete(chunks)
        }
    }
}

impl Stream for Body {
    type Item = Result<Vec<u8>, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.chunks.pop_front() {
            None if self.never_ends => Poll::Pending,
            chunk => Poll::Ready(chunk),
        }
    }
}

/// Records a body into the turn `r`.
async fn record_body(
    test: &TestSession,
    body: Body,
    give_up: impl Future<Output = GiveUp>,
) -> Result<Turn, Failure> {
    let recording = recording_of(test, StreamFormat::OpenaiChat);
    let recorded = record(&test.engine, &test.caller, recording, body, give_up).await;
    recorded.map(filrouge_engine::Written::into_value)
}

/// The channels of the items after the question, and the parts of the last item.
fn recorded_items(test: &TestSession) -> (Vec<String>, Value) {
    let items = test.items();
    let channels = items
        .iter()
        .skip(1)
        .map(|item| item.body.channel.as_str().to_owned())
        .collect();
    let last = items.last().unwrap();
    test.assert_intact();
    (
        channels,
        serde_json::from_str(last.body.parts.as_str()).unwrap(),
    )
}

#[test]
fn bytes_after_the_end_of_a_stream_are_ignored() {
    for body in [
        Body::complete(&[Ok(TEXT), Ok(STOP)]),
        Body::endless(&[Ok(TEXT), Ok(STOP)]),
        Body::complete(&[Ok(TEXT), Ok(STOP), Err("reset")]),
    ] {
        let test = open_turn();
        let turn = test
            .runtime
            .block_on(record_body(&test, body, pending()))
            .unwrap();
        assert_eq!(turn.status, TurnStatus::Finalized);
        let parts = json!([{"type": "text", "text": "To the left"}]);
        assert_eq!(recorded_items(&test), (vec!["final".to_owned()], parts));
    }
}

/// The body is the connection to the provider, so an error of the body is an error of the stream.
#[test]
fn a_failing_body_is_a_truncated_stream_with_the_bodys_error() {
    let test = open_turn();
    let body = Body::endless(&[Ok(TEXT), Err("connection \"reset\" by peer")]);
    let turn = test
        .runtime
        .block_on(record_body(&test, body, pending()))
        .unwrap();
    assert_eq!(turn.status, TurnStatus::Failed);
    let (channels, parts) = recorded_items(&test);
    assert_eq!(channels, ["partial", "error"]);
    let error = json!([{
        "type": "error", "code": "stream_truncated", "message": "the stream broke off before its end",
        "source": "stream", "retryable": true, "detail": "connection \"reset\" by peer",
    }]);
    assert_eq!(parts, error);
}

#[test]
fn a_stream_that_is_given_up_ends_as_requested() {
    let idle = || GiveUp::Failed(StreamError::new("stream_idle", "nothing came"));
    for (reason, status, last) in [
        (GiveUp::Cancelled, TurnStatus::Cancelled, "cancelled"),
        (GiveUp::Interrupted, TurnStatus::Interrupted, "interrupted"),
        (idle(), TurnStatus::Failed, "error"),
        (GiveUp::client_gone(), TurnStatus::Interrupted, "error"),
    ] {
        let test = open_turn();
        let give_up = async {
            sleep(Duration::from_secs(5)).await;
            reason.clone()
        };
        let body = Body::endless(&[Ok(TEXT)]);
        let turn = test
            .runtime
            .block_on(record_body(&test, body, give_up))
            .unwrap();
        assert_eq!(turn.status, status, "{reason:?}");
        let (channels, _) = recorded_items(&test);
        assert_eq!(channels.first().unwrap(), "partial", "{reason:?}");
        assert_eq!(channels.last().unwrap(), last, "{reason:?}");
    }
}

/// Records a stream that sends some text and then stays silent. After a delay, `act` runs at the same time. Returns the
/// result, and the time from the end of `act` to the end of the recording.
fn record_endless(
    test: &TestSession,
    act: impl AsyncFnOnce(),
) -> (Result<Turn, Failure>, Duration) {
    let action = async {
        sleep(Duration::from_millis(3_300)).await;
        act().await;
        Instant::now()
    };
    let body = Body::endless(&[Ok(TEXT)]);
    let recording = async {
        let turn = record_body(test, body, pending()).await;
        (turn, Instant::now())
    };
    let both = async { tokio::join!(recording, action) };
    let ((turn, recording_end), action_end) = test.runtime.block_on(both);
    (turn, recording_end.saturating_duration_since(action_end))
}

#[test]
fn a_cancel_by_another_caller_is_noticed_without_new_bytes() {
    let test = open_turn();
    let (turn, delay) = record_endless(&test, async || {
        let (session, turn) = (test.session.clone(), test.turn_id("r"));
        let body = CancelTurn {
            partial_text: None,
            fence: None,
            release: false,
        };
        let cancelled = test
            .engine
            .turns
            .cancel(&test.caller, session, turn, body)
            .await;
        cancelled.unwrap();
    });
    assert_eq!(turn.unwrap().status, TurnStatus::Cancelled);
    assert!(delay <= Duration::from_secs(1), "{delay:?}");
    assert_eq!(recorded_items(&test).0, ["partial", "cancelled"]);
}

#[test]
fn erasing_the_session_ends_the_recording() {
    let test = open_turn();
    let (turn, delay) = record_endless(&test, async || {
        let erased = test
            .engine
            .erasure
            .erase(&test.caller, test.session.clone());
        erased.await.unwrap();
    });
    assert_eq!(turn.unwrap_err().code, ErrorCode::SessionErased);
    assert!(delay <= Duration::from_secs(1), "{delay:?}");
}

/// After an interruption and a new start, the turn is open again, but belongs to another recording.
#[test]
fn a_new_start_of_the_turn_ends_the_recording() {
    let test = open_turn();
    let (turn, _) = record_endless(&test, async || {
        let write = Write::Interrupt(Interrupt {
            session_id: test.session.clone(),
            turn_id: test.turn_id("r"),
            before: Timestamp::from_micros(i64::MAX),
            stream: None,
        });
        let caller = test.caller.clone();
        let ledger = test.engine.ledger();
        ledger
            .write(Command {
                scope: caller.scope(Permission::Write).unwrap(),
                write,
            })
            .await
            .unwrap();
        let (session, start) = (test.session.clone(), turn_start("r", "Which way?"));
        let started = test
            .engine
            .turns
            .start(&test.caller, session, start)
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
    let test = open_turn();
    let stream = many_calls(10_050);
    let chunks = stream.as_bytes().chunks(4_096);
    let body = Body {
        chunks: chunks.map(|chunk| Ok(chunk.to_vec())).collect(),
        never_ends: true,
    };
    let turn = test
        .runtime
        .block_on(record_body(&test, body, pending()))
        .unwrap();
    assert_eq!(turn.status, TurnStatus::Failed);
    let (channels, parts) = recorded_items(&test);
    assert!(channels.len() > 9_900, "{}", channels.len());
    assert_eq!(
        (&parts[0]["code"], &parts[0]["retryable"]),
        (&json!("limit_exceeded"), &json!(false))
    );
}
