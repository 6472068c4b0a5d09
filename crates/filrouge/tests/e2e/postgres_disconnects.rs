//! Clients of several tenants disconnect at random points while others read complete responses: no database connection
//! stays in a transaction, and no caller gets a byte of another tenant (promise P6 of the design).

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
/// The total number of requests after or during which the client disconnects.
const DISCONNECTS: usize = 10_000;
/// The number of concurrent clients that disconnect.
const CLIENTS: usize = 8;

/// A text that may occur only in the tenant's own responses.
fn tag(tenant: &str) -> String {
    format!("tag-of-{tenant}")
}

/// The path of a random read.
fn path(rng: &mut StdRng) -> String {
    let session = rng.random_range(0..5);
    match rng.random_range(0..4) {
        0 => "/api/v1/sessions".to_owned(),
        1 => format!("/api/v1/sessions/s{session}/turns?limit=20"),
        2 => "/api/v1/changes?limit=50".to_owned(),
        _ => format!("/api/v1/sessions/s{session}/items?limit=50"),
    }
}

/// The bytes of a random request of `tenant`: a read, or a write of a turn.
fn request(tenant: &str, key: &str, request_id: &str, rng: &mut StdRng) -> Vec<u8> {
    let head = format!("host: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n");
    if rng.random_bool(0.6) {
        return format!("GET {} HTTP/1.1\r\n{head}\r\n", path(rng)).into_bytes();
    }
    let tags = tag(tenant).repeat(rng.random_range(1..40));
    let body =
        json!({ "request_id": request_id, "question_neutral": tags, "answer_neutral": tags });
    let (body, session) = (body.to_string(), rng.random_range(0..5));
    let length = body.len();
    let text = format!(
        "POST /api/v1/sessions/s{session}/turns HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

/// Sends all or part of a request, reads part of the response or nothing, and disconnects.
fn send_and_disconnect(server: &Server, request: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let address = server.origin().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let sent = match rng.random_range(0..4) {
        0 => rng.random_range(0..request.len()),
        _ => request.len(),
    };
    stream.write_all(&request[..sent]).unwrap();
    let mut response = Vec::new();
    if sent == request.len() {
        match rng.random_range(0..3) {
            0 => {}
            1 => std::thread::sleep(Duration::from_micros(rng.random_range(0..3000))),
            _ => {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                let limit = rng.random_range(1..2000);
                // The server may close the connection first.
                stream.take(limit).read_to_end(&mut response).ok();
            }
        }
    }
    response
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

/// Checks that the response contains nothing of another tenant.
#[track_caller]
fn assert_only_of(tenant: &str, response: &[u8]) {
    for other in TENANTS.iter().filter(|other| **other != tenant) {
        let text = String::from_utf8_lossy(response);
        assert!(!contains(response, &tag(other)), "{tenant} received {text}");
    }
}

/// Reads complete responses until all clients have disconnected. Checks that every item read is the tenant's own;
/// returns how many were read.
fn read_complete(server: &Server, tenant: &str, key: &str, disconnects: &AtomicUsize) -> usize {
    let mut rng = StdRng::seed_from_u64(key.len() as u64);
    let caller = Caller::with_credentials(server, key);
    let mut read = 0;
    while disconnects.load(Ordering::Relaxed) < DISCONNECTS {
        let path = path(&mut rng);
        let response = caller.send("GET", &path, None);
        assert!(
            response.status == 200 || response.status == 404,
            "{response:?}"
        );
        assert_only_of(tenant, response.text.as_bytes());
        if path.contains("/items") && response.status == 200 {
            for item in response.body()["data"].as_array().unwrap() {
                let text = item["parts"][0]["text"].as_str().unwrap();
                assert!(text.replace(&tag(tenant), "").is_empty(), "{item}");
                read += 1;
            }
        }
    }
    read
}

/// Creates a key for each tenant.
fn keys(world: &World) -> Vec<(&'static str, String)> {
    let create = |tenant| key(world, &["--role", "service", "--tenant", tenant]);
    TENANTS.map(|tenant| (tenant, create(tenant))).to_vec()
}

#[test]
fn clients_that_disconnect_leave_no_transaction_and_see_nothing_of_others() {
    let world = World::on_postgres();
    // The first start creates the tables; the two servers below then find them.
    world.serve().stop();
    let keys = keys(&world);
    let servers = [world.serve(), world.serve()];
    let disconnects = AtomicUsize::new(0);
    let read: usize = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (disconnects, servers, keys) = (&disconnects, &servers, &keys);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(client as u64);
                loop {
                    let n = disconnects.fetch_add(1, Ordering::Relaxed);
                    if n >= DISCONNECTS {
                        return;
                    }
                    let (tenant, key) = &keys[rng.random_range(0..keys.len())];
                    let request = request(tenant, key, &n.to_string(), &mut rng);
                    let response = send_and_disconnect(&servers[n % 2], &request, &mut rng);
                    assert_only_of(tenant, &response);
                }
            });
        }
        let readers: Vec<_> = keys
            .iter()
            .zip([0, 1, 0])
            .map(|((tenant, key), n)| {
                let (server, disconnects) = (&servers[n], &disconnects);
                scope.spawn(move || read_complete(server, tenant, key, disconnects))
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
            Caller::with_credentials(server, key)
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
