//! Servers of other programs, at the addresses that the pages show.

use std::path::Path;

use filrouge_testbed::third_party::or_report_untested;
use filrouge_testbed::{OpenSearch, Weaviate};

/// Texts of a page, and what stands for each when the page is run.
pub(crate) type StandIns = Vec<(&'static str, String)>;

/// The folder of the build in which servers are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");
/// What the names in a server begin or end with on a page. Tests share the servers, so each process has names of its own.
const NAME: &str = "tour";

/// OpenSearch, which needs no user; `None` where it is unavailable.
pub(crate) fn opensearch() -> Option<StandIns> {
    let server = OpenSearch::shared(Path::new(ALL));
    let what = "the pages about OpenSearch";
    let server = or_report_untested(Path::new(ALL), "pages_opensearch", what, server)?;
    Some(stand_ins("localhost:9200", &server.url()))
}

/// Weaviate and its key; `None` where it is unavailable.
pub(crate) fn weaviate() -> Option<StandIns> {
    let server = Weaviate::shared(Path::new(ALL));
    let what = "the page about Weaviate";
    let server = or_report_untested(Path::new(ALL), "pages_weaviate", what, server)?;
    let mut stand_ins = stand_ins("localhost:8080", &server.url());
    stand_ins.push(("weaviate-key", server.key().to_owned()));
    Some(stand_ins)
}

fn stand_ins(address: &'static str, url: &str) -> StandIns {
    let here = url.strip_prefix("http://").expect("an address").to_owned();
    vec![
        (address, here),
        (NAME, format!("{NAME}{}", std::process::id())),
    ]
}
