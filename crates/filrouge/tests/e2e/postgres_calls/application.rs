//! The application that handles the webhooks of calls, and causes the faults.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Moment::{Before, BeforeAnswer, During};
use super::{CONFIRMED_CALL, Exchange, FIRST_STATE, Fault, Moment, RETRIES_MAX, Request, step};
use crate::http::Response;
use crate::leases::serve_with;
use crate::limits::until;
use crate::world::{Server, World, env_number};

const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The webhook number `n` of a call.
#[derive(Clone, Copy)]
struct Webhook<'c> {
    call: &'c str,
    script: &'static [Exchange],
    n: usize,
}

/// The application. It keeps nothing between two webhooks: it knows a call only from filrouge.
pub(super) struct Application<'p> {
    worlds: [World; 2],
    /// A server that has ended is absent until it is started again.
    servers: [Option<Server>; 2],
    /// The index of the server that handled the newest webhook.
    current: usize,
    fault: Fault<'p>,
    /// The moment of the next fault.
    moment: Option<Moment>,
    /// Whether a server that has ended is started again before the webhook is repeated, which it then handles.
    /// Otherwise the other server handles it.
    pub(super) restarts_at_once: bool,
    ended_servers: usize,
    /// When PostgreSQL became unreachable.
    outage_began: Option<Instant>,
    /// The number of second deliveries of webhooks for each call.
    second_deliveries: BTreeMap<String, usize>,
}

impl<'p> Application<'p> {
    pub(super) fn new(world: World, fault: Fault<'p>) -> Self {
        let first = serve(&world, fault);
        let other_world = world.other_machine();
        let second = serve(&other_world, fault);
        Self {
            worlds: [world, other_world],
            servers: [Some(first), Some(second)],
            current: 0,
            fault,
            moment: None,
            restarts_at_once: false,
            ended_servers: 0,
            outage_began: None,
            second_deliveries: BTreeMap::new(),
        }
    }

    fn server(&self) -> &Server {
        self.servers[self.current].as_ref().expect("a server")
    }

    fn start_ended_servers(&mut self) {
        for (server, world) in self.servers.iter_mut().zip(&self.worlds) {
            if server.is_none() {
                *server = Some(serve(world, self.fault));
            }
        }
    }

    /// Plays a call with a fault at each webhook; checks the record after each.
    pub(super) fn play(&mut self, call: &str, script: &'static [Exchange], moments: &[Moment]) {
        for (n, moment) in (0..script.len()).zip(moments.iter().cycle()) {
            // Each webhook reaches another server. Only while PostgreSQL is unreachable, the provider has to reach the
            // server that handled the call last: no other server knows the call's state.
            let is_outage = matches!(self.fault, Fault::Outage(_));
            if !is_outage || *moment != Before(Request::Resume) {
                self.current = 1 - self.current;
            }
            self.moment = Some(*moment);
            self.deliver(Webhook { call, script, n });
            assert_eq!(self.moment, None, "{call}, webhook {n}: no fault happened");
            self.start_ended_servers();
            self.end_outage(&format!("{call}-during-{n}"));
            self.check(call, &script[..=n]);
        }
    }

