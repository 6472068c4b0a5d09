//! Claude Code's history: JSON lines, one file per session (DESIGN §10).
//!
//! An agent is a session too. Its parent is the session in whose folder the agent is stored or, in early versions,
//! whose id its records have. This is so even if another agent of that session started it. In the conversation, the
//! tool call that started an agent names the agent's session.
//!
//! Only `projects` is read, so credentials never are.

mod agents;
mod compaction;
mod convert;
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
use agents::SessionAgents;
use head::Head;
use tree::{AGENT_NAME, Root};

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

/// The data that the reader of a session's records needs in addition to the file.
pub(crate) struct Context {
    /// The session id in this session's own records, as opposed to copied ones.
    recorded_id: Box<str>,
    agent: Box<str>,
    agents: Arc<SessionAgents>,
}

/// A file, its session's id, and its parent session if it has one.
struct NamedFile {
    file: LogFile,
    head: Arc<Head>,
    id: Box<str>,
    parent: Option<Box<str>>,
}

impl Format for Claude {
    const NAME: &'static str = tree::NAME;
    const GENERATION: &'static str = "jsonl";
    const TOKEN_RULE: TokenRule = TokenRule::ClaudeCodeMessageOnce;
    type Head = Head;
    type Context = Context;
    type LineReader = convert::RecordState;

    fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let root = Root::find(&self.path);
        root.map_or_else(|_| Vec::new(), |root| root.list_files(skipped))
    }

    fn read_head(&self, file: &LogFile) -> Result<Head, Skipped> {
        let bad_name = || Skipped::new(&file.path, SkipReason::BadName, "not a valid id");
        let recorded_id = stem(&file.path).filter(|id| is_id(id));
        let recorded_id = recorded_id.ok_or_else(bad_name)?;
        let mut head = head::read(file, recorded_id)?;
        head.meta = head::read_meta(&file.path).unwrap_or_default();
        Ok(head)
    }

    fn build_sessions(
        &self,
        files: Vec<(LogFile, Arc<Head>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Context>> {
        let files = assign_ids(files, skipped);
        let mut agents_by_parent: HashMap<Box<str>, SessionAgents> = HashMap::new();
        for named_file in files.values() {
            let Some(parent) = &named_file.parent else {
                continue;
            };
            let agents = agents_by_parent.entry(parent.clone()).or_default();
            if let Some(call) = named_file.head.meta.call_id.clone() {
                agents.by_call.insert(call, named_file.id.clone());
            }
            let name = stem(&named_file.file.path).unwrap_or_default();
            if *name != *named_file.id {
                agents.renamed.insert(name.into(), named_file.id.clone());
            }
        }
        let agents_by_parent: HashMap<_, _> = agents_by_parent
            .into_iter()
            .map(|(id, g)| (id, Arc::new(g)))
            .collect();
        let no_agents = Arc::new(SessionAgents::default());
        let session = |named_file: NamedFile| {
            let owner = named_file.parent.as_ref().unwrap_or(&named_file.id);
            let agents = agents_by_parent.get(owner).unwrap_or(&no_agents).clone();
            session(named_file, agents)
        };
        files.into_values().map(session).collect()
    }

    fn reader(&self, session: &Session<Context>) -> convert::RecordState {
        convert::RecordState::new(&session.context)
    }
}

/// Assigns a session id to each file: the file's name. If the name of an agent's file is already in use, its id is the
/// parent's id, a colon and the name. Of several files of one session, only the newest is read.
fn assign_ids(
    files: Vec<(LogFile, Arc<Head>)>,
    skipped: &mut Vec<Skipped>,
) -> BTreeMap<Box<str>, NamedFile> {
    let mut by_id: BTreeMap<Box<str>, NamedFile> = BTreeMap::new();
    for (file, head) in files {
        let Some(name) = stem(&file.path).map(Box::<str>::from) else {
            continue;
        };
        let parent: Option<Box<str>> = match tree::session_folder(&file.path) {
            Some(folder) => folder.file_name().and_then(|id| Some(id.to_str()?.into())),
            // An agent in the project's folder: its records have the id of its parent session.
            None if head.sidechain && name.starts_with(AGENT_NAME) => head.recorded_id.clone(),
            None => None,
        };
        let id: Box<str> = match (&parent, by_id.get(&name)) {
            (Some(parent), Some(_)) => format!("{parent}:{name}").into(),
            _ => name,
        };
        if !is_id(&id) {
            let detail = "its name and its parent's together are not a valid id";
            skipped.push(Skipped::new(&file.path, SkipReason::BadName, detail));
            continue;
        }
        let named_file = NamedFile {
            file,
            head,
            id: id.clone(),
            parent,
        };
        keep_newest(
            &mut by_id,
            id,
            named_file,
            |named_file| (&named_file.file, named_file.head.updated),
            skipped,
        );
    }
    by_id
}

/// Builds the session of a file. `agents` are the agents of the session or, if the session is an agent, of its parent.
fn session(named_file: NamedFile, agents: Arc<SessionAgents>) -> Session<Context> {
    let head = &named_file.head;
    let subagent = || named_file.parent.as_ref().map(|_| "subagent".into());
    let agent = head.meta.agent.clone().or_else(|| head.agent.clone());
    let agent = agent.or_else(subagent);
    let agent = agent.unwrap_or_else(|| AGENT.into());
    let written = || named_file.file.state.millis();
    let created = head.created.unwrap_or_else(written);
    let recorded_id = head.recorded_id.as_ref().unwrap_or(&named_file.id).clone();
    // The records of an agent have its parent's session id, which does not mean that the agent is a fork.
    let fork_of = head.fork_of.clone().filter(|_| named_file.parent.is_none());
    let header = Header {
        id: named_file.id.clone(),
        source: Claude::NAME,
        generation: Claude::GENERATION,
        parent_id: named_file.parent.clone(),
        fork_of: fork_of.filter(|id| *id != named_file.id && *id != recorded_id),
        project_id: tree::project_of(&named_file.file.path).map(Into::into),
        worktree: head.cwd.clone(),
        directory: head.cwd.clone(),
        title: head.title(),
        agent: Some(agent.clone()),
        agents: Vec::new(),
        version: head.version.clone(),
        created,
        updated: head.updated.unwrap_or(created).max(created),
        ..Header::default()
    };
    let context_fingerprint = Fingerprint::compute(&*agents).0;
    Session {
        header: Arc::new(header),
        file: named_file.file,
        context: Context {
            recorded_id,
            agent,
            agents,
        },
        context_fingerprint,
    }
}
