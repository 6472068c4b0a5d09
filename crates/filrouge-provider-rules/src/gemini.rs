//! The rules of Gemini's generateContent for the `contents` array, with the member names of the REST API.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use serde_json::Value;

use crate::media::{self, Accepted};
use crate::shape::{Findings, Object, array, rules, tag};

rules! {
    /// A history starts with the user's turn. API: "Please ensure that single turn requests end with a user role or the
    /// role field is empty."; a leading function call is refused as "Please ensure that function call turn comes
    /// immediately after a user turn or after a function response turn." Stricter for a leading text turn of the model.
    FIRST_ROLE = "first-role";
    /// Roles alternate. API: "Please ensure that multiturn requests alternate between user and model." Stricter: newer
    /// models accept turns of the same role in a row.
    ALTERNATION = "alternation";
    /// API: "GenerateContentRequest.contents[0].parts: contents.parts must not be empty."; "Unable to submit request
    /// because it must include at least one parts field".
    PARTS_EMPTY = "parts-empty";
    /// API: "Unable to submit request because it has an empty text parameter."; "contents[1].parts[0].data: required
    /// oneof field 'data' must have one initialized field".
    TEXT_EMPTY = "text-empty";
    /// REST reference, Part: "Exactly one field within a Part should be set". API: "contents[1].parts[0].data: required
    /// oneof field 'data' must have one initialized field"; "oneof field 'data' is already set". Only a text may be a
    /// thought.
    PART_KIND = "part-kind";
    /// functionCall parts are in turns of the model, functionResponse parts in turns of the user (Function calling
    /// guide). Thoughts and their signatures are in turns of the model (Thought signatures guide).
    PART_ROLE = "part-role";
    /// API: "Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain
    /// underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
    FUNCTION_NAME = "function-name";
    /// A call's id, where present, is not empty and is unique in its turn (REST reference, FunctionCall: "The unique id
    /// of the function call").
    FUNCTION_CALL_ID = "function-call-id";
    /// API: "Please ensure that function call turn comes immediately after a user turn or after a function response
    /// turn."
    CALL_POSITION = "call-position";
    /// Every call turn is followed by its responses. API: "Please ensure that the number of function response parts is
    /// equal to the number of function call parts of the function call turn."
    CALL_UNANSWERED = "call-unanswered";
    /// API: "Please ensure that the number of function response parts is equal to the number of function call parts of
    /// the function call turn."
    RESPONSE_COUNT = "response-count";
    /// REST reference, FunctionResponse: the name "Matches FunctionDeclaration.name and FunctionCall.name". Stricter:
    /// required in the order of the calls.
    RESPONSE_NAME = "response-name";
    /// REST reference, FunctionResponse: the id is "Populated by the client to match the corresponding function call
    /// `id`". Stricter: required exactly where the call has one, in the order of the calls.
    RESPONSE_ID = "response-id";
    /// API: "Please ensure that function response turn comes immediately after a function call turn."
    RESPONSE_STRAY = "response-stray";
    /// A turn with function responses contains nothing else. Stricter: some models accept text next to the responses,
    /// others count the text as a missing response.
    RESPONSE_MIXED = "response-mixed";
    /// A turn does not consist of thoughts alone: without its thoughts it would have no parts. Stricter: the provider
    /// documents no such rule.
    THOUGHT_ALONE = "thought-alone";
}

/// The members of a part of which exactly one is present.
const DATA_MEMBERS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
];
/// The placeholders that the Thought signatures guide allows for calls without a signature. Unlike signatures, they are
/// not base64.
const SIGNATURE_PLACEHOLDERS: &[&str] = &[
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];
/// The maximum length of a function name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The name and the id of a function call or a function response.
struct CallOrResponse<'v> {
    /// The path of the call or response.
    at: String,
    name: Option<&'v str>,
    id: Option<&'v str>,
}

/// The parts of one turn.
#[derive(Default)]
struct Turn<'v> {
    /// The path of the turn.
    at: String,
    calls: Vec<CallOrResponse<'v>>,
    responses: Vec<CallOrResponse<'v>>,
    /// The number of parts that are neither calls nor responses.
    other_parts: usize,
    /// The number of thoughts.
    thoughts: usize,
}

