//! Copies a store to a new store of any backend and of any number of lanes (DESIGN §12, docs/copy.md).
//!
//! Records are copied unchanged, so items keep their salts, links and receipts. All other rows are valid in one store
//! only. They are signed again for the target, which gets a new commit log. So only what passes verification is
//! copied: a signature never makes damaged data valid.

use filrouge_types::{ErrorCode, Failure};

use crate::keyring::Keyring;
use crate::ledger::{LanePosition, Position};
use crate::read::{LedgerSnapshot, VerifiedSnapshot};
use crate::record::MacCheck;
use crate::rows::View;
use crate::verify::{Finding, HeadCheck, Suspects, VerificationReport, newest_commit};

mod copy_target;
mod run;
mod session;
mod target_tx;

pub use copy_target::{
    CopyTarget, CopyWrites, StartedCopy, TargetContents, overtaken_run, unfinished_copy,
};
use run::{Run, RunResults};

/// The stage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Sessions are verified and copied; progress counts sessions.
    Sessions,
    /// The commit log of the copy is made; progress counts sessions.
    Commits,
    /// The copy is verified; progress counts sessions.
    Copy,
}

/// Observes a copy. An error from a method stops the copy; a later run can continue it.
pub trait CopyObserver {
    /// Receives the progress of a stage: `done` of `total` sessions.
    ///
    /// # Errors
    /// An error stops the copy.
    fn progress(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure>;

    /// The value in the copy of the note `name`, which has `value` in the source; `None` leaves the note out. Positions
    /// in the source's commit log mean nothing in the copy. `end` is the position after all sessions of the copy.
    fn note_value(&mut self, name: &str, value: Vec<u8>, end: &Position) -> Option<Vec<u8>>;

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
    /// The newest commits of the source that the copy includes.
    pub position: Position,
    /// The verification of the copy, which is intact.
    pub copy: VerificationReport,
    /// The verification of the source.
    pub source: VerificationReport,
    /// The findings because of which the copy lacks sessions and notes of the source.
    pub left_out: Vec<Finding>,
}

/// Copies the store `store_id` from `source` to `copy_target`, or continues an earlier run, and verifies the result.
/// Leaves out the sessions and notes that fail verification; [`Copied`] lists them.
///
/// # Errors
/// `invalid` when the target has other contents. `integrity_error` when the source's commit log fails verification,
/// which also happens under the wrong keyring, so that nothing authenticates the source; or when the copy differs from
/// the source, for example because an earlier run copied a session that the source has lost since. `key_missing`. Those
/// of the stores and of `observer`.
pub fn copy(
    source: &LedgerSnapshot<'_>,
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
    check_newest_commits(source)?;
    let suspects = source.compare_heads()?.merged_with(source.suspects.clone());
    suspects.check_store().map_err(cannot_be_copied)?;
    let source = &VerifiedSnapshot {
        view: source.view,
        keyring: source.keyring,
        check: source.check,
        suspects: &suspects,
        heads: source.heads,
    };
    let position = newest_position(source.view)?;
    // Another run may have started in the meantime.
    let started = copy_target.begin(store_id)?;
    let keyring = source.keyring.for_store(&started.store_id, started.lanes);
    let mut run = Run::new(
        (source, &keyring),
        &mut *copy_target,
        &mut *observer,
        started.resumed,
    );
    let source_report = run.copy_sessions()?;
    run.write_log()?;
    run.copy_notes()?;
    let RunResults {
        copied,
        unchanged,
        left_out,
    } = run.results;
    let (copy_position, copy) = verify_copy(&keyring, copy_target, observer)?;
    if let Err(failure) = check_report(&copied, &copy) {
        // If another run has begun, it has deleted the commit log, and this says so.
        copy_target.write(&mut |_, _| Ok(()))?;
        return Err(failure);
    }
    observer.write_anchor(&started.store_id, copy_position)?;
    copy_target.finish()?;
    Ok(Copied {
        store_id: started.store_id,
        resumed: started.resumed,
        sessions_unchanged: unchanged,
        position,
        copy,
        source: source_report,
        left_out,
    })
}

fn copy_of_another_store() -> Failure {
    ErrorCode::Invalid
        .failure("the target is an unfinished copy of another store")
        .with_hint("finish that one, or name another target")
}

fn target_not_empty() -> Failure {
    Failure::new(ErrorCode::Invalid, "the target already contains a store").with_hint(
        "name one that does not exist yet, or is empty: a copy is never mixed with what is there",
    )
}

/// Adds to a failure of the source's commit log what it means for the copy.
fn cannot_be_copied(mut failure: Failure) -> Failure {
    failure.detail = format!("the source cannot be copied: {}", failure.detail);
    failure.with_hint(
        "is this the keyring that the store was written with? `filrouge verify` reports what is wrong with the store",
    )
}

/// Verifies the newest commit of each lane of the source. Together they authenticate the entire store, and therefore
/// the copy.
///
/// # Errors
/// `integrity_error` when a commit fails verification, which also happens under the wrong keyring; `key_missing`; the
/// store's errors.
pub fn check_newest_commits(source: &LedgerSnapshot<'_>) -> Result<(), Failure> {
    source.suspects.check_store().map_err(cannot_be_copied)?;
    for lane in source.view.lanes().iter() {
        let newest = newest_commit(source.view, lane, source.keyring).map_err(cannot_be_copied)?;
        let Some((row, follows)) = newest else {
            continue;
        };
        let (code, detail) = match follows {
            Some(true) => continue,
            Some(false) => (ErrorCode::IntegrityError, "was changed"),
            None => (ErrorCode::KeyMissing, "was made with a key that is missing"),
        };
        let detail = format!("commit {} {detail}", row.commit_no);
        return Err(cannot_be_copied(Failure::new(code, detail)));
    }
    Ok(())
}

/// The position of the newest commits.
fn newest_position(view: &(dyn View + '_)) -> Result<Position, Failure> {
    let newest = |lane| Ok(LanePosition::of_commit(view.newest_log(lane)?.as_ref()));
    let lanes: Result<_, Failure> = view.lanes().iter().map(newest).collect();
    lanes.map(Position::new)
}

/// Verifies the entire copy, like `filrouge verify`. Returns the position of its newest commits, and the report.
fn verify_copy(
    keyring: &Keyring,
    copy_target: &mut dyn CopyTarget,
    observer: &mut dyn CopyObserver,
) -> Result<(Position, VerificationReport), Failure> {
    let mut verified = None;
    copy_target.with_view(&mut |view| {
        let copy = VerifiedSnapshot {
            view,
            keyring,
            check: MacCheck::Keyed,
            suspects: &Suspects::default(),
            heads: HeadCheck::default(),
        };
        let report =
            copy.verify_all(&mut |done, all| observer.progress(CopyStage::Copy, done, all))?;
        verified = Some((newest_position(view)?, report));
        Ok(())
    })?;
    verified.ok_or_else(|| Failure::new(ErrorCode::Internal, "the target did not return the copy"))
}

fn copy_differs(detail: &str) -> Failure {
    ErrorCode::IntegrityError
        .failure(format!("the copy differs from the source: {detail}"))
        .with_hint("remove the target and copy again; the source was not changed")
}

/// Checks that the copy is intact and has exactly what was copied.
fn check_report(copied: &VerificationReport, copy: &VerificationReport) -> Result<(), Failure> {
    if let Some(finding) = copy.findings.first() {
        return Err(copy_differs(&finding.what));
    }
    let expected = VerificationReport {
        commits: copy.commits,
        ..copied.clone()
    };
    match expected == *copy {
        true => Ok(()),
        false => Err(copy_differs("it has another number of rows")),
    }
}
