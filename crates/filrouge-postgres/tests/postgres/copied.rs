//! A store of everything copied from database to database: row by row the same, also by a run that goes on with another's.

use std::sync::Arc;

use filrouge_postgres::PostgresIntake;
use filrouge_store::copy::{Begun, Copied, Holding, Intake, Piece, Stage, Watch, copy};
use filrouge_store::rows::SessionPk;
use filrouge_store::{Ledger, Position, View};
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, Failure};

use super::many::{close, of_its_own, open, wait};
use super::tamper::world;

/// Tables of rows that belong to a store, whatever its name.
const TABLES: [&str; 12] = [
    "session",
    "head",
    "turn",
    "record",
    "item_key",
    "session_agent",
    "event",
    "note",
    "draft",
    "draft_chunk",
    "checkpoint",
    "commit_log",
];

/// Puts a few rows at a time, and breaks down after some.
struct Brittle {
    intake: PostgresIntake,
    left: usize,
}

struct Silent;

impl Watch for Silent {
    fn step(&mut self, _: Stage, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    fn witness(&mut self, _: &str, _: Position) -> Result<(), Failure> {
        Ok(())
    }
}

impl Intake for Brittle {
    fn holding(&mut self) -> Result<Holding, Failure> {
        self.intake.holding()
    }

    fn begin(&mut self, source: &str) -> Result<Begun, Failure> {
        self.intake.begin(source)
    }

    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.intake.look(question)
    }

    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
        for few in rows.chunks(5) {
            let broken = || Failure::new(ErrorCode::StoreUnavailable, "broke down");
            self.left = self.left.checked_sub(1).ok_or_else(broken)?;
            self.intake.put(few)?;
        }
        Ok(())
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        self.intake.finish(newest)
    }
}

async fn run(source: &Arc<dyn Ledger>, to: &Database, left: usize) -> Result<Copied, Failure> {
    let mut intake = Brittle {
        intake: PostgresIntake::new(of_its_own(&to.url())),
        left,
    };
    let id = source.store_id().to_owned();
    let asked = source.ask(move |sight| copy(sight, &id, &mut intake, &mut Silent));
    asked.await
}

#[test]
fn everything_is_copied() {
    let (from, to) = (world(), Database::new());
    wait(async {
        let source = open(of_its_own(&from.url()));
        let mut tries = 0;
        // Every run comes a little further than the one before it.
        let copied = loop {
            match run(&source, &to, 3 + tries * 7).await {
                Ok(copied) => break copied,
                Err(failure) => assert_eq!(failure.detail, "broke down"),
            }
            tries += 1;
        };
        assert!(tries > 2 && copied.resumed, "{tries}");
        assert_eq!(copied.copy.checkpoints, copied.source.checkpoints);
        assert!(copied.copy.checkpoints > 2);
        close(vec![source]).await;
        for table in TABLES {
            let all = format!("SELECT t::text FROM filrouge.{table} t ORDER BY 1");
            assert_eq!(from.sql(&all), to.sql(&all), "{table}");
        }
        let beside = open(of_its_own(&to.url()));
        super::many::callers::intact(&*beside).await;
        close(vec![beside]).await;
    });
}
