//! SIGKILL while live calls wait in the spool and while the spool is drained, many times on one PostgreSQL; and a disk
//! without space for the spool. Acknowledged writes are in the ledger once, in order.

mod call;
mod full;
mod kills;
