//! Checks each message before the SDK parses it. An invalid message is refused with the error code that the protocol
//! defines; the SDK would drop it or report a different error.

use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, ErrorData, GetPromptRequestParams,
    ReadResourceRequestParams, RequestId,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The form of the parameters of requests that name something and pass arguments to it.
const NAMED_FORM: &str = "a string name, and an object arguments or none";

/// An error, and the id of the request that caused it; `None` if the id cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Fault {
    /// The fault for input that is not JSON or is too long (-32700).
    pub(crate) fn parse_error(why: impl Into<String>) -> Self {
        Self {
            id: None,
            error: ErrorData::parse_error(why.into(), None),
        }
    }

    /// The fault for JSON that is not a valid request (-32600).
    pub(crate) fn invalid_request(why: impl Into<String>) -> Self {
        Self {
            id: None,
            error: ErrorData::invalid_request(why.into(), None),
        }
    }
}

/// Checks the form of a message.
///
/// # Errors
/// [`Fault`]: -32700 for invalid JSON, -32600 for an invalid request, -32602 for parameters of a wrong form.
pub(crate) fn check_form(bytes: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Fault::parse_error("the message is not UTF-8"))?;
    // RFC 8259 allows parsers to ignore a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let message: Value = serde_json::from_str(text).map_err(|why| {
        let (line, column) = (why.line(), why.column());
        Fault::parse_error(format!(
            "the message is no JSON: line {line}, column {column}"
        ))
    })?;
    let Value::Object(message) = message else {
        let why = if message.is_array() {
            "a batch of messages is not answered: send each message separately"
        } else {
            "a message is a JSON object"
        };
        return Err(Fault::invalid_request(why));
    };
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        // A response, or an object that the SDK refuses.
        return Ok(());
    };
    let Some(id) = message.get("id") else {
        return Ok(());
    };
    let not_an_id = || Fault::invalid_request("id is a string or a whole number");
    let id = match id {
        Value::String(id) => RequestId::String(id.as_str().into()),
        id => RequestId::Number(id.as_i64().ok_or_else(not_an_id)?),
    };
    let (find_invalid, form): (fn(&Value) -> Option<String>, &str) = match method {
        "tools/call" => (invalid_place::<CallToolRequestParams>, NAMED_FORM),
        "prompts/get" => (invalid_place::<GetPromptRequestParams>, NAMED_FORM),
        "resources/read" => (invalid_place::<ReadResourceRequestParams>, "a string uri"),
        "completion/complete" => (
            invalid_place::<CompleteRequestParams>,
            "an object ref, and an object argument with the strings name and value",
        ),
        _ => return Ok(()),
    };
    let Some(place) = find_invalid(message.get("params").unwrap_or(&Value::Null)) else {
        return Ok(());
    };
    let why = format!("{method}: {place} is incomplete or of another type; it takes {form}");
    Err(Fault {
        id: Some(id),
        error: ErrorData::invalid_params(why, None),
    })
}

/// Returns the place in `params` that cannot be parsed as a part of `T`; `None` if all can.
fn invalid_place<T: DeserializeOwned>(params: &Value) -> Option<String> {
    let why = serde_path_to_error::deserialize::<_, T>(params).err()?;
    let path = why.path().to_string();
    Some(if path == "." {
        "params".to_owned()
    } else {
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(message: &str) -> (Option<RequestId>, i32) {
        let fault = check_form(message.as_bytes()).unwrap_err();
        (fault.id, fault.error.code.0)
    }

    #[test]
    fn faults_have_their_codes() {
        for no_json in ["hello", "{", "{\"jsonrpc\":\"2.0\"", "\"\\ud800\"", "{} {}"] {
            assert_eq!(fault(no_json), (None, -32700), "{no_json}");
        }
        assert_eq!(check_form(b"\"\xff\"").unwrap_err().error.code.0, -32700);
        for no_request in [
            "[]",
            "[1,2]",
            "7",
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        ] {
            assert_eq!(fault(no_request), (None, -32600), "{no_request}");
        }
        for params in [
            r#"{"name":"list_sessions","arguments":[]}"#,
            r#"{"name":"list_sessions","arguments":"x"}"#,
            r#"{"name":7}"#,
            "{}",
            "[]",
        ] {
            let call =
                format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
            assert_eq!(
                fault(&call),
                (Some(RequestId::String("a".into())), -32602),
                "{params}"
            );
        }
        let unnamed =
            check_form(br#"{"id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}"#);
        let why = unnamed.unwrap_err().error.message;
        assert!(
            why.starts_with("tools/call: arguments is incomplete or of another type"),
            "{why}"
        );
    }

    #[test]
    fn well_formed_messages_pass() {
        for message in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":null,"_meta":{"x":1}}}"#,
        ] {
            assert_eq!(check_form(message.as_bytes()), Ok(()), "{message}");
        }
    }
}
