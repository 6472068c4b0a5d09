//! Logins that compete, and logins during failures.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn one_of_two_concurrent_logins_wins_on_any_server() {
    const SESSIONS: usize = 8;
    let (world, redis) = (World::new(), Redis::start());
    let servers = [
        with_redis(&world, &redis, &[]),
        with_redis(&world, &redis, &[]),
    ];
    let anonymous = servers[0].client();
    let names: Vec<String> = (0..SESSIONS).map(|n| format!("v{n}")).collect();
    for name in &names {
        check_ephemeral(
            &anonymous.post(
                &format!("/{name}/turns"),
                &complete_turn_json("r", "?", CANARY),
            ),
            201,
        );
    }
    let barrier = Barrier::new(2);
    let won: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let racers: Vec<_> = ["ada", "bob"]
            .into_iter()
            .zip(&servers)
            .map(|(identity, server)| {
                let (client, names, barrier) =
                    (server.client().for_identity(identity), &names, &barrier);
                scope.spawn(move || {
                    let log_in = |(n, name): (usize, &String)| {
                        barrier.wait();
                        let response = match n % 2 {
                            0 => client.put(
                                &format!("/{name}/link"),
                                &json!({ "identity_id": identity }),
                            ),
                            _ => client.post(
                                &format!("/{name}/turns"),
                                &complete_turn_json(identity, "?", "!"),
                            ),
                        };
                        match response.status {
                            200 | 201 => true,
                            409 => false,
                            _ => panic!("{response:?}"),
                        }
                    };
                    names.iter().enumerate().map(log_in).collect()
                })
            })
            .collect();
        racers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    for (n, name) in names.iter().enumerate() {
        assert_ne!(
            won[0][n], won[1][n],
            "{name}: exactly one login must succeed"
        );
        let owner = if won[0][n] { "ada" } else { "bob" };
        let other = if won[0][n] { "bob" } else { "ada" };
        for server in &servers {
            let client = server.client();
            assert_eq!(
                client.for_identity(owner).get_body(&format!("/{name}"))["identity_id"],
                owner
            );
            assert!(
                client
                    .for_identity(owner)
                    .get(&format!("/{name}/items"))
                    .text
                    .contains(CANARY)
            );
            for stranger in [&client, &client.for_identity(other)] {
                stranger
                    .get(&format!("/{name}"))
                    .fails(404, "session_not_found");
            }
        }
    }
    assert!(
        !redis_content(&redis).contains(EPHEMERAL_KEY),
        "an ephemeral session is left in Redis"
    );
    for server in servers {
        server.stop();
    }
    world.verify();
}

#[test]
fn logins_continue_after_a_kill() {
    const SESSIONS: usize = 24;
    let (world, redis) = (World::new(), Redis::start());
    let mut server = with_redis(&world, &redis, &[]);
    let name = |n: usize| format!("v{n}");
    let before: Vec<_> = (0..SESSIONS)
        .map(|n| record_anonymous(&server.client(), &name(n)))
        .collect();
    let done = AtomicUsize::new(0);
    for killed_at in [3, 9, 15] {
        let ada = server.client().for_identity("ada");
        let from = done.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                // A login that got no response is repeated in the next round.
                for n in from..SESSIONS {
                    let body = complete_turn_json("login", "In?", "In.").to_string();
                    match ada.try_post(&format!("/{}/turns", name(n)), &body) {
                        Ok(response) => {
                            drop(response.wrote(if response.status == 200 { 200 } else { 201 }));
                        }
                        Err(_) => return,
                    }
                    done.store(n + 1, Ordering::Relaxed);
                }
            });
            until("some logins are done", || {
                done.load(Ordering::Relaxed) >= killed_at || work.is_finished()
            });
            server.kill();
            work.join().unwrap();
        });
        server = with_redis(&world, &redis, &[]);
    }
    let ada = server.client().for_identity("ada");
    for (n, before) in before.iter().enumerate() {
        let session = name(n);
        let again = ada.post(
            &format!("/{session}/turns"),
            &complete_turn_json("login", "In?", "In."),
        );
        assert!(again.status == 200 || again.status == 201, "{again:?}");
        assert_complete(&ada, &session, before);
        let questions: Vec<_> = pairs(&ada, &session).into_iter().map(|(q, _)| q).collect();
        assert_eq!(
            questions,
            ["One?", "Two?", "In?"],
            "a question is missing, repeated or in another order"
        );
        server
            .client()
            .get(&format!("/{session}"))
            .fails(404, "session_not_found");
    }
    assert!(
        !redis_content(&redis).contains(EPHEMERAL_KEY),
        "an ephemeral session is left in Redis"
    );
    server.stop();
    world.verify();
}

#[test]
fn the_history_is_moved_once_redis_answers_again() {
    let (world, redis) = (World::new(), Redis::start());
    let server = with_redis(&world, &redis, &[("FILROUGE_HOT_TIMEOUT_MS", "1000")]);
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    for n in 1..=3 {
        let body = complete_turn_json(&format!("r{n}"), &format!("{n}?"), CANARY);
        check_ephemeral(&anonymous.post("/v/turns", &body), 201);
    }
    redis.pause();
    ada.post("/v/turns", &complete_turn_json("r4", "4?", "!"))
        .wrote(201);
    assert_eq!(pairs(&ada, "v").len(), 1);
    anonymous.get("/v").fails(404, "session_not_found");
    redis.resume();
    let mut n = 4;
    until("the earlier turns are moved", || {
        n += 1;
        let body = complete_turn_json(&format!("r{n}"), &format!("{n}?"), "!");
        ada.post("/v/turns", &body).wrote(201);
        metric(
            &anonymous,
            r#"filrouge_backfilled_turns_total{when="late"}"#,
        ) == 3.0
    });
    let history = pairs(&ada, "v");
    assert_eq!(
        history
            .iter()
            .filter(|(_, answer)| answer == CANARY)
            .count(),
        3
    );
    assert_eq!(history.len(), n, "{history:?}");
    anonymous.get("/v").fails(404, "session_not_found");
    until("Redis contains no ephemeral session", || {
        !redis_content(&redis).contains(EPHEMERAL_KEY)
    });
    server.stop();
    world.verify();
}
