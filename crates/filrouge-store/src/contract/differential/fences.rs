//! Fences of a ledger that does not begin at 1, told as if it did.

use crate::command::{Command, LeaseAsk, Write};
use crate::contract::fixture::{Fixture, operator};

/// The first fence that was given out by a ledger whose fences do not begin at 1; 0 before.
pub(super) struct Fences(pub(super) u64);

impl Fences {
    pub(super) async fn look(&mut self, f: &Fixture) {
        if let (0, Ok(lease)) = (self.0, f.lease(&operator("t"), "s0").await) {
            self.0 = lease.fence;
        }
    }

    /// A command of a ledger whose fences begin at 1, for this one.
    pub(super) fn there(&self, command: &Command) -> Command {
        let mut command = command.clone();
        let first = self.0.max(1);
        let moved = |fence: &mut u64| *fence += if *fence > 0 { first - 1 } else { 0 };
        if let Some(hold) = &mut command.scope.hold {
            moved(&mut hold.fence);
        }
        if let Write::Lease(take) = &mut command.write
            && let LeaseAsk::Renew { fence, .. } | LeaseAsk::Release { fence } = &mut take.ask
        {
            moved(fence);
        }
        command
    }

    /// What this one tells, as a ledger tells it whose fences begin at 1.
    pub(super) fn here(&self, told: Vec<String>) -> Vec<String> {
        let told = told.into_iter();
        told.map(|text| {
            NAMES
                .iter()
                .fold(text, |text, name| self.renamed(&text, name))
        })
        .collect()
    }

    fn renamed(&self, text: &str, name: &str) -> String {
        let mut pieces = text.split(name);
        let mut renamed = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            renamed += name;
            match piece[..digits].parse::<u64>() {
                Ok(fence) if self.0 > 0 && fence >= self.0 => {
                    renamed += &(fence - self.0 + 1).to_string();
                }
                _ => renamed += &piece[..digits],
            }
            renamed += &piece[digits..];
        }
        renamed
    }
}

/// What stands before a fence in what is told.
const NAMES: [&str; 4] = ["fence: ", "fence ", "which is ", "resume_from_pg:"];
