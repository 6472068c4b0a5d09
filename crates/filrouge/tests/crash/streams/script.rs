//! Generates a provider's stream: the same words and calls in each format.

use std::fmt::Write as _;

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Chat,
    Anthropic,
    Responses,
    Gemini,
    AgUi,
}

impl Format {
    pub(super) const ALL: [Self; 5] = [
        Self::Chat,
        Self::Anthropic,
        Self::Responses,
        Self::Gemini,
        Self::AgUi,
    ];

    /// The value of `format=`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::AgUi => "ag-ui",
        }
    }
}

/// A piece of a stream: its bytes, and their content.
pub(super) struct Piece {
    pub(super) bytes: String,
    /// The content, in the notation of [`call_start`] and [`CALL_END`].
    pub(super) content: String,
    /// Whether the server must show or record the piece at once. It holds back the arguments of an unfinished call,
    /// which may become a credential, and chat completions do not mark where a call ends.
    pub(super) shown: bool,
}

/// Returns the notation for the start of a call.
pub(super) fn call_start(id: &str) -> String {
    format!("\u{1}{id}\u{2}")
}

/// The notation for the end of a call, after its arguments.
pub(super) const CALL_END: &str = "\u{3}";

/// A text that has not ended.
struct OpenText {
    index: u64,
    text: String,
}

/// Generates one stream.
pub(super) struct Script {
    format: Format,
    /// A tag that is unique among all streams of the test.
    tag: String,
    /// The index of the next text or call.
    index: u64,
    calls: u64,
    open: Option<OpenText>,
    ends_with_call: bool,
}

fn event(kind: &str, data: &Value) -> String {
    format!("event: {kind}\ndata: {data}\n\n")
}

fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Formats an event whose data contains its name as `type`.
fn typed(mut members: Value, kind: &str) -> String {
    members["type"] = kind.into();
    event(kind, &members)
}

