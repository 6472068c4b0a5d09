//! Keeping indexes in step with histories that other programs write (DESIGN §10).
//!
//! A [`SourceIndex`] is one source and its index. [`SourceIndex::known`] tells which sessions the index holds as they are
//! now, so that a question takes those from it and looks through the others; [`SourceIndex::step`] and
//! [`SourceIndex::update`] bring others in. [`Indexes`] are those of a library, a file each; an [`Indexer`] keeps them in
//! step while a process lives. Nothing here fails a question: without an index, everything is looked through.

mod build;
mod digest;
mod documents;
mod indexer;
mod indexes;
mod lock;
mod look;
mod notes;
mod position;
mod rounds;
mod source_index;
mod step;
#[cfg(test)]
mod tests;
mod validate;

pub use build::Progress;
pub use indexer::Indexer;
pub use indexes::{Indexes, OpenIndex, Overview, file_name};
pub use source_index::{Known, SourceIndex};
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
