//! Handles webhooks in Vapi's format (docs.vapi.ai: server messages, custom LLM).

use std::sync::Arc;

use filrouge_types::{RequestId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::calls::{Calls, FILLER, Reply, Utterance, VOCAL_RESUME_ALREADY_TERMINATED};
use crate::fsm::{HeardUtterance, Route, Tool};

/// The call object, with the members that the agent needs.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct CallObject {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    customer: Option<Customer>,
}

#[derive(Debug, Deserialize)]
struct Customer {
    #[serde(default)]
    number: Option<String>,
}

/// The body of a server message.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerMessage {
    message: Message,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    call: CallObject,
    #[serde(default)]
    customer: Option<Customer>,
    #[serde(default)]
    timestamp: Option<Value>,
    // transcript
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    transcript_type: Option<String>,
    #[serde(default)]
    transcript: Option<String>,
    // tool-calls
    #[serde(default)]
    tool_call_list: Vec<ToolCall>,
    // status-update, end-of-call-report
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    ended_reason: Option<String>,
}

/// A call of a tool: `name` and `parameters`, or `function` in OpenAI's format.
#[derive(Debug, Deserialize)]
struct ToolCall {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "arguments")]
    parameters: Option<Value>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl ToolCall {
    /// Parses the tool with its parameters; also returns the call as text.
    fn parse_tool(&self) -> Result<(Tool, String), serde_json::Error> {
        let (name, arguments) = match (&self.function, &self.name) {
            (Some(function), _) => (function.name.clone(), Some(&function.arguments)),
            (None, name) => (name.clone().unwrap_or_default(), self.parameters.as_ref()),
        };
        // Arguments are an object, or a string that contains one as JSON.
        let parameters = match arguments {
            Some(Value::String(text)) => serde_json::from_str(text)?,
            Some(Value::Null) | None => json!({}),
            Some(value) => value.clone(),
        };
        let words = format!("{name} {parameters}");
        let tool = serde_json::from_value(json!({ "name": name, "parameters": parameters }))?;
        Ok((tool, words))
    }
}

/// An HTTP response: the status, and JSON unless the body is empty.
pub(crate) type VapiResponse = (u16, Option<Value>);

fn bad_request(reason: &str) -> VapiResponse {
    (422, Some(json!({ "error": reason })))
}

/// Handles a server message.
pub(crate) async fn server_message(calls: &Arc<Calls>, body: &[u8]) -> VapiResponse {
    let message = match serde_json::from_slice::<ServerMessage>(body) {
        Ok(body) => body.message,
        Err(error) => return bad_request(&error.to_string()),
    };
    let Some(call) = call_id(&message.call) else {
        return bad_request("message.call.id is missing");
    };
    let caller =
        caller_number(&message.call).or(message.customer.as_ref().and_then(|c| c.number.clone()));
    match message.kind.as_str() {
        "transcript" | "transcript[transcriptType=\"final\"]" => {
            transcript(calls, &call, caller, &message).await
        }
        "tool-calls" => tool_calls(calls, &call, caller, &message.tool_call_list).await,
        "status-update" => match message.status.as_deref() {
            Some("in-progress") => {
                calls.record_start(&call).await;
                (200, Some(json!({})))
            }
            Some("ended") => handle_end(calls, &call, &message).await,
            _ => (200, Some(json!({}))),
        },
        "end-of-call-report" => handle_end(calls, &call, &message).await,
        // Other messages are acknowledged and ignored.
        _ => (200, Some(json!({}))),
    }
}

/// Handles the end of a call; until the end is recorded, returns 503, after which the platform repeats the message.
async fn handle_end(calls: &Arc<Calls>, call: &SessionId, message: &Message) -> VapiResponse {
    let reason = message.ended_reason.as_deref().unwrap_or("unknown");
    match calls.record_end(call, reason).await {
        true => (200, Some(json!({}))),
        false => (
            503,
            Some(json!({ "error": "the end of the call is not recorded yet" })),
        ),
    }
}

