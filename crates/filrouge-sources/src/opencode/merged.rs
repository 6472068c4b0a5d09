//! The listings of several storages of one generation as one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Listing, Skipped};

/// What one storage has told.
pub(super) enum Told {
    Listing(Arc<Listing>),
    Not(Skipped),
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Listing(one), Self::Listing(other)) => Arc::ptr_eq(one, other),
            (Self::Not(one), Self::Not(other)) => one == other,
            _ => false,
        }
    }
}

/// The listings of several storages as one.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) listing: Arc<Listing>,
    /// Which of the storages has a session; `None` when one has all.
    pub(super) owners: Option<HashMap<Box<str>, usize>>,
}

impl Merged {
    pub(super) fn of(told: &[Told]) -> Self {
        if let [Told::Listing(listing)] = told {
            return Self {
                listing: listing.clone(),
                owners: None,
            };
        }
        let mut all = Listing::default();
        let mut owners = HashMap::new();
        for (number, one) in told.iter().enumerate() {
            let listing = match one {
                Told::Listing(listing) => listing,
                Told::Not(why) => {
                    all.skipped.push(why.clone());
                    continue;
                }
            };
            all.skipped.extend_from_slice(&listing.skipped);
            all.truncated |= listing.truncated;
            for header in &listing.headers {
                // Of two channels' databases the first by name is read, as generations are: the newest.
                if !owners.contains_key(&header.id) {
                    owners.insert(header.id.clone(), number);
                    all.headers.push(header.clone());
                }
            }
        }
        all.headers.sort_by(|a, b| a.place().cmp(&b.place()));
        all.skipped.sort();
        Self {
            listing: Arc::new(all),
            owners: Some(owners),
        }
    }

    /// Whether a session is the storage's of that number.
    pub(super) fn is_in(&self, id: &str, storage: usize) -> bool {
        let owners = self.owners.as_ref();
        owners.is_none_or(|owners| owners.get(id) == Some(&storage))
    }
}
