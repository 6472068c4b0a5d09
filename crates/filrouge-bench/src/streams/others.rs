//! The streams of Anthropic's Messages, of Gemini, and of AG-UI.

use super::StreamScript;

/// Adds a random number of spaces before the last brace, as Anthropic pads its events.
fn pad_event(script: &mut StreamScript, mut event: String) -> String {
    let blanks = script.padding().len() - 1;
    event.insert_str(event.len() - 1, &" ".repeat(blanks));
    event
}

pub(super) fn anthropic(mut script: StreamScript) -> Vec<String> {
    let mut events = vec![
        r#"{"type":"message_start","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_014p7gG3wDgGV9EUtLvnow3U","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":472,"cache_creation_input_tokens":0,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":2,"service_tier":"standard"}}}"#.to_owned(),
    ];
    let mut blocks = vec![
        (
            r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
            ("thinking_delta", "thinking"),
            std::mem::take(&mut script.reasoning),
        ),
        (
            r#"{"type":"text","text":""}"#.to_owned(),
            ("text_delta", "text"),
            std::mem::take(&mut script.answer),
        ),
    ];
    for (number, pieces) in std::mem::take(&mut script.calls).into_iter().enumerate() {
        let initial = format!(
            r#"{{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up{number}","name":"search","input":{{}}}}"#
        );
        blocks.push((initial, ("input_json_delta", "partial_json"), pieces));
    }
    for (index, (initial, (kind, member), pieces)) in blocks.into_iter().enumerate() {
        let event = format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{initial}}}"#
        );
        events.push(pad_event(&mut script, event));
        if index == 0 {
            events.push(r#"{"type":"ping"}"#.to_owned());
        }
        for piece in pieces {
            let event = format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":"{piece}"}}}}"#
            );
            events.push(pad_event(&mut script, event));
        }
        if index == 0 {
            let signature = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds".repeat(8);
            events.push(format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"signature_delta","signature":"{signature}"}}}}"#
            ));
        }
        let event = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
        events.push(pad_event(&mut script, event));
    }
    let event = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":472,"cache_creation_input_tokens":0,"cache_read_input_tokens":100,"output_tokens":7310}}"#;
    events.push(event.to_owned());
    events.push(r#"{"type":"message_stop"}"#.to_owned());
    events
}

pub(super) fn gemini(script: &StreamScript) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(
        script
            .reasoning
            .iter()
            .map(|text| format!(r#"{{"text": "{text}","thought": true}}"#)),
    );
    parts.extend(
        script
            .answer
            .iter()
            .map(|text| format!(r#"{{"text": "{text}"}}"#)),
    );
    for pieces in &script.calls {
        let args = pieces
            .concat()
            .replace(r#"\"so\""#, "so")
            .replace(r#"\""#, "\"");
        parts.push(format!(
            r#"{{"functionCall": {{"name": "search","args": {args}}}}}"#
        ));
    }
    let last = parts.len() - 1;
    let event = |(at, part): (usize, String)| {
        let finish = if at == last {
            r#""finishReason": "STOP","#
        } else {
            ""
        };
        let total = 812 + at;
        format!(
            r#"{{"candidates": [{{"content": {{"parts": [{part}],"role": "model"}},{finish}"index": 0}}],"usageMetadata": {{"promptTokenCount": 812,"candidatesTokenCount": {at},"totalTokenCount": {total},"promptTokensDetails": [{{"modality": "TEXT","tokenCount": 812}}],"thoughtsTokenCount": 640}},"modelVersion": "gemini-2.5-flash","responseId": "aOqHaK2fGpXh7M8Pz9Wj2Ak"}}"#
        )
    };
    parts.into_iter().enumerate().map(event).collect()
}

pub(super) fn ag_ui(script: &StreamScript) -> Vec<String> {
    let mut events = Vec::new();
    let mut event = |kind: &str, rest: &str| {
        let time = 1_741_570_283_000_u64 + events.len() as u64;
        events.push(format!(r#"{{"type":"{kind}","timestamp":{time},{rest}}}"#));
    };
    let run = r#""threadId":"0f5c3a52-93bd-4e0f-a2ad-b71e6c3d0d0e","runId":"a3f8d1c4-6f0e-4b4e-8a55-0c4f6c1f7b11""#;
    event("RUN_STARTED", run);
    for (kind, role, pieces) in [
        ("REASONING_MESSAGE", "reasoning", &script.reasoning),
        ("TEXT_MESSAGE", "assistant", &script.answer),
    ] {
        let id = format!(r#""messageId":"5b1f6e0c-2d7a-4c0b-9f0a-{role}""#);
        event(
            &format!("{kind}_START"),
            &format!(r#"{id},"role":"{role}""#),
        );
        for piece in pieces {
            event(
                &format!("{kind}_CONTENT"),
                &format!(r#"{id},"delta":"{piece}""#),
            );
        }
        event(&format!("{kind}_END"), &id);
    }
    for (number, pieces) in script.calls.iter().enumerate() {
        let id = format!(r#""toolCallId":"call_hGv1Gqz8Xk4pTl0sWc{number}""#);
        let parent = r#""parentMessageId":"5b1f6e0c-2d7a-4c0b-9f0a-assistant""#;
        event(
            "TOOL_CALL_START",
            &format!(r#"{id},"toolCallName":"search",{parent}"#),
        );
        for piece in pieces {
            event("TOOL_CALL_ARGS", &format!(r#"{id},"delta":"{piece}""#));
        }
        event("TOOL_CALL_END", &id);
    }
    event("RUN_FINISHED", run);
    events
}
