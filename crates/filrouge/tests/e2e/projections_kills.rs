//! Projections converge after any fault: a process or a target is killed, the network is cut in the middle of a bulk, a
//! target hangs, somebody deletes or changes a table, an index or a collection, or puts an older copy of a target back.
//!
//! A server and `filrouge project run` compete for the projections, while a client records turns. Each round has one
//! fault and one kill, at random moments. Then each projection must equal the ledger.
//!
//! `FILROUGE_PROJECTION_KILLS` is the number of rounds, `FILROUGE_PROJECTION_SEED` repeats a failure.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use filrouge_testbed::{FaultProxy, Loss, OpenSearch, Weaviate};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::http::Client;
use crate::not_tested::or_report_untested;
use crate::projected::{named_section, statuses, turn, wait_until};
use crate::webhooks::write_config;
use crate::world::{Server, World, env_number};

mod faults;
mod targets;

use faults::Fault;
use targets::{IndexedTarget, TablesFile};

/// The folder of the build in which servers are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// How often a projection is compared with the ledger before it counts as one that never converges, and the pause after
/// each attempt. A process waits up to a minute after several failures, and up to 16 s for the claim of a killed one.
const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_millis(500);

/// The settings of each projection: the claim of a killed process ends soon, and a receipt waits only briefly.
const SETTINGS: &str = "timeout_ms = 3000\nclean_timeout_ms = 300";

/// The file with what all processes of `filrouge project run` report.
const RUNNER_LOG: &str = "runner.log";

/// `filrouge project run`; killed when dropped.
struct Runner(Child);

