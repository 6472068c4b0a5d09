//! Statements of a store's newest commits for a witness: a file, log or service that is out of reach of a process which
//! can write the store and the anchor (DESIGN §9).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use filrouge_store::rows::View;
use filrouge_store::{Lane, LanePosition, Ledger, MAC_BYTES, Position, hex};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp};
use serde::{Deserialize, Serialize};

use super::Contradiction;
use crate::shared::to_json;

/// States that a lane of a store had a certain commit at a certain time. The commit's link is a keyed hash of the
/// lane's entire log up to it, so no other history has the same link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// When the statement was made.
    pub at: Timestamp,
    /// The store's id.
    pub store_id: String,
    /// The number of the lane.
    pub lane: u16,
    /// The commit's number in its lane.
    pub commit_no: u64,
    /// The commit's link in the lane's chain of commits.
    #[serde(with = "hex")]
    pub link: [u8; MAC_BYTES],
}

impl Statement {
    /// A statement of the newest commit of each lane of the ledger that has one.
    pub fn from_ledger(ledger: &dyn Ledger) -> Vec<Self> {
        let beginning = Position::default();
        Self::of_moved_lanes(ledger.store_id(), &beginning, &ledger.position())
    }

    /// A statement of the newest commit of each lane that differs between two positions.
    fn of_moved_lanes(store_id: &str, before: &Position, position: &Position) -> Vec<Self> {
        let at = SystemClock.now();
        let moved = position
            .iter()
            .filter(|(lane, newest)| before.lane(*lane) != *newest);
        moved
            .map(|(lane, newest)| Self {
                at,
                store_id: store_id.to_owned(),
                lane: lane.number(),
                commit_no: newest.commit_no,
                link: newest.link,
            })
            .collect()
    }

    /// Parses a line that contains a statement. Ignores text before it, which syslog adds.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.get(line.find('{')?..)?).ok()
    }

    /// How the store contradicts the statement; `None` when it does not.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn contradiction(&self, view: &(dyn View + '_)) -> Result<Option<String>, Failure> {
        let recorded = LanePosition {
            commit_no: self.commit_no,
            link: self.link,
        };
        let found = Contradiction::find(view, Lane::new(self.lane), recorded)?;
        let Some(Contradiction {
            commit, is_missing, ..
        }) = found
        else {
            return Ok(None);
        };
        let at = self.at;
        Ok(Some(match is_missing {
            true => format!(
                "the store is older than its witness: {commit}, recorded at {at}, is missing"
            ),
            false => format!("{commit} is not the one that the witness recorded at {at}"),
        }))
    }
}

/// A file to which statements are appended, one on each line.
pub struct WitnessFile {
    path: PathBuf,
    store_id: String,
}

impl WitnessFile {
    /// The witness file of the store `store_id`.
    pub const fn new(path: PathBuf, store_id: String) -> Self {
        Self { path, store_id }
    }

    /// Appends a statement for each lane that differs between two positions, and waits until they are on the disk.
    ///
    /// # Errors
    /// `store_unavailable` when the file cannot be written.
    pub fn append(&self, before: &Position, position: &Position) -> Result<(), Failure> {
        let mut lines = String::new();
        for statement in Statement::of_moved_lanes(&self.store_id, before, position) {
            lines += &to_json(&statement)?;
            lines.push('\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.append_lines(&lines).map_err(|e| {
            let detail = format!("the witness file {}: {e}", self.path.display());
            Failure::new(ErrorCode::StoreUnavailable, detail)
        })
    }

    fn append_lines(&self, lines: &str) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(&self.path)?;
        // Ends an incomplete line first: a crash may have left one.
        let line_end = if self.ends_with_newline()? { "" } else { "\n" };
        file.write_all(format!("{line_end}{lines}").as_bytes())?;
        file.sync_data()
    }

    fn ends_with_newline(&self) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            // The process may append to the file but not read it, so the end of the file is unknown.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
            file => file?,
        };
        if file.seek(SeekFrom::End(0))? == 0 {
            return Ok(true);
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok(last == *b"\n")
    }
}
