//! A projection into SQL tables in a schema of the store's own PostgreSQL database.

use crate::projected::{projection_in, section, turn, wait_until_equal};
use crate::webhooks::write_config;
use crate::world::World;

const SECRET: &str = "moonflower";

#[test]
fn a_reporting_role_reads_the_views_and_erased_words_are_in_no_table() {
    let world = World::on_postgres();
    let database = world.database();
    // Roles belong to all databases of the server.
    let role = format!("reporting_{}", database.name());
    database.sql(&format!("CREATE ROLE \"{role}\""));
    let more = format!("prefix = \"reports\"\nreporting_role = \"{role}\"");
    write_config(&world, &section("tables", &database.url(), &more));
    let server = world.serve();
    let client = server.client();
    for session in ["erased", "redacted", "kept"] {
        turn(&client, session, "r1", &format!("{SECRET} {session}"));
    }
    wait_until_equal(&world);

    let read = format!("SET ROLE \"{role}\"; SELECT count(*) FROM reports.turns;");
    assert_eq!(database.sql(&read), [[Some("3".to_owned())]]);
    let tables = || {
        let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'reports'";
        database.sql(tables).into_iter().flatten().flatten()
    };
    for table in tables() {
        let privilege =
            format!("SELECT has_table_privilege('{role}', 'reports.\"{table}\"', 'SELECT')");
        assert_eq!(
            database.sql(&privilege),
            [[Some("f".to_owned())]],
            "{table}"
        );
    }

    let redact = ["redact", "redacted", "--seq", "2", "--reason", "asked"];
    for receipt in [client.delete("/erased").is(200), world.json(&redact)] {
        assert_eq!(projection_in(&receipt)["status"], "erased", "{receipt}");
    }
    let rows = tables().flat_map(|table| {
        let rows = database.sql(&format!("SELECT t::text FROM reports.\"{table}\" t"));
        rows.into_iter().flatten().flatten()
    });
    let text: String = rows.collect();
    for session in ["erased", "redacted"] {
        assert!(!text.contains(&format!("{SECRET} {session}")), "{text}");
    }
    assert!(text.contains(&format!("{SECRET} kept")), "{text}");
    wait_until_equal(&world);
    server.stop();
    database.sql(&format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\";"));
    world.verify();
}
