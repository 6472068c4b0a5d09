//! TLS to a real server: which certificates are accepted and refused, and that all traffic is encrypted.

use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::OsEntropy;
use filrouge_store::command::Outcome;
use filrouge_store::contract::fixture::{anyone, append, cmd, finalize, keyed, sid};
use filrouge_store::contract::{concurrency, full_pages, life, run};
use filrouge_testbed::{PgBouncer, Server};
use filrouge_types::{ErrorCode, Failure};

use super::many::callers::PATIENCE;
use super::many::{close, open, separate_server_options, started, two, wait};
use super::{keyring, on};

pub(crate) mod authority;

use authority::{Authority, self_signed};

const PASSWORD: &str = "p@ss/w?rd:%ß";
const ENCODED: &str = "p%40ss%2Fw%3Frd%3A%25%C3%9F";

/// A server with a certificate for `localhost`; `rules` are the TCP lines of its `pg_hba.conf`.
struct Guarded {
    server: Server,
    authority: Authority,
    database: String,
}

impl Guarded {
    fn new(rules: &str) -> Self {
        let mut options = filrouge_testbed::Options::default();
        let all = ("log_statement".to_owned(), "all".to_owned());
        options.settings.push(all);
        let server = Server::start(options);
        let authority = Authority::new();
        let signed = authority.sign("localhost");
        server.put("server.crt", &signed.certificate);
        server.put("server.key", &signed.key);
        server.put("clients.crt", authority.pem());
        server.sql(
            "postgres",
            &format!(
                "ALTER SYSTEM SET ssl = on;
                 ALTER SYSTEM SET ssl_ca_file = 'clients.crt';
                 CREATE ROLE filrouge LOGIN SUPERUSER PASSWORD '{PASSWORD}';"
            ),
        );
        server.put(
            "pg_hba.conf",
            &format!("local all all trust\n{rules} 127.0.0.1/32 scram-sha-256\n"),
        );
        server.reload();
        let database = server.database();
        Self {
            server,
            authority,
            database,
        }
    }

    /// The server's URL by `host`, with `parameters`.
    fn url(&self, host: &str, parameters: &str) -> String {
        let port = self.server.tcp().port();
        let database = &self.database;
        format!("postgresql://filrouge:{ENCODED}@{host}:{port}/{database}?{parameters}")
    }

    /// The number of other connections, and how many of them are encrypted.
    fn connections(&self) -> (u32, u32) {
        let rows = self.server.sql(
            "postgres",
            "SELECT count(*), count(*) FILTER (WHERE ssl)
               FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'filrouge'",
        );
        let number = |n: usize| rows[0][n].as_ref().unwrap().parse().unwrap();
        (number(0), number(1))
    }

    /// Whether a statement that contains `what` was sent to the server.
    fn was_asked(&self, what: &str) -> bool {
        // Split, because the log also contains this statement.
        let (half, rest) = what.split_at(3);
        let sql = format!(
            "SELECT position('{half}' || '{rest}' IN
                    pg_read_file(current_setting('data_directory') || '/../log')) > 0"
        );
        self.server.sql("postgres", &sql)[0][0].as_deref() == Some("t")
    }
}

const ONLY_TLS: &str = "hostssl all all";

fn opened(url: &str) -> Result<PostgresLedger, Failure> {
    PostgresLedger::open(separate_server_options(url))
}

fn refused(url: &str) -> (String, String) {
    let Err(failure) = opened(url) else {
        panic!("opened");
    };
    assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
    assert!(!failure.detail.contains(PASSWORD) && !failure.detail.contains(ENCODED));
    (failure.detail, failure.hint.unwrap_or_default())
}

