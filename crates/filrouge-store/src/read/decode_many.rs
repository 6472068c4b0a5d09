//! Verifies many records on several cores. Each record stores the link before it, so records are independent.

use std::num::NonZero;
use std::sync::OnceLock;

use filrouge_types::Failure;

use super::{VerifiedSession, VerifiedSnapshot};
use crate::record::{Decoded, MacCheck, RecordFault, RecordFaultKind, RecordRow, decode};
use crate::rows::View;

/// The number of records from which several threads are faster than one.
const PARALLEL_FROM: usize = 128;

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Unpacks and verifies records, and returns the results in order. The caller checks the redactions.
    pub(super) fn decode_many(
        &self,
        session: &VerifiedSession,
        rows: &[RecordRow],
    ) -> Vec<Result<Decoded, Failure>> {
        let (scope, keyring, check) = (&session.scope, self.keyring, self.check);
        let threads = if rows.len() < PARALLEL_FROM {
            1
        } else {
            thread_count()
        };
        let decoded: Vec<Result<Decoded, RecordFault>> = if threads == 1 {
            decode_all(rows, scope, keyring, check)
        } else {
            std::thread::scope(|s| {
                let chunk_len = rows.len().div_ceil(threads);
                let workers: Vec<_> = rows
                    .chunks(chunk_len)
                    .map(|chunk| s.spawn(move || decode_all(chunk, scope, keyring, check)))
                    .collect();
                workers
                    .into_iter()
                    .zip(rows.chunks(chunk_len))
                    .flat_map(|(worker, chunk)| join_worker(worker, chunk))
                    .collect()
            })
        };
        decoded
            .into_iter()
            .map(|result| {
                result.map_err(|fault| match fault.kind {
                    RecordFaultKind::KeyMissing(_) => super::key_missing(session.name()),
                    kind => session.integrity_failure(Some(fault.seq), kind),
                })
            })
            .collect()
    }
}

/// The number of verifying threads, at most four. Determined once, because the query reads system files.
fn thread_count() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let cores = std::thread::available_parallelism();
        cores.map_or(1, NonZero::get).min(4)
    })
}

/// Unpacks and verifies records.
fn decode_all(
    rows: &[RecordRow],
    scope: &crate::chain::LinkScope,
    keyring: &crate::Keyring,
    check: MacCheck,
) -> Vec<Result<Decoded, RecordFault>> {
    rows.iter()
        .map(|row| decode(row, scope, keyring, check))
        .collect()
}

type Worker<'s> = std::thread::ScopedJoinHandle<'s, Vec<Result<Decoded, RecordFault>>>;

/// The results of a worker. If it panicked, its records count as malformed, because nothing was verified.
fn join_worker(worker: Worker<'_>, rows: &[RecordRow]) -> Vec<Result<Decoded, RecordFault>> {
    worker.join().unwrap_or_else(|_| {
        rows.iter()
            .map(|r| {
                Err(RecordFault {
                    seq: r.first_seq,
                    kind: RecordFaultKind::Malformed,
                })
            })
            .collect()
    })
}
