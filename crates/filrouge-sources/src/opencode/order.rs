//! Orders OpenCode's ids. After a prefix such as `prt_`, an id begins with 48 bits of a clock that wraps every 795
//! days.

/// Sorts by id. If some ids are so high and others so low that the clock must have wrapped between them, the low ones
/// are newer and come last.
pub(super) fn sort_by_id<T>(entries: &mut [T], id: impl Fn(&T) -> &str) {
    let clock = |entry: &T| {
        let (_, digits) = id(entry).split_once('_')?;
        u8::from_str_radix(digits.get(..2)?, 16).ok()
    };
    let is_low = |entry: &T| clock(entry).is_some_and(|c| c < 0x40);
    let is_high = |entry: &T| clock(entry).is_some_and(|c| c >= 0xc0);
    let has_wrapped = entries.iter().any(is_low) && entries.iter().any(is_high);
    entries.sort_unstable_by(|a, b| {
        let key = |entry| has_wrapped && is_low(entry);
        (key(a), id(a)).cmp(&(key(b), id(b)))
    });
}

#[cfg(test)]
mod tests {
    use super::sort_by_id;

    #[test]
    fn ids_from_both_sides_of_a_wrap_stay_in_order() {
        let order = |ids: &[&'static str]| {
            let mut ids = ids.to_vec();
            sort_by_id(&mut ids, |id| id);
            ids
        };
        assert_eq!(
            order(&["prt_fff2", "prt_0001", "prt_fff1"]),
            ["prt_fff1", "prt_fff2", "prt_0001"]
        );
        assert_eq!(order(&["prt_7002", "prt_7001"]), ["prt_7001", "prt_7002"]);
        assert_eq!(order(&["b", "a", "prt_é"]), ["a", "b", "prt_é"]);
    }
}
