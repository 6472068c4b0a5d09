//! `filrouge index`

use clap::Subcommand;

use super::Sources;

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Show each index: how much of its history it covers, its age and its size
    Status(Sources),
    /// Index all changes; safe to stop and to repeat
    Update(Sources),
    /// Empty and rebuild the indexes
    Rebuild(Sources),
}
