//! Simulates a full disk.

use super::{DEAD, Folder, QUEUE, private_file};

impl Folder {
    /// Simulates a full disk for the file of dead letters if `dead`, otherwise for the queue file.
    pub(in crate::spool) fn simulate_full_disk(&mut self, dead: bool) {
        let growing = if dead {
            &mut self.dead
        } else {
            &mut self.queue
        };
        growing.file = private_file().write(true).open("/dev/full").unwrap();
    }

    /// Ends the simulation of a full disk.
    pub(in crate::spool) fn end_full_disk(&mut self) {
        for (name, growing) in [(QUEUE, &mut self.queue), (DEAD, &mut self.dead)] {
            let file = private_file()
                .read(true)
                .write(true)
                .open(self.path.join(name));
            growing.file = file.unwrap();
        }
    }
}
