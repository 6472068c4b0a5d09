//! Masks the values of members whose names say that they are secret, and of members of a `runtime_context` that are not
//! recorded (DESIGN §8).

use std::ops::Range;

use filrouge_types::Members;
use serde_json::value::RawValue;

use super::mask::Masked;
use super::shape::Shape;
use crate::metadata::{member_names, normalized};

/// The name of the member that holds values which an application needs only during a turn.
pub(crate) const RUNTIME_CONTEXT: &str = "runtime_context";
/// Names of secret members, as [`normalized`].
const SECRET_NAMES: [&str; 8] = [
    "cookies",
    "credential",
    "credentials",
    "jwt",
    "passwd",
    "passwords",
    "pwd",
    "secrets",
];
/// The endings of further names of secret members.
const SECRET_ENDINGS: [&str; 11] = [
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "passphrase",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    TOKEN,
];
/// Names with this ending are also those of counts, such as `max_token`.
const TOKEN: &str = "token";

/// Masks the values of secret members in a JSON text, at any depth; `None` if there are none. All other bytes stay
/// unchanged. Adds what was masked to `counts`.
pub(super) fn mask_secret_members(json: &str, counts: &mut Masked) -> Option<String> {
    let is_secret = |name: &str| {
        SECRET_NAMES.contains(&name) || SECRET_ENDINGS.iter().any(|end| name.ends_with(end))
    };
    replace_values(json, is_secret, |name, value| {
        let is_count = name.ends_with(TOKEN) && !value.starts_with(['"', '{', '[']);
        (is_maskable(value) && !is_count).then(|| mask(Shape::SecretMember, counts))
    })
}

/// Masks the values in every member `runtime_context` of a JSON text, except those of members in `recorded`; `None` if
/// there are none. Adds what was masked to `counts`.
pub(super) fn mask_runtime_contexts(
    json: &str,
    recorded: &[String],
    counts: &mut Masked,
) -> Option<String> {
    let is_context = |name: &str| name == "runtimecontext";
    replace_values(json, is_context, |_, value| {
        let Some(members) = Members::parse(value) else {
            return is_maskable(value).then(|| mask(Shape::RuntimeContext, counts));
        };
        let names = members.0.iter().map(|(name, _)| *name);
        let members = members.iter().zip(names).map(|((name, value), token)| {
            let is_recorded = recorded.iter().any(|recorded| *recorded == name);
            match is_recorded || !is_maskable(value) {
                true => format!("{token}:{value}"),
                false => format!("{token}:{}", mask(Shape::RuntimeContext, counts)),
            }
        });
        let members: Vec<String> = members.collect();
        Some(format!("{{{}}}", members.join(",")))
    })
}

/// The mask of a value, as a JSON string.
fn mask(shape: Shape, counts: &mut Masked) -> String {
    counts.add(shape, 1);
    format!("\"{}\"", shape.mask())
}

/// Whether a value can be a secret that is not masked yet.
fn is_maskable(value: &str) -> bool {
    !matches!(value, "null" | "true" | "false" | "\"\"") && !value.starts_with("\"[masked:")
}

/// Replaces the values of the members whose names, as [`normalized`], `accepts` accepts; `None` if `replace` replaces
/// none.
fn replace_values(
    json: &str,
    accepts: impl Fn(&str) -> bool,
    mut replace: impl FnMut(&str, &str) -> Option<String>,
) -> Option<String> {
    let (mut output, mut copied) = (String::new(), 0);
    for (end, name) in member_names(json) {
        let name: String = normalized(&name).map(char::from).collect();
        // A name before `copied` is in a value that was replaced.
        if end < copied || !accepts(&name) {
            continue;
        }
        let Some(value) = value_after(json, end) else {
            continue;
        };
        if let Some(replacement) = replace(&name, &json[value.clone()]) {
            output.push_str(&json[copied..value.start]);
            output.push_str(&replacement);
            copied = value.end;
        }
    }
    (copied > 0).then(|| output + &json[copied..])
}

/// The range of the value of the member whose name ends at `name_end`.
fn value_after(json: &str, name_end: usize) -> Option<Range<usize>> {
    let (_, rest) = json.get(name_end..)?.split_once(':')?;
    let rest = rest.trim_start();
    let start = json.len() - rest.len();
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    Some(start..start + value.get().len())
}
