//! A team's conversation in a SQLite ledger and in snapshot files: recorded, cut by a crash, reopened, imported.

mod crash;
mod files;
mod full_disk;
mod import_export;
mod lease_holders;
mod lists;
mod masking;
mod random_conversations;
mod redaction;
mod reopening;
mod world;
