//! Compares what an SDK parsed of an answer with what was recorded of it.

use std::collections::BTreeMap;

use filrouge_provider_rules::Provider;
use filrouge_types::TurnStatus;
use serde_json::{Value, json};

use super::recorded::{Call, Failed, Recorded, Thought};
use super::scenario::{Delivery, Ending, Scenario};

/// Returns the first difference as an error. `way` is how the SDK read the answer.
pub(crate) fn compare(
    delivery: &Delivery<'_>,
    way: &str,
    sdk: &Value,
    ours: &Recorded,
) -> Result<(), String> {
    same("text", sdk["text"].as_str(), Some(&*ours.text))?;
    same("refusal", sdk["refusal"].as_str(), Some(&*ours.refusal))?;
    let others: BTreeMap<String, String> = serde_json::from_value(sdk["others"].clone()).unwrap();
    same("others", &others, &ours.others)?;
    thoughts(delivery, sdk, ours)?;
    calls(sdk, ours)?;
    if let Some(model) = sdk["model"].as_str() {
        let other = ours.models.iter().find(|known| *known != model);
        same("model", other.map(String::as_str), None)?;
    }
    usage(delivery.scenario.provider, sdk, ours)?;
    end(delivery, way, sdk, ours)
}

/// Returns a difference as an error.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, sdk: T, ours: T) -> Result<(), String> {
    if sdk == ours {
        return Ok(());
    }
    Err(format!("{what}: the SDK has {sdk:?}, recorded is {ours:?}"))
}

fn thoughts(delivery: &Delivery<'_>, sdk: &Value, ours: &Recorded) -> Result<(), String> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let is_something = |thought: &Thought| {
        !thought.text.is_empty() || thought.signature.is_some() || thought.sealed.is_some()
    };
    let reported = sdk["thoughts"].as_array().unwrap().iter();
    let reported = reported.map(|thought| Thought {
        text: word(&thought["text"]).unwrap(),
        signature: word(&thought["signature"]),
        sealed: word(&thought["sealed"]),
    });
    let mut reported: Vec<Thought> = reported.filter(is_something).collect();
    let ours: Vec<Thought> = ours
        .thoughts
        .iter()
        .filter(|t| is_something(t))
        .cloned()
        .collect();
    // Of an incomplete thought, only the text is recorded, because people may have seen it. Its sealed data is not,
    // because it is never sent back.
    if delivery.ending != Ending::Complete
        && reported != ours
        && let Some(last) = reported.pop()
    {
        let last = Thought {
            signature: None,
            sealed: None,
            ..last
        };
        reported.extend(Some(last).filter(is_something));
    }
    same("thoughts", reported, ours)
}

fn calls(sdk: &Value, ours: &Recorded) -> Result<(), String> {
    let reported = sdk["calls"].as_array().unwrap();
    same("number of calls", reported.len(), ours.calls.len())?;
    for (reported, call) in reported.iter().zip(&ours.calls) {
        same(
            "name of a call",
            reported["name"].as_str(),
            Some(&*call.name),
        )?;
        match reported["id"].as_str() {
            Some(id) => same("id of a call", id, &call.id)?,
            // Gemini's calls have no ids. Each gets one from the decoder.
            None => {
                let same_id = ours.calls.iter().filter(|other| other.id == call.id);
                same("calls of one id", 1, same_id.count())?;
            }
        }
        same(
            "signature of a call",
            reported["signature"].as_str(),
            call.signature.as_deref(),
        )?;
        let has_failed = ours.status == Some(TurnStatus::Failed);
        let is_cut = ours.finish.as_deref() == Some("length");
        if (call.is_partial && !has_failed && !is_cut)
            || (has_failed && !call.is_partial && call.arguments.is_empty())
        {
            return Err(format!(
                "whether a call is complete: {call:?}, {:?}",
                ours.status
            ));
        }
        if let Some(arguments) = reported["arguments"].as_str() {
            same_arguments(arguments, call)?;
        }
    }
    Ok(())
}

fn same_arguments(reported: &str, call: &Call) -> Result<(), String> {
    let value = |text: &str| match text {
        "" => Some(json!({})),
        text => serde_json::from_str::<Value>(text).ok(),
    };
    match (value(reported), value(&call.arguments)) {
        (Some(reported), Some(ours)) => same("arguments", reported, ours),
        _ => same("text of arguments", reported, &call.arguments),
    }
}

