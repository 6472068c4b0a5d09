//! Teams at a terminal (DESIGN §11): `filrouge team deploy`.

mod age;
mod choose;
mod deployment;
mod editor;
mod files;
mod find;
mod keys;
mod lines;
mod one_shot;
mod orders;
mod passphrase;
mod repl;
mod screen;
mod signals;
mod style;
mod words;

pub(crate) use deployment::{Deployment, Start, exit_code, read_team, snapshots, snapshots_in};
pub(crate) use files::{files_failed, remove_files, rewrite_files, teams};
pub(crate) use lines::message_json;
pub(crate) use one_shot::{OneShot, run_one_shot};
pub(crate) use repl::repl;