impl Runner {
    fn start(world: &World) -> Self {
        let log = world.path(RUNNER_LOG);
        let log = File::options().create(true).append(true).open(log);
        let mut command = world.command(&["project", "run"]);
        command.stdout(Stdio::null()).stderr(log.unwrap());
        Self(command.spawn().expect("start filrouge"))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The processes that feed the projections, and their targets.
struct Campaign {
    world: World,
    server: Option<Server>,
    runner: Option<Runner>,
    /// The client of the newest server.
    client: Client,
    tables: TablesFile,
    opensearch: Option<(FaultProxy, IndexedTarget<OpenSearch>)>,
    weaviate: Option<IndexedTarget<Weaviate>>,
}

impl Campaign {
    fn start(world: World) -> Self {
        let prefix = format!("kills_{}", std::process::id());
        let more = format!("{SETTINGS}\nprefix = \"{prefix}\"");
        let mut config = named_section("tables", "tables", "sqlite:copy.db", SETTINGS);
        let what = "faults of a projection into OpenSearch";
        let opensearch = OpenSearch::private(Path::new(ALL));
        let opensearch = or_report_untested("projections_kills_opensearch", what, opensearch);
        let opensearch = opensearch.map(|server| {
            let target = IndexedTarget::opensearch(server, &prefix);
            let proxy = FaultProxy::before(target.addr());
            let url = format!("http://{}", proxy.addr());
            config += &named_section("opensearch", "opensearch", &url, &more);
            (proxy, target)
        });
        let what = "faults of a projection into Weaviate";
        let weaviate = Weaviate::private(Path::new(ALL));
        let weaviate = or_report_untested("projections_kills_weaviate", what, weaviate);
        let weaviate = weaviate.map(|server| {
            let more = format!("{more}\nsecret = \"{}\"", server.key());
            config += &named_section("weaviate", "weaviate", &server.url(), &more);
            IndexedTarget::weaviate(server, &prefix)
        });
        write_config(&world, &config);
        let server = world.serve();
        Self {
            client: server.client(),
            tables: TablesFile::new(&world),
            runner: Some(Runner::start(&world)),
            server: Some(server),
            world,
            opensearch,
            weaviate,
        }
    }

    fn projections(&self) -> Vec<&'static str> {
        let opensearch = self.opensearch.as_ref().map(|_| "opensearch");
        let weaviate = self.weaviate.as_ref().map(|_| "weaviate");
        let others = opensearch.into_iter().chain(weaviate);
        ["tables"].into_iter().chain(others).collect()
    }

    /// Keeps copies of the targets as they are now.
    fn keep_copies(&mut self) {
        self.tables.keep_copy(&self.world);
        if let Some((_, target)) = &mut self.opensearch {
            target.keep_copy();
        }
    }

    fn kill_server(&mut self) {
        self.server = None;
    }

    /// Starts the processes that do not run.
    fn start_missing(&mut self) {
        if self.server.is_none() {
            let server = self.world.serve();
            self.client = server.client();
            self.server = Some(server);
        }
        if self.runner.is_none() {
            self.runner = Some(Runner::start(&self.world));
        }
    }

    /// Until each projection equals the ledger, needs no cleaning and has no dead letters.
    fn wait_until_equal(&self, what: &str) {
        for name in self.projections() {
            let mut last = String::new();
            let is_equal = (0..ATTEMPTS).any(|attempt| {
                if attempt > 0 {
                    std::thread::sleep(PAUSE);
                }
                let status = self.status(name);
                last = status.to_string();
                let is_well = status["failures"] == 0 && status["uncleaned"] == 0;
                let is_filled = status["generation"].is_u64() && status["building"].is_null();
                if !is_well || !is_filled || status["dead_letters"] != json!([]) {
                    return false;
                }
                let verified = self.world.run(&["project", "verify", name]);
                last += &format!("\n{verified:?}");
                verified.code == Some(0)
            });
            assert!(is_equal, "{what}: {name} does not converge: {last}");
        }
    }

    fn status(&self, name: &str) -> Value {
        let statuses = statuses(&self.world);
        let mut statuses = statuses.as_array().unwrap().iter();
        statuses.find(|s| s["name"] == name).unwrap().clone()
    }

    fn inject(&mut self, fault: Fault, round: u64) {
        match fault {
            Fault::DropTable => self.tables.drop_table(&self.world),
            Fault::RenameColumn => self.tables.rename_column(&self.world),
            Fault::OlderFile => {
                self.kill_all();
                self.tables.put_back();
                self.start_missing();
            }
            Fault::OlderIndex => {
                self.kill_all();
                self.opensearch().1.put_back();
                self.start_missing();
            }
            Fault::KillOpenSearch => {
                self.opensearch().1.server.kill();
                self.wait_for_failure("opensearch");
                self.opensearch().1.server.restart();
            }
            Fault::KillWeaviate => {
                self.weaviate().server.kill();
                self.wait_for_failure("weaviate");
                self.weaviate().server.restart();
            }
            Fault::Cut(loss) => self.cut_in_bulk(loss, round),
            Fault::Hang => self.hang(round),
            Fault::DeleteIndex => self.opensearch().1.delete_all(),
            Fault::ReplaceIndex => self.opensearch().1.replace(),
            Fault::AddField => self.opensearch().1.add_field(),
            Fault::DeleteCollection => self.weaviate().delete_all(),
            Fault::AddProperty => self.weaviate().add_field(),
        }
    }

    fn opensearch(&self) -> &(FaultProxy, IndexedTarget<OpenSearch>) {
        self.opensearch.as_ref().expect("a fault of OpenSearch")
    }

    fn weaviate(&self) -> &IndexedTarget<Weaviate> {
        self.weaviate.as_ref().expect("a fault of Weaviate")
    }

    fn kill_all(&mut self) {
        self.kill_server();
        self.runner = None;
    }

    fn wait_for_failure(&self, name: &str) {
        wait_until("a call fails", || self.status(name)["failures"] != 0);
    }

    /// Loses a connection in the middle of a bulk with a large answer, at its last words.
    fn cut_in_bulk(&self, loss: Loss, round: u64) {
        let (proxy, _) = self.opensearch();
        let last = format!("cut{round}n");
        let cuts = proxy.cuts();
        proxy.cut_after(last.as_bytes(), loss);
        let answer = "words ".repeat(20_000) + &last;
        turn(&self.client, &format!("cut-{round}"), "r", &answer);
        wait_until("a connection is cut", || proxy.cuts() > cuts);
    }

    fn hang(&self, round: u64) {
        let (proxy, _) = self.opensearch();
        proxy.hold();
        turn(&self.client, &format!("hang-{round}"), "r", "words");
        self.wait_for_failure("opensearch");
        proxy.release();
    }
}

fn session(round: u64, number: usize) -> String {
    format!("r{round}-{number}")
}

/// Records turns until `ended`, each until it is acknowledged.
fn record(client: &Mutex<Client>, round: u64, ended: &AtomicBool, recorded: &AtomicUsize) {
    while !ended.load(Ordering::SeqCst) {
        let number = recorded.load(Ordering::SeqCst);
        let path = format!("/{}/turns", session(round, number / 10));
        let answer = format!("answer {number}");
        let request = format!("r{number}");
        let body =
            json!({ "request_id": request, "question_neutral": "?", "answer_neutral": answer });
        loop {
            let client = client.lock().unwrap().clone();
            match client.try_post(&path, &body.to_string()) {
                Ok(response) if response.status < 500 => {
                    assert!(matches!(response.status, 200 | 201), "{response:?}");
                    break;
                }
                // The server was killed, or is busy.
                _ if ended.load(Ordering::SeqCst) => return,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        recorded.store(number + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn projections_converge_after_faults_and_kills() {
    let seed = env_number("FILROUGE_PROJECTION_SEED", 28);
    eprintln!("FILROUGE_PROJECTION_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut campaign = Campaign::start(World::new());
    turn(&campaign.client, "first", "r", "words");
    campaign.wait_until_equal("the beginning");
    campaign.keep_copies();
    let mut faults = Vec::new();
    for round in 0..env_number("FILROUGE_PROJECTION_KILLS", 5) {
        if faults.is_empty() {
            let (opensearch, weaviate) = (&campaign.opensearch, &campaign.weaviate);
            faults = faults::shuffled(opensearch.is_some(), weaviate.is_some(), &mut rng);
        }
        let fault = faults.pop().expect("a fault");
        let what = format!("seed {seed}, round {round}, {fault:?}");
        eprintln!("{what}");
        play(&mut campaign, fault, round, &mut rng);
        campaign.wait_until_equal(&what);
        if rng.random_bool(0.3) {
            campaign.keep_copies();
        }
    }
    drop(campaign.runner);
    let log = fs::read_to_string(campaign.world.path(RUNNER_LOG)).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    campaign.server.expect("a server").stop();
    campaign.world.verify();
}

/// Records turns, and meanwhile erases a session, injects a fault, and kills a process.
fn play(campaign: &mut Campaign, fault: Fault, round: u64, rng: &mut StdRng) {
    let (ended, recorded) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = Mutex::new(campaign.client.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| record(&client, round, &ended, &recorded));
        // Also if an assertion fails, so that the thread ends.
        let _end = EndOnDrop(&ended);
        let at = rng.random_range(1..10);
        wait_for(&recorded, at);
        std::thread::sleep(Duration::from_millis(rng.random_range(0..60)));
        if let Some(before) = round.checked_sub(1) {
            let erased = session(before, 0);
            campaign.world.ok(&["erase", &erased, "--yes"]);
        }
        campaign.inject(fault, round);
        *client.lock().unwrap() = campaign.client.clone();
        std::thread::sleep(Duration::from_millis(rng.random_range(0..500)));
        match rng.random_bool(0.5) {
            true => campaign.kill_server(),
            false => campaign.runner = None,
        }
        campaign.start_missing();
        *client.lock().unwrap() = campaign.client.clone();
        // Some more turns, by which a fault in a target is noticed.
        wait_for(&recorded, recorded.load(Ordering::SeqCst) + 5);
    });
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn wait_for(recorded: &AtomicUsize, count: usize) {
    wait_until("turns are recorded", || {
        recorded.load(Ordering::SeqCst) >= count
    });
}
