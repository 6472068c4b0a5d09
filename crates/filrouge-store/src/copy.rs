//! Copies a store to a new store of any backend. The rows come from one snapshot of the source, and are written
//! unchanged under the same keys (DESIGN §12, docs/copy.md).

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure};

use crate::ledger::Position;
use crate::read::VerifiedSnapshot;
use crate::record::MacCheck;
use crate::rows::{LogRow, SessionPk, View};
use crate::verify::{Finding, HeadCheck, Suspects, Verdict, VerificationReport, newest_commit};

mod copy_target;
mod run;
mod session;

pub use copy_target::{
    CopyRow, CopyTarget, StartedCopy, TargetContents, overtaken_run, unfinished_copy,
};
use run::Run;

/// The stage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// The source is verified; progress counts sessions.
    Source,
    /// The commit log is copied; progress counts commits.
    Commits,
    /// Sessions are copied; progress counts sessions.
    Sessions,
    /// The copy is verified; progress counts sessions.
    Copy,
}

/// Observes a copy. An error from either method stops the copy; a later run can continue it.
pub trait CopyObserver {
    /// Receives the progress of a stage: `done` of `total` rows.
    ///
    /// # Errors
    /// An error stops the copy.
    fn progress(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure>;

    /// Writes an anchor for the new store, whose id is `store`, at this position. At this time the copy is complete and
    /// verified. It is still marked as unfinished, so that it cannot be opened.
    ///
    /// # Errors
    /// An error leaves the copy unfinished.
    fn write_anchor(&mut self, store: &str, position: Position) -> Result<(), Failure>;
}

/// A finished copy.
#[derive(Debug)]
pub struct Copied {
    /// The name of the new store.
    pub store_id: String,
    /// Whether an earlier run started the copy.
    pub resumed: bool,
    /// The number of sessions that the earlier run copied and that have not changed since.
    pub sessions_unchanged: u64,
    /// The newest commit of the copy.
    pub position: Position,
    /// The verification of the copy. Its findings are a subset of the findings in the source.
    pub copy: VerificationReport,
    /// The verification of the source.
    pub source: VerificationReport,
    /// Unreadable rows of the source, which the copy lacks.
    pub left_out: Vec<Finding>,
}

/// Copies the store `store_id` from `source` to `copy_target`, or continues an earlier run, and verifies the result. A
/// tampered source is copied unchanged; [`Copied`] lists the findings.
///
/// # Errors
/// `invalid` when the target has other contents. `integrity_error` when the source's newest commit fails verification,
/// which also happens under the wrong keyring, so that nothing authenticates the source; when commits that an earlier
/// run copied have changed in the source; or when the copy differs from the source. `key_missing`. Those of the stores
/// and of `observer`.
pub fn copy<V: View + ?Sized>(
    source: &VerifiedSnapshot<'_, V>,
    store_id: &str,
    copy_target: &mut dyn CopyTarget,
    observer: &mut dyn CopyObserver,
) -> Result<Copied, Failure> {
    match copy_target.contents()? {
        TargetContents::Nothing => {}
        TargetContents::Copy { source } if source == store_id => {}
        TargetContents::Copy { .. } => return Err(copy_of_another_store()),
        TargetContents::Store => return Err(target_not_empty()),
    }
    let newest = verified_newest_commit(source)?;
    let source_report =
        source.verify_all(&mut |done, all| observer.progress(CopyStage::Source, done, all))?;
    // Another run may have started in the meantime.
    let started = copy_target.begin(store_id)?;
    let mut run = Run::new(source, &mut *copy_target, &mut *observer, started.resumed);
    run.copy_commits(newest.as_ref().map_or(0, |row| row.commit_no))?;
    run.copy_sessions()?;
    run.copy_notes()?;
    let results = run.results;
    let copy = verify_copy(source, copy_target, observer)?;
    check_reports_agree(&source_report, &results.left_out, &copy)?;
    let position = position(newest.as_ref());
    observer.write_anchor(&started.store_id, position)?;
    copy_target.finish(results.newest_pk)?;
    Ok(Copied {
        store_id: started.store_id,
        resumed: started.resumed,
        sessions_unchanged: results.unchanged,
        position,
        copy,
        source: source_report,
        left_out: results.left_out,
    })
}

fn copy_of_another_store() -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        "the target is an unfinished copy of another store",
    )
    .with_hint("finish that one, or name another target")
}

