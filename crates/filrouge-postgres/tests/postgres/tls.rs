//! TLS to a real server: accepted and refused certificates, and the encryption of all traffic.

use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::OsEntropy;
use filrouge_store::command::Outcome;
use filrouge_store::contract::fixture::{anyone, append, cmd, finalize, keyed, sid};
use filrouge_store::contract::{concurrency, full_pages, life, run};
use filrouge_testbed::{PgBouncer, Server};
use filrouge_types::{ErrorCode, Failure};

use super::servers::callers::TIMEOUT;
use super::servers::{block_on, close, open, separate_server_options, start_turn, two_ledgers};
use super::{fixture_at, keyring};

pub(crate) mod authority;

use authority::{Authority, self_signed};

const PASSWORD: &str = "p@ss/w?rd:%ß";
/// [`PASSWORD`] as a URL contains it.
const ENCODED_PASSWORD: &str = "p%40ss%2Fw%3Frd%3A%25%C3%9F";

/// A server with a certificate for `localhost`.
struct TlsServer {
    server: Server,
    authority: Authority,
    database: String,
}

impl TlsServer {
    /// `rules` are the lines of `pg_hba.conf` for TCP connections, without address and method.
    fn new(rules: &str) -> Self {
        let mut options = filrouge_testbed::Options::default();
        let log_all = ("log_statement".to_owned(), "all".to_owned());
        options.settings.push(log_all);
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

    /// The server's URL with the host name `host` and `parameters`.
    fn url(&self, host: &str, parameters: &str) -> String {
        let port = self.server.tcp().port();
        let database = &self.database;
        format!("postgresql://filrouge:{ENCODED_PASSWORD}@{host}:{port}/{database}?{parameters}")
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

    /// Whether the server has received a statement that contains `text`.
    fn has_received(&self, text: &str) -> bool {
        // The text is split, because the log also contains this statement.
        let (half, rest) = text.split_at(3);
        let sql = format!(
            "SELECT position('{half}' || '{rest}' IN
                    pg_read_file(current_setting('data_directory') || '/../log')) > 0"
        );
        self.server.sql("postgres", &sql)[0][0].as_deref() == Some("t")
    }
}

const ONLY_TLS: &str = "hostssl all all";

fn try_open(url: &str) -> Result<PostgresLedger, Failure> {
    PostgresLedger::open(separate_server_options(url))
}

/// The detail and the hint with which a store is not opened.
fn refusal(url: &str) -> (String, String) {
    let Err(failure) = try_open(url) else {
        panic!("the store was opened");
    };
    assert_eq!(failure.code, ErrorCode::StoreUnavailable, "{failure:?}");
    assert!(!failure.detail.contains(PASSWORD) && !failure.detail.contains(ENCODED_PASSWORD));
    (failure.detail, failure.hint.unwrap_or_default())
}

#[test]
fn all_connections_use_tls() {
    let tls = TlsServer::new(ONLY_TLS);
    let ca = tls.authority.file();
    let verified = format!("sslmode=verify-full&sslrootcert={ca}&channel_binding=require");
    let url = tls.url("localhost", &verified);
    let ledgers = two_ledgers(&url);
    let (all, encrypted) = tls.connections();
    assert!(all >= 2, "{all}");
    assert_eq!(all, encrypted);
    block_on(async {
        let mut commits = ledgers[1].commits();
        let turn = start_turn(&*ledgers[0], "s", "r").await.turn_id;
        let write = append("s", turn, vec![keyed("k", "w")], None);
        let outcome = ledgers[0].put(cmd(&anyone(), write)).await.unwrap();
        assert!(matches!(outcome, Outcome::Appended { .. }), "{outcome:?}");
        let write = finalize("s", turn, Some("answer"));
        ledgers[0].put(cmd(&anyone(), write)).await.unwrap();
        let newest = ledgers[0].position().commit_count();
        let announced = commits.wait_for(|number| *number >= newest);
        tokio::time::timeout(TIMEOUT, announced)
            .await
            .unwrap()
            .unwrap();
        let session = ledgers[1].session(&anyone(), &sid("s")).await.unwrap();
        assert_eq!(session.last_seq, 3);
        close(ledgers).await;
    });
    // The ledger does not take the server for a pooler.
    assert!(tls.has_received("LISTEN filrouge"));
    assert!(!tls.has_received("SET LOCAL idle_in_transaction_session_timeout"));
}

#[test]
fn parts_of_the_contract_suite_pass_over_tls() {
    let tls = TlsServer::new(ONLY_TLS);
    let fixture = |parameters: &str| {
        tls.server
            .sql(&tls.database, "DROP SCHEMA IF EXISTS filrouge CASCADE");
        fixture_at(&tls.url("localhost", parameters), keyring())
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
    let tls = TlsServer::new(ONLY_TLS);
    let signed = tls.authority.sign("localhost");
    // The pooler reads the files where the server keeps them: both run as the same user.
    tls.server.put("pool.crt", &signed.certificate);
    tls.server.put("pool.key", &signed.key);
    let data = &tls
        .server
        .sql("postgres", "SELECT current_setting('data_directory')")[0][0];
    let data = data.as_deref().unwrap();
    let pool = PgBouncer::with_settings(
        &tls.server,
        3,
        &[
            ("client_tls_sslmode", "require"),
            ("client_tls_cert_file", &format!("{data}/pool.crt")),
            ("client_tls_key_file", &format!("{data}/pool.key")),
        ],
    );
    let ca = tls.authority.file();
    for parameters in [
        "sslmode=require".to_owned(),
        format!("sslmode=verify-full&sslrootcert={ca}"),
    ] {
        let url = pool.url(&tls.database).replace("127.0.0.1", "localhost");
        let ledger = open(separate_server_options(&format!("{url}?{parameters}")));
        block_on(async {
            start_turn(
                &*ledger,
                &parameters.replace(['=', '&', '%'], "-")[..12],
                "r",
            )
            .await;
            close(vec![ledger]).await;
        });
    }
    assert!(tls.has_received("SET LOCAL idle_in_transaction_session_timeout"));
    assert!(!tls.has_received("LISTEN filrouge"));
    let (detail, _) = refusal(&format!("{}?sslmode=disable", pool.url(&tls.database)));
    assert!(detail.contains("SSL required"), "{detail}");
}

#[test]
fn certificates_are_accepted_and_refused_as_in_libpq() {
    let tls = TlsServer::new(ONLY_TLS);
    let ca = tls.authority.file();
    let stranger = Authority::new().file();
    let accepted = [
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={ca}")),
        // The certificate is for another name.
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=prefer&sslrootcert={ca}")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", String::new()),
    ];
    for (host, parameters) in accepted {
        let opened = try_open(&tls.url(host, &parameters));
        assert!(opened.is_ok(), "{parameters}: {:?}", opened.err());
    }

    let (detail, hint) = refusal(&tls.url(
        "127.0.0.1",
        &format!("sslmode=verify-full&sslrootcert={ca}"),
    ));
    assert!(detail.contains("not valid for name"), "{detail}");
    assert!(hint.contains("by a name"), "{hint}");

    // The file was deleted with its authority.
    let missing = Options::new(
        &tls.url("localhost", &format!("sslrootcert={stranger}")),
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
        let (detail, hint) = refusal(&tls.url("localhost", &parameters));
        assert!(detail.contains("UnknownIssuer"), "{parameters}: {detail}");
        assert!(hint.contains("sslrootcert"), "{parameters}: {hint}");
    }

    let (detail, hint) = refusal(&tls.url("localhost", "sslmode=disable"));
    assert!(
        detail.contains("28000") && hint.contains("pg_hba.conf"),
        "{detail}, {hint}"
    );
}

#[test]
fn a_self_signed_certificate_can_be_the_root_unless_it_is_a_ca() {
    let tls = TlsServer::new(ONLY_TLS);
    let root = |is_ca| {
        let signed = self_signed("localhost", is_ca);
        tls.server.put("server.crt", &signed.certificate);
        tls.server.put("server.key", &signed.key);
        tls.server.reload();
        let root = tls.authority.keep("root.pem", &signed.certificate);
        tls.url(
            "localhost",
            &format!("sslmode=verify-full&sslrootcert={root}"),
        )
    };
    drop(try_open(&root(false)).unwrap());
    let (detail, hint) = refusal(&root(true));
    assert!(detail.contains("CaUsedAsEndEntity"), "{detail}");
    assert!(hint.contains("another certificate"), "{hint}");
    drop(try_open(&tls.url("localhost", "sslmode=require")).unwrap());
}

#[test]
fn prefer_connects_without_tls_if_there_is_none() {
    let tls = TlsServer::new("host all all");
    tls.server.sql("postgres", "ALTER SYSTEM SET ssl = off");
    tls.server.reload();
    let ledger = try_open(&tls.url("localhost", "")).unwrap();
    let (all, encrypted) = tls.connections();
    assert!(all > 0);
    assert_eq!(encrypted, 0);
    drop(ledger);
    drop(try_open(&tls.url("localhost", "sslmode=disable")).unwrap());
    let (detail, _) = refusal(&tls.url("localhost", "sslmode=require"));
    assert!(detail.contains("does not support TLS"), "{detail}");
    let (detail, _) = refusal(&tls.url("localhost", "channel_binding=require"));
    assert!(detail.contains("channel binding"), "{detail}");
    // Sockets use no TLS, whatever the mode.
    let socket = tls.server.url(&tls.database);
    drop(try_open(&format!("{socket}?sslmode=require")).unwrap());
}

#[test]
fn a_client_certificate_authenticates() {
    let tls = TlsServer::new("hostssl all all 127.0.0.1/32 cert\nhost all all");
    let ca = tls.authority.file();
    let signed = tls.authority.sign("filrouge");
    let (certificate, key) = (
        tls.authority.keep("own.crt", &signed.certificate),
        tls.authority.keep("own.key", &signed.key),
    );
    let port = tls.server.tcp().port();
    let url = |client_certificate: &str| {
        let database = &tls.database;
        format!(
            "postgres://filrouge@localhost:{port}/{database}?sslmode=verify-full&sslrootcert={ca}{client_certificate}"
        )
    };
    drop(try_open(&url(&format!("&sslcert={certificate}&sslkey={key}"))).unwrap());
    let (detail, _) = refusal(&url(""));
    assert!(detail.contains("valid client certificate"), "{detail}");
    // Another client certificate, of a CA that the server does not trust.
    let other = Authority::new();
    let signed = other.sign("filrouge");
    let (certificate, key) = (
        other.keep("own.crt", &signed.certificate),
        other.keep("own.key", &signed.key),
    );
    let (detail, hint) = refusal(&url(&format!("&sslcert={certificate}&sslkey={key}")));
    assert!(detail.contains("alert"), "{detail}");
    assert!(hint.contains("sslcert"), "{hint}");
}
