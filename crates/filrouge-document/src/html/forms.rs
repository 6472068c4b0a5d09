//! The forms of what tools receive and return: edits as differences, commands as lines of a shell, all else as JSON or
//! text.

use filrouge_types::Members;
use maud::{Markup, Render, html};

use super::frame::{Frame, ItemContext};
use super::safe_text::{listing, open_listing};
use crate::data::replace_data_in_string_value;
use crate::json::{decode_string, format_arguments, pretty};
use crate::part::{remaining_members, take_text};
use crate::text::sanitize;

/// The names that tools give to the text before and after an edit.
const EDITS: [(&str, &str); 3] = [
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
];
/// The names that tools give to a patch.
const PATCHES: [&str; 4] = ["patch", "patchText", "diff", "input"];

/// The arguments of a call.
pub(super) fn arguments(args: &str, context: ItemContext<'_>) -> Markup {
    let text = decode_string(args);
    // Some providers write the arguments as a string that contains JSON.
    let json = text.as_deref().unwrap_or(args);
    let known = Members::parse(json).and_then(|mut members| {
        let (language, content) = edit(&mut members)
            .or_else(|| patch(&mut members))
            .or_else(|| command(&mut members))?;
        Some((language, content, remaining_members(&members)))
    });
    match known {
        Some((language, content, rest)) => html! {
            (form(language, &replace_data_in_string_value(&content), context))
            @if let Some(rest) = rest { (context.listing("", &pretty(&rest))) }
        },
        None => context.listing("", &format_arguments(args)),
    }
}

/// The output of a tool.
pub(super) fn output(text: &str, context: ItemContext<'_>) -> Markup {
    let language = if is_diff(text) { "diff" } else { "" };
    form(language, text, context)
}

/// The changes from a replaced turn to its replacement, as a unified diff.
pub(super) fn changes(diff: &str, frame: Frame<'_>) -> Markup {
    html! { p.label { (frame.say("Changes in its replacement")) } (diff_listing(diff)) }
}

fn form(language: &str, content: &str, context: ItemContext<'_>) -> Markup {
    match language {
        "diff" => context.limited(content, diff_listing),
        _ => context.listing(language, content),
    }
}

/// An edit, as lines of a diff.
fn edit(members: &mut Members<'_>) -> Option<(&'static str, String)> {
    let is_edit = |(old, new): &&(&str, &str)| has_text(members, old) && has_text(members, new);
    let (old, new) = EDITS.iter().find(is_edit)?;
    let (old, new) = (take_text(members, old)?, take_text(members, new)?);
    let removed = old.lines().map(|line| format!("-{line}\n"));
    let added = new.lines().map(|line| format!("+{line}\n"));
    Some(("diff", removed.chain(added).collect()))
}

fn patch(members: &mut Members<'_>) -> Option<(&'static str, String)> {
    let is_patch = |json: &str| decode_string(json).is_some_and(|text| is_diff(&text));
    let json = PATCHES
        .iter()
        .find_map(|name| members.take(name, is_patch))?;
    Some(("diff", decode_string(json)?))
}

fn command(members: &mut Members<'_>) -> Option<(&'static str, String)> {
    Some(("shell", take_text(members, "command")?))
}

/// Whether there is one member with this name, and it is a text.
fn has_text(members: &Members<'_>, name: &str) -> bool {
    let mut values = members.all(name);
    let is_text = values
        .next()
        .is_some_and(|json| decode_string(json).is_some());
    is_text && values.next().is_none()
}

/// Whether a text is a unified diff or a patch: it marks where it applies, and has changed lines.
fn is_diff(text: &str) -> bool {
    let is_place =
        |line: &str| line.starts_with("@@ ") || line == "@@" || line.starts_with("*** Begin Patch");
    let is_change = |line: &str| line.starts_with(['+', '-']);
    text.lines().any(is_place) && text.lines().any(is_change)
}

/// A diff, with its removed and added lines marked.
fn diff_listing(diff: &str) -> Markup {
    if diff.is_empty() {
        return listing("diff", diff);
    }
    let mut out = String::with_capacity(diff.len() * 2);
    open_listing("diff", &mut out);
    for line in sanitize(diff).lines() {
        let class = match line.as_bytes().first() {
            Some(b'+') => "add",
            Some(b'-') => "remove",
            _ if line.starts_with("@@") => "place",
            _ => "same",
        };
        out.push_str("<span class=\"");
        out.push_str(class);
        out.push_str("\">");
        line.render_to(&mut out);
        out.push_str("\n</span>");
    }
    out.push_str("</code></pre>");
    maud::PreEscaped(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_recognized_and_marked() {
        assert!(is_diff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"));
        assert!(is_diff(
            "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch"
        ));
        for text in ["", "- a list\n+ more", "@@ no change", "a @@ b\n+c"] {
            assert!(!is_diff(text), "{text}");
        }
        let shown = diff_listing("@@ -1 +1 @@\n-<b>\n+c\n d").into_string();
        assert_eq!(
            shown,
            "<pre dir=\"ltr\"><code data-language=\"diff\"><span class=\"place\">@@ -1 +1 @@\n</span>\
             <span class=\"remove\">-&lt;b&gt;\n</span><span class=\"add\">+c\n</span>\
             <span class=\"same\"> d\n</span></code></pre>"
        );
    }

    #[test]
    fn edits_and_commands_have_their_own_form() {
        let parse = |json| Members::parse(json).unwrap();
        let mut members = parse(r#"{"file_path":"a","old_string":"x\ny","new_string":"z"}"#);
        assert_eq!(
            edit(&mut members),
            Some(("diff", "-x\n-y\n+z\n".to_owned()))
        );
        assert_eq!(
            remaining_members(&members).as_deref(),
            Some(r#"{"file_path":"a"}"#)
        );
        assert_eq!(edit(&mut parse(r#"{"old_string":"x"}"#)), None);
        let mut members = parse(r#"{"command":"ls -l"}"#);
        assert_eq!(command(&mut members), Some(("shell", "ls -l".to_owned())));
        assert_eq!(command(&mut parse(r#"{"command":["ls"]}"#)), None);
    }
}