fn target_not_empty() -> Failure {
    Failure::new(ErrorCode::Invalid, "the target already contains a store").with_hint(
        "name one that does not exist yet, or is empty: a copy is never mixed with what is there",
    )
}

fn position(newest: Option<&LogRow>) -> Position {
    Position {
        commit_no: newest.map_or(0, |row| row.commit_no),
        link: newest.map_or([0; 16], |row| row.link),
    }
}

/// Verifies the source's newest commit, which authenticates the entire store and therefore the copy; `None` if the
/// source has no commit.
///
/// # Errors
/// `integrity_error` when the commit fails verification, which also happens under the wrong keyring; `key_missing`; the
/// store's errors.
pub fn verified_newest_commit<V: View + ?Sized>(
    source: &VerifiedSnapshot<'_, V>,
) -> Result<Option<LogRow>, Failure> {
    let hint = "is this the keyring that the store was written with? `filrouge verify` reports what is wrong with the store";
    let with_hint = |mut failure: Failure| {
        failure.detail = format!("the source cannot be copied: {}", failure.detail);
        failure.with_hint(hint)
    };
    source.suspects.check_store().map_err(with_hint)?;
    let newest = newest_commit(source.view, source.keyring).map_err(with_hint)?;
    let Some((row, follows)) = newest else {
        return Ok(None);
    };
    let (code, detail) = match follows {
        Some(true) => return Ok(Some(row)),
        Some(false) => (ErrorCode::IntegrityError, "was changed"),
        None => (ErrorCode::KeyMissing, "was made with a key that is missing"),
    };
    let detail = format!("commit {} {detail}", row.commit_no);
    Err(with_hint(Failure::new(code, detail)))
}

/// Verifies the entire copy, like `filrouge verify`.
fn verify_copy<V: View + ?Sized>(
    source: &VerifiedSnapshot<'_, V>,
    copy_target: &mut dyn CopyTarget,
    observer: &mut dyn CopyObserver,
) -> Result<VerificationReport, Failure> {
    let mut report = None;
    copy_target.with_view(&mut |view| {
        let copy = VerifiedSnapshot {
            view,
            keyring: source.keyring,
            check: MacCheck::Keyed,
            suspects: &Suspects::default(),
            heads: HeadCheck::default(),
        };
        if view.newest_log()? != source.view.newest_log()? {
            return Err(copy_differs("its newest commit is another one"));
        }
        let copy_report =
            copy.verify_all(&mut |done, all| observer.progress(CopyStage::Copy, done, all))?;
        report = Some(copy_report);
        Ok(())
    })?;
    report.ok_or_else(|| Failure::new(ErrorCode::Internal, "the target did not return the copy"))
}

fn copy_differs(detail: &str) -> Failure {
    Failure::new(
        ErrorCode::IntegrityError,
        format!("the copy differs from the source: {detail}"),
    )
    .with_hint("remove the target and copy again; the source was not changed")
}

/// Checks that the reports of the source and the copy agree. For an intact source they must be equal; otherwise every
/// damaged session of the copy must be damaged in the source.
fn check_reports_agree(
    source: &VerificationReport,
    left_out: &[Finding],
    copy: &VerificationReport,
) -> Result<(), Failure> {
    if source.verdict() == Verdict::Intact {
        if let Some(finding) = copy.findings.first() {
            return Err(copy_differs(&finding.what));
        }
        return match source == copy {
            true => Ok(()),
            false => Err(copy_differs("it has another number of rows")),
        };
    }
    let mut damaged_sessions: BTreeSet<_> = source.findings.iter().map(|f| &f.session_id).collect();
    // A session whose row is unreadable has findings without an id.
    damaged_sessions.extend((!left_out.is_empty()).then_some(&None));
    match copy
        .findings
        .iter()
        .find(|f| !damaged_sessions.contains(&f.session_id))
    {
        Some(finding) => Err(copy_differs(&finding.what)),
        None => Ok(()),
    }
}

/// The results of a run so far.
struct RunResults {
    /// The number of sessions that an earlier run copied and that have not changed since.
    unchanged: u64,
    /// The highest session number in the source's commit log and rows.
    newest_pk: SessionPk,
    /// Unreadable rows of the source, which the copy lacks.
    left_out: Vec<Finding>,
}
