//! Decodes the tool calls of a response. Some calls wait for the caller's result. The provider runs the others and
//! sends their results in the same response.

use filrouge_engine::stream::{PieceId, Transcript};

use super::OpenCalls;
use super::items::{Item, State, set_complete_text};
use crate::stream::json::{self, Raw};

/// The beginning of the code interpreter's arguments, which are recorded as `{"code":…}`. It is escaped, because texts
/// are recorded as they are spelled inside a JSON string.
pub(super) const CODE_BEGINS: &str = r#"{\"code\":\""#;

/// Begins an item that is neither a message nor reasoning. `kind` is the item's type, and `at` its output index.
pub(super) fn begin_call(kind: &str, at: u64, item: &Item<'_>, out: &mut Transcript) -> State {
    let id = call_id(at, item);
    let name = match kind {
        "function_call" | "custom_tool_call" | "mcp_call" => {
            let name = json::string_token(item.name).unwrap_or("\"\"");
            let piece = out.call(&id, name, 0);
            if kind == "custom_tool_call" {
                out.set(piece, "call_type", "\"custom\"");
            }
            json::set_string(out, piece, "server_label", item.server_label);
            return State::Call(piece);
        }
        "code_interpreter_call" => {
            return State::Code(out.call(&id, "\"code_interpreter\"", 0), false);
        }
        "web_search_call" => "\"web_search\"",
        "file_search_call" => "\"file_search\"",
        "image_generation_call" => "\"image_generation\"",
        "tool_search_call" => "\"tool_search\"",
        "computer_call" => "\"computer\"",
        "local_shell_call" => "\"local_shell\"",
        "shell_call" => "\"shell\"",
        "apply_patch_call" => "\"apply_patch\"",
        _ => return State::ContentAtEnd,
    };
    State::WithoutDeltas(out.call(&id, name, 0))
}

/// The id that a call and its result share, as a JSON string. If the provider gives none, it is made from the output
/// index `at`.
fn call_id(at: u64, item: &Item<'_>) -> String {
    let id = json::nonempty_token(item.call_id).or_else(|| json::nonempty_token(item.id));
    id.map_or_else(|| format!("\"call_{at}\""), str::to_owned)
}

/// Completes a call whose arguments are text, from its end event: the id, the name and the arguments.
pub(super) fn complete_call(piece: PieceId, item: &Item<'_>, out: &mut Transcript) {
    let id = json::nonempty_token(item.call_id);
    out.set_call(piece, id, json::nonempty_token(item.name));
    if let Some(text) =
        json::string_content(item.arguments).or_else(|| json::string_content(item.input))
    {
        set_complete_text(piece, 0, text, out);
    }
}

/// Completes the arguments of a code interpreter call, from its end event. `has_code`: whether any code has
/// arrived.
pub(super) fn complete_code(piece: PieceId, has_code: bool, item: &Item<'_>, out: &mut Transcript) {
    let code = json::string_content(item.code);
    if !has_code && code.is_none() {
        return;
    }
    if !has_code {
        out.push(piece, CODE_BEGINS);
    }
    let code = code.map(json::escape_text).unwrap_or_default();
    set_complete_text(piece, CODE_BEGINS.len(), &code, out);
    out.push(piece, r#"\""#);
    if let Some(container) = json::string_token(item.container_id) {
        out.push(piece, r#",\"container_id\":"#);
        out.push(piece, &json::escape_text(container));
    }
    out.push(piece, "}");
}

/// Records the arguments of a [`State::WithoutDeltas`], which only its end event contains.
pub(super) fn record_arguments(piece: PieceId, item: &Item<'_>, out: &mut Transcript) {
    let wrap = |name: &str, raw: Raw<'_>| {
        json::non_null(raw).map(|value| format!("{{\"{name}\":{}}}", json::storable(value)))
    };
    let args = [item.action, item.operation, item.arguments];
    let args = args
        .into_iter()
        .find_map(json::non_null)
        .map(json::storable);
    let args = args
        .or_else(|| wrap("queries", item.queries))
        .or_else(|| wrap("prompt", item.revised_prompt));
    if let Some(args) = args {
        out.push(piece, &json::escape_text(&args));
    }
    if let Some(checks) = json::non_null(item.pending_safety_checks).filter(|c| *c != "[]") {
        out.set(piece, "pending_safety_checks", &json::storable(checks));
    }
}

/// Ends a call. If the provider ran the tool, the item also contains the result, which is recorded. Any other call is
/// added to `open_calls`, because the caller must send the result.
pub(super) fn end_call(
    piece: PieceId,
    at: u64,
    item: &Item<'_>,
    open_calls: &mut OpenCalls,
    out: &mut Transcript,
) {
    out.finish(piece);
    let id = call_id(at, item);
    let status = json::non_null(item.status).unwrap_or("\"completed\"");
    let status_only = || format!("{{\"status\":{status}}}");
    let value_or_status = |raw| json::non_null(raw).map_or_else(status_only, json::storable);
    let content = match json::string_content(item.kind).unwrap_or_default() {
        "web_search_call" => status_only(),
        "file_search_call" => value_or_status(item.results),
        "code_interpreter_call" => value_or_status(item.outputs),
        "image_generation_call" => image_part(item).unwrap_or_else(status_only),
        "mcp_call" => match json::non_null(item.error) {
            Some(error) => json::storable(error),
            None => value_or_status(item.output),
        },
        // The provider sends the result of its own tool search as a separate item.
        "tool_search_call" if json::string_content(item.execution) == Some("server") => return,
        _ => {
            open_calls.insert(id);
            return;
        }
    };
    let ok = json::non_null(item.error).is_none() && !has_failed(item);
    json::add_result(out, &id, ok, &content);
}

/// The generated image as a JSON list with one part; `None` if the item contains no image.
fn image_part(item: &Item<'_>) -> Option<String> {
    let data = json::nonempty_string(item.result)?;
    let format = json::nonempty_string(item.output_format).unwrap_or("png");
    Some(format!(
        r#"[{{"type":"image_url","image_url":{{"url":"data:image/{format};base64,{data}"}}}}]"#
    ))
}

/// Records an item that is the result of an earlier call. Returns `false` for any other item.
pub(super) fn record_output(
    item: &Item<'_>,
    open_calls: &mut OpenCalls,
    out: &mut Transcript,
) -> bool {
    let kind = json::string_content(item.kind).unwrap_or_default();
    if !kind.ends_with("_output") {
        return false;
    }
    let Some(id) = json::string_token(item.call_id) else {
        return false;
    };
    open_calls.remove(id);
    let content = json::non_null(item.output).or_else(|| json::non_null(item.tools));
    let content = content.map_or_else(|| "\"\"".to_owned(), json::storable);
    json::add_result(out, id, !has_failed(item), &content);
    true
}

/// Whether the status of a call or a result means a failure.
fn has_failed(item: &Item<'_>) -> bool {
    let status = json::string_content(item.status);
    matches!(status, Some("failed" | "incomplete"))
}
