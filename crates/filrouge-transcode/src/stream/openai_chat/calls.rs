//! The calls of one answer; several may grow at once.

use std::collections::BTreeMap;

use filrouge_engine::stream::{PieceId, Transcript};
use filrouge_types::RawJson;

use super::wire::{Function, ToolCall};
use crate::stream::json::{self, Raw};

/// A call.
struct Call {
    piece: PieceId,
    /// Its id, escaped as in a JSON string: the server's, or else a generated one.
    id: String,
    is_id_generated: bool,
    name: String,
    /// Whether its arguments are complete, so that no addition is accepted.
    is_complete: bool,
}

/// The calls of one answer.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The positions in `calls`, by the index that the server sends.
    by_index: BTreeMap<u64, usize>,
    /// The position in `calls` of the single call in the older form, which has neither index nor id.
    function_call: Option<usize>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call that was begun last.
    pub(super) fn last_piece(&self) -> Option<PieceId> {
        self.calls.last().map(|call| call.piece)
    }

    /// Decodes a call or an addition to one; `false` if its shape is unknown, or if the call is already
    /// complete.
    pub(super) fn decode(
        &mut self,
        tool_call: &ToolCall<'_>,
        alternative: u32,
        response: &str,
        out: &mut Transcript,
    ) -> bool {
        let function = tool_call.function.as_ref().or(tool_call.custom.as_ref());
        let id = json::nonempty_string(tool_call.id);
        let name = function.and_then(|f| json::nonempty_string(f.name));
        let at = match self.find_call(tool_call.index, id, name) {
            Some(at) => at,
            None => self.begin_call(id, name, alternative, response, out),
        };
        if let Some(index) = tool_call.index {
            self.by_index.insert(index, at);
        }
        let call = &mut self.calls[at];
        let extra = tool_call.extra_content.as_ref();
        let google = extra.and_then(|extra| extra.google.as_ref());
        if let Some(signature) = google.and_then(|g| json::string_token(g.thought_signature)) {
            out.set(call.piece, "provider", "\"google\"");
            out.set(call.piece, "signature", signature);
        }
        if tool_call.custom.is_some() {
            out.set(call.piece, "call_type", "\"custom\"");
        }
        call.add_members(id, function, out)
    }

    /// Decodes a call in the older form, or an addition to it. A response has at most one such call, which has no id,
    /// so its id derives from the response's.
    pub(super) fn decode_function(
        &mut self,
        function: &Function<'_>,
        alternative: u32,
        response: &str,
        out: &mut Transcript,
    ) -> bool {
        let name = json::nonempty_string(function.name);
        let begun = self.function_call;
        let at = begun.unwrap_or_else(|| self.begin_call(None, name, alternative, response, out));
        self.function_call = Some(at);
        self.calls[at].add_members(None, Some(function), out)
    }

    /// Finds the call that an addition belongs to; `None` if it begins another call. The index does not always decide:
    /// some servers leave it out, or send the same index for all calls.
    fn find_call(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let at = match index {
            Some(index) => *self.by_index.get(&index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = self.calls.get(at)?;
        let is_other = match (id, name) {
            // A complete header: another id begins another call, even at the same index.
            (Some(id), Some(_)) => !call.is_id_generated && call.id != id,
            // Without a name, the id decides only if there is no index.
            (Some(id), None) => index.is_none() && !call.is_id_generated && call.id != id,
            // Without an index and an id, a name begins a call.
            (None, Some(_)) => index.is_none(),
            // Only more arguments of the same call.
            (None, None) => false,
        };
        (!is_other).then_some(at)
    }

    fn begin_call(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        alternative: u32,
        response: &str,
        out: &mut Transcript,
    ) -> usize {
        if let Some(previous) = self.calls.last_mut() {
            previous.finish_if_complete(out);
        }
        let at = self.calls.len();
        let is_id_generated = id.is_none();
        let id = match (id, response) {
            (Some(id), _) => id.to_owned(),
            (None, "") => format!("call_{at}"),
            (None, response) => format!("{response}_call_{at}"),
        };
        let name = name.unwrap_or_default().to_owned();
        let piece = out.call(&format!("\"{id}\""), &format!("\"{name}\""), alternative);
        self.calls.push(Call {
            piece,
            id,
            is_id_generated,
            name,
            is_complete: false,
        });
        at
    }

    /// Ends the answer. Its calls are then complete. If the length limit has cut the answer off (`is_cut`), only calls
    /// with complete arguments are.
    pub(super) fn end_answer(&mut self, is_cut: bool, out: &mut Transcript) {
        for call in &mut self.calls {
            if is_cut {
                call.finish_if_complete(out);
            } else {
                out.finish(call.piece);
            }
        }
    }
}

impl Call {
    fn add_members(
        &mut self,
        id: Option<&str>,
        function: Option<&Function<'_>>,
        out: &mut Transcript,
    ) -> bool {
        if let Some(id) = id.filter(|_| self.is_id_generated) {
            id.clone_into(&mut self.id);
            self.is_id_generated = false;
            out.set_call(self.piece, Some(&format!("\"{id}\"")), None);
        }
        let Some(function) = function else {
            return true;
        };
        if let Some(name) = json::nonempty_string(function.name).filter(|name| *name != self.name) {
            // The name arrives in pieces. The providers' own clients concatenate them too.
            self.name.push_str(name);
            out.set_call(self.piece, None, Some(&format!("\"{}\"", self.name)));
        }
        self.add_arguments(function.arguments, out) && self.add_arguments(function.input, out)
    }

    /// Adds arguments: a string with their text or, from some servers, the value itself.
    fn add_arguments(&self, raw: Raw<'_>, out: &mut Transcript) -> bool {
        match (json::string_content(raw), json::non_null(raw)) {
            (Some(""), _) | (None, None) => true,
            (Some(text), _) => out.push(self.piece, text),
            (None, Some(value)) => out.push(self.piece, &json::escape_text(value)),
        }
    }

    /// Completes the call if its arguments are a complete JSON object; otherwise they may continue.
    fn finish_if_complete(&mut self, out: &mut Transcript) {
        if self.is_complete {
            return;
        }
        let text = out.text(self.piece).unwrap_or_default();
        let plain: Option<String> = json::read(&format!("\"{text}\""));
        let args = plain.and_then(|plain| RawJson::parse(&plain).ok());
        self.is_complete = args.is_some_and(|args| args.is_object());
        if self.is_complete {
            out.finish(self.piece);
        }
    }
}
