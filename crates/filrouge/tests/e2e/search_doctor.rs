//! The check `search` of `filrouge doctor`.

use filrouge_testbed::Database;

use crate::search_http::turn;
use crate::world::World;

/// The detail and the hint of the check, which must succeed.
fn search_check(world: &World) -> (String, Option<String>) {
    let report = world.json(&["doctor"]);
    let mut checks = report["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == "search").unwrap();
    assert_eq!(check["ok"], true, "{check}");
    let text = |name: &str| check[name].as_str().map(str::to_owned);
    (text("detail").unwrap(), text("hint"))
}

#[test]
fn the_index_of_a_sqlite_store_is_checked() {
    let world = World::on_sqlite();
    let without_index = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_SEARCH_INDEX", "false"),
    ];
    let server = world.serve_with_env(&without_index, &[]);
    turn(&server.client(), "s", "r", ("a lantern", "lit"));
    server.stop();
    let file = world.path("data/filrouge/filrouge.db.index");
    let (detail, hint) = search_check(&world);
    assert!(detail.contains("no index yet") && hint.unwrap().contains("index update"));
    assert!(!file.exists(), "the check created an index");
    world.ok(&["index", "update", "--source", "ledger"]);
    assert_eq!(search_check(&world), (file.display().to_string(), None));
    let mut off = world.command(&["doctor"]);
    off.env("FILROUGE_SEARCH_INDEX", "false");
    let off = crate::world::finish(off, "doctor").stdout;
    assert!(off.contains("search.index is false"), "{off}");
}

/// The store's role may not create extensions. Searches are slow, and only `doctor` shows why.
#[test]
fn a_database_without_extensions_is_reported() {
    let database = Database::new();
    let role = format!("role_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA filrouge AUTHORIZATION {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let world = World::at(&url, "buffered");
    let server = world.serve();
    turn(&server.client(), "s", "r", ("a lantern", "lit"));
    server.stop();
    let (detail, hint) = search_check(&world);
    assert!(detail.contains("pg_trgm"), "{detail}");
    assert!(hint.unwrap().contains("CREATE on the database"));
    database.sql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}
