//! Decodes the tool calls of a response. Some calls wait for the caller's result. The provider runs the others and
//! sends their results in the same response.

use filrouge_engine::stream::{PieceNo, Transcript};
use filrouge_types::{Channel, Role};

use super::Waiting;
use super::items::{Item, set_complete_text};
use crate::stream::json::{self, Raw};

/// The beginning of the code interpreter's arguments, which are recorded as `{"code":…}`. It is escaped, because texts
/// are recorded as they are spelled inside a JSON string.
pub(super) const CODE_BEGINS: &str = r#"{\"code\":\""#;

/// A call that has begun.
pub(super) enum StartedCall {
    /// A call whose arguments arrive as text, in deltas.
    Text(PieceNo),
    /// A call of the code interpreter, whose code arrives in deltas.
    Code(PieceNo),
    /// A call whose arguments arrive only with its end event.
    Silent(PieceNo),
}

/// Begins a call; `None` if the item is not a call. `kind` is the item's type, and `at` its output index.
pub(super) fn begin(
    kind: &str,
    at: u64,
    item: &Item<'_>,
    out: &mut Transcript,
) -> Option<StartedCall> {
    let id = call_id(at, item);
    let own = match kind {
        "function_call" | "custom_tool_call" | "mcp_call" => {
            let name = json::token(item.name).unwrap_or("\"\"");
            let piece = out.call(&id, name, 0);
            if kind == "custom_tool_call" {
                out.set(piece, "call_type", "\"custom\"");
            }
            if let Some(label) = json::token(item.server_label) {
                out.set(piece, "server_label", label);
            }
            return Some(StartedCall::Text(piece));
        }
        "code_interpreter_call" => {
            let piece = out.call(&id, "\"code_interpreter\"", 0);
            return Some(StartedCall::Code(piece));
        }
        "web_search_call" => "\"web_search\"",
        "file_search_call" => "\"file_search\"",
        "image_generation_call" => "\"image_generation\"",
        "tool_search_call" => "\"tool_search\"",
        "computer_call" => "\"computer\"",
        "local_shell_call" => "\"local_shell\"",
        "shell_call" => "\"shell\"",
        "apply_patch_call" => "\"apply_patch\"",
        _ => return None,
    };
    Some(StartedCall::Silent(out.call(&id, own, 0)))
}

/// The id that a call and its result share, as a JSON string. If the provider gives none, it is made from the output
/// index `at`.
fn call_id(at: u64, item: &Item<'_>) -> String {
    let nonempty = |raw| json::token(raw).filter(|token| *token != "\"\"");
    match nonempty(item.call_id).or_else(|| nonempty(item.id)) {
        Some(id) => id.to_owned(),
        None => format!("\"call_{at}\""),
    }
}

/// Completes a call whose arguments are text, from its end event: the id, the name and the arguments.
pub(super) fn texts(piece: PieceNo, item: &Item<'_>, out: &mut Transcript) {
    let nonempty = |raw| json::token(raw).filter(|token| *token != "\"\"");
    out.name_call(piece, nonempty(item.call_id), nonempty(item.name));
    if let Some(text) = json::inner(item.arguments).or_else(|| json::inner(item.input)) {
        set_complete_text(piece, 0, text, out);
    }
}

/// Completes the arguments of a code interpreter call, from its end event. `begun` says whether any code arrived
/// before.
pub(super) fn code_end(piece: PieceNo, begun: bool, item: &Item<'_>, out: &mut Transcript) {
    let code = json::inner(item.code);
    if !begun && code.is_none() {
        return;
    }
    if !begun {
        out.push(piece, CODE_BEGINS);
    }
    let code = code.map(json::escaped).unwrap_or_default();
    set_complete_text(piece, CODE_BEGINS.len(), &code, out);
    out.push(piece, r#"\""#);
    if let Some(container) = json::token(item.container_id) {
        out.push(piece, r#",\"container_id\":"#);
        out.push(piece, &json::escaped(container));
    }
    out.push(piece, "}");
}

/// Records the arguments of a [`StartedCall::Silent`], which only its end event contains.
pub(super) fn arguments(piece: PieceNo, item: &Item<'_>, out: &mut Transcript) {
    let member = |name: &str, raw: Raw<'_>| {
        json::value(raw).map(|value| format!("{{\"{name}\":{}}}", json::kept(value)))
    };
    let own = [item.action, item.operation, item.arguments];
    let own = own.into_iter().find_map(json::value).map(json::kept);
    let args = own
        .or_else(|| member("queries", item.queries))
        .or_else(|| member("prompt", item.revised_prompt));
    if let Some(args) = args {
        out.push(piece, &json::escaped(&args));
    }
    if let Some(checks) = json::value(item.pending_safety_checks).filter(|c| *c != "[]") {
        out.set(piece, "pending_safety_checks", &json::kept(checks));
    }
}

/// Ends a call. If the provider ran the tool, the item also contains the result, which is recorded. Any other call is
/// added to `waiting`, because the caller must send the result.
pub(super) fn answer(
    piece: PieceNo,
    at: u64,
    item: &Item<'_>,
    waiting: &mut Waiting,
    out: &mut Transcript,
) {
    out.finish(piece);
    let id = call_id(at, item);
    let status = json::value(item.status).unwrap_or("\"completed\"");
    let status_only = || format!("{{\"status\":{status}}}");
    let value_or_status = |raw| json::value(raw).map_or_else(status_only, json::kept);
    let content = match json::inner(item.kind).unwrap_or_default() {
        "web_search_call" => status_only(),
        "file_search_call" => value_or_status(item.results),
        "code_interpreter_call" => value_or_status(item.outputs),
        "image_generation_call" => image(item).unwrap_or_else(status_only),
        "mcp_call" => match json::value(item.error) {
            Some(error) => json::kept(error),
            None => value_or_status(item.output),
        },
        // The provider sends the result of its own tool search as a separate item.
        "tool_search_call" if json::inner(item.execution) == Some("server") => return,
        _ => {
            waiting.insert(id);
            return;
        }
    };
    let failed = json::value(item.error).is_some()
        || matches!(json::inner(item.status), Some("failed" | "incomplete"));
    result(&id, !failed, &content, out);
}

/// The generated image as a JSON list with one part; `None` if the item contains no image.
fn image(item: &Item<'_>) -> Option<String> {
    let data = json::some(item.result)?;
    let format = json::some(item.output_format).unwrap_or("png");
    Some(format!(
        r#"[{{"type":"image_url","image_url":{{"url":"data:image/{format};base64,{data}"}}}}]"#
    ))
}

/// Records an item that is the result of an earlier call. Returns `false` for any other item.
pub(super) fn output(item: &Item<'_>, waiting: &mut Waiting, out: &mut Transcript) -> bool {
    let kind = json::inner(item.kind).unwrap_or_default();
    if !kind.ends_with("_output") {
        return false;
    }
    let Some(id) = json::token(item.call_id) else {
        return false;
    };
    waiting.remove(id);
    let content = json::value(item.output).or_else(|| json::value(item.tools));
    let failed = matches!(json::inner(item.status), Some("failed" | "incomplete"));
    let content = content.map_or_else(|| "\"\"".to_owned(), json::kept);
    result(id, !failed, &content, out);
    true
}

fn result(call_id: &str, ok: bool, content: &str, out: &mut Transcript) {
    let parts =
        format!(r#"[{{"type":"tool_result","call_id":{call_id},"ok":{ok},"content":{content}}}]"#);
    out.whole(Role::Tool, Channel::ToolResult, parts);
}