fn usage(provider: Provider, sdk: &Value, ours: &Recorded) -> Result<(), String> {
    let reported = sdk["usage"].as_object();
    let empty = json!({});
    let recorded = ours.usage.as_ref().unwrap_or(&empty).as_object().unwrap();
    for (name, value) in reported.into_iter().flatten() {
        same(name, Some(value), recorded.get(name))?;
    }
    if provider != Provider::Anthropic {
        // The counts of Messages arrive in two events. The SDK's accumulation has some members of the second one only.
        same(
            "members of usage",
            reported.map_or(0, |u| u.len()),
            recorded.len(),
        )?;
    }
    let counts: Option<[u64; 5]> = serde_json::from_value(sdk["counts"].clone()).unwrap();
    same("counts", counts.unwrap_or_default(), ours.counts)
}

/// The standard finish reason for the SDK's, according to the provider's documentation.
fn standard(provider: Provider, word: &str, has_calls: bool) -> &'static str {
    match (provider, word) {
        (Provider::OpenaiChat, "stop") | (Provider::Anthropic, "end_turn" | "stop_sequence") => {
            "stop"
        }
        (Provider::OpenaiChat, "tool_calls") | (Provider::Anthropic, "tool_use") => "tool_calls",
        (Provider::OpenaiResponses, "completed") | (Provider::Gemini, "STOP") => {
            if has_calls {
                "tool_calls"
            } else {
                "stop"
            }
        }
        (_, "length" | "max_tokens" | "max_output_tokens" | "MAX_TOKENS") => "length",
        (_, "content_filter" | "refusal" | "SAFETY") => "content_filter",
        (Provider::Anthropic, "pause_turn") => "other",
        other => panic!("{other:?}"),
    }
}

fn end(delivery: &Delivery<'_>, way: &str, sdk: &Value, ours: &Recorded) -> Result<(), String> {
    let error = &sdk["error"];
    let finish = sdk["finish"].as_str().filter(|_| error["kind"] != "told");
    if let Some(word) = finish {
        return finished(delivery.scenario.provider, word, ours);
    }
    let Some(failed) = &ours.error else {
        return Err(format!(
            "{way}: the SDK reports no end, but {:?} is recorded",
            ours.status
        ));
    };
    same("status", Some(TurnStatus::Failed), ours.status)?;
    let (code, source) = (&*failed.code, &*failed.source);
    match (error["kind"].as_str(), delivery.ending) {
        (Some("told"), _) => reported(delivery.scenario, error, failed),
        (Some("broken"), Ending::Lost(_)) => {
            same("error", ("client_gone", "client"), (code, source))
        }
        // Most SDKs do not report a truncated body as an error, although the end of the answer is missing.
        (None | Some("unreadable"), Ending::Truncated(_)) => {
            let codes = ["stream_truncated", "stream_empty", "stream_malformed"];
            same(
                "error of the stream",
                (true, "stream"),
                (codes.contains(&code), source),
            )
        }
        other => Err(format!(
            "the SDK ends with {other:?}, but {failed:?} is recorded"
        )),
    }
}

fn finished(provider: Provider, word: &str, ours: &Recorded) -> Result<(), String> {
    let has_calls = !ours.calls.is_empty();
    let expected = standard(provider, word, has_calls);
    same("standard reason", Some(expected), ours.finish.as_deref())?;
    let implied = provider == Provider::OpenaiResponses && word == "completed";
    let reported = Some(word).filter(|word| *word != expected && !implied);
    same(
        "reason",
        reported,
        ours.provider_finish
            .as_deref()
            .filter(|own| *own != expected),
    )?;
    let waits = match (provider, expected) {
        (_, "content_filter") => false,
        (Provider::Gemini | Provider::OpenaiResponses, "length") => has_calls,
        (Provider::Gemini | Provider::OpenaiResponses, _) => expected == "tool_calls",
        _ => has_calls || word == "pause_turn",
    };
    let status = if waits {
        TurnStatus::Open
    } else {
        TurnStatus::Finalized
    };
    same("status", Some(status), ours.status)
}

/// An error that the provider sent.
fn reported(scenario: &Scenario, error: &Value, failed: &Failed) -> Result<(), String> {
    let Some(expected) = scenario.error else {
        return Err(format!("the SDK raised {error}"));
    };
    let actual = (failed.code.as_str(), failed.retryable);
    same("error", (expected.code, expected.retryable), actual)?;
    if scenario.content_type == "text/html" {
        return same("source", "stream", &failed.source);
    }
    same("source", "provider", &failed.source)?;
    let codes = error["codes"].as_array().unwrap();
    same(
        "code among the SDK's",
        true,
        codes.contains(&json!(failed.code)),
    )?;
    if let Some(message) = error["message"].as_str() {
        same("message", message, &failed.message)?;
    }
    same("body", Some(&error["body"]), failed.detail.as_ref())
}
