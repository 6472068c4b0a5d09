//! A team's conversation in a real ledger and in snapshot files: recorded, cut by a crash, reopened, imported.

mod crash;
mod files;
mod full_disk;
mod holders;
mod life;
mod lists;
mod masked;
mod random;
mod redacted;
mod transfer;
mod world;
