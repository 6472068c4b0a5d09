//! Statements of a store's newest commit for a witness: a file, log or service that is out of reach of a process which
//! can write the store and the anchor (DESIGN §9).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use filrouge_store::rows::View;
use filrouge_store::{Ledger, MAC_BYTES, Position, hex};
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp};
use serde::{Deserialize, Serialize};

use crate::core::to_json;

/// States that a store had a certain commit at a certain time. The commit's link is a keyed hash of the entire log up
/// to it, so no other history has the same link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// When the statement was made.
    pub at: Timestamp,
    /// The store's id.
    pub store_id: String,
    /// The commit's number.
    pub commit_no: u64,
    /// The commit's link in the chain of commits.
    #[serde(with = "hex")]
    pub link: [u8; MAC_BYTES],
}

impl Statement {
    /// The statement of the ledger's newest commit.
    #[must_use]
    pub fn from_ledger(ledger: &dyn Ledger) -> Self {
        Self::from_position(ledger.store_id(), &ledger.position())
    }

    fn from_position(store_id: &str, position: &Position) -> Self {
        Self {
            at: SystemClock.now(),
            store_id: store_id.to_owned(),
            commit_no: position.commit_no,
            link: position.link,
        }
    }

    /// Parses a line that contains a statement. Ignores text before it, which syslog adds.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.get(line.find('{')?..)?).ok()
    }

    /// How the store contradicts the statement; `None` when it does not.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn contradiction(&self, view: &(dyn View + '_)) -> Result<Option<String>, Failure> {
        let Some(preceding) = self.commit_no.checked_sub(1) else {
            return Ok(None);
        };
        let log_row = view.log(preceding, 1)?.pop();
        let (number, at) = (self.commit_no, self.at);
        Ok(match log_row.filter(|row| row.commit_no == number) {
            Some(row) if row.link == self.link => None,
            Some(_) => Some(format!(
                "commit {number} is not the one that the witness recorded at {at}"
            )),
            None => Some(format!(
                "the store is older than its witness: commit {number}, recorded at {at}, is missing"
            )),
        })
    }
}

/// A file to which statements are appended, one on each line.
pub struct WitnessFile {
    path: PathBuf,
    store_id: String,
}

impl WitnessFile {
    /// The witness file of the store `store_id`.
    #[must_use]
    pub const fn new(path: PathBuf, store_id: String) -> Self {
        Self { path, store_id }
    }

    /// Appends a statement, and waits until it is on the disk.
    ///
    /// # Errors
    /// `store_unavailable` when the file cannot be written.
    pub fn append(&self, position: &Position) -> Result<(), Failure> {
        let statement = Statement::from_position(&self.store_id, position);
        self.append_line(&to_json(&statement)?).map_err(|e| {
            let detail = format!("the witness file {}: {e}", self.path.display());
            Failure::new(ErrorCode::StoreUnavailable, detail)
        })
    }

    fn append_line(&self, line: &str) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(&self.path)?;
        // Ends an incomplete line first: a crash may have left one.
        let line_end = if self.ends_with_newline()? { "" } else { "\n" };
        file.write_all(format!("{line_end}{line}\n").as_bytes())?;
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
