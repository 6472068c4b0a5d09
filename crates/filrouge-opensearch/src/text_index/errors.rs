//! The failures of an index.

use filrouge_types::{ErrorCode, Failure};

pub(super) fn unavailable(detail: &str) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, format!("OpenSearch: {detail}"))
}

/// The failure for a response without a member that it should have.
pub(super) fn malformed() -> Failure {
    unavailable("a response or a document has another form than expected")
}

/// The failure while other processes change the index.
pub(super) fn busy() -> Failure {
    unavailable("another process is changing the search index")
}

/// The failure if a request needs an index that does not exist.
pub(super) fn missing() -> Failure {
    unavailable("the search index was deleted; it is built again")
}
