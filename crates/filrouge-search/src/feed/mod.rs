//! Keeping indexes in step with histories that other programs write (DESIGN §10).
//!
//! A [`SourceIndex`] is one source and its index. One step lists the source, compares fingerprints, reads the sessions that
//! differ and updates their documents. [`SourceIndex::known`] says which sessions the index holds as they are now: a question
//! takes those from it and reads the others from the source. [`Indexes`] are those of a library, a file each; an [`Indexer`]
//! keeps them in step while a process lives. Nothing here fails a question: without an index, every session is read.

mod build;
mod compare;
pub(crate) mod digest;
mod documents;
mod indexer;
mod indexes;
mod lock;
mod source_index;
mod step;
#[cfg(test)]
mod tests;

pub use build::Progress;
pub use compare::Known;
pub(crate) use compare::unlisted;
pub use indexer::Indexer;
pub use indexes::{Indexes, OpenIndex, Overview, file_name};
pub use source_index::SourceIndex;
pub use step::Step;

use filrouge_store::text_index::{Reach, Shard};

/// The one shard of a foreign history.
#[must_use]
pub fn shard() -> Shard {
    Shard::default()
}

/// What a question to a foreign history is about.
#[must_use]
pub fn reach() -> Reach {
    Reach::Shard(shard())
}
