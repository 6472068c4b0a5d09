//! URLs: accepted forms, and hidden passwords.

use std::net::TcpListener;
use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger, redacted};
use filrouge_store::OsEntropy;
use filrouge_testbed::{Database, Server};
use filrouge_types::{ErrorCode, Failure};
use proptest::prelude::*;

use super::keyring;
use super::servers::{block_on, close, open, separate_server_options, start_turn};

fn parse(url: &str) -> Result<Options, Failure> {
    Options::new(url, keyring(), Arc::new(OsEntropy))
}

/// The detail with which a URL is refused.
fn refusal(url: &str) -> String {
    let failure = parse(url).unwrap_err();
    assert_eq!(failure.code, ErrorCode::Invalid, "{failure:?}");
    failure.detail
}

#[test]
fn every_parameter_is_accepted() {
    let url = "postgresql://u:p@h1:1,h2,[::1]:3/d?application_name=x&channel_binding=disable&connect_timeout=7\
               &keepalives=1&keepalives_idle=5&keepalives_interval=6&keepalives_retries=3\
               &options=-c%20work_mem%3D8MB&sslmode=require&target_session_attrs=read-write&tcp_user_timeout=9000";
    let shown = format!("{:?}", parse(url).unwrap());
    assert!(
        shown.contains("[\"h1:1\", \"h2:5432\", \"[::1]:3\"]"),
        "{shown}"
    );
    assert_eq!(redacted(url), url.replace("u:p@", "u:***@"));

    let shown = |url: &str| format!("{:?}", parse(url).unwrap());
    let url = "postgres://?host=/run/a,h&port=1,2&user=u&password=p&dbname=d";
    assert!(shown(url).contains("[\"/run/a/.s.PGSQL.1\", \"h:2\"]"));
    assert_eq!(redacted(url), url.replace("=p&", "=***&"));
    assert!(shown("postgres://u@%2Frun%2Fa/d").contains("[\"/run/a/.s.PGSQL.5432\"]"));
    assert!(shown("postgres://u@/d?host=h&port=7").contains("[\"h:7\"]"));
}

#[test]
fn an_error_names_the_fault_without_the_url() {
    let wrong = [
        ("sqlite:x", "neither"),
        ("host=h user=u", "neither"),
        ("postgres://h/d", "no user"),
        ("postgres://u@/d", "no host"),
        ("postgres://u@h:x/d", "port"),
        ("postgres://u@h:0/d", "port"),
        ("postgres://u@[::1/d", "]"),
        (
            "postgres://u@h/d?sslmod=require",
            "parameter sslmod is unknown",
        ),
        ("postgres://u@h/d?sslmode=allow", "sslmode"),
        (
            "postgres://u@h/d?sslmode=require&sslmode=disable",
            "sslmode is given twice",
        ),
        ("postgres://u@h/d?user=v", "user is given twice"),
        ("postgres://u@h/d?host=g", "host is given twice"),
        ("postgres://u@/d?host=g,h,i&port=1,2", "as many ports"),
        ("postgres://u@h/d?connect_timeout=0", "connect_timeout"),
        ("postgres://u@h/d?keepalives=yes", "keepalives"),
        ("postgres://u@h/d?channel_binding=on", "channel_binding"),
        (
            "postgres://u@h/d?target_session_attrs=standby",
            "target_session_attrs",
        ),
        ("postgres://u@h/d?sslcert=/a", "sslcert and sslkey"),
        (
            "postgres://u@h/d?sslcert=/no/a&sslkey=/no/b",
            "sslcert \"/no/a\"",
        ),
        (
            "postgres://u@h/d?sslrootcert=/no/a",
            "sslrootcert \"/no/a\"",
        ),
        (
            "postgres://u@h/d?sslrootcert=system&sslmode=require",
            "verify-full",
        ),
        (
            "postgres://u@h/d?sslrootcert=/a&sslmode=disable",
            "sslrootcert",
        ),
        ("postgres://u:%zz@h/d", "password is not percent-encoded"),
        ("postgres://u:%ff@h/d", "password is not percent-encoded"),
        ("postgres://u:%00@h/d", "password is not percent-encoded"),
        ("postgres://u:SE@CRET@h/d", "%40"),
        ("postgres://u:1/SECRET@h/d", "%2F"),
        ("postgres://u:1?SECRET=x@h/d", "%3F"),
        (
            "postgres://u@h/d?password=a&SECRET=b",
            "a parameter is unknown",
        ),
    ];
    for (url, word) in wrong {
        let detail = refusal(url);
        assert!(detail.contains(word), "{url}: {detail}");
        assert!(
            !detail.contains("SECRET") && !detail.contains(url),
            "{detail}"
        );
    }
}

