//! Converts a message's text, without its parts, to a message in the neutral form.

use super::session::{check_own_id, missing_field, required_object};
use super::storage::MessageText;
use crate::object::{Object, Result, Writer, check_depth, token_text};
use crate::{Message, MessageError, Role, TokenRule, Tokens};

/// The rule by which a session's tokens are converted: the rule for OpenCode's version or, if `version` contains no
/// version number, the rule for the storage (`generation`).
pub(super) fn token_rule(generation: &str, version: Option<&str>) -> TokenRule {
    let mut numbers = version.unwrap_or_default().split('.');
    let mut next = || numbers.next().and_then(|n| n.parse::<u32>().ok());
    match (next(), next()) {
        (Some(0), Some(0)) | (None, _) | (_, None) => match generation {
            "project" => TokenRule::OpencodeInputHoldsCache,
            "storage" => TokenRule::OpencodeOutputHoldsReasoning,
            _ => TokenRule::OpencodeApart,
        },
        (Some(0), Some(_)) => TokenRule::OpencodeInputHoldsCache,
        (Some(1), Some(0..=2)) => TokenRule::OpencodeOutputHoldsReasoning,
        _ => TokenRule::OpencodeApart,
    }
}

/// Reads a message of the session with the id `session`.
pub(super) fn read(session: &str, text: &MessageText, rule: TokenRule) -> Result<Message> {
    let object = Object::parse(&text.text)?;
    check_depth(&text.text)?;
    check_own_id(&object, "id", &text.id)?;
    check_own_id(&object, "sessionID", session)?;
    let time = required_object(&object, "time")?;
    let created = time.millis("created");
    let role = object.text("role").and_then(|word| word.parse().ok());
    let role: Role = role.ok_or_else(|| missing_field("role"))?;
    let text_of = |key| object.text(key).map(Into::into);
    let nested_model = || model(&object.field("model").object()?);
    Ok(Message {
        id: text.id.clone(),
        role,
        created: created.ok_or_else(|| missing_field("time.created"))?,
        completed: time.millis("completed"),
        seq: text.seq,
        parent_id: text_of("parentID"),
        agent: agent(&object),
        model: model(&object).or_else(nested_model),
        tokens: tokens(&object, rule),
        cost: object.get("cost").and_then(|raw| raw.parse().ok()),
        finish: text_of("finish"),
        error: object.get("error").map(|raw| message_error(&object, raw)),
        summary: role == Role::Assistant && object.is_true("summary"),
        copied: text.copied,
        parts: Vec::new(),
    })
}

/// The token counts, converted so that each token is counted once.
pub(super) fn tokens(object: &Object<'_>, rule: TokenRule) -> Option<Tokens> {
    let raw = object.field("tokens").object()?;
    let cache = raw.field("cache").object().unwrap_or_default();
    let count = |key| raw.count(key).unwrap_or(0);
    let cached = |key| cache.count(key).unwrap_or(0);
    let mut tokens = Tokens {
        input: count("input"),
        output: count("output"),
        reasoning: count("reasoning"),
        cache_read: cached("read"),
        cache_write: cached("write"),
    };
    match rule {
        TokenRule::OpencodeInputHoldsCache => {
            tokens.input = tokens.input.saturating_sub(tokens.cache_read);
        }
        TokenRule::OpencodeOutputHoldsReasoning => {
            tokens.output = tokens.output.saturating_sub(tokens.reasoning);
        }
        _ => {}
    }
    Some(tokens)
}

/// The model of an object, as `provider/model` where both are recorded.
pub(super) fn model(object: &Object<'_>) -> Option<Box<str>> {
    match (object.text("providerID"), object.text("modelID")) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}").into()),
        (provider, model) => model.or(provider).map(Into::into),
    }
}

/// The agent of a message; versions before 1.0 call it `mode`.
pub(super) fn agent(object: &Object<'_>) -> Option<Box<str>> {
    let agent = object.text("agent").or_else(|| object.text("mode"));
    agent.map(Into::into)
}

/// The fields of a message's error.
#[derive(Default)]
pub(super) struct ErrorFields<'a> {
    /// The JSON token of its name; `None` if the error has none.
    pub(super) name: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) retryable: bool,
    /// All other fields of the error.
    pub(super) other_fields: Writer,
}

/// The name that an error without a name gets, as a JSON token.
pub(super) const UNNAMED: &str = "\"UnknownError\"";

/// Reads the error of a message.
pub(super) fn error<'a>(object: &Object<'a>) -> ErrorFields<'a> {
    let mut error = ErrorFields::default();
    let Some(outer) = object.field("error").object() else {
        let fields = &mut error.other_fields;
        fields.optional_raw("value", object.get("error"));
        return error;
    };
    error.name = outer.token("name");
    error.other_fields = outer.without(&["name", "data"]);
    if let Ok(Some(data)) = outer.object("data") {
        error.message = data.token("message");
        error.retryable = data.is_true("isRetryable");
        let message_key = error.message.map_or("", |_| "message");
        let rest = data.without(&["isRetryable", message_key]);
        error.other_fields.nested("data", rest);
    } else {
        error.other_fields.optional_raw("data", outer.get("data"));
    }
    error
}

fn message_error(object: &Object<'_>, raw: &str) -> MessageError {
    let error = error(object);
    let message = match (error.name, error.message) {
        (_, Some(message)) => message,
        (Some(name), None) => name,
        (None, None) if raw.starts_with('"') => raw,
        (None, None) => UNNAMED,
    };
    MessageError {
        name: token_text(error.name.unwrap_or(UNNAMED)).into(),
        message: token_text(message).into(),
        retryable: error.retryable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_how_tokens_are_converted() {
        let rule_of = |version| token_rule("sqlite", version);
        for old in ["0.5.29", "0.1.0"] {
            assert_eq!(
                rule_of(Some(old)),
                TokenRule::OpencodeInputHoldsCache,
                "{old}"
            );
        }
        for early in ["1.0.185", "1.1.65", "1.2.1"] {
            let rule = rule_of(Some(early));
            assert_eq!(rule, TokenRule::OpencodeOutputHoldsReasoning, "{early}");
        }
        for later in [Some("1.18.33"), Some("2.0.4"), Some("local"), None] {
            assert_eq!(rule_of(later), TokenRule::OpencodeApart, "{later:?}");
        }
        // A version without a number does not decide the rule; the storage does.
        assert_eq!(
            token_rule("project", Some("dev")),
            TokenRule::OpencodeInputHoldsCache
        );
        assert_eq!(
            token_rule("storage", Some("0.0.0-dev")),
            TokenRule::OpencodeOutputHoldsReasoning
        );
    }
}
