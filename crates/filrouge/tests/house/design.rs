//! Checks that every citation of the design ("DESIGN §4.2", "P6") names an anchor of `docs/design.md`.

use std::collections::BTreeSet;
use std::fs;

use super::{files_with_extension, root};

const PAGE: &str = "docs/design.md";

/// Returns the ids of a page's explicit anchors.
fn anchors(page: &str) -> BTreeSet<&str> {
    let after = page.split("<a id=\"").skip(1);
    after.filter_map(|rest| rest.split('"').next()).collect()
}

/// Splits a text into a number of a section, such as `4.2`, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let digits = text[..end].trim_end_matches('.');
    (digits, &text[digits.len()..])
}

/// Returns the citations of a line: ids of anchors, and passages in quotes. In the design itself (`in_design`), `§`
/// needs no `DESIGN` before it.
fn cited(line: &str, in_design: bool) -> (Vec<String>, Vec<&str>) {
    let (mut ids, mut quotes) = (Vec::new(), Vec::new());
    let prefixes: &[&str] = if in_design {
        &["§", "(P", "**P"]
    } else {
        &["DESIGN ", "promise ", "promises ", "(P"]
    };
    for prefix in prefixes {
        for (at, _) in line.match_indices(prefix) {
            let from = at + prefix.len() - usize::from(prefix.ends_with('P'));
            let mut rest = &line[if *prefix == "§" { at } else { from }..];
            loop {
                rest = rest.trim_start_matches([' ', ',', '§']);
                rest = rest.strip_prefix("and ").unwrap_or(rest);
                let (kind, after) = match rest.strip_prefix('P') {
                    Some(after) => ("p", after),
                    None => ("s", rest),
                };
                let (digits, after) = split_number(after);
                if digits.is_empty() {
                    break;
                }
                ids.push(format!("{kind}{}", digits.replace('.', "-")));
                rest = after;
            }
            if let Some(quote) = rest.strip_prefix('"') {
                quotes.extend(quote.split('"').next());
            }
        }
    }
    (ids, quotes)
}

#[test]
fn citations_of_the_design_name_existing_passages() {
    let root = root();
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let anchors = anchors(&page);
    let mut files: Vec<_> = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
    ]
    .map(|name| root.join(name))
    .into();
    for folder in ["crates", "docs", "examples"] {
        files.extend(files_with_extension(
            &root.join(folder),
            &["rs", "sql", "md", "py"],
        ));
    }
    let (mut count, mut violations) = (0, Vec::new());
    for path in files {
        // The tests below cite sections that do not exist.
        if path.ends_with("house/design.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (line, number) in text.lines().zip(1..) {
            let (ids, quotes) = cited(line, path.ends_with(PAGE));
            count += ids.len();
            let absent = ids.iter().map(String::as_str);
            let absent = absent.filter(|id| !anchors.contains(id));
            let missing_quotes = quotes.into_iter().filter(|quote| !page.contains(quote));
            for citation in absent.chain(missing_quotes) {
                violations.push(format!("{}:{number}: {citation}", path.display()));
            }
        }
    }
    assert!(count > 300, "only {count} citations found");
    assert!(
        violations.is_empty(),
        "{PAGE} has no such anchor or passage:\n{}",
        violations.join("\n")
    );
}

#[test]
fn citations_are_parsed() {
    let ids = |line| cited(line, false).0;
    assert_eq!(ids("(DESIGN §4.3, §4.4)."), ["s4-3", "s4-4"]);
    assert_eq!(ids("DESIGN §12 `export`, RFC 1952 §2.2"), ["s12"]);
    assert_eq!(ids("(P2, DESIGN §4)"), ["s4", "p2"]);
    assert_eq!(ids("promises P1, P2 and P9 of it"), ["p1", "p2", "p9"]);
    assert_eq!(ids("in no row of DESIGN §13\""), ["s13"]);
    assert_eq!(
        cited("(DESIGN §6, \"Ledger down\"; spool.md)", false).1,
        ["Ledger down"]
    );
    assert_eq!(cited("a fence ([§6](#x)), §4.2", true).0, ["s6", "s4-2"]);
}
