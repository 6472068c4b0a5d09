//! Keeps indexes up to date with histories that other programs write (DESIGN §10).
//!
//! A [`SourceIndex`] is one source and its index. [`SourceIndex::step`] lists the source, compares fingerprints, reads
//! the sessions whose fingerprints differ, and updates their documents. [`SourceIndex::snapshot`] returns the sessions
//! whose current state is indexed: a search finds these through the index, and reads the others from the source.
//! [`Indexes`] contains the indexes of a library, one file each; an [`Indexer`] keeps them up to date while a process
//! runs. If an index fails, searches still work: they read every session.

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

pub use build::BuildProgress;
pub use compare::IndexSnapshot;
pub(crate) use compare::listing_failure;
pub use indexer::Indexer;
pub use indexes::{Indexes, OpenIndex, Overview, file_name};
pub use source_index::SourceIndex;
pub use step::StepOutcome;

use filrouge_store::text_index::{IndexScope, Shard};

/// The scope of a search in a history that another program writes: the complete index. Such an index has only one shard.
pub fn index_scope() -> IndexScope {
    IndexScope::Shard(Shard::default())
}
