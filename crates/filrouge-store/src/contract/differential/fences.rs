//! Translates the fences of a ledger whose first fence is not 1.

use crate::command::{Command, LeaseRequest, Write};
use crate::contract::fixture::{Fixture, operator};

/// The first fence that the ledger granted; 0 before that.
pub(super) struct Fences(pub(super) u64);

impl Fences {
    pub(super) async fn observe(&mut self, f: &Fixture) {
        if let (0, Ok(lease)) = (self.0, f.lease(&operator("t"), "s0").await) {
            self.0 = lease.fence;
        }
    }

    /// Translates a command with fences from 1 for this ledger.
    pub(super) fn to_ledger(&self, command: &Command) -> Command {
        let mut command = command.clone();
        let first = self.0.max(1);
        let shift = |fence: &mut u64| *fence += if *fence > 0 { first - 1 } else { 0 };
        if let Some(token) = &mut command.scope.fence {
            shift(&mut token.fence);
        }
        if let Write::Lease(lease_command) = &mut command.write
            && let LeaseRequest::Renew { fence, .. } | LeaseRequest::Release { fence } =
                &mut lease_command.request
        {
            shift(fence);
        }
        command
    }

    /// Translates this ledger's outcomes to fences from 1.
    pub(super) fn with_normal_fences(&self, outcomes: Vec<String>) -> Vec<String> {
        let outcomes = outcomes.into_iter();
        outcomes
            .map(|text| {
                NAMES
                    .iter()
                    .fold(text, |text, name| self.with_shifted_fences(&text, name))
            })
            .collect()
    }

    fn with_shifted_fences(&self, text: &str, name: &str) -> String {
        let mut pieces = text.split(name);
        let mut with_shifted_fences = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            with_shifted_fences += name;
            match piece[..digits].parse::<u64>() {
                Ok(fence) if self.0 > 0 && fence >= self.0 => {
                    with_shifted_fences += &(fence - self.0 + 1).to_string();
                }
                _ => with_shifted_fences += &piece[..digits],
            }
            with_shifted_fences += &piece[digits..];
        }
        with_shifted_fences
    }
}

/// The texts that precede a fence in an outcome.
const NAMES: [&str; 4] = ["fence: ", "fence ", "the newest is ", "resume_from_pg:"];
