//! The providers' official SDKs read scripted answers from a loopback server. What they parse must equal what is recorded of the
//! same bytes: complete, and cut off anywhere.

use std::path::Path;

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::streams::{Answer, read};

use serde_json::json;

use compare::compare;
use recorded::record;
use scenario::{Ending, Play, Scenario};

mod anthropic;
mod compare;
mod gemini;
mod openai_chat;
mod openai_responses;
mod output;
mod recorded;
mod scenario;

/// Chunk sizes, used in turn.
const SIZES: [usize; 5] = [7, 1 << 20, 1, 64, 333];

/// The largest answer that is sent byte by byte.
const SMALL: usize = 1_000;

/// The ends of a stream's events.
fn boundaries(body: &[u8]) -> Vec<usize> {
    let ends = |at: &usize| {
        let head = &body[..*at];
        [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"]
            .iter()
            .any(|end| head.ends_with(end))
    };
    (1..body.len()).filter(ends).collect()
}

/// Positions at which answers are cut off: after some events, within some, and where only the end of an event is missing. Each
/// answer is cut at half of these positions, its neighbor at the others.
fn breaks(body: &[u8]) -> Vec<Ending> {
    let boundaries = boundaries(body);
    let some = |count: usize| {
        boundaries
            .iter()
            .copied()
            .step_by((boundaries.len() / count).max(1))
    };
    let mut breaks: Vec<Ending> = some(4).map(Ending::Lost).collect();
    breaks.extend(some(2).map(|at| Ending::Lost(at - 1)));
    breaks.extend((1..6).map(|part| Ending::Lost(body.len() * part / 6)));
    breaks.extend(some(2).map(Ending::Short));
    breaks.extend([3, 5].map(|part| Ending::Short(body.len() * part / 8)));
    breaks
        .into_iter()
        .map(|ending| between(ending, body))
        .collect()
}

/// Avoids cuts within the end of an event. By the standard of server-sent events a line ends after CR, but the SDKs wait for LF.
/// If a body ends right after an event's data, filrouge and Gemini's SDK emit the event, but the other SDKs do not.
fn between(ending: Ending, body: &[u8]) -> Ending {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let behind = |at: usize| at + body[at..].iter().take_while(|byte| is_end(byte)).count();
    match ending {
        Ending::Whole => Ending::Whole,
        Ending::Lost(at) if body[..at].ends_with(b"\r") => Ending::Lost(behind(at)),
        Ending::Lost(at) => Ending::Lost(at),
        Ending::Short(at) => Ending::Short(behind(at)),
    }
}

fn plays(scenarios: &[Scenario]) -> Vec<Play<'_>> {
    let mut plays = Vec::new();
    for (number, scenario) in scenarios.iter().enumerate() {
        let mut add = |ending| {
            let size = match SIZES[plays.len() % SIZES.len()] {
                1 if scenario.body.len() > SMALL => 9,
                size => size,
            };
            plays.push(Play::new(scenario, size, ending));
        };
        add(Ending::Whole);
        match (scenario.stream, scenario.status) {
            (true, 200) => {
                let breaks = breaks(&scenario.body).into_iter();
                breaks.skip(number % 2).step_by(2).for_each(&mut add);
            }
            (false, 200) => add(Ending::Lost(scenario.body.len() / 2)),
            _ => {}
        }
    }
    plays
}

fn check(provider: Provider, scenarios: &[Scenario]) {
    assert!(scenarios.len() >= 12, "{provider}: {}", scenarios.len());
    let plays = plays(scenarios);
    let answers: Vec<Answer> = plays.iter().map(Play::answer).collect();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks");
    let readings = read(&directory, &answers).unwrap();
    let mut wrong = Vec::new();
    let mut recorded = plays.iter().map(record).enumerate();
    let mut now = recorded.next();
    for reading in &readings {
        while now.as_ref().is_some_and(|(at, _)| *at < reading.answer) {
            now = recorded.next();
        }
        let (at, ours) = now.as_ref().unwrap();
        assert_eq!(*at, reading.answer);
        let play = &plays[*at];
        if let Err(difference) = compare(play, &reading.way, &reading.reported, ours) {
            let (name, ending, way) = (play.scenario.name, play.ending, &reading.way);
            wrong.push(format!("{name}, {ending:?}, {way}: {difference}"));
        }
    }
    let (count, all) = (wrong.len(), readings.len());
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{count} of {all}:\n{}", wrong.join("\n"));
}

#[test]
fn openai_chat_is_recorded_as_the_sdk_reads_it() {
    check(Provider::OpenaiChat, &openai_chat::scenarios());
}

#[test]
fn openai_responses_is_recorded_as_the_sdk_reads_it() {
    check(Provider::OpenaiResponses, &openai_responses::scenarios());
}

#[test]
fn anthropic_is_recorded_as_the_sdk_reads_it() {
    check(Provider::Anthropic, &anthropic::scenarios());
}

#[test]
fn gemini_is_recorded_as_the_sdk_reads_it() {
    check(Provider::Gemini, &gemini::scenarios());
}

/// Checks the comparison itself: any changed value of an SDK is reported as a difference.
#[test]
fn the_comparison_finds_every_difference() {
    let scenarios = anthropic::scenarios();
    let scenario = scenarios
        .iter()
        .find(|s| s.name == "thinking, text and calls");
    let play = Play::new(scenario.unwrap(), 50, Ending::Whole);
    let ours = record(&play);
    let sdk = json!({
        "text": "I look.", "refusal": "", "others": {}, "finish": "tool_use", "model": "claude-opus-4-5-20251101",
        "thoughts": [{"text": "Let me see: 𝛑…", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "sealed": null}],
        "calls": [
            {"id": "toolu_01W", "name": "get_weather", "arguments": "{\"unit\":\"c\",\"city\":\"München\"}", "signature": null},
            {"id": "toolu_02T", "name": "get_time", "arguments": "{\"zone\":[1,{\"a\":null}],\"n\":-0.5}", "signature": null},
        ],
        "usage": {"input_tokens": 25, "output_tokens": 89}, "counts": [25, 58, 31, 1200, 300], "error": null,
    });
    assert_eq!(compare(&play, "events", &sdk, &ours), Ok(()));
    for (place, value) in [
        ("/text", json!("I look")),
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
        let mut other = sdk.clone();
        *other.pointer_mut(place).unwrap() = value;
        assert!(compare(&play, "events", &other, &ours).is_err(), "{place}");
    }
    let lost = Play::new(scenario.unwrap(), 50, Ending::Lost(900));
    let broken = record(&lost);
    assert!(compare(&lost, "events", &sdk, &broken).is_err());
}