pub(crate) fn check(contents: &Value, findings: &mut Findings) {
    let Some(contents) = array(contents, "contents", findings) else {
        return;
    };
    let mut previous = Turn::default();
    let mut previous_role = None;
    for (index, value) in contents.iter().enumerate() {
        let at = format!("contents[{index}]");
        let role = tag(value, "role", &["user", "model"], &at, findings);
        if index == 0 && role == Some("model") {
            findings.add(&at, FIRST_ROLE, "the first turn is not the user's");
        }
        if role.is_some() && role == previous_role {
            findings.add(&at, ALTERNATION, "the same role as the turn before");
        }
        let content = Object::open(value, &at, &["role", "parts"], &[], findings);
        let turn = content.map_or_else(Turn::default, |content| {
            check_parts(&content, role, findings)
        });
        if !turn.calls.is_empty() && previous_role != Some("user") {
            findings.add(&at, CALL_POSITION, "calls not right after a user turn");
        }
        check_responses(&previous, &turn, findings);
        previous = turn;
        previous_role = role;
    }
    check_responses(&previous, &Turn::default(), findings);
}

fn check_parts<'v>(content: &Object<'v>, role: Option<&str>, findings: &mut Findings) -> Turn<'v> {
    let mut turn = Turn {
        at: content.at.clone(),
        ..Turn::default()
    };
    let Some(list) = content.list("parts", findings) else {
        return turn;
    };
    if list.is_empty() {
        findings.add(&content.path("parts"), PARTS_EMPTY, "is an empty array");
    }
    for (index, value) in list.iter().enumerate() {
        let at = format!("{}[{index}]", content.path("parts"));
        check_part(value, role, &at, &mut turn, findings);
    }
    if !list.is_empty() && turn.thoughts == list.len() {
        findings.add(&content.at, THOUGHT_ALONE, "every part is a thought");
    }
    turn
}

fn check_part<'v>(
    value: &'v Value,
    role: Option<&str>,
    at: &str,
    turn: &mut Turn<'v>,
    findings: &mut Findings,
) {
    let optional = [DATA_MEMBERS, &["thought", "thoughtSignature"]].concat();
    let Some(part) = Object::open(value, at, &[], &optional, findings) else {
        return;
    };
    let present: Vec<&str> = DATA_MEMBERS
        .iter()
        .copied()
        .filter(|key| part.has(key))
        .collect();
    let [member] = present[..] else {
        let description = format!("holds {} of {}", present.len(), DATA_MEMBERS.join(", "));
        return findings.add(at, PART_KIND, description);
    };
    check_thought(&part, member, turn, findings);
    let is_thought = part.has("thought") || part.has("thoughtSignature");
    let required_role = match member {
        "functionResponse" => Some("user"),
        "functionCall" => Some("model"),
        _ => is_thought.then_some("model"),
    };
    if let (Some(required_role), Some(role)) = (required_role, role)
        && (required_role != role || (is_thought && role == "user"))
    {
        findings.add(at, PART_ROLE, format!("not in a turn of the {role}"));
    }
    match member {
        "functionCall" => check_function_call(&part, turn, findings),
        "functionResponse" => check_function_response(&part, turn, findings),
        _ => {
            turn.other_parts += 1;
            check_data(&part, member, findings);
        }
    }
}

fn check_thought(part: &Object<'_>, member: &str, turn: &mut Turn<'_>, findings: &mut Findings) {
    if part.flag("thought", findings) {
        turn.thoughts += 1;
        if member != "text" {
            let description = format!("{member} as a thought");
            findings.add(&part.at, PART_KIND, description);
        }
    }
    if let Some(signature) = part.text("thoughtSignature", findings)
        && !SIGNATURE_PLACEHOLDERS.contains(&signature)
    {
        media::check_base64(signature, &part.path("thoughtSignature"), findings);
    }
}

