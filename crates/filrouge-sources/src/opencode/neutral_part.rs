//! Converts a part's text to a part in the neutral form.

use super::changed_files::add_changes;
use super::neutral_message::tokens;
use super::session::{check_own_id, missing_field};
use super::storage::PartText;
use crate::object::{Object, Result, check_depth};
use crate::raw::Raw;
use crate::{Part, PartKind, TokenRule, Tokens, Tool, ToolStatus};

/// A compaction that starts with a part.
pub(super) struct StartedCompaction {
    pub(super) automatic: bool,
    /// Whether the part itself contains the summary, so that the compaction is finished.
    pub(super) finished: bool,
    /// The id of the first older message that the model still sees in addition to the summary.
    pub(super) tail: Option<Box<str>>,
}

/// A part that was read.
pub(super) struct ReadPart {
    pub(super) part: Part,
    pub(super) compaction: Option<StartedCompaction>,
    /// The tokens of the step that ends with this part, counted as OpenCode up to version 0.5 counts them.
    pub(super) step: Option<Tokens>,
}

/// Reads a part of the message `message` in the session `session`. A part in which a field that its kind requires is
/// missing or has another type becomes [`PartKind::Other`], with its original JSON.
pub(super) fn read(session: &str, message: &str, part: &PartText) -> Result<ReadPart> {
    let object = Object::parse(&part.text)?;
    check_depth(&part.text)?;
    check_own_id(&object, "id", &part.id)?;
    check_own_id(&object, "messageID", message)?;
    check_own_id(&object, "sessionID", session)?;
    let kind = object.text("type").ok_or_else(|| missing_field("type"))?;
    let state = object.object("state")?.unwrap_or_default();
    let state_time = state.object("time")?;
    let time = state_time.or(object.object("time")?).unwrap_or_default();
    let compaction = (&*kind == "compaction").then(|| StartedCompaction {
        automatic: object.is_true("auto"),
        finished: object.token("summary").is_some(),
        tail: object.text("tail_start_id").map(Into::into),
    });
    let ends_step = &*kind == "step-finish";
    let step = ends_step.then(|| tokens(&object, TokenRule::OpencodeInputHoldsCache));
    let neutral = neutral_kind(&kind, &object, &state);
    Ok(ReadPart {
        part: Part {
            id: part.id.clone(),
            seq: None,
            // A part of type `retry` has only `created`.
            start: time.millis("start").or_else(|| time.millis("created")),
            end: time.millis("end"),
            kind: neutral.unwrap_or_else(|| PartKind::Other {
                name: kind.into(),
                json: part.text.trim().into(),
            }),
        },
        compaction,
        step: step.flatten(),
    })
}

/// The text of an optional field: `Some(None)` if the field is absent, `None` if it has another type.
fn optional_text(object: &Object<'_>, key: &str) -> Option<Option<Box<str>>> {
    match object.get(key) {
        None => Some(None),
        Some(_) => object.text(key).map(|text| Some(text.into())),
    }
}

/// Converts a part of a kind with a neutral form; `None` for other kinds, or when a required field is missing.
fn neutral_kind(kind: &str, object: &Object<'_>, state: &Object<'_>) -> Option<PartKind> {
    match kind {
        "text" => Some(PartKind::Text {
            text: object.text("text")?.into(),
            synthetic: object.is_true("synthetic") || object.is_true("ignored"),
        }),
        "reasoning" => Some(PartKind::Reasoning {
            text: object
                .text("text")
                .or_else(|| object.text("reasoning"))?
                .into(),
        }),
        "tool" => read_tool(object, state).map(|tool| PartKind::Tool(Box::new(tool))),
        "file" => Some(PartKind::File {
            mime: optional_text(object, "mime")?,
            name: optional_text(object, "filename")?,
            url: optional_text(object, "url")?.map(without_content),
        }),
        "patch" => Some(PartKind::Patch {
            files: paths(object.field("files"))?,
        }),
        "compaction" => Some(PartKind::Compaction {
            automatic: object.is_true("auto"),
            summary: optional_text(object, "summary")?,
        }),
        _ => None,
    }
}

/// A URL, without the content of a `data:` URL.
fn without_content(url: Box<str>) -> Box<str> {
    match url.split_once(',') {
        Some((head, _)) if head.starts_with("data:") => format!("{head},").into(),
        _ => url,
    }
}

fn paths(files: Raw<'_>) -> Option<Vec<Box<str>>> {
    let files = files.list()?.into_iter();
    files.map(|file| file.text().map(Into::into)).collect()
}

fn read_tool(object: &Object<'_>, state: &Object<'_>) -> Option<Tool> {
    let status = match &*state.text("status")? {
        "pending" => ToolStatus::Pending,
        // A call that is streaming has begun; its arguments may be incomplete.
        "running" | "streaming" => ToolStatus::Running,
        "completed" => ToolStatus::Completed,
        "error" => ToolStatus::Error,
        _ => return None,
    };
    let metadata = state.field("metadata").object().unwrap_or_default();
    let from_part = || started_session(&object.field("metadata").object()?);
    let child = started_session(&metadata).or_else(from_part);
    let name: Box<str> = object.text("tool")?.into();
    let time = state.field("time").object();
    let mut tool = Tool {
        call_id: object.text("callID")?.into(),
        // Only `task` always starts a session of OpenCode. The ids of other tools can be those of another program.
        child: child.filter(|id| &*name == "task" || id.starts_with("ses_")),
        name,
        status,
        input: state.get("input").unwrap_or("null").into(),
        output: optional_text(state, "output")?,
        error: optional_text(state, "error")?,
        title: state.text("title").map(Into::into),
        pruned: time.and_then(|time| time.millis("compacted")),
        ..Tool::default()
    };
    add_changes(&mut tool, &metadata);
    Some(tool)
}

/// The session that a call's metadata names.
fn started_session(metadata: &Object<'_>) -> Option<Box<str>> {
    let id = metadata.text("sessionId");
    id.or_else(|| metadata.text("sessionID")).map(Into::into)
}
