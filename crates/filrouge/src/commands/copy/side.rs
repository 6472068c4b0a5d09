//! Which of a copy's two stores has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_store::View;
use filrouge_store::copy::{Begun, Holding, Intake, Piece};
use filrouge_store::rows::SessionPk;
use filrouge_types::{ErrorCode, Failure};

use crate::config::StoreUrl;

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    From,
    To,
}

impl Side {
    const fn option(self) -> &'static str {
        match self {
            Self::From => "--from",
            Self::To => "--to",
        }
    }

    /// Names the store that has failed, without its password. What is wrong with its data is told as it is.
    pub(super) fn of(self, url: &StoreUrl, failure: Failure) -> Failure {
        let failure = self.hinting(failure);
        match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing => failure,
            _ => Failure {
                detail: format!("{} {url}: {}", self.option(), failure.detail),
                ..failure
            },
        }
    }

    /// Hints speak of the option that names the store of every other command.
    pub(super) fn hinting(self, mut failure: Failure) -> Failure {
        let hint = failure.hint.take();
        failure.hint = hint.map(|hint| hint.replace("--store", self.option()));
        failure
    }
}

/// What is known of a copy that has failed.
#[derive(Default)]
pub(super) struct Told {
    /// Whether it was not the source alone that has failed.
    pub(super) elsewhere: AtomicBool,
    /// Whether the target is marked as this copy's.
    pub(super) begun: AtomicBool,
}

/// The store that is made; names it when it fails.
pub(super) struct Target {
    intake: Box<dyn Intake>,
    url: StoreUrl,
    told: Arc<Told>,
}

impl Target {
    pub(super) fn new(intake: Box<dyn Intake>, url: StoreUrl) -> Self {
        Self {
            intake,
            url,
            told: Arc::default(),
        }
    }

    pub(super) fn told(&self) -> Arc<Told> {
        self.told.clone()
    }

    fn named<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|failure| {
            self.told.elsewhere.store(true, Ordering::Relaxed);
            Side::To.of(&self.url, failure)
        })
    }
}

impl Intake for Target {
    fn holding(&mut self) -> Result<Holding, Failure> {
        let held = self.intake.holding();
        self.named(held)
    }

    fn begin(&mut self, source: &str) -> Result<Begun, Failure> {
        let begun = self.intake.begin(source);
        self.told.begun.store(begun.is_ok(), Ordering::Relaxed);
        self.named(begun)
    }

    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut asked = false;
        let looked = self
            .intake
            .look(&mut |view| question(view).inspect_err(|_| asked = true));
        if asked {
            // It compares both stores: which of them it was is not known.
            self.told.elsewhere.store(true, Ordering::Relaxed);
            return looked;
        }
        self.named(looked)
    }

    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
        let put = self.intake.put(rows);
        self.named(put)
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        let finished = self.intake.finish(newest);
        self.named(finished)
    }
}
