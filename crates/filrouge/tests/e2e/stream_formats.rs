//! A stream in each provider's format is recorded over HTTP.

use serde_json::json;

use crate::streams::assert_readable_in_every_format;
use crate::upload_client::{Upload, answer_end, text_chunk, turn};
use crate::world::World;

#[test]
fn every_format_is_recorded() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let formats = client.get("/api/v1/info").body()["stream_formats"].clone();
    let streams = [
        ("openai-chat", text_chunk("Left.") + &answer_end()),
        ("openai-responses", RESPONSES.to_owned()),
        ("anthropic", ANTHROPIC.to_owned()),
        ("gemini", GEMINI.to_owned()),
        ("ag-ui", AG_UI.to_owned()),
    ];
    let names: Vec<&str> = streams.iter().map(|(name, _)| *name).collect();
    assert_eq!(formats, json!(names));
    for (format, stream) in streams {
        let path = turn(&client, format);
        let target = format!("{path}/stream?format={format}");
        let mut upload = Upload::begin(
            server.origin(),
            &target,
            &[("content-type", "text/event-stream")],
        );
        for line in stream.split_inclusive('\n') {
            upload.send(line);
        }
        let turn = upload.end().wrote(200);
        assert_eq!(
            (&turn["status"], &turn["answer_neutral"]),
            (&json!("finalized"), &json!("Left.")),
            "{format}: {turn}"
        );
        assert_readable_in_every_format(&client);
    }
    server.stop();
    world.verify();
}

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m-1","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"i","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"item_id":"i","output_index":0,"content_index":0,"delta":"Left."}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":4,"item_id":"i","output_index":0,"content_index":0,"text":"Left."}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":5,"output_index":0,"item":{"id":"i","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Left.","annotations":[]}]}}

event: response.completed
data: {"type":"response.completed","sequence_number":6,"response":{"id":"r","object":"response","status":"completed","model":"m-1","output":[{"id":"i","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Left.","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}

"#;

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Left."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#;

const GEMINI: &str = r#"data: {"candidates":[{"content":{"parts":[{"text":"Le"}],"role":"model"},"index":0}],"modelVersion":"m-1","responseId":"g"}

data: {"candidates":[{"content":{"parts":[{"text":"ft."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5},"modelVersion":"m-1","responseId":"g"}

"#;

const AG_UI: &str = r#"data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}

data: {"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}

data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Left."}

data: {"type":"TEXT_MESSAGE_END","messageId":"m"}

data: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}

"#;
