//! Complete calls on two servers, with a fault at each webhook: a server is killed or stopped, or PostgreSQL is
//! unreachable. A call never returns to its first state, each webhook has one answer, and a webhook is refused at most
//! [`RETRIES_MAX`] times once a server is up (DESIGN §6).
//!
//! `FILROUGE_CALL_FAULT_ROUNDS` is the number of rounds of each test: each round has two calls, and its faults happen
//! at other moments of their webhooks. `FILROUGE_CALL_OUTAGE_SECONDS` is the duration of each outage of PostgreSQL.

use filrouge_testbed::{Options, Server as PostgresServer};

use crate::limits::until;
use crate::world::{World, env_number};

mod application;

use Moment::{Before, BeforeAnswer, During};
use application::Application;

/// The maximum number of retries of a webhook after a fault. They last one second.
const RETRIES_MAX: usize = 10;

/// What the caller says, the expected answer, and the state of the call after it.
type Exchange = (&'static str, &'static str, &'static str);

const FIRST_STATE: &str = "START";
const NAME: &str = "À quel nom ?";
const REASON: &str = "Quel est le motif de votre visite ?";
const SLOTS: &str = "Je vous propose : 1, mardi à 9 heures ; 2, vendredi à 14 heures.";
const CONFIRMATION: &str = "C'est confirmé : vendredi à 14 heures.";
const TRANSFER: &str = "Je vous passe un conseiller.";

const CONFIRMED_CALL: &[Exchange] = &[
    ("Bonjour", NAME, "QUALIF"),
    ("Jeanne Petit", REASON, "SLOTS"),
    ("Un contrôle", SLOTS, "WAIT_CONFIRM"),
    ("le 2", CONFIRMATION, "CONFIRMED"),
];
const TRANSFERRED_CALL: &[Exchange] = &[
    ("Bonjour", NAME, "QUALIF"),
    ("Un conseiller", TRANSFER, "TRANSFERRED"),
];

/// The dialogue of the application: its answer in this state, and its next state.
fn step(state: &str, said: &str) -> (&'static str, &'static str) {
    match (state, said) {
        (FIRST_STATE, _) => (NAME, "QUALIF"),
        (_, "Un conseiller") => (TRANSFER, "TRANSFERRED"),
        ("QUALIF", _) => (REASON, "SLOTS"),
        ("SLOTS", _) => (SLOTS, "WAIT_CONFIRM"),
        ("WAIT_CONFIRM", "le 2") => (CONFIRMATION, "CONFIRMED"),
        _ => panic!("{said:?} is not expected in the state {state}"),
    }
}

/// A request of the application to filrouge, in the order in which a webhook sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Resume,
    Start,
    Finalize,
    Checkpoint,
}

/// The moment of a fault within a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before(Request),
    /// While the server handles the request; its response is lost.
    During(Request),
    /// After the last request, before the application answers.
    BeforeAnswer,
}

const MOMENTS: [Moment; 9] = [
    Before(Request::Resume),
    During(Request::Resume),
    Before(Request::Start),
    During(Request::Start),
    Before(Request::Finalize),
    During(Request::Finalize),
    Before(Request::Checkpoint),
    During(Request::Checkpoint),
    BeforeAnswer,
];
/// The moments at which PostgreSQL becomes unreachable.
const OUTAGE_MOMENTS: [Moment; 4] = [
    Before(Request::Resume),
    Before(Request::Start),
    Before(Request::Finalize),
    Before(Request::Checkpoint),
];

#[derive(Clone, Copy)]
enum Fault<'p> {
    /// SIGKILL to the server that handles the webhook. The application's handler dies with it.
    Kill,
    /// SIGTERM to this server, and to the application's handler.
    Stop,
    /// PostgreSQL is unreachable for a time.
    Outage(&'p PostgresServer),
}

/// Plays two calls in each round, with a fault at each webhook. Over as many rounds as there are `moments`, each webhook
/// has a fault at each of them.
fn play_calls(world: World, fault: Fault<'_>, moments: &[Moment], rounds: u64) {
    let mut application = Application::new(world, fault);
    let calls = [
        ("confirmed", CONFIRMED_CALL),
        ("transferred", TRANSFERRED_CALL),
    ];
    let rounds = env_number("FILROUGE_CALL_FAULT_ROUNDS", rounds) as usize;
    let count = moments.len();
    for round in 0..rounds.min(count) {
        application.restarts_at_once = round % 2 == 1;
        let mut moments = moments.to_vec();
        // 5 has no common divisor with the number of moments. So few rounds have each moment at some webhook.
        moments.rotate_left(5 * round % count);
        for (name, script) in calls {
            application.play(&format!("{name}-{round}"), script, &moments);
            moments.rotate_left(script.len() % count);
        }
    }
    application.finish();
}

/// Creates a world on a PostgreSQL server that has run long enough to report which servers of filrouge have exited.
fn world_that_detects_exits() -> World {
    let world = World::on_postgres();
    let has_run = "SELECT pg_postmaster_start_time() < clock_timestamp() - interval '5 seconds'";
    until("PostgreSQL has run for 5 s", || {
        world.database().sql(has_run)[0][0].as_deref() == Some("t")
    });
    world
}

#[test]
fn a_call_continues_when_its_server_is_killed_at_each_webhook() {
    play_calls(world_that_detects_exits(), Fault::Kill, &MOMENTS, 3);
}

#[test]
fn a_call_continues_when_its_server_is_stopped_at_each_webhook() {
    play_calls(world_that_detects_exits(), Fault::Stop, &MOMENTS, 3);
}

#[test]
fn a_call_continues_when_the_database_is_unreachable_at_each_webhook() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    play_calls(world, Fault::Outage(&postgres), &OUTAGE_MOMENTS, 1);
}
