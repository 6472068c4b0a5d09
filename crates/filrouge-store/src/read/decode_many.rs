//! Many records are verified by all cores: each carries the link it stands on, so they are independent.

use std::num::NonZero;
use std::sync::OnceLock;

use filrouge_types::Failure;

use super::{Loaded, Sight};
use crate::record::{Check, Decoded, Fault, FaultKind, RecordRow, decode};
use crate::rows::View;

/// From so many records on, threads pay for themselves.
const PARALLEL_FROM: usize = 128;

impl<V: View + ?Sized> Sight<'_, V> {
    /// Unpacks and verifies records, in order; whoever asks looks at their redactions.
    pub(super) fn decode_many(
        &self,
        session: &Loaded,
        rows: &[RecordRow],
    ) -> Vec<Result<Decoded, Failure>> {
        let (scope, keyring, check) = (&session.scope, self.keyring, self.check);
        let threads = if rows.len() < PARALLEL_FROM {
            1
        } else {
            threads()
        };
        let decoded: Vec<Result<Decoded, Fault>> = if threads == 1 {
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
                    FaultKind::KeyMissing(_) => super::key_missing(session.name()),
                    what => session.broken(Some(fault.seq), what),
                })
            })
            .collect()
    }
}

/// How many threads verify; asked of the system once, which reads files for it.
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
    check: Check,
) -> Vec<Result<Decoded, Fault>> {
    rows.iter()
        .map(|row| decode(row, scope, keyring, check))
        .collect()
}

type Worker<'s> = std::thread::ScopedJoinHandle<'s, Vec<Result<Decoded, Fault>>>;

/// A worker that panicked has verified nothing: its records are not given out.
fn join(worker: Worker<'_>, rows: &[RecordRow]) -> Vec<Result<Decoded, Fault>> {
    worker.join().unwrap_or_else(|_| {
        rows.iter()
            .map(|r| {
                Err(Fault {
                    seq: r.first_seq,
                    what: FaultKind::Malformed,
                })
            })
            .collect()
    })
}