#[test]
fn everything_goes_over_tls() {
    let guarded = Guarded::new(ONLY_TLS);
    let ca = guarded.authority.file();
    let verified = format!("sslmode=verify-full&sslrootcert={ca}&channel_binding=require");
    let url = guarded.url("localhost", &verified);
    let ledgers = two(&url);
    let (all, encrypted) = guarded.connections();
    assert!(all >= 2, "{all}");
    assert_eq!(all, encrypted);
    wait(async {
        let mut reported = ledgers[1].commits();
        let turn = started(&*ledgers[0], "s", "r").await.turn_id;
        let write = append("s", turn, vec![keyed("k", "w")], None);
        let outcome = ledgers[0].put(cmd(&anyone(), write)).await.unwrap();
        assert!(matches!(outcome, Outcome::Appended { .. }), "{outcome:?}");
        let write = finalize("s", turn, Some("answer"));
        ledgers[0].put(cmd(&anyone(), write)).await.unwrap();
        let newest = ledgers[0].position().commit_no;
        let reported = reported.wait_for(|number| *number >= newest);
        tokio::time::timeout(PATIENCE, reported)
            .await
            .unwrap()
            .unwrap();
        let session = ledgers[1].session(&anyone(), &sid("s")).await.unwrap();
        assert_eq!(session.last_seq, 3);
        close(ledgers).await;
    });
    // The connection is not mistaken for a pooler's.
    assert!(guarded.was_asked("LISTEN filrouge"));
    assert!(!guarded.was_asked("SET LOCAL idle_in_transaction_session_timeout"));
}

#[test]
fn the_contract_holds_over_tls() {
    let guarded = Guarded::new(ONLY_TLS);
    let fixture = |parameters: &str| {
        guarded
            .server
            .sql(&guarded.database, "DROP SCHEMA IF EXISTS filrouge CASCADE");
        on(&guarded.url("localhost", parameters), keyring())
    };
    run(
        fixture("sslmode=require"),
        life::every_write_has_a_defined_effect_in_every_status,
    );
    run(
        fixture("sslmode=prefer"),
        full_pages::pages_of_large_sessions_are_bounded,
    );
    run(fixture(""), concurrency::many_tasks_write_to_few_sessions);
}

#[test]
fn a_pooler_is_detected_over_tls() {
    let guarded = Guarded::new(ONLY_TLS);
    let signed = guarded.authority.sign("localhost");
    // It reads the files where the server keeps them: both run as the same user.
    guarded.server.put("pool.crt", &signed.certificate);
    guarded.server.put("pool.key", &signed.key);
    let data = &guarded
        .server
        .sql("postgres", "SELECT current_setting('data_directory')")[0][0];
    let data = data.as_deref().unwrap();
    let pool = PgBouncer::with_settings(
        &guarded.server,
        3,
        &[
            ("client_tls_sslmode", "require"),
            ("client_tls_cert_file", &format!("{data}/pool.crt")),
            ("client_tls_key_file", &format!("{data}/pool.key")),
        ],
    );
    let ca = guarded.authority.file();
    for parameters in [
        "sslmode=require".to_owned(),
        format!("sslmode=verify-full&sslrootcert={ca}"),
    ] {
        let url = pool
            .url(&guarded.database)
            .replace("127.0.0.1", "localhost");
        let ledger = open(separate_server_options(&format!("{url}?{parameters}")));
        wait(async {
            started(
                &*ledger,
                &parameters.replace(['=', '&', '%'], "-")[..12],
                "r",
            )
            .await;
            close(vec![ledger]).await;
        });
    }
    assert!(guarded.was_asked("SET LOCAL idle_in_transaction_session_timeout"));
    assert!(!guarded.was_asked("LISTEN filrouge"));
    let (detail, _) = refused(&format!("{}?sslmode=disable", pool.url(&guarded.database)));
    assert!(detail.contains("SSL required"), "{detail}");
}

#[test]
fn certificates_are_accepted_and_refused_as_in_libpq() {
    let guarded = Guarded::new(ONLY_TLS);
    let ca = guarded.authority.file();
    let stranger = Authority::new().file();
    let accepted = [
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={ca}")),
        // A name other than the certificate's.
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=prefer&sslrootcert={ca}")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", String::new()),
    ];
    for (host, parameters) in accepted {
        let opened = opened(&guarded.url(host, &parameters));
        assert!(opened.is_ok(), "{parameters}: {:?}", opened.err());
    }

    let (detail, hint) = refused(&guarded.url(
        "127.0.0.1",
        &format!("sslmode=verify-full&sslrootcert={ca}"),
    ));
    assert!(detail.contains("not valid for name"), "{detail}");
    assert!(hint.contains("by a name"), "{hint}");

    // `Authority::file` of a dropped authority: the file was deleted with it.
    let missing = Options::new(
        &guarded.url("localhost", &format!("sslrootcert={stranger}")),
        keyring(),
        std::sync::Arc::new(OsEntropy),
    );
    let missing = missing.unwrap_err();
    assert_eq!(missing.code, ErrorCode::Invalid);
    assert!(missing.detail.contains("sslrootcert"), "{missing:?}");

    let stranger = Authority::new();
    let foreign = stranger.file();
    for parameters in [
        format!("sslmode=verify-full&sslrootcert={foreign}"),
        format!("sslmode=verify-ca&sslrootcert={foreign}"),
        format!("sslmode=require&sslrootcert={foreign}"),
        format!("sslmode=prefer&sslrootcert={foreign}"),
        // The system's certificates do not include our CA.
        "sslmode=verify-full".to_owned(),
        "sslrootcert=system".to_owned(),
    ] {
        let (detail, hint) = refused(&guarded.url("localhost", &parameters));
        assert!(detail.contains("UnknownIssuer"), "{parameters}: {detail}");
        assert!(hint.contains("sslrootcert"), "{parameters}: {hint}");
    }

    let (detail, hint) = refused(&guarded.url("localhost", "sslmode=disable"));
    assert!(
        detail.contains("28000") && hint.contains("pg_hba.conf"),
        "{detail}, {hint}"
    );
}

