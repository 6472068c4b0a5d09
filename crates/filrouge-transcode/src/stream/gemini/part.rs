//! The parts of an answer.

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use super::CallIds;
use super::candidate::{Candidate, Growing};
use super::partial::PartialArgs;
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

/// The transcript in which the parts of the candidate `index` are recorded, and the ids of its calls.
pub(super) struct Destination<'t> {
    pub(super) index: u32,
    pub(super) call_ids: &'t mut CallIds,
    pub(super) out: &'t mut Transcript,
}

impl Candidate {
    /// Decodes a part; `false` if it is unknown.
    pub(super) fn decode_part(
        &mut self,
        raw: &str,
        part: &Part<'_>,
        to: &mut Destination<'_>,
    ) -> bool {
        let signature = json::nonempty_token(part.thought_signature);
        let thought = part.thought == Some(true);
        if let Some(call) = &part.function_call {
            self.record_call(call, signature, to);
        } else if let Some(media) = part.inline_data.as_ref().or(part.file_data.as_ref()) {
            self.record_media(media, thought, signature, to);
        } else if let Some(code) = part.executable_code {
            let id = json::read::<Code<'_>>(code.get()).and_then(|code| code.id);
            self.record_provider_call(id, Some("\"code_execution\""), code.get(), signature, to);
        } else if let Some(execution) = &part.code_execution_result {
            self.record_code_result(execution, to);
        } else if let Some(call) = &part.tool_call {
            let args = json::non_null(call.args).unwrap_or("{}");
            let name = json::string_token(call.tool_type);
            self.record_provider_call(call.id, name, args, signature, to);
        } else if let Some(answer) = part
            .function_response
            .as_ref()
            .or(part.tool_response.as_ref())
        {
            self.record_provider_result(answer, to);
        } else if part.text.is_some() || signature.is_some() {
            let text = json::string_content(part.text).unwrap_or_default();
            if thought {
                self.add_thought(text, signature, to);
            } else {
                self.add_text(text, signature, to);
            }
        } else {
            return raw == "{}";
        }
        true
    }

    fn add_text(&mut self, text: &str, signature: Option<&str>, to: &mut Destination<'_>) {
        let piece = match self.growing {
            Some(Growing::Text(piece)) => piece,
            // A signature without a text belongs to the preceding thought.
            _ if text.is_empty() && signature.is_some() => {
                return self.add_thought("", signature, to);
            }
            _ if text.is_empty() => return,
            _ => {
                self.finish_growing(to.out);
                let piece = to.out.begin_message(PieceKind::Text, to.index, true);
                self.growing = Some(Growing::Text(piece));
                piece
            }
        };
        to.out.push(piece, text);
        sign(piece, signature, to.out);
    }

    fn add_thought(&mut self, text: &str, signature: Option<&str>, to: &mut Destination<'_>) {
        let piece = match self.growing {
            Some(Growing::Thought(piece)) => piece,
            _ => {
                self.finish_growing(to.out);
                let piece = to.out.begin_reasoning(to.index);
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
    fn record_call(&mut self, call: &Call<'_>, signature: Option<&str>, to: &mut Destination<'_>) {
        let begun = self
            .partial
            .take_if(|_| json::nonempty_string(call.name).is_none());
        let mut partial = begun.unwrap_or_else(|| {
            self.finish_growing(to.out);
            let id = to.call_ids.assign_id(call.id);
            let name = json::string_token(call.name).unwrap_or("\"\"");
            self.has_open_calls = true;
            PartialArgs::new(to.out.call(&id, name, to.index))
        });
        for arg in call.partial_args.iter().flatten() {
            partial.add(arg.get(), to.out);
        }
        if let Some(args) = json::non_null(call.args).filter(|_| call.partial_args.is_none()) {
            to.out.push(partial.piece, &json::escape_text(args));
        }
        sign(partial.piece, signature, to.out);
        if call.will_continue == Some(true) {
            self.partial = Some(partial);
        } else {
            partial.finish(to.out);
        }
    }

    /// Records a call that the provider itself answers.
    fn record_provider_call(
        &mut self,
        id: Raw<'_>,
        name: Option<&str>,
        args: &str,
        signature: Option<&str>,
        to: &mut Destination<'_>,
    ) {
        self.finish_growing(to.out);
        let id = to.call_ids.assign_id(id);
        let piece = to.out.call(&id, name.unwrap_or("\"\""), to.index);
        to.out.push(piece, &json::escape_text(args));
        sign(piece, signature, to.out);
        to.out.finish(piece);
        self.running_call = Some(id);
    }

    fn record_code_result(&mut self, execution: &Execution<'_>, to: &mut Destination<'_>) {
        let ok =
            json::string_content(execution.outcome).is_none_or(|outcome| outcome == "OUTCOME_OK");
        let output = json::string_token(execution.output).unwrap_or("\"\"");
        self.record_result(execution.id, ok, output, to);
    }

    fn record_provider_result(&mut self, answer: &Answer<'_>, to: &mut Destination<'_>) {
        let id = answer
            .id
            .or(answer.name.filter(|_| self.running_call.is_none()));
        let response =
            json::non_null(answer.response).map_or_else(|| "\"\"".to_owned(), json::storable);
        self.record_result(id, true, &response, to);
    }

    /// Records the result of a tool that the provider runs. Without an id, it belongs to the newest call that has no
    /// result.
    fn record_result(&mut self, id: Raw<'_>, ok: bool, content: &str, to: &mut Destination<'_>) {
        self.finish_growing(to.out);
        let running_call = self.running_call.take();
        let own_id = json::nonempty_token(id).map(str::to_owned);
        let id = own_id.or(running_call);
        let id = id.unwrap_or_else(|| to.call_ids.assign_id(None));
        json::add_result(to.out, &id, ok, content);
    }

    /// Records an image or a file, in the answer or in a thought.
    fn record_media(
        &mut self,
        media: &Media<'_>,
        thought: bool,
        signature: Option<&str>,
        to: &mut Destination<'_>,
    ) {
        let image =
            json::string_content(media.mime_type).is_some_and(|mime| mime.starts_with("image/"));
        let kind = if image { "image_url" } else { "file" };
        let mut part = format!(r#"{{"type":"{kind}""#);
        let members = [
            ("mime", json::string_token(media.mime_type)),
            ("data", json::string_token(media.data)),
            ("url", json::string_token(media.file_uri)),
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
            to.out.add_item(Role::Assistant, Channel::Thought, parts);
        } else {
            to.out.add_part(&part, to.index);
        }
    }
}

/// Records a signature with its part.
fn sign(piece: PieceId, signature: Option<&str>, out: &mut Transcript) {
    if let Some(signature) = signature {
        out.set(piece, "provider", "\"google\"");
        out.set(piece, "signature", signature);
    }
}
