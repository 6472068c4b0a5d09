//! Compares an SDK's reading of an answer with the record of that answer.

use std::collections::BTreeMap;

use filrouge_provider_rules::Provider;
use filrouge_types::TurnStatus;
use serde_json::{Value, json};

use super::recorded::{Call, Recorded, RecordedError, RecordedThought};
use super::scenario::{Delivery, Ending, Scenario};

/// Returns the first difference as an error. `method` is the SDK's method to read the answer.
pub(crate) fn compare(
    delivery: &Delivery<'_>,
    method: &str,
    sdk: &Value,
    recorded: &Recorded,
) -> Result<(), String> {
    same("text", sdk["text"].as_str(), Some(&*recorded.text))?;
    same("refusal", sdk["refusal"].as_str(), Some(&*recorded.refusal))?;
    let others: BTreeMap<String, String> = serde_json::from_value(sdk["others"].clone()).unwrap();
    same("others", &others, &recorded.others)?;
    compare_thoughts(delivery, sdk, recorded)?;
    compare_calls(sdk, recorded)?;
    if let Some(model) = sdk["model"].as_str() {
        let different = recorded
            .models
            .iter()
            .find(|recorded_model| *recorded_model != model);
        same("model", different.map(String::as_str), None)?;
    }
    compare_usage(delivery.scenario.provider, sdk, recorded)?;
    compare_end(delivery, method, sdk, recorded)
}

/// Returns a difference as an error.
fn same<T: PartialEq + std::fmt::Debug>(name: &str, sdk: T, recorded: T) -> Result<(), String> {
    if sdk == recorded {
        return Ok(());
    }
    Err(format!(
        "{name}: the SDK has {sdk:?}, the record has {recorded:?}"
    ))
}

fn compare_thoughts(
    delivery: &Delivery<'_>,
    sdk: &Value,
    recorded: &Recorded,
) -> Result<(), String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let has_content = |thought: &RecordedThought| {
        !thought.text.is_empty() || thought.signature.is_some() || thought.sealed.is_some()
    };
    let reported = sdk["thoughts"].as_array().unwrap().iter();
    let reported = reported.map(|thought| RecordedThought {
        text: text(&thought["text"]).unwrap(),
        signature: text(&thought["signature"]),
        sealed: text(&thought["sealed"]),
    });
    let mut reported: Vec<RecordedThought> = reported.filter(has_content).collect();
    let recorded: Vec<RecordedThought> = recorded
        .thoughts
        .iter()
        .filter(|t| has_content(t))
        .cloned()
        .collect();
    // The record of an incomplete thought contains only its text, because people may have seen it. Sealed data of an
    // incomplete thought is never sent back.
    if delivery.ending != Ending::Complete
        && reported != recorded
        && let Some(last) = reported.pop()
    {
        let last = RecordedThought {
            signature: None,
            sealed: None,
            ..last
        };
        reported.extend(Some(last).filter(has_content));
    }
    same("thoughts", reported, recorded)
}

fn compare_calls(sdk: &Value, recorded: &Recorded) -> Result<(), String> {
    let reported = sdk["calls"].as_array().unwrap();
    same("number of calls", reported.len(), recorded.calls.len())?;
    for (reported, call) in reported.iter().zip(&recorded.calls) {
        same(
            "name of a call",
            reported["name"].as_str(),
            Some(&*call.name),
        )?;
        match reported["id"].as_str() {
            Some(id) => same("id of a call", id, &call.id)?,
            // Gemini's calls have no ids. The decoder assigns an id to each.
            None => {
                let same_id = recorded.calls.iter().filter(|other| other.id == call.id);
                same("calls of one id", 1, same_id.count())?;
            }
        }
        same(
            "signature of a call",
            reported["signature"].as_str(),
            call.signature.as_deref(),
        )?;
        let has_failed = matches!(
            recorded.status,
            Some(TurnStatus::Failed | TurnStatus::Interrupted)
        );
        let is_cut = recorded.finish.as_deref() == Some("length");
        if (call.is_partial && !has_failed && !is_cut)
            || (has_failed && !call.is_partial && call.arguments.is_empty())
        {
            return Err(format!(
                "whether a call is complete: {call:?}, {:?}",
                recorded.status
            ));
        }
        if let Some(arguments) = reported["arguments"].as_str() {
            compare_arguments(arguments, call)?;
        }
    }
    Ok(())
}

