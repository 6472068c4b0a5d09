//! Describes why a body is invalid: names the wrong member, and the reason.

use filrouge_types::{ErrorCode, Object};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_path_to_error::{Path, Segment};

use crate::extract::reworded::{RewordedError, shorten};
use crate::problem::Problem;

/// Returns the problem of a body that could not be parsed. Parses the body a second time to locate the error, so that
/// valid bodies need only one, faster, parse.
pub(super) fn describe<T: DeserializeOwned>(bytes: &[u8]) -> Problem {
    // A syntax error takes precedence, although the first parse may have stopped at an invalid value before it.
    if let Err(syntax) = serde_json::from_slice::<IgnoredAny>(bytes) {
        return Problem::new(ErrorCode::BadRequest, syntax.to_string());
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut json) {
        Ok(_) => Problem::new(ErrorCode::BadRequest, "the body is not one JSON object"),
        Err(e) if e.inner().is_data() => {
            let path = path_text(e.path());
            let inner = e.inner();
            let at = format!(" at line {} column {}", inner.line(), inner.column());
            let message = inner.to_string();
            RewordedError::from_serde(message.strip_suffix(&at).unwrap_or(&message), "member")
                .into_problem(&path)
        }
        Err(e) => Problem::new(ErrorCode::BadRequest, e.inner().to_string()),
    }
}

/// Returns the path of a member as text, such as `items[2].role`; empty for the body itself.
fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            // `RawJson` is deserialized through a member of this name.
            Segment::Map { key } if key.starts_with("$serde_json::private") => {}
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&shorten(key));
            }
            Segment::Unknown => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use filrouge_engine::{AppendItems, CreateSession, FailTurn, FinalizeTurn, LinkSession};

    use super::*;

    fn refusal_of<T: DeserializeOwned>(body: &str) -> (ErrorCode, String, String) {
        assert!(serde_json::from_str::<Object<T>>(body).is_err(), "{body}");
        let failure = describe::<T>(body.as_bytes()).0;
        (
            failure.code,
            failure.detail,
            failure.hint.unwrap_or_default(),
        )
    }

    #[test]
    fn the_error_names_the_member() {
        let detail = |described: (ErrorCode, String, String)| {
            assert_eq!(described.0, ErrorCode::Invalid);
            described.1
        };
        assert_eq!(
            detail(refusal_of::<CreateSession>(r#"{"session_id":5}"#)),
            "session_id: invalid type: integer `5`, expected a string"
        );
        let item = r#"{"role":"user","channel":"plan","parts":[]}"#;
        let third = |third: &str| {
            detail(refusal_of::<AppendItems>(&format!(
                r#"{{"items":[{item},{item},{third}]}}"#
            )))
        };
        assert_eq!(
            third(r#"{"role":"robot","channel":"plan","parts":[]}"#),
            r#"items[2].role: unknown role "robot""#
        );
        assert_eq!(
            third("7"),
            "items[2]: invalid type: integer `7`, expected a JSON object"
        );
        assert_eq!(
            third(r#"{"role":"user","channel":"plan"}"#),
            "items[2]: the member `parts` is missing"
        );
        let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
        assert_eq!(
            third(&format!(
                r#"{{"role":"user","channel":"plan","parts":{deep}}}"#
            )),
            "items[2].parts: nested deeper than 128 levels"
        );
        assert_eq!(
            detail(refusal_of::<FinalizeTurn>(r#"{"answer_neutral":1}"#)),
            "answer_neutral: expected a JSON string"
        );
        assert_eq!(
            detail(refusal_of::<FailTurn>(r#"{"error":["c"]}"#)),
            "error: invalid type: sequence, expected a JSON object"
        );
        assert_eq!(
            detail(refusal_of::<CreateSession>("[]")),
            "invalid type: sequence, expected a JSON object"
        );
    }

    #[test]
    fn the_hint_lists_known_names() {
        let (code, detail, hint) = refusal_of::<CreateSession>(r#"{"sessionid":"s"}"#);
        assert_eq!(
            (code, detail.as_str()),
            (ErrorCode::Invalid, "sessionid: there is no such member")
        );
        assert_eq!(
            hint,
            "known: `session_id`, `title`, `project_id`, `parent_session_id`, `metadata`"
        );
        let (_, _, hint) = refusal_of::<LinkSession>(r#"{"owner":"s"}"#);
        assert_eq!(hint, "known: `identity_id`");
        let role = r#"{"items":[{"role":"robot","channel":"plan","parts":[]}]}"#;
        let (_, _, hint) = refusal_of::<AppendItems>(role);
        assert_eq!(hint, "known: user, assistant, tool, system");
    }

    #[test]
    fn a_detail_is_not_as_long_as_a_body() {
        let name = "ä".repeat(1 << 20);
        let (_, detail, _) = refusal_of::<CreateSession>(&format!(r#"{{"{name}":1}}"#));
        assert!(detail.len() < 500, "{}", detail.len());
        let body = format!(r#"{{"items":[{{"role":"{name}"}}]}}"#);
        let (_, detail, _) = refusal_of::<AppendItems>(&body);
        assert!(detail.len() < 500, "{}", detail.len());
    }

    #[test]
    fn malformed_json_is_400() {
        for body in ["{", r#"{"session_id":5"#, r#"{} {}"#, ""] {
            let (code, detail, _) = refusal_of::<CreateSession>(body);
            assert_eq!(code, ErrorCode::BadRequest, "{body}");
            assert!(detail.contains("line 1"), "{detail}");
        }
    }
}
