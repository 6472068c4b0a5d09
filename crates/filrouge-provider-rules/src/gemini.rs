//! The rules of Gemini's generateContent for the `contents` array, with the member names of the REST API.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use serde_json::Value;

use crate::media::{self, Accept};
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

const KINDS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
];
/// The placeholders that the Thought signatures guide allows for calls without a signature. Unlike signatures, they are
/// not base64.
const STAND_INS: &[&str] = &[
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];
/// The maximum length of a function name, in characters.
const NAME_LIMIT: usize = 64;

/// A function call or a function response.
struct Exchange<'v> {
    at: String,
    name: Option<&'v str>,
    id: Option<&'v str>,
}

/// The parts of one turn.
#[derive(Default)]
struct Turn<'v> {
    /// The path of the turn.
    at: String,
    calls: Vec<Exchange<'v>>,
    responses: Vec<Exchange<'v>>,
    /// The number of parts that are neither calls nor responses.
    others: usize,
    /// The number of thoughts.
    thoughts: usize,
}

pub(crate) fn check(contents: &Value, findings: &mut Findings) {
    let Some(contents) = array(contents, "contents", findings) else {
        return;
    };
    let mut before = Turn::default();
    let mut role_before = None;
    for (index, value) in contents.iter().enumerate() {
        let at = format!("contents[{index}]");
        let role = tag(value, "role", &["user", "model"], &at, findings);
        if index == 0 && role == Some("model") {
            findings.add(&at, FIRST_ROLE, "the first turn is not the user's");
        }
        if role.is_some() && role == role_before {
            findings.add(&at, ALTERNATION, "the same role as the turn before");
        }
        let content = Object::open(value, &at, &["role", "parts"], &[], findings);
        let turn = content.map_or_else(Turn::default, |content| parts(&content, role, findings));
        if !turn.calls.is_empty() && role_before != Some("user") {
            findings.add(&at, CALL_POSITION, "calls not right after a user turn");
        }
        answered(&before, &turn, findings);
        before = turn;
        role_before = role;
    }
    answered(&before, &Turn::default(), findings);
}

fn parts<'v>(content: &Object<'v>, role: Option<&str>, findings: &mut Findings) -> Turn<'v> {
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
        part(value, role, &at, &mut turn, findings);
    }
    if !list.is_empty() && turn.thoughts == list.len() {
        findings.add(&content.at, THOUGHT_ALONE, "every part is a thought");
    }
    turn
}

fn part<'v>(
    value: &'v Value,
    role: Option<&str>,
    at: &str,
    turn: &mut Turn<'v>,
    findings: &mut Findings,
) {
    let optional = [KINDS, &["thought", "thoughtSignature"]].concat();
    let Some(part) = Object::open(value, at, &[], &optional, findings) else {
        return;
    };
    let given: Vec<&str> = KINDS.iter().copied().filter(|key| part.has(key)).collect();
    let [word] = given[..] else {
        let what = format!("holds {} of {}", given.len(), KINDS.join(", "));
        return findings.add(at, PART_KIND, what);
    };
    thought(&part, word, turn, findings);
    let thinks = part.has("thought") || part.has("thoughtSignature");
    let home = match word {
        "functionResponse" => Some("user"),
        "functionCall" => Some("model"),
        _ => thinks.then_some("model"),
    };
    if let (Some(home), Some(role)) = (home, role)
        && (home != role || (thinks && role == "user"))
    {
        findings.add(at, PART_ROLE, format!("not in a turn of the {role}"));
    }
    match word {
        "functionCall" => function_call(&part, turn, findings),
        "functionResponse" => function_response(&part, turn, findings),
        _ => {
            turn.others += 1;
            data(&part, word, findings);
        }
    }
}

fn thought(part: &Object<'_>, word: &str, turn: &mut Turn<'_>, findings: &mut Findings) {
    if part.flag("thought", findings) {
        turn.thoughts += 1;
        if word != "text" {
            let what = format!("{word} as a thought");
            findings.add(&part.at, PART_KIND, what);
        }
    }
    if let Some(signature) = part.text("thoughtSignature", findings)
        && !STAND_INS.contains(&signature)
    {
        media::base64(signature, &part.path("thoughtSignature"), findings);
    }
}

