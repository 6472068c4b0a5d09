//! Claude Code's history: JSON lines, one file per session (DESIGN §10).
//!
//! An agent is a session too. Its parent is the session in whose folder the agent is stored or, in early versions,
//! whose id its records have; this is so even if another agent of that session started it. In the conversation, the
//! tool call that started an agent names the agent's session.
//!
//! Only `projects` is read, so credentials never are.

mod compaction;
mod convert;
mod group;
mod head;
mod injected;
mod parts;
mod record;
mod results;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::is_id;
use crate::jsonl::{Format, LogFile, Logs, Session, keep_newest, stem};
use crate::{Fingerprint, Header, Program, SkipReason, Skipped, Source, SourceError, TokenRule};
use group::Group;
use head::Head;
use tree::{FileOwner, Root};

/// Claude Code.
pub static PROGRAM: Program = Program {
    name: tree::NAME,
    help: "Claude Code's JSONL files",
    hint: "give Claude Code's folder (by default ~/.claude), or its projects folder",
    places: |around| Vec::from_iter(around.folder("CLAUDE_CONFIG_DIR", ".claude")),
    open,
    watch,
};

/// The agent of a session that a person started.
const AGENT: &str = "claude";

/// Opens a history: Claude Code's folder (`~/.claude`), its `projects` folder, a project's folder there, or a session's
/// file.
///
/// # Errors
/// [`SourceError`] when nothing exists at `path`, or it is no history of Claude Code.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    Root::find(path)?;
    Ok(watch(path))
}

/// Like [`open`], without a check of `path`: the source is empty until a history exists there.
#[must_use]
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    let claude = Claude {
        path: path.to_owned(),
    };
    vec![Arc::new(Logs::new(claude, path))]
}

/// The format of Claude Code's histories, for the history at `path`.
struct Claude {
    path: PathBuf,
}

/// Data that the reader of a session's records needs besides its file.
pub(crate) struct Context {
    /// The session id in the records of this session itself, as opposed to copied ones.
    recorded_id: Box<str>,
    agent: Box<str>,
    group: Arc<Group>,
}

/// A file, with its session's id and with its parent session, if it has one.
struct NamedFile {
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
    type LineReader = convert::RecordState;

    fn walk(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let root = Root::find(&self.path);
        root.map_or_else(|_| Vec::new(), |root| root.walk(skipped))
    }

    fn head(&self, file: &LogFile) -> Result<Head, Skipped> {
        let own = stem(&file.path)
            .filter(|id| is_id(id))
            .ok_or_else(|| Skipped::new(&file.path, SkipReason::BadName, "not a valid id"))?;
        let mut head = head::read(file, own)?;
        head.meta = head::meta(&file.path);
        Ok(head)
    }

    fn build_sessions(
        &self,
        files: Vec<(LogFile, Arc<Head>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Context>> {
        let files = assign_ids(files, skipped);
        let mut groups: HashMap<Box<str>, Group> = HashMap::new();
        for one in files.values() {
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
        let no_agents = Arc::new(Group::default());
        let session = |one: NamedFile| {
            let owner = one.parent.as_ref().unwrap_or(&one.id);
            let group = groups.get(owner).unwrap_or(&no_agents).clone();
            session(one, group)
        };
        files.into_values().map(session).collect()
    }

    fn reader(&self, session: &Session<Context>) -> convert::RecordState {
        convert::RecordState::new(&session.context)
    }
}

/// Assigns a session id to each file: the file's name. If the name of an agent's file is already in use, its id is the
/// parent's id, a colon and the name. Of several files of one session, the newest counts.
fn assign_ids(
    files: Vec<(LogFile, Arc<Head>)>,
    skipped: &mut Vec<Skipped>,
) -> BTreeMap<Box<str>, NamedFile> {
    let mut named: BTreeMap<Box<str>, NamedFile> = BTreeMap::new();
    for (file, head) in files {
        let Some(name) = stem(&file.path).map(Box::<str>::from) else {
            continue;
        };
        let parent: Option<Box<str>> = match tree::owner(&file.path) {
            Some(FileOwner::AgentOf(session)) => Some(session.into()),
            Some(FileOwner::LooseAgent) if head.sidechain => head.recorded_id.clone(),
            _ => None,
        };
        let id: Box<str> = match (&parent, named.get(&name)) {
            (Some(parent), Some(_)) => format!("{parent}:{name}").into(),
            _ => name,
        };
        if !is_id(&id) {
            let detail = "its name and its parent's together are not a valid id";
            skipped.push(Skipped::new(&file.path, SkipReason::BadName, detail));
            continue;
        }
        let one = NamedFile {
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

/// Builds the session of a file. `group` has the agents of the session or, for an agent, of its parent.
fn session(one: NamedFile, group: Arc<Group>) -> Session<Context> {
    let head = &one.head;
    let described = head.meta.as_ref().and_then(|meta| meta.agent.clone());
    let subagent = || one.parent.as_ref().map(|_| "subagent".into());
    let agent = described.or_else(|| head.agent.clone()).or_else(subagent);
    let agent = agent.unwrap_or_else(|| AGENT.into());
    let created = head.created.unwrap_or_else(|| one.file.state.millis());
    let own = head.recorded_id.clone().unwrap_or_else(|| one.id.clone());
    // The records of an agent have its parent's session id, which does not mean that the agent is a fork.
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
    let context_fingerprint = Fingerprint::of(&*group).0;
    Session {
        header: Arc::new(header),
        file: one.file,
        context: Context {
            recorded_id: own,
            agent,
            group,
        },
        context_fingerprint,
    }
}