/// Handles a transcript of the caller. Only final ones are heard, once for each timestamp; a repetition without a
/// timestamp cannot be recognized and is heard again.
async fn transcript(
    calls: &Calls,
    call: &SessionId,
    caller: Option<String>,
    message: &Message,
) -> VapiResponse {
    let is_final = message
        .transcript_type
        .as_deref()
        .is_none_or(|t| t == "final");
    let (Some(words), true, Some("user")) =
        (&message.transcript, is_final, message.role.as_deref())
    else {
        return (200, Some(json!({})));
    };
    let delivery_id = match message.timestamp.as_ref().filter(|t| !t.is_null()) {
        Some(timestamp) => timestamp.to_string(),
        None => uuid::Uuid::now_v7().to_string(),
    };
    let key = format!("transcript:{delivery_id}:{:016x}", fnv1a(words.as_bytes()));
    let heard = new_utterance(Route::Transcript, caller);
    let Ok(request) = RequestId::new(key) else {
        return bad_request("message.timestamp is too long");
    };
    let reply = calls
        .answer(call, &request, &heard, &Utterance::Words(words.clone()))
        .await;
    match spoken(&reply) {
        Some(text) => (200, Some(json!({ "say": text }))),
        None if reply == Reply::Copy => (200, Some(json!({}))),
        None => (204, None),
    }
}

/// Handles tool calls in order, each id once. Stops at the first one that cannot be handled now, and answers those
/// before it.
async fn tool_calls(
    calls: &Calls,
    call: &SessionId,
    caller: Option<String>,
    list: &[ToolCall],
) -> VapiResponse {
    let mut results = Vec::new();
    for tool_call in list {
        let (Ok((tool, words)), Ok(request)) = (
            tool_call.parse_tool(),
            RequestId::new(format!("tool:{}", tool_call.id)),
        ) else {
            results
                .push(json!({ "toolCallId": tool_call.id, "error": "unknown tool or parameters" }));
            continue;
        };
        let heard = HeardUtterance {
            tool: Some(tool),
            ..new_utterance(Route::Tool, caller.clone())
        };
        let reply = calls
            .answer(call, &request, &heard, &Utterance::Words(words))
            .await;
        match spoken(&reply) {
            Some(text) => results.push(json!({ "toolCallId": tool_call.id, "result": text })),
            None => break,
        }
    }
    if results.is_empty() && !list.is_empty() {
        return (204, None);
    }
    (200, Some(json!({ "results": results })))
}

/// An utterance on this route, without text or tool.
fn new_utterance(route: Route, caller: Option<String>) -> HeardUtterance {
    HeardUtterance {
        text: String::new(),
        tool: None,
        caller,
        route,
        messages: 0,
    }
}

/// The spoken text of a reply; `None` if it speaks nothing.
pub(crate) fn spoken(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Speak { text, .. } => Some(text),
        Reply::Terminated => Some(VOCAL_RESUME_ALREADY_TERMINATED),
        Reply::Filler => Some(FILLER),
        Reply::Nothing | Reply::Copy => None,
    }
}

/// The body of `chat/completions`.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    pub(crate) stream: bool,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    call: CallObject,
    #[serde(default)]
    customer: Option<Customer>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<TextPart>),
    #[default]
    None,
}

#[derive(Debug, Deserialize)]
struct TextPart {
    #[serde(default)]
    text: String,
}

impl Content {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts.iter().map(|part| part.text.as_str()).collect(),
            Self::None => String::new(),
        }
    }
}

/// Answers the caller's newest messages; `None` if neither the body nor the header (`id`) names a call.
pub(crate) async fn chat(calls: &Calls, request: &ChatRequest, id: Option<&str>) -> Option<Reply> {
    let call = call_id(&request.call).or_else(|| SessionId::new(id?).ok())?;
    let from_caller = request
        .messages
        .iter()
        .filter(|message| message.role == "user");
    let messages: Vec<String> = from_caller.map(|message| message.content.text()).collect();
    // The request has no id: its key is the number of messages and a hash of the last message.
    let last = messages.last().map_or("", String::as_str);
    let key = format!("chat:{}:{:016x}", messages.len(), fnv1a(last.as_bytes()));
    let heard = HeardUtterance {
        messages: messages.len(),
        ..new_utterance(
            Route::Completions,
            caller_number(&request.call)
                .or(request.customer.as_ref().and_then(|c| c.number.clone())),
        )
    };
    let request = RequestId::new(key).ok()?;
    Some(
        calls
            .answer(&call, &request, &heard, &Utterance::Messages(messages))
            .await,
    )
}

fn call_id(call: &CallObject) -> Option<SessionId> {
    SessionId::new(call.id.as_deref()?).ok()
}

fn caller_number(call: &CallObject) -> Option<String> {
    call.customer.as_ref()?.number.clone()
}

/// The FNV-1a hash, which is the same in every instance and version.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
