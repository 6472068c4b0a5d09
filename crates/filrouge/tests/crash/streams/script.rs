//! What a provider sends: the same words and calls, written in each format.

use std::fmt::Write as _;

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// What a stream is written in.
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
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::AgUi => "ag-ui",
        }
    }
}

/// Some bytes of a stream, and what they say.
pub(super) struct Piece {
    pub(super) bytes: String,
    /// As [`call_began`] and [`call_ended`] write it.
    pub(super) says: String,
    /// Whether a draft may show it at once: arguments of calls are held back as long as they could become a credential,
    /// and chat completions do not tell where a call ends.
    pub(super) shown: bool,
}

/// How a call begins among what was said.
pub(super) fn call_began(id: &str) -> String {
    format!("\u{1}{id}\u{2}")
}

/// How a call ends, behind its arguments.
pub(super) fn call_ended() -> &'static str {
    "\u{3}"
}

/// A text under way.
struct Open {
    index: u64,
    text: String,
}

/// Writes one stream.
pub(super) struct Script {
    format: Format,
    /// Unique among all streams of the test.
    tag: String,
    index: u64,
    calls: u64,
    open: Option<Open>,
    ends_with_call: bool,
}

fn event(kind: &str, data: &Value) -> String {
    format!("event: {kind}\ndata: {data}\n\n")
}

fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

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

    /// What comes before the first word.
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

    /// The next word, or the next call in several pieces.
    pub(super) fn next(&mut self, n: usize, calls: bool, rng: &mut StdRng) -> Vec<Piece> {
        // Chat completions call tools behind all that is said.
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
            bytes: self.say(&word),
            says: word,
            shown: true,
        }]
    }

    fn say(&mut self, word: &str) -> String {
        let mut out = String::new();
        let index = match &mut self.open {
            Some(open) => {
                open.text.push_str(word);
                open.index
            }
            None => {
                let index = self.index;
                self.index += 1;
                out = self.opening(index);
                self.open = Some(Open {
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

    fn opening(&self, index: u64) -> String {
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

    fn close(&mut self) -> String {
        let Some(Open { index, text }) = self.open.take() else {
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
        let closed = self.close();
        let (id, index) = (format!("call-{}-{}", self.tag, self.calls), self.index);
        let args = json!({ "where": format!("left of {} ü", self.calls) });
        let text = args.to_string();
        let middle = text.char_indices().nth(9).map_or(0, |(at, _)| at);
        let (one, two) = text.split_at(middle);
        let place = self.calls;
        (self.index, self.calls) = (self.index + 1, self.calls + 1);
        let whole = call_began(&id) + &text + call_ended();
        let mut pieces: Vec<(String, String)> = match self.format {
            Format::Gemini => vec![(
                candidate(
                    &json!({"functionCall": {"id": id, "name": "look", "args": args}}),
                    None,
                ),
                whole,
            )],
            Format::Chat => {
                let more = |part: &str| {
                    choice(
                        &json!({"tool_calls": [{"index": place, "function": {"arguments": part}}]}),
                        None,
                    )
                };
                let begin = json!({"tool_calls": [{"index": place, "id": id, "type": "function",
                    "function": {"name": "look", "arguments": ""}}]});
                vec![
                    (choice(&begin, None), call_began(&id)),
                    (more(one), one.to_owned()),
                    (more(two), two.to_owned() + call_ended()),
                ]
            }
            Format::Anthropic => {
                let more = |part: &str| {
                    typed(
                        json!({"index": index, "delta": {"type": "input_json_delta", "partial_json": part}}),
                        "content_block_delta",
                    )
                };
                let begin = json!({"index": index, "content_block":
                    {"type": "tool_use", "id": id, "name": "look", "input": {}}});
                vec![
                    (typed(begin, "content_block_start"), call_began(&id)),
                    (more(one), one.to_owned()),
                    (more(two), two.to_owned()),
                    (
                        typed(json!({"index": index}), "content_block_stop"),
                        call_ended().to_owned(),
                    ),
                ]
            }
            Format::Responses => {
                let item = |arguments: &str, status: &str| {
                    json!({"output_index": index, "item": {"id": format!("f{index}"), "type": "function_call",
                        "status": status, "call_id": id, "name": "look", "arguments": arguments}})
                };
                let more = |part: &str| {
                    typed(
                        json!({"item_id": format!("f{index}"), "output_index": index, "delta": part}),
                        "response.function_call_arguments.delta",
                    )
                };
                vec![
                    (
                        typed(item("", "in_progress"), "response.output_item.added"),
                        call_began(&id),
                    ),
                    (more(one), one.to_owned()),
                    (more(two), two.to_owned()),
                    (
                        typed(item(&text, "completed"), "response.output_item.done"),
                        call_ended().to_owned(),
                    ),
                ]
            }
            Format::AgUi => {
                let told = |kind: &str, delta: &str| {
                    data(
                        &json!({"type": kind, "toolCallId": id, "toolCallName": "look", "delta": delta}),
                    )
                };
                vec![
                    (told("TOOL_CALL_START", ""), call_began(&id)),
                    (told("TOOL_CALL_ARGS", one), one.to_owned()),
                    (told("TOOL_CALL_ARGS", two), two.to_owned()),
                    (told("TOOL_CALL_END", ""), call_ended().to_owned()),
                ]
            }
        };
        pieces[0].0.insert_str(0, &closed);
        let last = pieces.len() - 1;
        let told = self.format != Format::Chat;
        let piece = |(n, (bytes, says))| Piece {
            bytes,
            says,
            shown: told && n == last,
        };
        pieces.into_iter().enumerate().map(piece).collect()
    }

    /// The end of the stream: the answer, or calls that wait.
    pub(super) fn finish(&mut self) -> String {
        let waits = self.ends_with_call;
        let closed = self.close();
        closed
            + &match self.format {
                Format::Chat => {
                    let reason = if self.calls > 0 { "tool_calls" } else { "stop" };
                    choice(&json!({}), Some(reason)) + "data: [DONE]\n\n"
                }
                Format::Anthropic => {
                    let reason = if waits { "tool_use" } else { "end_turn" };
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
