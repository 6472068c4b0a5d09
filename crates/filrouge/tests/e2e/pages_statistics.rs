//! The pages of statistics and of lineages: figures, costs, owners, and bounds of the period.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::Response;
use crate::world::{World, copy_tree, fixture};

const PRICES: &str = r#"
currency = "EUR"

[[models]]
model = "m-1"
since = "2020-01-01"
input = 1000000
output = 2000000
"#;

/// Records a turn with one answer that used these tokens; returns the turn's id.
fn record(caller: &Caller, session: &str, request: &str, model: &str, tokens: [u64; 2]) -> String {
    let turn = json!({
        "request_id": request,
        "question_neutral": "A room?",
        "items": [{
            "role": "assistant", "channel": "final", "agent": "clerk", "model": model,
            "parts": [{ "type": "text", "text": "Room 7." }],
            "usage": { "input": tokens[0], "output": tokens[1] },
        }],
    });
    let turn = caller.post(&format!("/{session}/turns"), &turn).is(201);
    turn["turn_id"].as_str().unwrap().to_owned()
}

fn page(caller: &Caller, path: &str) -> Response {
    let page = caller.send("GET", path, None);
    assert_eq!(page.status, 200, "{page:?}");
    page
}

/// The value of a fact of a page.
fn fact(page: &Response, name: &str) -> String {
    let name = format!("<dt>{name}</dt><dd>");
    let (_, rest) = page
        .text
        .split_once(&name)
        .unwrap_or_else(|| panic!("{name}: {page:?}"));
    rest.split("</dd>").next().unwrap().to_owned()
}

/// The cells of the row with this name.
fn row<'a>(page: &'a Response, name: &str) -> Vec<&'a str> {
    let name = format!("<th scope=\"row\"><bdi>{name}</bdi></th>");
    let (_, rest) = page
        .text
        .split_once(&name)
        .unwrap_or_else(|| panic!("{name}: {page:?}"));
    let row = rest.split("</tr>").next().unwrap();
    let cells = row.split("<td class=\"number\">").skip(1);
    cells.map(|cell| cell.trim_end_matches("</td>")).collect()
}

fn sum(sessions: &[Value], pointer: &str) -> u64 {
    let values = sessions.iter();
    values
        .map(|s| s.pointer(pointer).unwrap().as_u64().unwrap())
        .sum()
}

#[test]
fn figures_equal_those_of_the_native_routes() {
    let world = World::new();
    let prices = world.path("prices.toml");
    std::fs::write(&prices, PRICES).unwrap();
    let server = world.serve_with_env(&[("FILROUGE_PAGES_PRICES", prices.to_str().unwrap())], &[]);
    let caller = Caller::anonymous(&server);
    assert!(
        page(&caller, "/ui/statistics")
            .text
            .contains("Nothing to count")
    );

    record(&caller, "a", "r1", "m-1", [120, 8]);
    record(&caller, "a", "r2", "m-2", [5, 3]);
    let failed = record(&caller, "b", "r1", "m-1", [10, 0]);
    let error = json!({ "error": { "code": "model_down", "retryable": true } });
    caller
        .post(&format!("/b/turns/{failed}/fail"), &error)
        .is(200);
    let native = ["a", "b"].map(|id| caller.get(&format!("/{id}/stats")).is(200));

    // The second time, the sessions are not read again.
    for _ in 0..2 {
        let shown = page(&caller, "/ui/statistics");
        assert_eq!(fact(&shown, "Sessions"), "2");
        for (name, pointer) in [
            ("Turns", "/own/turns"),
            ("Failed turns", "/own/turns_by_status/failed"),
            ("Input tokens", "/own/tokens/input"),
            ("Output tokens", "/own/tokens/output"),
        ] {
            assert_eq!(
                fact(&shown, name),
                sum(&native, pointer).to_string(),
                "{name}"
            );
        }
        assert_eq!(fact(&shown, "Tokens"), "146");
        assert_eq!(fact(&shown, "Cost"), "≥ 146.00 EUR");
        // Sessions, turns, failed turns, tokens, cost.
        assert_eq!(row(&shown, "m-1"), ["2", "2", "1", "138", "146.00 EUR"]);
        assert_eq!(row(&shown, "m-2"), ["1", "1", "0", "8", "–"]);
        assert_eq!(row(&shown, "clerk"), ["2", "3", "1", "146", "≥ 146.00 EUR"]);
        assert!(shown.text.contains("No price is known for: <bdi>m-2</bdi>"));
    }

    record(&caller, "b", "r3", "m-1", [1, 0]);
    assert_eq!(fact(&page(&caller, "/ui/statistics"), "Tokens"), "147");

    let of_a = page(&caller, "/ui/sessions/a/statistics");
    assert_eq!(fact(&of_a, "Tokens"), "136");
    assert_eq!(row(&of_a, "m-1"), ["1", "1", "0", "128", "136.00 EUR"]);
    caller.get("/none/stats").fails(404, "session_not_found");
    let absent = caller.send("GET", "/ui/sessions/none/statistics", None);
    assert_eq!(absent.status, 404, "{absent:?}");
}

