//! Detects which servers are alive. Every connection of a server holds an advisory lock in shared mode, whose key is the
//! server's name. PostgreSQL releases the lock when the connection ends, however the server has ended.
//!
//! A server that has lost all its connections, but runs, looks as if it had exited until it connects again. Nothing that
//! is written depends on this alone ([`filrouge_store::Ledger::has_exited`]).

use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_store::Entropy;
use filrouge_types::Failure;
use tokio_postgres::types::Type;

use crate::error::failure;
use crate::session::{Session, Sql};

/// Precedes the name of a server that holds no lock: whether it has exited cannot be known.
const UNLOCKED: char = '~';

/// Whether no connection to the database holds the advisory lock with this key. False during the first seconds of the
/// database server: its restart has ended all connections, and servers that run need this time to connect again.
pub(crate) static IS_UNLOCKED: Sql = Sql::new(
    "SELECT pg_postmaster_start_time() < clock_timestamp() - interval '5 seconds'
        AND NOT EXISTS (
            SELECT FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1
              AND ((classid::bigint << 32) | objid::bigint) = $1
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        )",
    &[Type::INT8],
);

/// This process as one of the servers of a store.
pub(crate) struct Presence {
    key: i64,
    /// Whether a connection has had the lock.
    locked: AtomicBool,
}

impl Presence {
    /// Chooses a random name.
    pub(crate) fn new(entropy: &dyn Entropy) -> Result<Self, Failure> {
        let mut random = [[0; 8]; 2];
        entropy.fill(random.as_flattened_mut())?;
        Ok(Self {
            // The key of a lock has 64 bits.
            key: i64::from_be_bytes(random[0]),
            locked: AtomicBool::default(),
        })
    }

    /// Locks the name for as long as this connection exists.
    pub(crate) async fn lock(&self, session: &Session) -> Result<(), Failure> {
        let sql = format!("SELECT pg_advisory_lock_shared({})", self.key);
        session.run(&sql).await.map_err(|e| failure(&e))?;
        self.locked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The server's name. Without `visible`, and before a connection has locked it, other servers cannot know whether
    /// this server has exited.
    pub(crate) fn name(&self, visible: bool) -> String {
        match visible && self.locked.load(Ordering::Relaxed) {
            true => format!("{:016x}", self.key),
            false => format!("{UNLOCKED}{:016x}", self.key),
        }
    }

    /// The key of another server's lock; `None` if it has none, or for this server's name.
    pub(crate) fn key_of_other(&self, name: &str) -> Option<i64> {
        let key = u64::from_str_radix(name, 16).ok()?.cast_signed();
        (name.len() == 16 && key != self.key).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(key: i64) -> Presence {
        Presence {
            key,
            locked: AtomicBool::new(true),
        }
    }

    #[test]
    fn a_name_is_the_key_of_a_lock_unless_the_server_holds_none() {
        let other = presence(1);
        for key in [0, 7, -1, i64::MIN, i64::MAX] {
            let this = presence(key);
            assert_eq!(other.key_of_other(&this.name(true)), Some(key));
            assert_eq!(this.key_of_other(&this.name(true)), None, "itself");
            assert_eq!(other.key_of_other(&this.name(false)), None);
        }
        let unlocked = Presence {
            key: 7,
            locked: AtomicBool::default(),
        };
        assert_eq!(other.key_of_other(&unlocked.name(true)), None);
        for foreign in ["", "~", "12", "5f0c1a3e-8f0e-4a43-9be5-0d9a3a2b1c44"] {
            assert_eq!(other.key_of_other(foreign), None, "{foreign}");
        }
    }
}