    /// Delivers a webhook, and repeats it until it is answered.
    fn deliver(&mut self, webhook: Webhook<'_>) {
        let (said, expected, _) = webhook.script[webhook.n];
        for _ in 0..=RETRIES_MAX {
            if let Some(answer) = self.handle(webhook) {
                assert_eq!(answer, expected, "{}: {said}", webhook.call);
                return;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        let (call, log) = (webhook.call, self.server().log());
        panic!("{call}: {said}: not answered after {RETRIES_MAX} retries\n{log}");
    }

    /// Handles a delivery of a webhook; `None` if the server does not respond, or refuses it for now.
    fn handle(&mut self, webhook: Webhook<'_>) -> Option<String> {
        let Webhook { call, script, n } = webhook;
        let (said, _, state_after) = script[n];
        let state_before = n.checked_sub(1).map_or(FIRST_STATE, |n| script[n].2);
        let turns = format!("/{call}/turns");
        let request_id = format!("webhook-{n}");
        let mut start = json!({"request_id": request_id, "question_neutral": said});
        // Each handler has one name for all its attempts. Only the end of its server can release its lease in time.
        let holder = format!("{request_id}-{}", self.ended_servers);
        let resume = json!({"holder": holder, "create": n == 0, "wait_ms": 0, "ttl_ms": 600_000});
        let resumed = self.send(Request::Resume, &format!("/{call}/resume"), &resume)?;
        if resumed.status == 409 {
            // The answer to this webhook has ended the call.
            resumed.fails(409, "session_terminated");
            assert_eq!(n + 1, script.len(), "{call}: {said}");
            let turn = self.send(Request::Start, &turns, &start)?.is(200);
            return Some(turn["answer_neutral"].as_str().unwrap().to_owned());
        }
        let resumed = resumed.body();
        self.deliver_again(call);

        let checkpoint = &resumed["checkpoint"];
        let is_covered = checkpoint["state"]["webhooks"] == n + 1;
        let expected = if is_covered {
            state_after
        } else {
            state_before
        };
        let state = checkpoint["label"].as_str().unwrap_or(FIRST_STATE);
        assert_eq!(state, expected, "{call}: {said}: {resumed}");
        let recorded_state = resumed["state"].as_str().unwrap_or(FIRST_STATE);
        assert_eq!(recorded_state, expected, "{call}: {said}: {resumed}");

        let fence = &resumed["fence"];
        start["fence"] = fence.clone();
        let turn = self.send(Request::Start, &turns, &start)?.body();
        let recorded_answer = turn["answer_neutral"].as_str();
        let (answer, next) = match (is_covered, recorded_answer) {
            (true, Some(answer)) => (answer, state),
            (true, None) => panic!("{call}: the checkpoint covers an open turn: {turn}"),
            (false, _) => step(state, said),
        };
        if recorded_answer.is_none() {
            let id = turn["turn_id"].as_str().unwrap();
            let end = json!({"answer_neutral": answer, "fence": fence});
            self.send(Request::Finalize, &format!("{turns}/{id}/finalize"), &end)?;
        }
        let checkpoint =
            json!({"label": next, "state": {"webhooks": n + 1}, "fence": fence, "release": true});
        self.send(
            Request::Checkpoint,
            &format!("/{call}/checkpoints"),
            &checkpoint,
        )?;
        if self.is_due(BeforeAnswer) {
            self.cause_fault();
            return None;
        }
        Some(recorded_answer.unwrap_or(answer).to_owned())
    }

    /// Sends a request, with the fault that is due before or during it. `None` if the server does not respond, or refuses
    /// the request for now.
    fn send(&mut self, request: Request, path: &str, body: &Value) -> Option<Response> {
        let method = match request {
            Request::Checkpoint => "PUT",
            _ => "POST",
        };
        let client = self.server().client();
        if self.is_due(Before(request)) {
            self.cause_fault();
        }
        if self.is_due(During(request)) {
            // Other faults happen at other points of the server's work.
            let delay = Duration::from_millis(self.ended_servers as u64 % 8);
            std::thread::scope(|scope| {
                scope.spawn(|| client.try_send(method, path, Some(body), &[]).is_ok());
                std::thread::sleep(delay);
                self.cause_fault();
            });
            return None;
        }
        let response = client.try_send(method, path, Some(body), &[]).ok()?;
        match response.status {
            423 | 503 => return None,
            409 if request == Request::Resume => {}
            status => assert!((200..300).contains(&status), "{path}: {response:?}"),
        }
        if self.outage_began.is_some() {
            let durability = response.header("filrouge-durability");
            assert_eq!(durability, Some("spooled"), "{path}: {response:?}");
        }
        Some(response)
    }

    /// Delivers a webhook a second time, to the other server if it can know the call, while the first delivery holds the
    /// call: the response is empty.
    fn deliver_again(&mut self, call: &str) {
        let other = self.servers[1 - self.current].as_ref();
        let other = other.filter(|_| self.outage_began.is_none());
        let client = other.unwrap_or_else(|| self.server()).client();
        let count = self.second_deliveries.entry(call.to_owned()).or_default();
        *count += 1;
        let resume = json!({"holder": format!("again-{count}"), "wait_ms": 10});
        let response = client.post(&format!("/{call}/resume?on_busy=204"), &resume);
        assert_eq!(
            (response.status, response.text.as_str()),
            (204, ""),
            "{call}"
        );
    }

    /// Whether the next fault happens at this moment; at most once for each fault.
    fn is_due(&mut self, moment: Moment) -> bool {
        self.moment.take_if(|next| *next == moment).is_some()
    }

    fn cause_fault(&mut self) {
        match self.fault {
            Fault::Kill => self.take_server().kill(),
            Fault::Stop => self.take_server().stop(),
            Fault::Outage(postgres) => {
                postgres.stop_immediate();
                self.outage_began = Some(Instant::now());
                return;
            }
        }
        self.ended_servers += 1;
        match self.restarts_at_once {
            true => self.start_ended_servers(),
            false => self.current = 1 - self.current,
        }
    }

    fn take_server(&mut self) -> Server {
        self.servers[self.current].take().expect("a server")
    }

    /// Plays a new call while PostgreSQL is unreachable, then restarts PostgreSQL and waits until the servers have drained
    /// their spools. Without an outage, does nothing.
    fn end_outage(&mut self, new_call: &str) {
        let (Fault::Outage(postgres), Some(began)) = (self.fault, self.outage_began) else {
            return;
        };
        for n in 0..CONFIRMED_CALL.len() {
            self.deliver(Webhook {
                call: new_call,
                script: CONFIRMED_CALL,
                n,
            });
        }
        let outage = Duration::from_secs(env_number("FILROUGE_CALL_OUTAGE_SECONDS", 2));
        std::thread::sleep(outage.saturating_sub(began.elapsed()));
        postgres.restart();
        self.outage_began = None;
        for server in self.servers.iter().flatten() {
            let client = server.client();
            until("the spool is drained", || {
                let ready = client.get("/readyz").body();
                ready["store"].is_null() && ready["spool"]["entries"] == 0
            });
            let ready = client.get_body("/readyz");
            assert_eq!(ready["spool"]["dead_letters"], 0, "{}", server.log());
        }
        self.check(new_call, CONFIRMED_CALL);
    }

    /// Checks that the ledger has these exchanges once and in order, and the state after the last one; and an event for
    /// each second delivery.
    fn check(&self, call: &str, exchanges: &[Exchange]) {
        let client = self.server().client();
        let state = exchanges.last().map(|(_, _, state)| *state);
        let session = client.get_body(&format!("/{call}"));
        assert_eq!(session["state"].as_str(), state, "{session}");
        let items = client.all(&format!("/{call}/items"), 100);
        let texts = items.iter().map(|item| item["parts"][0]["text"].as_str());
        let expected = exchanges.iter();
        let expected = expected.flat_map(|(said, answer, _)| [Some(*said), Some(*answer)]);
        assert!(texts.eq(expected), "{call}: {items:#?}");
        let events = client.all(&format!("/{call}/events"), 100);
        let timeouts = events.iter().filter(|e| e["kind"] == "call_lock_timeout");
        let second_deliveries = self.second_deliveries.get(call).copied();
        assert_eq!(Some(timeouts.count()), second_deliveries, "{events:#?}");
    }

    /// Stops the servers, and checks that the store is intact.
    pub(super) fn finish(self) {
        for server in self.servers.into_iter().flatten() {
            server.stop();
        }
        self.worlds[0].verify();
    }
}

/// Starts a server. Only in the test of outages, writes are spooled: the other tests continue a call at the other server
/// before a slow write could be drained.
fn serve(world: &World, fault: Fault<'_>) -> Server {
    let after_ms = match fault {
        Fault::Outage(_) => "300",
        Fault::Kill | Fault::Stop => "60000",
    };
    serve_with(world, &[("FILROUGE_SPOOL_AFTER_MS", after_ms)])
}
