//! The streams of OpenAI's Chat Completions and Responses.

use super::StreamScript;

pub(super) fn chat(mut script: StreamScript) -> Vec<String> {
    let mut deltas = vec![(
        r#"{"role":"assistant","content":"","refusal":null}"#.to_owned(),
        "null",
    )];
    let text =
        |name: &'static str| move |text: &String| (format!(r#"{{"{name}":"{text}"}}"#), "null");
    deltas.extend(script.reasoning.iter().map(text("reasoning_content")));
    deltas.extend(script.answer.iter().map(text("content")));
    for (index, pieces) in script.calls.iter().enumerate() {
        deltas.push((format!(
            r#"{{"tool_calls":[{{"index":{index},"id":"call_hGv1Gqz8Xk4pTl0sWc{index}","type":"function","function":{{"name":"search","arguments":""}}}}]}}"#
        ), "null"));
        deltas.extend(pieces.iter().map(|piece| {
            let delta = format!(
                r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{piece}"}}}}]}}"#
            );
            (delta, "null")
        }));
    }
    deltas.push(("{}".to_owned(), r#""tool_calls""#));
    let head = r#"{"id":"chatcmpl-BXk0hJ8aUqYcQ2nT5vWm7R1oZfE3d","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_eb9dce56a8","choices":["#;
    let mut events: Vec<String> = deltas
        .into_iter()
        .map(|(delta, finish)| {
            let padding = script.padding();
            format!(
                r#"{head}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null,"obfuscation":"{padding}"}}"#
            )
        })
        .collect();
    events.push(format!(
        r#"{head}],"usage":{{"prompt_tokens":812,"completion_tokens":7310,"total_tokens":8122,"prompt_tokens_details":{{"cached_tokens":512,"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":640,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}},"obfuscation":""}}"#
    ));
    events
}

/// The events of a response so far, and its completed output items.
struct ResponseBuilder {
    script: StreamScript,
    events: Vec<String>,
    output: Vec<String>,
}

/// An output item.
struct OutputItem {
    id: String,
    /// Its JSON in its first event.
    initial: String,
    /// Its JSON in its last event.
    complete: String,
    /// The prefix of the types of its events.
    kind: &'static str,
    /// Additional members of these events.
    extra_members: &'static str,
    /// The member that has its text.
    member: &'static str,
}

impl ResponseBuilder {
    fn event(&mut self, kind: &str, rest: &str) {
        let number = self.events.len();
        self.events.push(format!(
            r#"{{"type":"response.{kind}","sequence_number":{number},{rest}}}"#
        ));
    }

    fn response(&mut self, kind: &str, status: &str, usage: &str) {
        let output = self.output.join(",");
        self.event(kind, &format!(
            r#""response":{{"id":"resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654","object":"response","created_at":1741290958,"status":"{status}","error":null,"incomplete_details":null,"instructions":"You are a helpful assistant.","max_output_tokens":null,"model":"gpt-5.1","output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":"medium","summary":"auto"}},"store":true,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#
        ));
    }

    fn item(&mut self, item: OutputItem, pieces: &[String]) {
        let OutputItem {
            id,
            initial,
            complete,
            kind,
            extra_members,
            member,
        } = item;
        let at = self.output.len();
        let begins = format!(r#""output_index":{at},"item":{initial}"#);
        self.event("output_item.added", &begins);
        let common_members = format!(r#""item_id":"{id}","output_index":{at}{extra_members}"#);
        for piece in pieces {
            let padding = self.script.padding();
            let rest = format!(r#"{common_members},"delta":"{piece}","obfuscation":"{padding}""#);
            self.event(&format!("{kind}.delta"), &rest);
        }
        let ends = format!(r#"{common_members},"{member}":"{}""#, pieces.concat());
        self.event(&format!("{kind}.done"), &ends);
        let ends = format!(r#""output_index":{at},"item":{complete}"#);
        self.event("output_item.done", &ends);
        self.output.push(complete);
    }
}

pub(super) fn responses(mut script: StreamScript) -> Vec<String> {
    let reasoning = std::mem::take(&mut script.reasoning);
    let answer = std::mem::take(&mut script.answer);
    let calls = std::mem::take(&mut script.calls);
    let mut builder = ResponseBuilder {
        script,
        events: Vec::new(),
        output: Vec::new(),
    };
    builder.response("created", "in_progress", "null");
    builder.response("in_progress", "in_progress", "null");
    let id = "rs_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654".to_owned();
    let item =
        |summary: &str| format!(r#"{{"id":"{id}","type":"reasoning","summary":[{summary}]}}"#);
    let summary = format!(
        r#"{{"type":"summary_text","text":"{}"}}"#,
        reasoning.concat()
    );
    builder.item(
        OutputItem {
            initial: item(""),
            complete: item(&summary),
            id: id.clone(),
            kind: "reasoning_summary_text",
            extra_members: r#","summary_index":0"#,
            member: "text",
        },
        &reasoning,
    );
    let id = "msg_67c9fdcee10c8190bdd9a0409de3a1ec07b8b0ad4e5eb654".to_owned();
    let item = |status: &str, content: &str| {
        format!(
            r#"{{"id":"{id}","type":"message","status":"{status}","content":[{content}],"role":"assistant"}}"#
        )
    };
    let text = answer.concat();
    let content =
        format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#);
    builder.item(
        OutputItem {
            initial: item("in_progress", ""),
            complete: item("completed", &content),
            id: id.clone(),
            kind: "output_text",
            extra_members: r#","content_index":0,"logprobs":[]"#,
            member: "text",
        },
        &answer,
    );
    for (number, pieces) in calls.iter().enumerate() {
        let id = format!("fc_67ca09c6bedc8190a7abfec07b1a1332096610f474011c{number}");
        let item = |status: &str, args: &str| {
            format!(
                r#"{{"id":"{id}","type":"function_call","status":"{status}","arguments":"{args}","call_id":"call_unLAR8MvFNptuiZK6K6HCy{number}","name":"search"}}"#
            )
        };
        builder.item(
            OutputItem {
                initial: item("in_progress", ""),
                complete: item("completed", &pieces.concat()),
                id: id.clone(),
                kind: "function_call_arguments",
                extra_members: "",
                member: "arguments",
            },
            pieces,
        );
    }
    let usage = r#"{"input_tokens":812,"input_tokens_details":{"cached_tokens":512},"output_tokens":7310,"output_tokens_details":{"reasoning_tokens":640},"total_tokens":8122}"#;
    builder.response("completed", "completed", usage);
    builder.events
}