#[test]
fn the_query_bounds_the_period() {
    let world = World::new();
    let server = world.serve();
    let caller = Caller::anonymous(&server);
    record(&caller, "a", "r1", "m-1", [4, 0]);
    let nothing = |path: &str| page(&caller, path).text.contains("Nothing to count");
    assert!(!nothing("/ui/statistics?agent=cl*"));
    assert!(nothing("/ui/statistics?agent=other"));
    assert!(nothing("/ui/statistics?project=other"));
    assert!(nothing("/ui/statistics?since=2020-01-01&until=2020-01-31"));
    for query in [
        "since=2020-02-30",
        "since=2026-01-02&until=2026-01-01",
        "since=2020-01-01&until=2021-12-31",
        "until=yesterday",
        "days=3",
    ] {
        let refused = caller.send("GET", &format!("/ui/statistics?{query}"), None);
        assert_eq!(refused.status, 422, "{query}: {refused:?}");
    }
}

#[test]
fn users_see_statistics_of_their_own_sessions() {
    let world = World::new();
    let user = |identity| key(&world, &["--role", "user", "--identity", identity]);
    let (ada, bob, admin) = (user("ada"), user("bob"), key(&world, &["--role", "admin"]));
    let server = world.serve();
    let [ada, bob, admin] = [ada, bob, admin].map(|key| Caller::with_credentials(&server, &key));
    record(&ada, "adas", "r1", "adas-model", [40, 0]);
    record(&bob, "bobs", "r1", "bobs-model", [2, 0]);
    assert_eq!(fact(&page(&admin, "/ui/statistics"), "Tokens"), "42");
    let of_bob = page(&bob, "/ui/statistics");
    assert_eq!(fact(&of_bob, "Tokens"), "2");
    assert!(!of_bob.text.contains("adas"), "{of_bob:?}");
    for path in ["statistics", "lineage"] {
        let foreign = bob.send("GET", &format!("/ui/sessions/adas/{path}"), None);
        let absent = bob.send("GET", &format!("/ui/sessions/none/{path}"), None);
        assert_eq!(
            (foreign.status, foreign.text.replace("adas", "none")),
            (404, absent.text)
        );
    }
    let anonymous = Caller::anonymous(&server).send("GET", "/ui/statistics", None);
    assert_eq!(anonymous.status, 401, "{anonymous:?}");
}

#[test]
fn prices_that_cannot_be_read_are_refused() {
    let world = World::new();
    let refused = |text: &str| {
        let config = world.path("config/filrouge/config.toml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, "[pages]\nprices = \"prices.toml\"\n").unwrap();
        std::fs::write(config.with_file_name("prices.toml"), text).unwrap();
        world.try_serve().err().unwrap_or_default()
    };
    let log = refused("currency = \"EUR\"\n[[models]]\nmodel = \"m\"\nsince = \"today\"\n");
    assert!(
        log.contains("pages.prices") && log.contains("since is no day"),
        "{log}"
    );
    assert_eq!(refused(PRICES), "");
}

#[test]
fn a_lineage_is_a_tree_of_links() {
    let world = World::new();
    let server = world.serve();
    let caller = Caller::anonymous(&server).for_identity("ada");
    for (id, parent) in [
        ("root", None),
        ("first", Some("root")),
        ("second", Some("root")),
        ("below", Some("first")),
    ] {
        let body =
            json!({ "session_id": id, "parent_session_id": parent, "title": format!("the {id}") });
        caller.post("", &body).is(201);
    }
    let shown = page(&caller, "/ui/sessions/first/lineage").text;
    let places = ["root", "first", "below", "second"].map(|id| {
        let link = format!("<a href=\"/ui/sessions/{id}\"");
        shown
            .find(&link)
            .unwrap_or_else(|| panic!("{link}: {shown}"))
    });
    assert!(places.is_sorted(), "{places:?}: {shown}");
    assert!(shown.contains("<a href=\"/ui/sessions/first\" aria-current=\"page\">"));
    let alone = Caller::anonymous(&server).for_identity("bob");
    alone
        .post(
            "",
            &json!({ "session_id": "bobs", "parent_session_id": "root" }),
        )
        .is(201);
    let shown = page(&alone, "/ui/sessions/bobs/lineage").text;
    assert!(!shown.contains("the root"), "{shown}");
    assert!(shown.contains("that you cannot see"), "{shown}");
}

#[test]
fn a_lineage_in_another_programs_history_is_a_tree_of_links() {
    let world = World::new();
    copy_tree(&fixture("opencode-sqlite"), &world.path("db"));
    let source = format!("opencode:{}", world.path("db").display());
    let server = world.serve_with(&["--source", &source]);
    let caller = Caller::anonymous(&server);
    let id = "ses_44d7e2498ffeZiLHSX5VGd5h4c";
    let shown = page(&caller, &format!("/ui/histories/opencode/{id}/lineage")).text;
    let places = [
        "ses_44d7e256bffeMrEzO0kYZqUDmM",
        id,
        "ses_44d7e22f0ffe1geuGPwwQjraE3",
    ]
    .map(|id| {
        let link = format!("<a href=\"/ui/histories/opencode/{id}\"");
        shown
            .find(&link)
            .unwrap_or_else(|| panic!("{link}: {shown}"))
    });
    assert!(places.is_sorted(), "{places:?}: {shown}");
    let forked = "/ui/histories/opencode/ses_44d7e2990ffe5WPQFo0rjBoLz8/lineage";
    assert!(page(&caller, forked).text.contains("<h2>Forks</h2>"));
    for path in ["codex/ses_44d7e2498ffeZiLHSX5VGd5h4c", "opencode/none"] {
        let absent = caller.send("GET", &format!("/ui/histories/{path}/lineage"), None);
        assert_eq!(absent.status, 404, "{absent:?}");
    }
}
