//! The parts of an answer.

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use super::Calls;
use super::candidate::{Candidate, Growing};
use super::partial::Partial;
use crate::stream::json::{self, Raw};

json::members! {
    #[serde(rename_all = "camelCase")]
    Part {
        text, thought: Option<bool>, thought_signature, function_call: Option<Call<'a>>,
        function_response: Option<Answer<'a>>, tool_call: Option<Call<'a>>,
        tool_response: Option<Answer<'a>>, inline_data: Option<Media<'a>>, file_data: Option<Media<'a>>,
        executable_code, code_execution_result: Option<Execution<'a>>,
    }

    #[serde(rename_all = "camelCase")]
    Call {
        id, name,
        /// The name of a tool that the provider runs.
        tool_type,
        args,
        /// Arguments in pieces (Vertex, `streamFunctionCallArguments`).
        partial_args: Option<Vec<&'a RawValue>>,
        will_continue: Option<bool>,
    }

    Answer { id, name, response }

    #[serde(rename_all = "camelCase")]
    Media { mime_type, data, file_uri }

    Code { id }

    Execution { id, outcome, output }
}

/// Where the parts of the candidate `index` are recorded.
pub(super) struct Destination<'t> {
    pub(super) index: u32,
    pub(super) calls: &'t mut Calls,
    pub(super) out: &'t mut Transcript,
}

impl Candidate {
    /// Decodes a part; `false` if it is unknown.
    pub(super) fn part(&mut self, raw: &str, part: &Part<'_>, to: &mut Destination<'_>) -> bool {
        let signature = json::token(part.thought_signature).filter(|s| *s != "\"\"");
        let thought = part.thought == Some(true);
        if let Some(call) = &part.function_call {
            self.call(call, signature, to);
        } else if let Some(media) = part.inline_data.as_ref().or(part.file_data.as_ref()) {
            self.media(media, thought, signature, to);
        } else if let Some(code) = part.executable_code {
            self.execute(code, signature, to);
        } else if let Some(execution) = &part.code_execution_result {
            self.executed(execution, to);
        } else if let Some(call) = &part.tool_call {
            let args = json::value(call.args).unwrap_or("{}");
            self.provider_call(call.id, json::token(call.tool_type), args, signature, to);
        } else if let Some(answer) = part
            .function_response
            .as_ref()
            .or(part.tool_response.as_ref())
        {
            self.answer(answer, to);
        } else if part.text.is_some() || signature.is_some() {
            let text = json::inner(part.text).unwrap_or_default();
            if thought {
                self.think(text, signature, to);
            } else {
                self.say(text, signature, to);
            }
        } else {
            return raw == "{}";
        }
        true
    }

    fn say(&mut self, text: &str, signature: Option<&str>, to: &mut Destination<'_>) {
        let piece = match self.growing {
            Some(Growing::Text(piece)) => piece,
            // A signature without a text belongs to the preceding thought.
            _ if text.is_empty() && signature.is_some() => return self.think("", signature, to),
            _ if text.is_empty() => return,
            _ => {
                self.finish_growing(to.out);
                let piece = to.out.say(PieceKind::Text, to.index, true);
                self.growing = Some(Growing::Text(piece));
                piece
            }
        };
        to.out.push(piece, text);
        sign(piece, signature, to.out);
    }

    fn think(&mut self, text: &str, signature: Option<&str>, to: &mut Destination<'_>) {
        let piece = match self.growing {
            Some(Growing::Thought(piece)) => piece,
            _ => {
                self.finish_growing(to.out);
                let piece = to.out.think(to.index);
                to.out.set(piece, "provider", "\"google\"");
                self.growing = Some(Growing::Thought(piece));
                piece
            }
        };
        to.out.push(piece, text);
        if signature.is_some() {
            sign(piece, signature, to.out);
            // A signature seals the preceding text.
            self.finish_growing(to.out);
        }
    }

