//! The providers' official SDKs read scripted answers from an upstream on loopback, and what they parse is what is
//! recorded of the same bytes: whole, and broken off anywhere.

use std::path::Path;

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::streams::{Answer, read};

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

/// How many bytes a chunk has, by turns.
const SIZES: [usize; 5] = [7, 1 << 20, 1, 64, 333];

/// Where the events of a stream end.
fn boundaries(body: &[u8]) -> Vec<usize> {
    let ends = |at: &usize| {
        let head = &body[..*at];
        [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"]
            .iter()
            .any(|end| head.ends_with(end))
    };
    (1..body.len()).filter(ends).collect()
}

/// Where an answer is broken off: behind some events, within some, and where only the end of an event is missing.
fn breaks(body: &[u8]) -> Vec<Ending> {
    let boundaries = boundaries(body);
    let some = |count: usize| {
        boundaries
            .iter()
            .copied()
            .step_by((boundaries.len() / count).max(1))
    };
    let mut breaks: Vec<Ending> = some(4).map(Ending::Lost).collect();
    breaks.extend(some(3).map(|at| Ending::Lost(at - 1)));
    breaks.extend((1..8).map(|part| Ending::Lost(body.len() * part / 8)));
    breaks.extend(some(2).map(Ending::Short));
    breaks.extend([3, 5].map(|part| Ending::Short(body.len() * part / 8)));
    breaks
        .into_iter()
        .map(|ending| between(ending, body))
        .collect()
}

/// Not within a line end of two characters: behind the first of them the line has ended already, as the standard of
/// server-sent events has it, while the SDKs wait for the second.
fn between(ending: Ending, body: &[u8]) -> Ending {
    let clear =
        |at: usize| at - usize::from(body[..at].ends_with(b"\r") && body[at..].starts_with(b"\n"));
    match ending {
        Ending::Whole => Ending::Whole,
        Ending::Lost(at) => Ending::Lost(clear(at)),
        Ending::Short(at) => Ending::Short(clear(at)),
    }
}

fn plays(scenarios: &[Scenario]) -> Vec<Play<'_>> {
    let mut plays = Vec::new();
    for scenario in scenarios {
        let mut add = |ending| {
            plays.push(Play::new(
                scenario,
                SIZES[plays.len() % SIZES.len()],
                ending,
            ))
        };
        add(Ending::Whole);
        match (scenario.stream, scenario.status) {
            (true, 200) => breaks(&scenario.body).into_iter().for_each(&mut add),
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
        if let Err(difference) = compare(play, &reading.way, &reading.told, ours) {
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
