//! A part's text to a part of the neutral form.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::neutral_fields::{Fields, FileDiff, Metadata, State, Text};
use super::session::{missing, same_id};
use crate::object::{Object, Refusal, check_depth};
use crate::{Changes, Part, PartKind, Tool, ToolStatus};

/// The ids of a part, from its place.
pub(super) struct Owner<'a> {
    pub(super) session: &'a str,
    pub(super) message: &'a str,
    pub(super) part: &'a str,
}

/// A compaction that begins with a part.
pub(super) struct Compaction {
    pub(super) automatic: bool,
    /// Whether it is finished by this record alone.
    pub(super) finished: bool,
    /// The first message that is kept beside the summary.
    pub(super) tail: Option<Box<str>>,
}

/// A part that was read.
pub(super) struct Read {
    pub(super) part: Part,
    pub(super) compaction: Option<Compaction>,
}

/// Reads a part. One whose fields are not of their types becomes [`PartKind::Other`], as written.
pub(super) fn read(owner: &Owner<'_>, text: &str) -> Result<Read, Refusal> {
    let fields = Fields::read(text)?;
    check_depth(text)?;
    let ids = [
        ("id", &fields.id, owner.part),
        ("messageID", &fields.message, owner.message),
        ("sessionID", &fields.session, owner.session),
    ];
    for (key, inside, id) in ids {
        if let Some(Text(inside)) = inside {
            same_id(key, Some(Cow::Borrowed(inside)), id)?;
        }
    }
    let kind: Box<str> = match &fields.kind {
        Some(Text(kind)) => (&**kind).into(),
        None => return Err(missing("type")),
    };
    let times = match &fields.state {
        Some(state) => state.time.or(fields.time),
        None => fields.time,
    };
    let times = times.unwrap_or_default();
    let compaction = (&*kind == "compaction").then(|| Compaction {
        automatic: fields.auto == Some(true),
        finished: fields.summary.is_some(),
        tail: fields.tail_start_id.as_ref().map(|id| (&*id.0).into()),
    });
    let mapped = if fields.odd {
        None
    } else {
        known(&kind, fields)
    };
    let kind = mapped.unwrap_or_else(|| PartKind::Other {
        name: kind,
        json: text.trim().into(),
    });
    let part = Part {
        id: owner.part.into(),
        start: times.start(),
        end: times.end(),
        kind,
    };
    Ok(Read { part, compaction })
}

/// `None` when it is of no kind that has a form of its own, or lacks what that form needs.
fn known(kind: &str, fields: Fields<'_>) -> Option<PartKind> {
    match kind {
        "text" => Some(PartKind::Text {
            text: fields.text?.into(),
            synthetic: fields.synthetic == Some(true) || fields.ignored == Some(true),
        }),
        "reasoning" => Some(PartKind::Reasoning {
            text: fields.text.or(fields.reasoning)?.into(),
        }),
        "tool" => tool(fields).map(|tool| PartKind::Tool(Box::new(tool))),
        "file" => Some(PartKind::File {
            mime: fields.mime.map(Into::into),
            name: fields.filename.map(Into::into),
            url: fields.url.map(address),
        }),
        "patch" => Some(PartKind::Patch {
            files: paths(fields.files?)?,
        }),
        "compaction" => Some(PartKind::Compaction {
            automatic: fields.auto == Some(true),
            summary: fields.summary.map(Into::into),
        }),
        _ => None,
    }
}

/// An address, without the content of a `data:` address.
fn address(url: Text<'_>) -> Box<str> {
    match url.0.split_once(',') {
        Some((head, _)) if head.starts_with("data:") => format!("{head},").into(),
        _ => url.into(),
    }
}

fn paths(files: &RawValue) -> Option<Vec<Box<str>>> {
    serde_json::from_str(files.get()).ok()
}

fn tool(fields: Fields<'_>) -> Option<Tool> {
    let State {
        status,
        input,
        output,
        error,
        title,
        metadata,
        time,
        ..
    } = fields.state?;
    let status = match &*status?.0 {
        "pending" => ToolStatus::Pending,
        // What is streaming has begun, as far as its arguments have come.
        "running" | "streaming" => ToolStatus::Running,
        "completed" => ToolStatus::Completed,
        "error" => ToolStatus::Error,
        _ => return None,
    };
    let metadata = metadata.unwrap_or_default();
    let around = fields
        .metadata
        .and_then(|raw| Object::parse(raw.get()).ok());
    let child: Option<Box<str>> = metadata.session.as_ref().map(|id| (&*id.0).into());
    let child = child.or_else(|| Metadata::lenient(&around?).session.map(Into::into));
    let (files, changes) = changed(metadata);
    let name: Box<str> = fields.tool?.into();
    Some(Tool {
        call_id: fields.call?.into(),
        // Other tools have sessions that are none of OpenCode's.
        child: child.filter(|id| &*name == "task" || id.starts_with("ses_")),
        name,
        status,
        input: input.map_or("null", RawValue::get).into(),
        output: output.map(Into::into),
        error: error.map(Into::into),
        title: title.map(Into::into),
        pruned: time.and_then(|time| time.compacted()),
        changes,
        files,
        result: None,
    })
}

/// The files a tool has changed, and how much.
fn changed(metadata: Metadata<'_>) -> (Vec<Box<str>>, Option<Changes>) {
    let Metadata {
        filediff,
        filepath,
        files,
        ..
    } = metadata;
    let many: Option<Vec<FileDiff<'_>>> = files.and_then(|f| serde_json::from_str(f.get()).ok());
    let diffs: Vec<FileDiff<'_>> = match filediff {
        Some(diff) => vec![diff],
        None => many.unwrap_or_default(),
    };
    if diffs.is_empty() {
        return (filepath.map(Into::into).into_iter().collect(), None);
    }
    let mut changes = Changes::default();
    let mut paths = Vec::new();
    for diff in diffs {
        changes.additions = changes.additions.saturating_add(diff.additions);
        changes.deletions = changes.deletions.saturating_add(diff.deletions);
        changes.files += 1;
        paths.extend(diff.file.map(Box::from));
    }
    (paths, Some(changes))
}
