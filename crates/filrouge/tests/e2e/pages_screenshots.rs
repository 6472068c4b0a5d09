//! Every page on a phone and on a wide screen, in light and dark colors: it fits, and logs no errors. With
//! `FILROUGE_SCREENSHOTS=1`, the pictures in `docs/pages` are made anew.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::browser::{Browser, PHONE, WIDE};
use crate::pages_sample::{open, visit_pages};

/// The elements that are wider than the window, if the page is.
const TOO_WIDE: &str = "const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    const wide = [...document.body.querySelectorAll('*')];
    return [root.scrollWidth].concat(wide
        .filter((one) => one.getBoundingClientRect().right > root.clientWidth)
        .map((one) => one.outerHTML.slice(0, 200)));";

/// The folder of the pictures, if they are to be made.
fn folder() -> Option<PathBuf> {
    let is_set = std::env::var("FILROUGE_SCREENSHOTS").is_ok_and(|value| value == "1");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pages");
    is_set.then_some(folder)
}

#[test]
fn every_page_fits_its_window_and_logs_no_errors() {
    let folder = folder();
    let browser = Browser::start();
    let examine = |name: &str, url: &str| {
        for (width, size) in [("phone", PHONE), ("wide", WIDE)] {
            for colors in ["light", "dark"] {
                browser.resize(size);
                browser.set_colors(colors);
                open(&browser, url);
                let shown = format!("{name}-{width}-{colors}");
                let too_wide = browser.script(TOO_WIDE, &[]);
                assert_eq!(too_wide, json!([]), "{shown} is wider than the window");
                // The status of a failure is in the console too.
                let own = format!("{} - Failed to load resource", browser.address());
                let mut errors = browser.console_errors();
                errors.retain(|error| !error.starts_with(&own));
                assert_eq!(errors, Vec::<String>::new(), "{shown}");
                assert_eq!(browser.refused(), Vec::<String>::new(), "{shown}");
                // The pages of other queries have a number, and look alike.
                if let Some(folder) = &folder
                    && !name.ends_with(|c: char| c.is_ascii_digit())
                {
                    fs::create_dir_all(folder).unwrap();
                    fs::write(folder.join(format!("{shown}.png")), browser.screenshot()).unwrap();
                }
            }
        }
    };
    visit_pages(examine);
}
