//! A tiered ledger: the ledger in memory behind the hot store in memory. Tests can make each of them fail.

mod copies;
mod disconnects;
mod faults;
mod history;
mod kills;
mod late;
mod login;
mod operator;
mod outage;
mod race;
mod redaction;
mod routing;
mod stores;
mod turns;
mod world;