/// The other parts of a URL; they share no characters with the passwords below.
const PLAIN: &str = "[a-m]{1,8}";

proptest! {
    #[test]
    fn no_password_is_shown(
        user in PLAIN, host in PLAIN, database in PLAIN,
        password in "[A-Z0-9/?@:#&=,%+\\[\\]. ]{0,20}[A-Z][A-Z0-9/?@:#&=,%]{0,9}",
        form in 0..6,
    ) {
        let url = match form {
            0 => format!("postgres://{user}:{password}@{host}/{database}"),
            1 => format!("postgresql://{user}:{password}@{host}:5432,{host}/{database}?sslmode=require"),
            2 => format!("postgres://{user}@{host}/{database}?password={password}"),
            3 => format!("postgres://{host}/{database}?password={password}&user={user}"),
            4 => format!("postgres://{user}:{password}@/{database}?host=/run/{host}"),
            _ => format!("postgre://{user}:{password}@{host}/{database}"),
        };
        let shown = redacted(&url);
        prop_assert!(!shown.contains(|c: char| c.is_ascii_uppercase()), "{url}: {shown}");
        match parse(&url) {
            Ok(options) => {
                let shown = format!("{options:?}");
                // Words of the program; all other upper-case letters would be the password's.
                let own_words = ["Options", "Some", "None", "Keyed", "Lanes", ".s.PGSQL"];
                let rest = own_words.iter().fold(shown.clone(), |text, word| text.replace(word, ""));
                prop_assert!(!rest.contains(|c: char| c.is_ascii_uppercase()), "{url}: {shown}");
            }
            Err(failure) => {
                let (detail, hint) = (failure.detail, failure.hint.unwrap_or_default());
                let message = format!("{detail}{hint}")
                    .replace("PostgreSQL", "").replace("URL", "").replace("UTF-8", "").replace("F, a ? %3F", "");
                prop_assert!(!message.contains(|c: char| c.is_ascii_uppercase()), "{url}: {message}");
            }
        }
    }

    #[test]
    fn an_encoded_password_is_hidden_and_nothing_else(
        user in PLAIN, host in PLAIN, database in PLAIN, password in "\\PC{1,20}",
    ) {
        let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!("postgres://{user}:{encoded}@{host}/{database}?sslmode=disable");
        prop_assert_eq!(
            redacted(&url),
            format!("postgres://{user}:***@{host}/{database}?sslmode=disable")
        );
        prop_assert!(parse(&url).is_ok());
    }
}

/// A server with a role for each form of password.
fn server_with_passwords() -> (Server, String) {
    let server = Server::start(filrouge_testbed::Options::default());
    server.sql(
        "postgres",
        "CREATE ROLE scram LOGIN SUPERUSER PASSWORD 'a/b@c?d:é';
         SET password_encryption = md5;
         CREATE ROLE md5 LOGIN SUPERUSER PASSWORD 'a/b@c?d:é';",
    );
    server.put(
        "pg_hba.conf",
        "local all all trust\n\
         host all md5 127.0.0.1/32 md5\n\
         host all all 127.0.0.1/32 scram-sha-256\n",
    );
    server.reload();
    let database = server.database();
    (server, database)
}