#[test]
fn a_self_signed_certificate_can_be_the_root_unless_it_is_a_ca() {
    let guarded = Guarded::new(ONLY_TLS);
    let root = |is_ca| {
        let signed = self_signed("localhost", is_ca);
        guarded.server.put("server.crt", &signed.certificate);
        guarded.server.put("server.key", &signed.key);
        guarded.server.reload();
        let root = guarded.authority.keep("root.pem", &signed.certificate);
        guarded.url(
            "localhost",
            &format!("sslmode=verify-full&sslrootcert={root}"),
        )
    };
    drop(opened(&root(false)).unwrap());
    let (detail, hint) = refused(&root(true));
    assert!(detail.contains("CaUsedAsEndEntity"), "{detail}");
    assert!(hint.contains("another certificate"), "{hint}");
    drop(opened(&guarded.url("localhost", "sslmode=require")).unwrap());
}

#[test]
fn prefer_connects_without_tls_if_there_is_none() {
    let guarded = Guarded::new("host all all");
    guarded.server.sql("postgres", "ALTER SYSTEM SET ssl = off");
    guarded.server.reload();
    let ledger = opened(&guarded.url("localhost", "")).unwrap();
    let (all, encrypted) = guarded.connections();
    assert!(all > 0);
    assert_eq!(encrypted, 0);
    drop(ledger);
    drop(opened(&guarded.url("localhost", "sslmode=disable")).unwrap());
    let (detail, _) = refused(&guarded.url("localhost", "sslmode=require"));
    assert!(detail.contains("does not support TLS"), "{detail}");
    let (detail, _) = refused(&guarded.url("localhost", "channel_binding=require"));
    assert!(detail.contains("channel binding"), "{detail}");
    // Sockets use no TLS, whatever the mode.
    let socket = guarded.server.url(&guarded.database);
    drop(opened(&format!("{socket}?sslmode=require")).unwrap());
}

#[test]
fn a_client_certificate_authenticates() {
    let guarded = Guarded::new("hostssl all all 127.0.0.1/32 cert\nhost all all");
    let ca = guarded.authority.file();
    let signed = guarded.authority.sign("filrouge");
    let (certificate, key) = (
        guarded.authority.keep("own.crt", &signed.certificate),
        guarded.authority.keep("own.key", &signed.key),
    );
    let port = guarded.server.tcp().port();
    let url = |own: &str| {
        let database = &guarded.database;
        format!(
            "postgres://filrouge@localhost:{port}/{database}?sslmode=verify-full&sslrootcert={ca}{own}"
        )
    };
    drop(opened(&url(&format!("&sslcert={certificate}&sslkey={key}"))).unwrap());
    let (detail, _) = refused(&url(""));
    assert!(detail.contains("valid client certificate"), "{detail}");
    // Another client certificate, of a CA that the server does not trust.
    let other = Authority::new();
    let signed = other.sign("filrouge");
    let (certificate, key) = (
        other.keep("own.crt", &signed.certificate),
        other.keep("own.key", &signed.key),
    );
    let (detail, hint) = refused(&url(&format!("&sslcert={certificate}&sslkey={key}")));
    assert!(detail.contains("alert"), "{detail}");
    assert!(hint.contains("sslcert"), "{hint}");
}
