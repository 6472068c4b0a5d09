//! `filrouge index`

use clap::Subcommand;

use super::Sources;

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Show each index: how much of its history is in it, of when that is, how large it is
    Status {
        #[command(flatten)]
        sources: Sources,
    },
    /// Bring everything in that has changed; safe to stop and to repeat
    Update {
        #[command(flatten)]
        sources: Sources,
    },
    /// Empty the indexes, then make them anew
    Rebuild {
        #[command(flatten)]
        sources: Sources,
    },
}
