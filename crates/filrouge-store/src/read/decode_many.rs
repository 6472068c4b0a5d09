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
    /// Unpacks and verifies records, in order; the caller checks their redactions.
    pub(super) fn decode_many(
        &self,
        session: &VerifiedSession,
        rows: &[RecordRow],
    ) -> Vec<Result<Decoded, Failure>> {
        let (scope, keyring, check) = (&session.scope, self.keyring, self.check);
        let threads = if rows.len() < PARALLEL_FROM {
            1
        } else {
            threads()
        };
        let decoded: Vec<Result<Decoded, RecordFault>> = if threads == 1 {
            rows.iter()
                .map(|row| decode(row, scope, keyring, check))
                .collect()
        } else {
            std::thread::scope(|s| {
                let size = rows.len().div_ceil(threads);
                let workers: Vec<_> = rows
                    .chunks(size)
                    .map(|chunk| s.spawn(move || work(chunk, scope, keyring, check)))
                    .collect();
                workers
                    .into_iter()
                    .zip(rows.chunks(size))
                    .flat_map(|(worker, chunk)| join(worker, chunk))
                    .collect()
            })
        };
        decoded
            .into_iter()
            .map(|d| {
                d.map_err(|fault| match fault.what {
                    RecordFaultKind::KeyMissing(_) => super::key_missing(session.name()),
                    what => session.broken(Some(fault.seq), what),
                })
            })
            .collect()
    }
}

/// The number of verifying threads. Queried once, because the query reads system files.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let cores = std::thread::available_parallelism();
        cores.map_or(1, NonZero::get).min(4)
    })
}

fn work(
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
fn join(worker: Worker<'_>, rows: &[RecordRow]) -> Vec<Result<Decoded, RecordFault>> {
    worker.join().unwrap_or_else(|_| {
        rows.iter()
            .map(|r| {
                Err(RecordFault {
                    seq: r.first_seq,
                    what: RecordFaultKind::Malformed,
                })
            })
            .collect()
    })
}
