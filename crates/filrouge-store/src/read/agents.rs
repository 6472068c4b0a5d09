//! Who has spoken in a session, read from its items.

use std::collections::BTreeSet;

use filrouge_types::Failure;

use crate::chain::LinkScope;
use crate::keyring::Keyring;
use crate::record::{Check, decode};
use crate::rows::{SEQ_MAX, Stored, View};

/// Records read at once.
const RECORDS: usize = 256;

/// The agents that a session's items name, for a backend that derives them anew. Nothing is verified: what cannot be
/// read names nobody, and reading it tells.
///
/// # Errors
/// When the store does not answer.
pub fn agents<V: View + ?Sized>(
    view: &V,
    keyring: &Keyring,
    session: &Stored,
) -> Result<BTreeSet<Box<str>>, Failure> {
    let scope = LinkScope::new(&session.row.tenant_id, &session.row.session_id);
    let mut agents = BTreeSet::new();
    let mut next = 1;
    loop {
        let rows = view.records(session.pk, next, RECORDS)?;
        // Behind the end stands the last record once more.
        let rows = rows.into_iter().filter(|row| row.last_seq() >= next);
        let mut last = 0;
        for row in rows {
            last = row.last_seq();
            if let Ok(decoded) = decode(&row, &scope, keyring, Check::Unverified) {
                agents.extend(
                    decoded
                        .items
                        .into_iter()
                        .filter_map(|(item, _)| item.body.agent),
                );
            }
        }
        // A record that is longer than a session can be was changed.
        if last < next || last >= SEQ_MAX {
            return Ok(agents);
        }
        next = last + 1;
    }
}
