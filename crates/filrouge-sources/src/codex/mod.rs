//! Codex's history (DESIGN §10): rollouts, which are files of JSON lines, one per session; titles are in a separate
//! index. Codex calls a session a thread.
//!
//! Only `sessions`, `archived_sessions` and `state_*.sqlite` are read, so credentials never are.

mod convert;
mod copies;
mod events;
mod head;
mod items;
mod outputs;
mod threads;
mod tree;
mod usage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::is_id;
use crate::jsonl::{Format, LogFile, Logs, Session, keep_newest};
use crate::{Fingerprint, Header, Program, SkipReason, Skipped, Source, SourceError, TokenRule};
use head::RolloutHead;
use threads::Thread;
use tree::CodexHistory;

/// Codex.
pub static PROGRAM: Program = Program {
    name: tree::NAME,
    help: "Codex's rollouts",
    hint: "give Codex's folder (by default ~/.codex), or its sessions folder",
    places: |around| Vec::from_iter(around.folder("CODEX_HOME", ".codex")),
    open,
    watch,
};

/// The agent of a session that a person started.
const AGENT: &str = "codex";

/// Opens a history: Codex's folder (`~/.codex`), its `sessions` or `archived_sessions` folder, another folder of
/// rollouts, or one rollout.
///
/// # Errors
/// [`SourceError`] when nothing exists at `path`, or it is no history of Codex.
pub fn open(path: &Path) -> Result<Vec<Arc<dyn Source>>, SourceError> {
    CodexHistory::find(path)?;
    Ok(watch(path))
}

/// Like [`open`], without a check of `path`: the source is empty until a history exists there.
pub fn watch(path: &Path) -> Vec<Arc<dyn Source>> {
    let codex = Codex {
        path: path.to_owned(),
    };
    vec![Arc::new(Logs::new(codex, path))]
}

/// The format of Codex's histories, for the history at `path`.
struct Codex {
    path: PathBuf,
}

/// The data that the reader of a session's records needs in addition to the file.
pub(crate) struct RolloutContext {
    id: Box<str>,
    agent: Box<str>,
    forked: bool,
    created: i64,
}

impl Format for Codex {
    const NAME: &'static str = tree::NAME;
    const GENERATION: &'static str = "rollout";
    const TOKEN_RULE: TokenRule = TokenRule::CodexPerResponse;
    type Head = RolloutHead;
    type Context = RolloutContext;
    type LineReader = convert::RolloutState;

    fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        let history = CodexHistory::find(&self.path);
        history.map_or_else(|_| Vec::new(), |history| history.list_files(skipped))
    }

    fn read_head(&self, file: &LogFile) -> Result<RolloutHead, Skipped> {
        if tree::session_id(&file.path).is_some_and(is_id) {
            return head::read(file);
        }
        let detail = "not a valid id";
        Err(Skipped::new(&file.path, SkipReason::BadName, detail))
    }

    fn build_sessions(
        &self,
        files: Vec<(LogFile, Arc<RolloutHead>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<RolloutContext>> {
        let mut newest_by_id: BTreeMap<Box<str>, (LogFile, Arc<RolloutHead>)> = BTreeMap::new();
        for (file, head) in files {
            let Some(id) = tree::session_id(&file.path).map(Box::<str>::from) else {
                continue;
            };
            keep_newest(
                &mut newest_by_id,
                id,
                (file, head),
                |(file, head)| (file, head.updated),
                skipped,
            );
        }
        let home = CodexHistory::find(&self.path)
            .ok()
            .and_then(|root| root.home);
        let threads = home.map(|home| threads::read_index(&home, skipped));
        let threads = threads.unwrap_or_default();
        let no_thread = Thread::default();
        let session = |(id, (file, head)): (Box<str>, (LogFile, Arc<RolloutHead>))| {
            let thread = threads.get(&id).unwrap_or(&no_thread);
            session(id, file, &head, thread)
        };
        newest_by_id.into_iter().map(session).collect()
    }

    fn reader(&self, session: &Session<RolloutContext>) -> convert::RolloutState {
        convert::RolloutState::new(&session.context)
    }
}

/// Builds the session of a rollout from the rollout's head and the index's record of the session.
fn session(
    id: Box<str>,
    file: LogFile,
    head: &RolloutHead,
    thread: &Thread,
) -> Session<RolloutContext> {
    let created = head.created.unwrap_or_else(|| file.state.millis());
    let agent = head.agent.clone().or_else(|| thread.agent.clone());
    let agent = agent.unwrap_or_else(|| AGENT.into());
    let archived_at = tree::is_archived(&file.path).then(|| file.state.millis());
    let header = Header {
        id: id.clone(),
        source: Codex::NAME,
        generation: Codex::GENERATION,
        parent_id: head.parent.clone().or_else(|| thread.parent.clone()),
        fork_of: head.fork_of.clone(),
        project_id: thread.project_id.clone(),
        worktree: head.cwd.clone(),
        directory: head.cwd.clone(),
        title: thread.title.clone().or_else(|| head.prompt.clone()),
        agent: Some(agent.clone()),
        agents: Vec::new(),
        version: head.version.clone(),
        created,
        updated: head.updated.unwrap_or(created).max(created),
        archived: thread.archived.filter(|at| *at > 0).or(archived_at),
        ..Header::default()
    };
    let forked = header.fork_of.is_some();
    Session {
        header: Arc::new(header),
        file,
        context: RolloutContext {
            id,
            agent,
            forked,
            created,
        },
        context_fingerprint: Fingerprint::compute(&thread.agent).0,
    }
}
