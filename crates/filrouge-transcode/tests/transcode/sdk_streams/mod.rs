//! The providers' official SDKs read scripted answers from a loopback server. Their readings must equal the records of
//! the same bytes, for complete answers and for answers that are cut anywhere.

use std::path::Path;

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::streams::{Answer, read};

use serde_json::json;

use compare::compare;
use recorded::record;
use scenario::{Delivery, Ending, Scenario};

mod anthropic;
mod compare;
mod gemini;
mod openai_chat;
mod openai_responses;
mod output;
mod recorded;
mod scenario;

/// Chunk sizes, used in turn.
const CHUNK_SIZES: [usize; 5] = [7, 1 << 20, 1, 64, 333];

/// The size of the largest answer that is sent byte by byte.
const MAX_BYTE_BY_BYTE: usize = 1_000;

/// The ends of a stream's events.
fn boundaries(body: &[u8]) -> Vec<usize> {
    let is_boundary = |at: &usize| {
        let head = &body[..*at];
        [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"]
            .iter()
            .any(|end| head.ends_with(end))
    };
    (1..body.len()).filter(is_boundary).collect()
}

/// The positions at which answers are cut: after some events, within some events, and before the end of an event. Each
/// answer is cut at half of these positions, and the next answer at the other half.
fn cut_endings(body: &[u8]) -> Vec<Ending> {
    let boundaries = boundaries(body);
    let sampled = |count: usize| {
        boundaries
            .iter()
            .copied()
            .step_by((boundaries.len() / count).max(1))
    };
    let mut endings: Vec<Ending> = sampled(4).map(Ending::Lost).collect();
    endings.extend(sampled(2).map(|at| Ending::Lost(at - 1)));
    endings.extend((1..6).map(|part| Ending::Lost(body.len() * part / 6)));
    endings.extend(sampled(2).map(Ending::Truncated));
    endings.extend([3, 5].map(|part| Ending::Truncated(body.len() * part / 8)));
    endings
        .into_iter()
        .map(|ending| avoid_line_ends(ending, body))
        .collect()
}

/// Avoids cuts within the end of an event. By the standard of server-sent events a line ends after CR, but the SDKs
/// wait for LF. If a body ends right after an event's data, filrouge and Gemini's SDK emit the event, but the other
/// SDKs do not.
fn avoid_line_ends(ending: Ending, body: &[u8]) -> Ending {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let after_line_end = |at: usize| at + body[at..].iter().take_while(|byte| is_end(byte)).count();
    match ending {
        Ending::Complete => Ending::Complete,
        Ending::Lost(at) if body[..at].ends_with(b"\r") => Ending::Lost(after_line_end(at)),
        Ending::Lost(at) => Ending::Lost(at),
        Ending::Truncated(at) => Ending::Truncated(after_line_end(at)),
    }
}

/// All deliveries of the scenarios: each complete, and cut off at several positions.
fn deliveries(scenarios: &[Scenario]) -> Vec<Delivery<'_>> {
    let mut deliveries = Vec::new();
    for (number, scenario) in scenarios.iter().enumerate() {
        let mut add = |ending| {
            let size = match CHUNK_SIZES[deliveries.len() % CHUNK_SIZES.len()] {
                1 if scenario.body.len() > MAX_BYTE_BY_BYTE => 9,
                size => size,
            };
            deliveries.push(Delivery::new(scenario, size, ending));
        };
        add(Ending::Complete);
        match (scenario.stream, scenario.status) {
            (true, 200) => {
                let endings = cut_endings(&scenario.body).into_iter();
                endings.skip(number % 2).step_by(2).for_each(&mut add);
            }
            (false, 200) => add(Ending::Lost(scenario.body.len() / 2)),
            _ => {}
        }
    }
    deliveries
}

