//! Checks that `docs/README.md` links every page, and that no link is broken.

use crate::page::{Page, root};

/// Returns the file names of the pages in `docs`.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect()
}

/// Returns a text without its code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            line.split('`').step_by(2).for_each(|s| out.push_str(s));
            out.push('\n');
        }
    }
    out
}

/// Returns the targets of a page's links within the repository: file and section.
fn targets(name: &str) -> Vec<(String, String)> {
    let prose = prose(Page::read(name).text());
    let pieces = prose.split("](").skip(1);
    pieces
        .filter_map(|piece| piece.split(')').next())
        .filter(|target| !target.contains("://"))
        .map(|target| match target.split_once('#') {
            Some((file, section)) => (file.to_owned(), section.to_owned()),
            None => (target.to_owned(), String::new()),
        })
        .collect()
}

/// Returns the anchors of a page's headings.
fn sections(text: &str) -> Vec<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|title| {
            let title = title.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_page_is_linked() {
    let files = |name| targets(name).into_iter().map(|(file, _)| file);
    let index: Vec<_> = files("docs/README.md").collect();
    for page in pages().into_iter().filter(|page| page != "README.md") {
        assert!(index.contains(&page), "docs/README.md does not link {page}");
    }
    assert!(
        files("README.md").any(|file| file == "docs/README.md"),
        "README.md does not link docs/README.md"
    );
}

#[test]
fn links_are_not_broken() {
    let other_pages = [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "docs/adr/README.md",
        "docs/migrate-from/README.md",
        "docs/migrate-from/langchain.md",
        "docs/migrate-from/langgraph.md",
        "docs/migrate-from/openai-agents.md",
    ];
    let other_pages = other_pages.map(str::to_owned);
    let pages = pages().into_iter().map(|page| format!("docs/{page}"));
    for name in other_pages.into_iter().chain(pages) {
        let page_path = root().join(&name);
        for (file, section) in targets(&name) {
            let target = match file.as_str() {
                "" => page_path.clone(),
                file => page_path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{name} links {file}, which does not exist");
            if !section.is_empty() {
                let anchors = sections(&std::fs::read_to_string(&target).unwrap());
                assert!(
                    anchors.contains(&section),
                    "{name} links {file}#{section}, which is not among {anchors:?}"
                );
            }
        }
    }
}
