//! Webhooks in Vapi's form (docs.vapi.ai: server messages, custom LLM).

use std::sync::Arc;

use filrouge_types::{RequestId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::calls::{Calls, FILLER, Reply, Utterance, VOCAL_RESUME_ALREADY_TERMINATED};
use crate::fsm::{Heard, Route, Tool};

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

/// A call of a tool: name and parameters, or in OpenAI's form.
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
    /// The tool with its parameters, and the call as text.
    fn tool(&self) -> Result<(Tool, String), serde_json::Error> {
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
pub(crate) type Answer = (u16, Option<Value>);

fn refused(reason: &str) -> Answer {
    (422, Some(json!({ "error": reason })))
}

/// Handles a server message.
pub(crate) async fn server_message(calls: &Arc<Calls>, body: &[u8]) -> Answer {
    let message = match serde_json::from_slice::<ServerMessage>(body) {
        Ok(body) => body.message,
        Err(error) => return refused(&error.to_string()),
    };
    let Some(call) = call_id(&message.call) else {
        return refused("message.call.id is missing");
    };
    let caller = number(&message.call).or(message.customer.as_ref().and_then(|c| c.number.clone()));
    match message.kind.as_str() {
        "transcript" | "transcript[transcriptType=\"final\"]" => {
            transcript(calls, &call, caller, &message).await
        }
        "tool-calls" => tool_calls(calls, &call, caller, &message.tool_call_list).await,
        "status-update" => match message.status.as_deref() {
            Some("in-progress") => {
                calls.started(&call).await;
                (200, Some(json!({})))
            }
            Some("ended") => ended(calls, &call, &message).await,
            _ => (200, Some(json!({}))),
        },
        "end-of-call-report" => ended(calls, &call, &message).await,
        // All other messages expect no answer.
        _ => (200, Some(json!({}))),
    }
}

/// Handles the end of a call; answers 503, which asks the platform to repeat the message, until the end is recorded.
async fn ended(calls: &Arc<Calls>, call: &SessionId, message: &Message) -> Answer {
    let reason = message.ended_reason.as_deref().unwrap_or("unknown");
    match calls.ended(call, reason).await {
        true => (200, Some(json!({}))),
        false => (
            503,
            Some(json!({ "error": "the end of the call is not recorded yet" })),
        ),
    }
}

/// Handles a transcript of the caller: final ones are heard, once for each timestamp. Without a timestamp a repetition
/// cannot be recognized, so it is heard as well.
async fn transcript(
    calls: &Calls,
    call: &SessionId,
    caller: Option<String>,
    message: &Message,
) -> Answer {
    let is_final = message
        .transcript_type
        .as_deref()
        .is_none_or(|t| t == "final");
    let (Some(words), true, Some("user")) =
        (&message.transcript, is_final, message.role.as_deref())
    else {
        return (200, Some(json!({})));
    };
    let at = match message.timestamp.as_ref().filter(|at| !at.is_null()) {
        Some(at) => at.to_string(),
        None => uuid::Uuid::now_v7().to_string(),
    };
    let key = format!("transcript:{at}:{:016x}", hash(words.as_bytes()));
    let heard = heard(Route::Transcript, caller);
    let Ok(request) = RequestId::new(key) else {
        return refused("message.timestamp is too long");
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

/// Handles tool calls in order, each once for its id. If one cannot be handled now, the later ones wait as well, and
/// the earlier ones are answered.
async fn tool_calls(
    calls: &Calls,
    call: &SessionId,
    caller: Option<String>,
    list: &[ToolCall],
) -> Answer {
    let mut results = Vec::new();
    for one in list {
        let (Ok((tool, words)), Ok(request)) =
            (one.tool(), RequestId::new(format!("tool:{}", one.id)))
        else {
            results.push(json!({ "toolCallId": one.id, "error": "unknown tool or parameters" }));
            continue;
        };
        let heard = Heard {
            tool: Some(tool),
            ..heard(Route::Tool, caller.clone())
        };
        let reply = calls
            .answer(call, &request, &heard, &Utterance::Words(words))
            .await;
        match spoken(&reply) {
            Some(text) => results.push(json!({ "toolCallId": one.id, "result": text })),
            None => break,
        }
    }
    if results.is_empty() && !list.is_empty() {
        return (204, None);
    }
    (200, Some(json!({ "results": results })))
}

/// An utterance on this route, without text or tool.
fn heard(route: Route, caller: Option<String>) -> Heard {
    Heard {
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
    // The request has no id: its key is the number of messages and a hash of the last one.
    let last = messages.last().map_or("", String::as_str);
    let key = format!("chat:{}:{:016x}", messages.len(), hash(last.as_bytes()));
    let heard = Heard {
        messages: messages.len(),
        ..heard(
            Route::Completions,
            number(&request.call).or(request.customer.as_ref().and_then(|c| c.number.clone())),
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

fn number(call: &CallObject) -> Option<String> {
    call.customer.as_ref()?.number.clone()
}

/// FNV-1a: the same in every instance and version.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