fn choice(delta: &Value, finish: Option<&str>) -> String {
    data(
        &json!({"id": "c", "object": "chat.completion.chunk", "model": "m-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
    )
}

fn candidate(part: &Value, finish: Option<&str>) -> String {
    let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    data(&json!({"candidates": [candidate], "modelVersion": "m-1", "responseId": "g"}))
}

impl Script {
    pub(super) fn new(format: Format, tag: String) -> Self {
        Self {
            format,
            tag,
            index: 0,
            calls: 0,
            open: None,
            ends_with_call: false,
        }
    }

    /// Returns the bytes before the first word.
    pub(super) fn begin(&self) -> String {
        match self.format {
            Format::Chat | Format::Gemini => String::new(),
            Format::Anthropic => typed(
                json!({"message": {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": [],
                    "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
                "message_start",
            ),
            Format::Responses => typed(
                json!({"response": {"id": "r", "object": "response", "status": "in_progress", "model": "m-1", "output": []}}),
                "response.created",
            ),
            Format::AgUi => data(&json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})),
        }
    }

    /// Returns word `n`, or a call in several pieces if `calls` are allowed.
    pub(super) fn next(&mut self, n: usize, calls: bool, rng: &mut StdRng) -> Vec<Piece> {
        // In chat completions, calls follow all text.
        let only_calls = self.format == Format::Chat && self.calls > 0;
        if only_calls || (calls && n > 3 && rng.random_bool(0.08)) {
            self.ends_with_call = true;
            return self.call();
        }
        self.ends_with_call = false;
        let mut word = format!("{}.{n}", self.tag);
        for _ in 0..rng.random_range(0..4) {
            let _ = write!(
                word,
                " {}",
                ["né", "\u{1f9f5}", "\"x\"", "\\n\n", "und"][rng.random_range(0..5)]
            );
        }
        word.push(' ');
        vec![Piece {
            bytes: self.text_event(&word),
            content: word,
            shown: true,
        }]
    }

    fn text_event(&mut self, word: &str) -> String {
        let mut out = String::new();
        let index = match &mut self.open {
            Some(open) => {
                open.text.push_str(word);
                open.index
            }
            None => {
                let index = self.index;
                self.index += 1;
                out = self.start_text(index);
                self.open = Some(OpenText {
                    index,
                    text: word.to_owned(),
                });
                index
            }
        };
        out + &match self.format {
            Format::Chat => choice(&json!({"role": "assistant", "content": word}), None),
            Format::Anthropic => typed(
                json!({"index": index, "delta": {"type": "text_delta", "text": word}}),
                "content_block_delta",
            ),
            Format::Responses => typed(
                json!({"item_id": format!("m{index}"), "output_index": index, "content_index": 0, "delta": word}),
                "response.output_text.delta",
            ),
            Format::Gemini => candidate(&json!({"text": word}), None),
            Format::AgUi => data(
                &json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": format!("m{index}"), "delta": word}),
            ),
        }
    }

    fn start_text(&self, index: u64) -> String {
        let id = format!("m{index}");
        match self.format {
            Format::Chat | Format::Gemini => String::new(),
            Format::Anthropic => typed(
                json!({"index": index, "content_block": {"type": "text", "text": ""}}),
                "content_block_start",
            ),
            Format::Responses => {
                typed(
                    json!({"output_index": index, "item": {"id": id, "type": "message", "status": "in_progress",
                        "content": [], "role": "assistant"}}),
                    "response.output_item.added",
                ) + &typed(
                    json!({"item_id": id, "output_index": index, "content_index": 0,
                        "part": {"type": "output_text", "annotations": [], "text": ""}}),
                    "response.content_part.added",
                )
            }
            Format::AgUi => {
                data(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}))
            }
        }
    }

    fn end_text(&mut self) -> String {
        let Some(OpenText { index, text }) = self.open.take() else {
            return String::new();
        };
        let id = format!("m{index}");
        match self.format {
            Format::Chat | Format::Gemini => String::new(),
            Format::Anthropic => typed(json!({"index": index}), "content_block_stop"),
            Format::Responses => {
                typed(
                    json!({"item_id": id, "output_index": index, "content_index": 0, "text": text}),
                    "response.output_text.done",
                ) + &typed(
                    json!({"output_index": index, "item": {"id": id, "type": "message", "status": "completed",
                        "role": "assistant", "content": [{"type": "output_text", "annotations": [], "text": text}]}}),
                    "response.output_item.done",
                )
            }
            Format::AgUi => data(&json!({"type": "TEXT_MESSAGE_END", "messageId": id})),
        }
    }

    fn call(&mut self) -> Vec<Piece> {
        let closed = self.end_text();
        let id = format!("call-{}-{}", self.tag, self.calls);
        let args = json!({ "where": format!("left of {} ü", self.calls) });
        let call = Call {
            index: self.index,
            call_index: self.calls,
            id,
            text: args.to_string(),
            args,
        };
        (self.index, self.calls) = (self.index + 1, self.calls + 1);
        let mut pieces = match self.format {
            Format::Chat => call.chat(),
            Format::Anthropic => call.anthropic(),
            Format::Responses => call.responses(),
            Format::Gemini => call.gemini(),
            Format::AgUi => call.ag_ui(),
        };
        pieces[0].0.insert_str(0, &closed);
        let (last, marks_end) = (pieces.len() - 1, self.format != Format::Chat);
        let piece = |(n, (bytes, content))| Piece {
            bytes,
            content,
            shown: marks_end && n == last,
        };
        pieces.into_iter().enumerate().map(piece).collect()
    }

    /// Returns the bytes that end the stream, after the answer or after calls whose results are pending.
    pub(super) fn finish(&mut self) -> String {
        let pending = self.ends_with_call;
        let closed = self.end_text();
        closed
            + &match self.format {
                Format::Chat => {
                    let reason = if self.calls > 0 { "tool_calls" } else { "stop" };
                    choice(&json!({}), Some(reason)) + "data: [DONE]\n\n"
                }
                Format::Anthropic => {
                    let reason = if pending { "tool_use" } else { "end_turn" };
                    typed(
                        json!({"delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
                        "message_delta",
                    ) + &typed(json!({}), "message_stop")
                }
                Format::Responses => typed(
                    json!({"response": {"id": "r", "object": "response", "status": "completed", "model": "m-1"}}),
                    "response.completed",
                ),
                Format::Gemini => candidate(&json!({"text": ""}), Some("STOP")),
                Format::AgUi => {
                    data(&json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}))
                }
            }
    }
}

/// A tool call.
struct Call {
    /// Its index among all texts and calls.
    index: u64,
    call_index: u64,
    id: String,
    args: Value,
    text: String,
}

/// The bytes of a piece, and their content.
type Pair = (String, String);

impl Call {
    /// Splits the arguments into two pieces.
    fn split_args(&self) -> (&str, &str) {
        let middle = self.text.char_indices().nth(9).map_or(0, |(at, _)| at);
        self.text.split_at(middle)
    }

    /// Returns a call in four pieces: the start, the arguments in two pieces, and the end.
    fn call_pieces(&self, start: String, args: impl Fn(&str) -> String, end: String) -> Vec<Pair> {
        let (one, two) = self.split_args();
        vec![
            (start, call_start(&self.id)),
            (args(one), one.to_owned()),
            (args(two), two.to_owned()),
            (end, CALL_END.to_owned()),
        ]
    }

    fn chat(&self) -> Vec<Pair> {
        let (one, two) = self.split_args();
        let piece = |call: Value| choice(&json!({ "tool_calls": [call] }), None);
        let args =
            |part: &str| piece(json!({"index": self.call_index, "function": {"arguments": part}}));
        let start = json!({"index": self.call_index, "id": self.id, "type": "function",
            "function": {"name": "look", "arguments": ""}});
        vec![
            (piece(start), call_start(&self.id)),
            (args(one), one.to_owned()),
            (args(two), two.to_owned() + CALL_END),
        ]
    }

    fn anthropic(&self) -> Vec<Pair> {
        let index = self.index;
        let block = json!({"type": "tool_use", "id": self.id, "name": "look", "input": {}});
        self.call_pieces(
            typed(
                json!({"index": index, "content_block": block}),
                "content_block_start",
            ),
            |part| {
                let delta = json!({"type": "input_json_delta", "partial_json": part});
                typed(
                    json!({"index": index, "delta": delta}),
                    "content_block_delta",
                )
            },
            typed(json!({ "index": index }), "content_block_stop"),
        )
    }

    fn responses(&self) -> Vec<Pair> {
        let (index, id) = (self.index, format!("f{}", self.index));
        let item = |arguments: &str, status: &str| {
            json!({"output_index": index, "item": {"id": id, "type": "function_call", "status": status,
                "call_id": self.id, "name": "look", "arguments": arguments}})
        };
        self.call_pieces(
            typed(item("", "in_progress"), "response.output_item.added"),
            |part| {
                typed(
                    json!({"item_id": id, "output_index": index, "delta": part}),
                    "response.function_call_arguments.delta",
                )
            },
            typed(item(&self.text, "completed"), "response.output_item.done"),
        )
    }

    fn gemini(&self) -> Vec<Pair> {
        let call = json!({"functionCall": {"id": self.id, "name": "look", "args": self.args}});
        let content = call_start(&self.id) + &self.text + CALL_END;
        vec![(candidate(&call, None), content)]
    }

    fn ag_ui(&self) -> Vec<Pair> {
        let call_event = |kind: &str, delta: &str| {
            data(
                &json!({"type": kind, "toolCallId": self.id, "toolCallName": "look", "delta": delta}),
            )
        };
        self.call_pieces(
            call_event("TOOL_CALL_START", ""),
            |part| call_event("TOOL_CALL_ARGS", part),
            call_event("TOOL_CALL_END", ""),
        )
    }
}
