//! A team's conversation in a real ledger and in files: kept, left by a crash, opened again, carried over.

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