#[test]
fn passwords_in_every_form_reach_the_server() {
    let (server, database) = server_with_passwords();
    let address = server.tcp();
    let url = |credentials: &str| format!("postgres://{credentials}@{address}/{database}");
    for credentials in ["scram:a%2Fb%40c%3Fd%3A%C3%A9", "md5:a%2Fb%40c%3Fd:%c3%a9"] {
        drop(PostgresLedger::open(separate_server_options(&url(credentials))).unwrap());
    }
    let password = "a/b@c?d:é";
    for user in ["scram", "md5"] {
        let options = separate_server_options(&url(user)).with_password(password);
        assert!(!format!("{options:?}").contains(password));
        drop(PostgresLedger::open(options).unwrap());
    }
    // The URL's own password has precedence.
    let wrong = separate_server_options(&url("scram:wrong")).with_password(password);
    let failure = PostgresLedger::open(wrong).err().unwrap();
    assert_eq!(failure.code, ErrorCode::StoreUnavailable);
    assert!(failure.detail.contains("28P01"), "{failure:?}");
    let failure = PostgresLedger::open(separate_server_options(&url("scram")))
        .err()
        .unwrap();
    assert_eq!(failure.code, ErrorCode::StoreUnavailable);
    assert!(failure.detail.contains("password missing"), "{failure:?}");
}

#[test]
fn the_host_that_accepts_writes_is_used() {
    let database = Database::new();
    let primary = database.tcp();
    let standby = Server::start(filrouge_testbed::Options::default());
    standby.put("standby.signal", "");
    standby.stop_immediate();
    standby.restart();
    // This listener accepts connections and does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs = silent.local_addr().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_address = closed.local_addr().unwrap();
    drop(closed);
    let url = |hosts: &[std::net::SocketAddr]| {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let (hosts, name) = (hosts.join(","), database.name());
        format!("postgres://postgres@{hosts}/{name}?connect_timeout=1")
    };
    let ledger = open(separate_server_options(&url(&[
        closed_address,
        standby.tcp(),
        hangs,
        primary,
    ])));
    block_on(async {
        start_turn(&*ledger, "s", "r").await;
        close(vec![ledger]).await;
    });

    let name = "postgres";
    let only = format!("postgres://postgres@{}/{name}", standby.tcp());
    let failure = PostgresLedger::open(separate_server_options(&only))
        .err()
        .unwrap();
    assert_eq!(failure.code, ErrorCode::StoreUnavailable);
    assert!(failure.detail.contains("standby"), "{failure:?}");
    let none = format!(
        "postgres://postgres@{closed_address},{hangs},{}/{name}?connect_timeout=1",
        standby.tcp()
    );
    let failure = PostgresLedger::open(separate_server_options(&none))
        .err()
        .unwrap();
    assert_eq!(failure.code, ErrorCode::StoreUnavailable);
    for part in [
        format!("{closed_address}: "),
        format!("{hangs}: PostgreSQL: no answer within 1 s"),
        "standby".to_owned(),
    ] {
        assert!(failure.detail.contains(&part), "{failure:?}");
    }
}

#[test]
fn the_application_name_reaches_the_server() {
    let database = Database::new();
    let url = format!(
        "{}?application_name=a%20name&options=-c%20application_name%3Dother%20-c%20work_mem%3D7MB",
        database.url()
    );
    let ledger = open(separate_server_options(&url));
    let name = database.name();
    let names = database.sql(&format!(
        "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = '{name}' AND application_name <> 'psql'"
    ));
    assert_eq!(names, [[Some("a name".to_owned())]]);
    block_on(close(vec![ledger]));
    let ledger = open(separate_server_options(&database.url()));
    let has_default_name = database.sql(&format!(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'filrouge'"
    ));
    assert_eq!(has_default_name, [[Some("t".to_owned())]]);
    block_on(close(vec![ledger]));
}
