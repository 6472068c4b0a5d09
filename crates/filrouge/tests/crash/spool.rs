//! SIGKILL while writes of live calls wait in the spool and while the spool is drained, and a disk without space for
//! the spool. In the end, the ledger contains each acknowledged write once and in order.

mod call;
mod full;
mod kills;
