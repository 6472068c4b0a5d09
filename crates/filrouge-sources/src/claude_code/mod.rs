//! Claude Code's history: JSON lines, one file a session (DESIGN §10).
//!
//! An agent that a session has started is a session of its own, with the other as its parent, linked at the tool call
//! that made it. Only `projects` is looked into: nothing beside it, no credentials.

mod compaction;
mod group;
mod head;
mod parts;
mod record;
mod results;
mod talk;
mod told;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::is_id;
use crate::jsonl::{Format, LogFile, Logs, Session, keep_newest, stem};
use crate::{Fingerprint, Header, Program, SkipReason, Skipped, Source, SourceError, TokenRule};
use group::Group;
use head::Head;
use tree::{Owner, Root};

/// Claude Code.
pub static PROGRAM: Program = Program {
    name: tree::NAME,
    help: "Claude Code's JSONL files",
    hint: "give Claude Code's folder (by default ~/.claude), or its projects folder",
    places: |around| Vec::from_iter(around.folder("CLAUDE_CONFIG_DIR", ".claude")),
    open,
    watch,
};

/// The agent of a session a person has started.
const AGENT: &str = "claude";

/// Opens Claude Code's folder (`~/.claude`), its `projects` folder, a project's folder there, or a session's file.
///
/// # Errors
/// [`SourceError`] when there is nothing at `path` or it holds no such history.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    Root::find(path)?;
    Ok(watch(path))
}

/// As [`open`], whatever is at `path` now: empty as long as nothing is, read once it is there.
#[must_use]
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    let claude = Claude {
        path: path.to_owned(),
    };
    vec![Arc::new(Logs::new(claude, path))]
}

struct Claude {
    path: PathBuf,
}

/// What a session's reader has to know beyond its file.
pub(crate) struct Context {
    records_of: Box<str>,
    agent: Box<str>,
    group: Arc<Group>,
}

/// A file on its way to a session.
struct Found {
    file: LogFile,
    head: Arc<Head>,
    id: Box<str>,
    parent: Option<Box<str>>,
}

impl Format for Claude {
    const NAME: &'static str = tree::NAME;
    const GENERATION: &'static str = "jsonl";
    const RULE: TokenRule = TokenRule::ClaudeCodeMessageOnce;
    type Head = Head;
    type Context = Context;
    type Reader = talk::Lines;

    fn walk(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let root = Root::find(&self.path);
        root.map_or_else(|_| Vec::new(), |root| root.walk(skipped))
    }

    fn head(&self, file: &LogFile) -> Result<Head, Skipped> {
        let own = stem(&file.path)
            .filter(|id| is_id(id))
            .ok_or_else(|| Skipped::new(&file.path, SkipReason::BadName, "the name gives no id"))?;
        let mut head = head::read(file, own)?;
        head.meta = head::meta(&file.path);
        Ok(head)
    }

    fn settle(
        &self,
        files: Vec<(LogFile, Arc<Head>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Context>> {
        let found = named(files, skipped);
        let mut groups: HashMap<Box<str>, Group> = HashMap::new();
        for one in found.values() {
            let Some(parent) = &one.parent else { continue };
            let group = groups.entry(parent.clone()).or_default();
            let call = one.head.meta.as_ref().and_then(|meta| meta.call_id.clone());
            if let Some(call) = call {
                group.by_call.insert(call, one.id.clone());
            }
            let name = stem(&one.file.path).unwrap_or_default();
            if *name != *one.id {
                group.renamed.insert(name.into(), one.id.clone());
            }
        }
        let groups: HashMap<_, _> = groups
            .into_iter()
            .map(|(id, g)| (id, Arc::new(g)))
            .collect();
        let nobody = Arc::new(Group::default());
        let session = |one: Found| {
            let of = one.parent.as_ref().unwrap_or(&one.id);
            let group = groups.get(of).unwrap_or(&nobody).clone();
            session(one, group)
        };
        found.into_values().map(session).collect()
    }

    fn reader(&self, session: &Session<Context>) -> talk::Lines {
        talk::Lines::new(&session.context)
    }
}

/// Gives every file its id. An agent's file whose name is taken gets its parent's id before it.
fn named(
    files: Vec<(LogFile, Arc<Head>)>,
    skipped: &mut Vec<Skipped>,
) -> BTreeMap<Box<str>, Found> {
    let mut named: BTreeMap<Box<str>, Found> = BTreeMap::new();
    for (file, head) in files {
        let Some(name) = stem(&file.path).map(Box::<str>::from) else {
            continue;
        };
        let parent: Option<Box<str>> = match tree::owner(&file.path) {
            Some(Owner::AgentOf(session)) => Some(session.into()),
            Some(Owner::LooseAgent) if head.sidechain => head.records_of.clone(),
            _ => None,
        };
        let id: Box<str> = match (&parent, named.get(&name)) {
            (Some(parent), Some(_)) => format!("{parent}:{name}").into(),
            _ => name,
        };
        if !is_id(&id) {
            let detail = "its name and its parent's together give no id";
            skipped.push(Skipped::new(&file.path, SkipReason::BadName, detail));
            continue;
        }
        let one = Found {
            file,
            head,
            id: id.clone(),
            parent,
        };
        keep_newest(
            &mut named,
            id,
            one,
            |one| (&one.file, one.head.updated),
            skipped,
        );
    }
    named
}

fn session(one: Found, group: Arc<Group>) -> Session<Context> {
    let head = &one.head;
    let meant = head.meta.as_ref().and_then(|meta| meta.agent.clone());
    let subagent = || one.parent.as_ref().map(|_| "subagent".into());
    let agent = meant.or_else(|| head.agent.clone()).or_else(subagent);
    let agent = agent.unwrap_or_else(|| AGENT.into());
    let created = head.created.unwrap_or_else(|| one.file.state.millis());
    let own = head.records_of.clone().unwrap_or_else(|| one.id.clone());
    // An agent's records name its parent's session.
    let fork_of = head
        .fork_of
        .clone()
        .filter(|id| *id != one.id && one.parent.is_none());
    let header = Header {
        id: one.id.clone(),
        source: Claude::NAME,
        generation: Claude::GENERATION,
        parent_id: one.parent.clone(),
        fork_of: fork_of.filter(|id| *id != own),
        project_id: tree::project_of(&one.file.path).map(Into::into),
        project_name: None,
        worktree: head.cwd.clone(),
        directory: head.cwd.clone(),
        title: head.title(),
        agent: Some(agent.clone()),
        version: head.version.clone(),
        created,
        updated: head.updated.unwrap_or(created).max(created),
        archived: None,
        changes: None,
        fingerprint: None,
    };
    let mark = Fingerprint::of(&*group).0;
    Session {
        header: Arc::new(header),
        file: one.file,
        context: Context {
            records_of: own,
            agent,
            group,
        },
        mark,
    }
}
