//! Teams at a terminal (DESIGN §11): `filrouge team deploy`.

mod age;
mod choose;
mod deployment;
mod editor;
mod files;
mod find;
mod json_lines;
mod keys;
mod one_shot;
mod passphrase;
mod prompt_line;
mod repl;
mod screen;
mod signals;
mod style;
mod words;

pub(crate) use deployment::{Deployment, Start, exit_code, read_team, snapshots, snapshots_in};
pub(crate) use files::{
    remove_snapshot_files, rewrite_snapshot_files, snapshot_file_error, team_ids,
};
pub(crate) use json_lines::message_json;
pub(crate) use one_shot::{OneShot, run_one_shot};
pub(crate) use repl::repl;
