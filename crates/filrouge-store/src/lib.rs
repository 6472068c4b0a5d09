//! The parts that every ledger shares: the port, the rules of a turn's life, the stored format with its chain, the
//! in-memory ledger, and the contract suite that each backend has to pass (DESIGN §3, §4, §9, §13).
//!
//! A backend implements two small traits over plain rows: [`View`] (reads) and [`Tx`] (writes in one
//! transaction). The modules [`rules`] and [`read`] decide everything that a caller can observe, so that all
//! backends behave alike.

pub mod chain;
pub mod command;
#[cfg(feature = "contract")]
pub mod contract;
pub mod copy;
pub mod draft;
pub mod hex;
pub mod hot;
pub mod ledger;
pub mod memory;
pub mod plain;
pub mod read;
pub mod record;
pub mod rows;
pub mod rules;
pub mod schema;
pub mod server_url;
pub mod text_index;
pub mod verify;
pub mod write_queue;

mod codec;
mod digest;
mod fair_slots;
mod keyring;
mod lane;

pub use chain::Link;
pub use command::SlotCaller;
pub use command::{Command, NewSession, Outcome, Scope, Viewer};
pub use digest::{Digest, DigestRow, MaskedDigest};
pub use fair_slots::{FairSlots, Slot, SlotBounds, WorkSize};
pub use keyring::{
    Domain, Entropy, KeyId, Keyring, KeyringError, MAC_BYTES, OsEntropy, equal_macs, random_id,
};
pub use lane::{Lane, Lanes};
pub use ledger::{
    Backend, CommittedWrite, Durability, Health, LanePosition, Ledger, Note, Position,
    QuerySubject, StoreLoad,
};
pub use rows::{Tx, View};
