//! A message's text to a message of the neutral form, its parts aside.

use super::generation::MessageText;
use super::items::{UNNAMED, error, model};
use super::message::agent;
use super::session::{check_own_id, missing};
use crate::object::{Object, Refusal, check_value, plain};
use crate::{Message, MessageError, Role, TokenRule, Tokens};

/// How the tokens of a session are to be read: its version tells, else the storage it lies in.
pub(super) fn rule(generation: &str, version: Option<&str>) -> TokenRule {
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

/// Reads a message of the session.
pub(super) fn read(session: &str, text: &MessageText, rule: TokenRule) -> Result<Message, Refusal> {
    let object = Object::parse(check_value(&text.text)?)?;
    check_own_id(&object, "id", &text.id)?;
    check_own_id(&object, "sessionID", session)?;
    let time = object.object("time")?.ok_or_else(|| missing("time"))?;
    let created = time.millis("created");
    let role = object.text("role").and_then(|word| role(&word));
    let role = role.ok_or_else(|| missing("role"))?;
    let said = |key| object.text(key).map(Into::into);
    let asked = || model(&object.object("model").ok()??);
    Ok(Message {
        id: text.id.clone(),
        role,
        created: created.ok_or_else(|| missing("time.created"))?,
        completed: time.millis("completed"),
        seq: text.seq,
        parent_id: said("parentID"),
        agent: agent(&object),
        model: model(&object).or_else(asked),
        tokens: tokens(&object, rule),
        cost: object.get("cost").and_then(|raw| raw.parse().ok()),
        finish: said("finish"),
        error: object.get("error").map(|raw| message_error(&object, raw)),
        summary: role == Role::Assistant && object.is_true("summary"),
        copied: text.copied,
        parts: Vec::new(),
    })
}

/// The role of a word.
fn role(word: &str) -> Option<Role> {
    match word {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" => Some(Role::System),
        _ => None,
    }
}

/// Tokens as each is counted once.
fn tokens(object: &Object<'_>, rule: TokenRule) -> Option<Tokens> {
    let raw = object.object("tokens").ok()??;
    Some(counted(&raw, rule))
}

/// Tokens of a step, where a part's text is the end of one.
pub(super) fn tokens_of_step(text: &str) -> Option<Tokens> {
    // Most parts are none, and large ones are not parsed twice for that.
    memchr::memmem::find(text.as_bytes(), b"step-finish")?;
    let object = Object::parse(text).ok()?;
    if object.text("type")? != "step-finish" {
        return None;
    }
    tokens(&object, TokenRule::OpencodeInputHoldsCache)
}

fn counted(raw: &Object<'_>, rule: TokenRule) -> Tokens {
    let cache = raw.object("cache").ok().flatten();
    let count = |key| raw.count(key).unwrap_or(0);
    let cached = |key| cache.as_ref().and_then(|c| c.count(key)).unwrap_or(0);
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
    tokens
}

fn message_error(object: &Object<'_>, raw: &str) -> MessageError {
    let error = error(object);
    let said = match (error.name, error.message) {
        (_, Some(message)) => message,
        (Some(name), None) => name,
        (None, None) if raw.starts_with('"') => raw,
        (None, None) => UNNAMED,
    };
    MessageError {
        name: plain(error.name.unwrap_or(UNNAMED)).into(),
        message: plain(said).into(),
        retryable: error.retryable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_how_tokens_are_read() {
        let of = |version| rule("sqlite", version);
        for old in ["0.5.29", "0.1.0"] {
            assert_eq!(of(Some(old)), TokenRule::OpencodeInputHoldsCache, "{old}");
        }
        for early in ["1.0.185", "1.1.65", "1.2.1"] {
            let rule = of(Some(early));
            assert_eq!(rule, TokenRule::OpencodeOutputHoldsReasoning, "{early}");
        }
        for later in [Some("1.18.33"), Some("2.0.4"), Some("local"), None] {
            assert_eq!(of(later), TokenRule::OpencodeApart, "{later:?}");
        }
        // A version without a number says nothing; the storage does.
        assert_eq!(
            rule("project", Some("dev")),
            TokenRule::OpencodeInputHoldsCache
        );
        assert_eq!(
            rule("storage", Some("0.0.0-dev")),
            TokenRule::OpencodeOutputHoldsReasoning
        );
    }
}