fn data(part: &Object<'_>, word: &str, findings: &mut Findings) {
    let members: (&[&str], &[&str]) = match word {
        "inlineData" => (&["mimeType", "data"], &[]),
        "fileData" => (&["fileUri"], &["mimeType"]),
        _ => {
            part.filled("text", TEXT_EMPTY, findings);
            return;
        }
    };
    let Some(value) = part.get(word) else {
        return;
    };
    let at = part.path(word);
    let Some(data) = Object::open(value, &at, members.0, members.1, findings) else {
        return;
    };
    if let Some(name) = data.text("mimeType", findings) {
        media::media_type(name, Accept::Any, &data.path("mimeType"), findings);
    }
    if let Some(bytes) = data.text("data", findings) {
        media::base64(bytes, &data.path("data"), findings);
    }
    if let Some(uri) = data.text("fileUri", findings) {
        let schemes = ["https", "http", "gs"];
        media::link(uri, &schemes, &data.path("fileUri"), findings);
    }
}

fn exchange<'v>(object: &Object<'v>, findings: &mut Findings) -> Exchange<'v> {
    let name = object.text("name", findings);
    if let Some(name) = name.filter(|name| !is_function_name(name)) {
        let what = format!("{name:?} does not match ^[a-zA-Z_][a-zA-Z0-9_.:-]{{0,63}}$");
        findings.add(&object.path("name"), FUNCTION_NAME, what);
    }
    Exchange {
        at: object.at.clone(),
        name,
        id: object.filled("id", FUNCTION_CALL_ID, findings),
    }
}

fn is_function_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    name.len() <= NAME_LIMIT
        && name.bytes().all(allowed)
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn function_call<'v>(part: &Object<'v>, turn: &mut Turn<'v>, findings: &mut Findings) {
    let Some(value) = part.get("functionCall") else {
        return;
    };
    let at = part.path("functionCall");
    let Some(call) = Object::open(value, &at, &["name"], &["args", "id"], findings) else {
        return;
    };
    call.free_object("args", findings);
    let call = exchange(&call, findings);
    if call.id.is_some() && turn.calls.iter().any(|other| other.id == call.id) {
        findings.add(&at, FUNCTION_CALL_ID, "its id is another call's");
    }
    turn.calls.push(call);
}

fn function_response<'v>(part: &Object<'v>, turn: &mut Turn<'v>, findings: &mut Findings) {
    let Some(value) = part.get("functionResponse") else {
        return;
    };
    let at = part.path("functionResponse");
    let required = ["name", "response"];
    let Some(response) = Object::open(value, &at, &required, &["id"], findings) else {
        return;
    };
    response.free_object("response", findings);
    turn.responses.push(exchange(&response, findings));
}

/// Compares the calls of the turn `before` with the responses of the next turn, `turn`.
fn answered(before: &Turn<'_>, turn: &Turn<'_>, findings: &mut Findings) {
    let (calls, responses) = (&before.calls, &turn.responses);
    if !responses.is_empty() && (turn.others > 0 || !turn.calls.is_empty()) {
        findings.add(&turn.at, RESPONSE_MIXED, "responses beside other parts");
    }
    if calls.is_empty() {
        for response in responses {
            findings.add(&response.at, RESPONSE_STRAY, "no call in the turn before");
        }
    } else if responses.is_empty() {
        findings.add(
            &before.at,
            CALL_UNANSWERED,
            "no responses in the turn after",
        );
    } else if calls.len() != responses.len() {
        let what = format!("{} responses to {} calls", responses.len(), calls.len());
        findings.add(&turn.at, RESPONSE_COUNT, what);
    } else {
        for (call, response) in calls.iter().zip(responses) {
            if call.name != response.name {
                let what = format!("{:?} answers {:?}", response.name, call.name);
                findings.add(&response.at, RESPONSE_NAME, what);
            }
            if call.id != response.id {
                let what = format!("{:?} answers {:?}", response.id, call.id);
                findings.add(&response.at, RESPONSE_ID, what);
            }
        }
    }
}
