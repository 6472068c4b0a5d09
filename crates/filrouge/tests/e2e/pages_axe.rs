//! Accessibility of the pages: axe-core finds nothing serious.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::browser::{Browser, PHONE, WIDE};
use crate::node::{NODE, npm};
use crate::not_tested::{installed, npm_install, or_report_untested, run};
use crate::pages_sample::{open, visit_pages};

const AXE: &str = "axe-core@4.14.1";

/// Unfolds everything, and returns the findings that keep people from using the page, with the elements.
const EXAMINE: &str = "
    for (const details of document.querySelectorAll('details')) details.open = true;
    return axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => [id, nodes.map((node) => [node.html, node.failureSummary])]));";

/// The script of axe-core; `None` where npm or PyPI is unreachable.
fn axe() -> Option<String> {
    let versions = [NODE, AXE].join("\n");
    let folder = installed("axe", &versions, |folder| {
        let venv = folder.join("venv");
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "install", "--quiet", NODE];
        run(Command::new(venv.join("bin/python")).args(pip))?;
        npm_install(&mut npm(&venv, folder), folder, &[AXE])
    });
    let folder = or_report_untested(
        "axe",
        "the accessibility of the pages with axe-core",
        folder,
    )?;
    Some(fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).unwrap())
}

#[test]
fn axe_finds_nothing_serious_on_any_page() {
    let Some(axe) = axe() else { return };
    let browser = Browser::start();
    let examine = |name: &str, url: &str| {
        for (size, colors) in [(WIDE, "light"), (WIDE, "dark"), (PHONE, "light")] {
            browser.resize(size);
            browser.set_colors(colors);
            open(&browser, url);
            browser.script(&axe, &[]);
            let findings = browser.script(EXAMINE, &[]);
            assert_eq!(
                findings,
                Value::Array(Vec::new()),
                "{name}, {size:?}, {colors}"
            );
        }
    };
    visit_pages(examine);
}

#[test]
fn axe_reports_what_it_should_find() {
    let Some(axe) = axe() else { return };
    let browser = Browser::start();
    browser.open(
        "data:text/html,<title>x</title><main><p style='color:%23ccc'>pale</p><input></main>",
    );
    browser.script(&axe, &[]);
    let findings = browser.script(EXAMINE, &[]).to_string();
    for rule in ["color-contrast", "html-has-lang", "label"] {
        assert!(findings.contains(rule), "{findings}");
    }
}