/// Compares the SDK's readings of all deliveries with the records.
fn check(provider: Provider, scenarios: &[Scenario]) {
    assert!(scenarios.len() >= 12, "{provider}: {}", scenarios.len());
    let deliveries = deliveries(scenarios);
    let answers: Vec<Answer> = deliveries.iter().map(Delivery::answer).collect();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks");
    let readings = read(&directory, &answers).unwrap();
    let mut differences = Vec::new();
    let mut recorded = deliveries.iter().map(record).enumerate();
    let mut current = recorded.next();
    for reading in &readings {
        while current
            .as_ref()
            .is_some_and(|(index, _)| *index < reading.answer)
        {
            current = recorded.next();
        }
        let (index, recorded_answer) = current.as_ref().unwrap();
        assert_eq!(*index, reading.answer);
        let delivery = &deliveries[*index];
        if let Err(difference) = compare(
            delivery,
            &reading.method,
            &reading.reported,
            recorded_answer,
        ) {
            let (name, ending, method) = (delivery.scenario.name, delivery.ending, &reading.method);
            differences.push(format!("{name}, {ending:?}, {method}: {difference}"));
        }
    }
    let (count, total) = (differences.len(), readings.len());
    differences.truncate(40);
    assert!(
        differences.is_empty(),
        "{count} of {total} readings differ:\n{}",
        differences.join("\n")
    );
}

#[test]
fn the_record_equals_the_sdks_reading_of_openai_chat() {
    check(Provider::OpenaiChat, &openai_chat::scenarios());
}

#[test]
fn the_record_equals_the_sdks_reading_of_openai_responses() {
    check(Provider::OpenaiResponses, &openai_responses::scenarios());
}

#[test]
fn the_record_equals_the_sdks_reading_of_anthropic() {
    check(Provider::Anthropic, &anthropic::scenarios());
}

#[test]
fn the_record_equals_the_sdks_reading_of_gemini() {
    check(Provider::Gemini, &gemini::scenarios());
}

/// Checks the comparison itself: any changed value of an SDK is reported as a difference.
#[test]
fn the_comparison_reports_every_difference() {
    let scenarios = anthropic::scenarios();
    let scenario = scenarios
        .iter()
        .find(|s| s.name == "thinking, text and calls");
    let delivery = Delivery::new(scenario.unwrap(), 50, Ending::Complete);
    let expected = record(&delivery);
    let sdk = json!({
        "text": "Got it.", "refusal": "", "others": {}, "finish": "tool_use", "model": "claude-opus-4-5-20251101",
        "thoughts": [{"text": "Let me see: 𝛑…", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "sealed": null}],
        "calls": [
            {"id": "toolu_01W", "name": "get_weather", "arguments": "{\"unit\":\"c\",\"city\":\"München\"}", "signature": null},
            {"id": "toolu_02T", "name": "get_time", "arguments": "{\"zone\":[1,{\"a\":null}],\"n\":-0.5}", "signature": null},
        ],
        "usage": {"input_tokens": 25, "output_tokens": 89}, "counts": [25, 58, 31, 1200, 300], "error": null,
    });
    assert_eq!(compare(&delivery, "events", &sdk, &expected), Ok(()));
    for (pointer, value) in [
        ("/text", json!("Got it")),
        ("/refusal", json!("no")),
        ("/others", json!({"1": "a"})),
        ("/finish", json!("end_turn")),
        ("/finish", json!(null)),
        ("/model", json!("claude")),
        ("/thoughts", json!([])),
        ("/thoughts/0/text", json!("Let me see")),
        ("/thoughts/0/signature", json!(null)),
        ("/thoughts/0/sealed", json!("x")),
        ("/calls/0/id", json!("toolu_02T")),
        ("/calls/0/name", json!("get")),
        ("/calls/0/arguments", json!("{}")),
        (
            "/calls/1/arguments",
            json!("{\"zone\":[1,{\"a\":null}],\"n\":-0.4}"),
        ),
        ("/calls/1/signature", json!("c2ln")),
        (
            "/calls/1",
            json!({"id": "a", "name": "get_time", "arguments": "", "signature": null}),
        ),
        ("/usage/output_tokens", json!(88)),
        ("/counts/4", json!(0)),
    ] {
        let mut changed = sdk.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert!(
            compare(&delivery, "events", &changed, &expected).is_err(),
            "{pointer}"
        );
    }
    let cut_off = Delivery::new(scenario.unwrap(), 50, Ending::Lost(900));
    let cut_record = record(&cut_off);
    assert!(compare(&cut_off, "events", &sdk, &cut_record).is_err());
}