fn check_data(part: &Object<'_>, member: &str, findings: &mut Findings) {
    let data_members: (&[&str], &[&str]) = match member {
        "inlineData" => (&["mimeType", "data"], &[]),
        "fileData" => (&["fileUri"], &["mimeType"]),
        _ => {
            part.filled("text", TEXT_EMPTY, findings);
            return;
        }
    };
    let Some(value) = part.get(member) else {
        return;
    };
    let at = part.path(member);
    let Some(data) = Object::open(value, &at, data_members.0, data_members.1, findings) else {
        return;
    };
    if let Some(name) = data.text("mimeType", findings) {
        media::check_media_type(name, Accepted::Any, &data.path("mimeType"), findings);
    }
    if let Some(bytes) = data.text("data", findings) {
        media::check_base64(bytes, &data.path("data"), findings);
    }
    if let Some(uri) = data.text("fileUri", findings) {
        let schemes = ["https", "http", "gs"];
        media::check_link(uri, &schemes, &data.path("fileUri"), findings);
    }
}

fn check_name_and_id<'v>(object: &Object<'v>, findings: &mut Findings) -> CallOrResponse<'v> {
    let name = object.text("name", findings);
    if let Some(name) = name.filter(|name| !is_function_name(name)) {
        let description = format!("{name:?} does not match ^[a-zA-Z_][a-zA-Z0-9_.:-]{{0,63}}$");
        findings.add(&object.path("name"), FUNCTION_NAME, description);
    }
    CallOrResponse {
        at: object.at.clone(),
        name,
        id: object.filled("id", FUNCTION_CALL_ID, findings),
    }
}

fn is_function_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    name.len() <= MAX_NAME_CHARS
        && name.bytes().all(allowed)
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn check_function_call<'v>(part: &Object<'v>, turn: &mut Turn<'v>, findings: &mut Findings) {
    let Some(value) = part.get("functionCall") else {
        return;
    };
    let at = part.path("functionCall");
    let Some(call) = Object::open(value, &at, &["name"], &["args", "id"], findings) else {
        return;
    };
    call.free_object("args", findings);
    let call = check_name_and_id(&call, findings);
    if call.id.is_some() && turn.calls.iter().any(|other| other.id == call.id) {
        findings.add(&at, FUNCTION_CALL_ID, "its id is another call's");
    }
    turn.calls.push(call);
}

fn check_function_response<'v>(part: &Object<'v>, turn: &mut Turn<'v>, findings: &mut Findings) {
    let Some(value) = part.get("functionResponse") else {
        return;
    };
    let at = part.path("functionResponse");
    let required = ["name", "response"];
    let Some(response) = Object::open(value, &at, &required, &["id"], findings) else {
        return;
    };
    response.free_object("response", findings);
    turn.responses.push(check_name_and_id(&response, findings));
}

/// Compares the calls of the turn `previous` with the responses of the next turn, `turn`.
fn check_responses(previous: &Turn<'_>, turn: &Turn<'_>, findings: &mut Findings) {
    let (calls, responses) = (&previous.calls, &turn.responses);
    if !responses.is_empty() && (turn.other_parts > 0 || !turn.calls.is_empty()) {
        findings.add(&turn.at, RESPONSE_MIXED, "responses beside other parts");
    }
    if calls.is_empty() {
        for response in responses {
            findings.add(&response.at, RESPONSE_STRAY, "no call in the turn before");
        }
    } else if responses.is_empty() {
        findings.add(
            &previous.at,
            CALL_UNANSWERED,
            "no responses in the turn after",
        );
    } else if calls.len() != responses.len() {
        let description = format!("{} responses to {} calls", responses.len(), calls.len());
        findings.add(&turn.at, RESPONSE_COUNT, description);
    } else {
        for (call, response) in calls.iter().zip(responses) {
            if call.name != response.name {
                let description = format!("{:?} answers {:?}", response.name, call.name);
                findings.add(&response.at, RESPONSE_NAME, description);
            }
            if call.id != response.id {
                let description = format!("{:?} answers {:?}", response.id, call.id);
                findings.add(&response.at, RESPONSE_ID, description);
            }
        }
    }
}