    /// Decodes a call that the caller must answer: a complete one, or a piece of one.
    fn call(&mut self, call: &Call<'_>, signature: Option<&str>, to: &mut Destination<'_>) {
        let begun = self.partial.take_if(|_| json::some(call.name).is_none());
        let mut partial = begun.unwrap_or_else(|| {
            self.finish_growing(to.out);
            let id = to.calls.id(call.id);
            let name = json::token(call.name).unwrap_or("\"\"");
            self.waits = true;
            Partial::new(to.out.call(&id, name, to.index))
        });
        for arg in call.partial_args.iter().flatten() {
            partial.take(arg.get(), to.out);
        }
        if let Some(args) = json::value(call.args).filter(|_| call.partial_args.is_none()) {
            to.out.push(partial.piece, &json::escaped(args));
        }
        sign(partial.piece, signature, to.out);
        if call.will_continue == Some(true) {
            self.partial = Some(partial);
        } else {
            partial.end(to.out);
        }
    }

    /// Records a call that the provider itself answers.
    fn provider_call(
        &mut self,
        id: Raw<'_>,
        name: Option<&str>,
        args: &str,
        signature: Option<&str>,
        to: &mut Destination<'_>,
    ) {
        self.finish_growing(to.out);
        let id = to.calls.id(id);
        let piece = to.out.call(&id, name.unwrap_or("\"\""), to.index);
        to.out.push(piece, &json::escaped(args));
        sign(piece, signature, to.out);
        to.out.finish(piece);
        self.running = Some(id);
    }

    fn execute(&mut self, code: &RawValue, signature: Option<&str>, to: &mut Destination<'_>) {
        let id = json::read::<Code<'_>>(code.get()).and_then(|code| code.id);
        self.provider_call(id, Some("\"code_execution\""), code.get(), signature, to);
    }

    fn executed(&mut self, execution: &Execution<'_>, to: &mut Destination<'_>) {
        let ok = json::inner(execution.outcome).is_none_or(|outcome| outcome == "OUTCOME_OK");
        let output = json::token(execution.output).unwrap_or("\"\"").to_owned();
        self.result(execution.id, ok, &output, to);
    }

    fn answer(&mut self, answer: &Answer<'_>, to: &mut Destination<'_>) {
        let id = answer.id.or(answer.name.filter(|_| self.running.is_none()));
        let response = json::value(answer.response).map_or_else(|| "\"\"".to_owned(), json::kept);
        self.result(id, true, &response, to);
    }

    /// Records the result of a tool that the provider runs. Without an id, it belongs to the newest call that has no
    /// result.
    fn result(&mut self, id: Raw<'_>, ok: bool, content: &str, to: &mut Destination<'_>) {
        self.finish_growing(to.out);
        let running = self.running.take();
        let own_id = json::token(id)
            .filter(|id| *id != "\"\"")
            .map(str::to_owned);
        let id = own_id.or(running).unwrap_or_else(|| to.calls.id(None));
        let parts =
            format!(r#"[{{"type":"tool_result","call_id":{id},"ok":{ok},"content":{content}}}]"#);
        to.out.whole(Role::Tool, Channel::ToolResult, parts);
    }

    /// Records an image or a file, in the answer or in a thought.
    fn media(
        &mut self,
        media: &Media<'_>,
        thought: bool,
        signature: Option<&str>,
        to: &mut Destination<'_>,
    ) {
        let image = json::inner(media.mime_type).is_some_and(|mime| mime.starts_with("image/"));
        let kind = if image { "image_url" } else { "file" };
        let mut part = format!(r#"{{"type":"{kind}""#);
        let members = [
            ("mime", json::token(media.mime_type)),
            ("data", json::token(media.data)),
            ("url", json::token(media.file_uri)),
            ("provider", signature.map(|_| "\"google\"")),
            ("signature", signature),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                part.extend([",\"", name, "\":", value]);
            }
        }
        part.push('}');
        self.finish_growing(to.out);
        if thought {
            let parts = format!("[{part}]");
            to.out.whole(Role::Assistant, Channel::Thought, parts);
        } else {
            to.out.say_whole(&part, to.index);
        }
    }
}

/// Records a signature with its part.
fn sign(piece: PieceNo, signature: Option<&str>, out: &mut Transcript) {
    if let Some(signature) = signature {
        out.set(piece, "provider", "\"google\"");
        out.set(piece, "signature", signature);
    }
}
