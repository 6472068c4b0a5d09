//! Clients of several tenants that disconnect at random points while others read complete answers: no database
//! connection stays in a transaction, and no caller ever gets a byte of another tenant (promise P6 of the design).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::caller::{Caller, key};
use crate::limits::until;

use crate::world::{Server, World};

const TENANTS: [&str; 3] = ["ash", "oak", "elm"];
const VANISHING: usize = 10_000;
/// The number of clients that are connected at a time.
const AT_ONCE: usize = 8;

/// A text that may occur only in the tenant's own answers.
fn tag(tenant: &str) -> String {
    format!("tag-of-{tenant}")
}

fn path(rng: &mut StdRng) -> String {
    let session = rng.random_range(0..5);
    match rng.random_range(0..4) {
        0 => "/api/v1/sessions".to_owned(),
        1 => format!("/api/v1/sessions/s{session}/turns?limit=20"),
        2 => "/api/v1/changes?limit=50".to_owned(),
        _ => format!("/api/v1/sessions/s{session}/items?limit=50"),
    }
}

/// A request of `tenant` in bytes.
fn request(tenant: &str, key: &str, name: &str, rng: &mut StdRng) -> Vec<u8> {
    let head = format!("host: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n");
    if rng.random_bool(0.6) {
        return format!("GET {} HTTP/1.1\r\n{head}\r\n", path(rng)).into_bytes();
    }
    let words = tag(tenant).repeat(rng.random_range(1..40));
    let body = json!({ "request_id": name, "question_neutral": words, "answer_neutral": words });
    let (body, session) = (body.to_string(), rng.random_range(0..5));
    let length = body.len();
    let text = format!(
        "POST /api/v1/sessions/s{session}/turns HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

/// Sends all or part of a request, reads part of the answer or nothing, and disconnects.
fn vanish(server: &Server, request: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let address = server.origin().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let sent = match rng.random_range(0..4) {
        0 => rng.random_range(0..request.len()),
        _ => request.len(),
    };
    stream.write_all(&request[..sent]).unwrap();
    let mut answer = Vec::new();
    if sent == request.len() {
        match rng.random_range(0..3) {
            0 => {}
            1 => std::thread::sleep(Duration::from_micros(rng.random_range(0..3000))),
            _ => {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                let most = rng.random_range(1..2000);
                // It does not matter whether the server closes first.
                stream.take(most).read_to_end(&mut answer).ok();
            }
        }
    }
    answer
}

fn holds(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|w| w == words.as_bytes())
}

/// Checks that the answer contains nothing of another tenant.
#[track_caller]
fn assert_only_of(tenant: &str, answer: &[u8]) {
    for other in TENANTS.iter().filter(|other| **other != tenant) {
        let text = String::from_utf8_lossy(answer);
        assert!(!holds(answer, &tag(other)), "{tenant} received {text}");
    }
}

/// Reads complete answers; all values must belong to the tenant.
fn read_whole(server: &Server, tenant: &str, key: &str, vanished: &AtomicUsize) -> usize {
    let mut rng = StdRng::seed_from_u64(key.len() as u64);
    let caller = Caller::bearing(server, key);
    let mut read = 0;
    while vanished.load(Ordering::Relaxed) < VANISHING {
        let path = path(&mut rng);
        let reply = caller.send("GET", &path, None);
        assert!(reply.status == 200 || reply.status == 404, "{reply:?}");
        assert_only_of(tenant, reply.text.as_bytes());
        if path.contains("/items") && reply.status == 200 {
            for item in reply.body()["data"].as_array().unwrap() {
                let text = item["parts"][0]["text"].as_str().unwrap();
                assert!(text.replace(&tag(tenant), "").is_empty(), "{item}");
                read += 1;
            }
        }
    }
    read
}

fn keys(world: &World) -> Vec<(&'static str, String)> {
    let made = |tenant| key(world, &["--role", "service", "--tenant", tenant]);
    TENANTS.map(|tenant| (tenant, made(tenant))).to_vec()
}

#[test]
fn clients_that_disconnect_leave_no_transaction_and_see_nothing_of_others() {
    let world = World::on_postgres();
    world.serve().stop();
    let keys = keys(&world);
    let servers = [world.serve(), world.serve()];
    let vanished = AtomicUsize::new(0);
    let read: usize = std::thread::scope(|scope| {
        for client in 0..AT_ONCE {
            let (vanished, servers, keys) = (&vanished, &servers, &keys);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(client as u64);
                loop {
                    let n = vanished.fetch_add(1, Ordering::Relaxed);
                    if n >= VANISHING {
                        return;
                    }
                    let (tenant, key) = &keys[rng.random_range(0..keys.len())];
                    let request = request(tenant, key, &n.to_string(), &mut rng);
                    let answer = vanish(&servers[n % 2], &request, &mut rng);
                    assert_only_of(tenant, &answer);
                }
            });
        }
        let readers: Vec<_> = keys
            .iter()
            .zip([0, 1, 0])
            .map(|((tenant, key), n)| {
                let (server, vanished) = (&servers[n], &vanished);
                scope.spawn(move || read_whole(server, tenant, key, vanished))
            })
            .collect();
        readers.into_iter().map(|r| r.join().unwrap()).sum()
    });
    assert!(read > 100, "{read} items were read");
    let in_transaction = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    until("no transaction is left open", || {
        world.database().sql(in_transaction).is_empty()
    });
    for server in &servers {
        for (tenant, key) in &keys {
            let body = json!({ "request_id": format!("after {}", server.origin()), "question_neutral": tag(tenant) });
            Caller::bearing(server, key)
                .post("/s0/turns", &body)
                .is(201);
        }
        let log = server.log();
        assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
    }
    for tenant in TENANTS {
        world.ok(&["verify", "--tenant", tenant]);
    }
}
