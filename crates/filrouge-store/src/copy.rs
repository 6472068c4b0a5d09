//! Copying a store into another one, whatever they are kept in: rows go over as they are stored, under the same keys,
//! out of one consistent sight of the source (DESIGN §12, docs/copy.md).

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure};

use crate::ledger::Position;
use crate::read::Sight;
use crate::record::Check;
use crate::rows::{LogRow, SessionPk, View};
use crate::verify::{Finding, Report, Suspects, Verdict, newest_commit};

mod intake;
mod run;
mod session;

pub use intake::{Begun, Holding, Intake, Piece, taken_over, unfinished};
use run::Run;

/// What a copy is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking whether the source is what was written; counts sessions.
    Source,
    /// Copying the commit log; counts commits.
    Commits,
    /// Copying sessions; counts them.
    Sessions,
    /// Looking whether the copy is what was written; counts sessions.
    Copy,
}

/// Who follows a copy. Either may end it by an error; it can be gone on with then.
pub trait Watch {
    /// Is told how much of how much is done.
    ///
    /// # Errors
    /// To end the copy.
    fn step(&mut self, stage: Stage, done: u64, all: u64) -> Result<(), Failure>;

    /// The copy is whole and was verified, and cannot be opened yet: its anchor is to be made at this position.
    ///
    /// # Errors
    /// To leave it as it is.
    fn witness(&mut self, store: &str, position: Position) -> Result<(), Failure>;
}

/// A copy that is finished.
#[derive(Debug)]
pub struct Copied {
    /// The name of the new store.
    pub store_id: String,
    /// Whether an earlier run had begun it.
    pub resumed: bool,
    /// Sessions that the earlier run had copied, and that nobody has written to since.
    pub sessions_known: u64,
    /// The newest commit that is in it.
    pub position: Position,
    /// What is in the copy, and what is wrong there: nothing that is not wrong in the source.
    pub copy: Report,
    /// What is wrong in the source.
    pub source: Report,
    /// Rows of the source that cannot be read, and are missing in the copy.
    pub left_out: Vec<Finding>,
}

/// Copies all that `source` shows, the store named `store_id`, into `intake`, or goes on where an earlier run has
/// stopped; verifies the whole of it. A source that was tampered with is copied as it is, and [`Copied`] tells.
///
/// # Errors
/// `invalid` when the target holds something else; `integrity_error` when nothing vouches for the source as a whole
/// (its newest commit does not fit, which is also so under another keyring), when the target is not a copy of this
/// source, or when the copy is not what the source is; `key_missing`; those of the stores and of `watch`.
pub fn copy<V: View + ?Sized>(
    source: &Sight<'_, V>,
    store_id: &str,
    intake: &mut dyn Intake,
    watch: &mut dyn Watch,
) -> Result<Copied, Failure> {
    match intake.holding()? {
        Holding::Nothing => {}
        Holding::Copy { of } if of == store_id => {}
        Holding::Copy { .. } => return Err(of_another_store()),
        Holding::Store => return Err(holds_a_store()),
    }
    let newest = vouched_for(source)?;
    let found = source.verify_all(&mut |done, all| watch.step(Stage::Source, done, all))?;
    // Another run may have begun in the meantime.
    let begun = intake.begin(store_id)?;
    let mut run = Run::new(source, &mut *intake, &mut *watch, begun.resumed);
    run.commits(newest.as_ref().map_or(0, |row| row.commit_no))?;
    run.sessions()?;
    run.notes()?;
    let done = run.done;
    let copy = verified(source, intake, watch)?;
    agree(&found, &done.left_out, &copy)?;
    let position = position(newest.as_ref());
    watch.witness(&begun.store_id, position)?;
    intake.finish(done.newest_pk)?;
    Ok(Copied {
        store_id: begun.store_id,
        resumed: begun.resumed,
        sessions_known: done.known,
        position,
        copy,
        source: found,
        left_out: done.left_out,
    })
}

fn of_another_store() -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        "the target is an unfinished copy of another store",
    )
    .with_hint("finish that one, or name another target")
}

fn holds_a_store() -> Failure {
    Failure::new(ErrorCode::Invalid, "the target holds a store already").with_hint(
        "name one that does not exist yet, or is empty: a copy is never mixed with what is there",
    )
}

fn position(newest: Option<&LogRow>) -> Position {
    Position {
        commit_no: newest.map_or(0, |row| row.commit_no),
        link: newest.map_or([0; 16], |row| row.link),
    }
}

/// The source's newest commit, which vouches for everything: without it nobody could tell later what the copy was.
///
/// # Errors
/// `integrity_error` when it does not fit, which is also so under another keyring; `key_missing`; the store's.
pub fn vouched_for<V: View + ?Sized>(source: &Sight<'_, V>) -> Result<Option<LogRow>, Failure> {
    let hint = "is this the keyring that the store was written with? `filrouge verify` tells what is wrong with it";
    let with_hint = |mut failure: Failure| {
        failure.detail = format!("the source cannot be copied: {}", failure.detail);
        failure.with_hint(hint)
    };
    source.suspects.check_store().map_err(with_hint)?;
    let newest = newest_commit(source.view, source.keyring).map_err(with_hint)?;
    let Some((row, follows)) = newest else {
        return Ok(None);
    };
    let (code, what) = match follows {
        Some(true) => return Ok(Some(row)),
        Some(false) => (ErrorCode::IntegrityError, "was changed"),
        None => (ErrorCode::KeyMissing, "was made with a key that is missing"),
    };
    let what = format!("commit {} {what}", row.commit_no);
    Err(with_hint(Failure::new(code, what)))
}

/// Looks at the whole copy as `filrouge verify` does.
fn verified<V: View + ?Sized>(
    source: &Sight<'_, V>,
    intake: &mut dyn Intake,
    watch: &mut dyn Watch,
) -> Result<Report, Failure> {
    let mut report = None;
    intake.look(&mut |view| {
        let copy = Sight {
            view,
            keyring: source.keyring,
            check: Check::Keyed,
            suspects: &Suspects::default(),
        };
        if view.newest_log()? != source.view.newest_log()? {
            return Err(differs("its newest commit is another one"));
        }
        let found = copy.verify_all(&mut |done, all| watch.step(Stage::Copy, done, all))?;
        report = Some(found);
        Ok(())
    })?;
    report.ok_or_else(|| Failure::new(ErrorCode::Internal, "the target did not show the copy"))
}

fn differs(what: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("the copy is not what the source is: {what}"),
    )
    .with_hint("remove the target and copy again; the source is as it was")
}

/// Whether the copy is as good as the source: of a source that is whole the copy is whole and has as much; otherwise
/// nothing is wrong in it that is not wrong in the source.
fn agree(source: &Report, left_out: &[Finding], copy: &Report) -> Result<(), Failure> {
    if source.verdict() == Verdict::Intact {
        if let Some(finding) = copy.findings.first() {
            return Err(differs(&finding.what));
        }
        return match source == copy {
            true => Ok(()),
            false => Err(differs("it has another number of rows")),
        };
    }
    let mut known: BTreeSet<_> = source.findings.iter().map(|f| &f.session_id).collect();
    // Of a session without a row that can be read the rest is known by its number alone.
    known.extend((!left_out.is_empty()).then_some(&None));
    match copy
        .findings
        .iter()
        .find(|f| !known.contains(&f.session_id))
    {
        Some(finding) => Err(differs(&finding.what)),
        None => Ok(()),
    }
}

/// What a run leaves to tell.
struct Done {
    known: u64,
    newest_pk: SessionPk,
    left_out: Vec<Finding>,
}
