//! Checks the order of rows, because a damaged B-tree can contain cycles. Rows outside the requested range or out of
//! order are refused, so that no caller loops over them forever.

use filrouge_types::{ErrorCode, Failure};

/// Checks that the keys are between `from` and `to` (inclusive) and strictly ascending; with `descending`, strictly
/// descending. `what` names the rows in the failure.
pub(super) fn check_order(
    keys: impl IntoIterator<Item = u64>,
    (from, to): (u64, u64),
    descending: bool,
    what: &str,
) -> Result<(), Failure> {
    let mut previous = None;
    for key in keys {
        let follows = match previous {
            None => true,
            Some(previous) if descending => key < previous,
            Some(previous) => key > previous,
        };
        if !follows || !(from..=to).contains(&key) {
            let detail = format!("the stored {what} are out of order");
            return Err(Failure::new(ErrorCode::IntegrityError, detail));
        }
        previous = Some(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_refused() {
        let ok = |keys: &[u64], descending| {
            check_order(keys.iter().copied(), (2, 9), descending, "turns").is_ok()
        };
        assert!(ok(&[], false) && ok(&[2, 5, 9], false) && ok(&[9, 5, 2], true));
        for (keys, descending) in [
            (&[2, 2][..], false),
            (&[3, 2], false),
            (&[5, 5], true),
            (&[5, 6], true),
            (&[1, 2], false),
            (&[9, 10], false),
            (&[10, 9], true),
        ] {
            assert!(!ok(keys, descending), "{keys:?}");
        }
    }
}