fn compare_arguments(reported: &str, call: &Call) -> Result<(), String> {
    let parse = |text: &str| match text {
        "" => Some(json!({})),
        text => serde_json::from_str::<Value>(text).ok(),
    };
    match (parse(reported), parse(&call.arguments)) {
        (Some(reported), Some(actual)) => same("arguments", reported, actual),
        _ => same("text of arguments", reported, &call.arguments),
    }
}

fn compare_usage(provider: Provider, sdk: &Value, recorded: &Recorded) -> Result<(), String> {
    let reported = sdk["usage"].as_object();
    let empty = json!({});
    let recorded_usage = recorded
        .usage
        .as_ref()
        .unwrap_or(&empty)
        .as_object()
        .unwrap();
    for (name, value) in reported.into_iter().flatten() {
        same(name, Some(value), recorded_usage.get(name))?;
    }
    if provider != Provider::Anthropic {
        // The counts of Messages arrive in two events. The SDK keeps some members of only the second event.
        same(
            "members of usage",
            reported.map_or(0, |u| u.len()),
            recorded_usage.len(),
        )?;
    }
    let counts: Option<[u64; 5]> = serde_json::from_value(sdk["counts"].clone()).unwrap();
    same("counts", counts.unwrap_or_default(), recorded.counts)
}

/// The standard finish reason for `reason`, the SDK's reason, according to the provider's documentation.
fn standard_reason(provider: Provider, reason: &str, has_calls: bool) -> &'static str {
    match (provider, reason) {
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

fn compare_end(
    delivery: &Delivery<'_>,
    method: &str,
    sdk: &Value,
    recorded: &Recorded,
) -> Result<(), String> {
    let error = &sdk["error"];
    let finish = sdk["finish"].as_str().filter(|_| error["kind"] != "report");
    if let Some(reason) = finish {
        return compare_finish(delivery.scenario.provider, reason, recorded);
    }
    let Some(failed) = &recorded.error else {
        return Err(format!(
            "{method}: the SDK reports no end, but {:?} is recorded",
            recorded.status
        ));
    };
    let (code, source) = (&*failed.code, &*failed.source);
    let status = match source {
        "client" => TurnStatus::Interrupted,
        _ => TurnStatus::Failed,
    };
    same("status", Some(status), recorded.status)?;
    match (error["kind"].as_str(), delivery.ending) {
        (Some("report"), _) => compare_error(delivery.scenario, error, failed),
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

fn compare_finish(provider: Provider, reason: &str, recorded: &Recorded) -> Result<(), String> {
    let has_calls = !recorded.calls.is_empty();
    let expected = standard_reason(provider, reason, has_calls);
    same(
        "standard reason",
        Some(expected),
        recorded.finish.as_deref(),
    )?;
    let is_implied = provider == Provider::OpenaiResponses && reason == "completed";
    let reported = Some(reason).filter(|reason| *reason != expected && !is_implied);
    same(
        "reason",
        reported,
        recorded
            .provider_finish
            .as_deref()
            .filter(|recorded_reason| *recorded_reason != expected),
    )?;
    let stays_open = match (provider, expected) {
        (_, "content_filter") => false,
        (Provider::Gemini | Provider::OpenaiResponses, "length") => has_calls,
        (Provider::Gemini | Provider::OpenaiResponses, _) => expected == "tool_calls",
        _ => has_calls || reason == "pause_turn",
    };
    let status = if stays_open {
        TurnStatus::Open
    } else {
        TurnStatus::Finalized
    };
    same("status", Some(status), recorded.status)
}

/// Compares an error that the provider sent.
fn compare_error(scenario: &Scenario, error: &Value, failed: &RecordedError) -> Result<(), String> {
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
