//! A lost write is logged twice: when the connection is lost, and when the ledger gives up.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::Duration;

use filrouge_testbed::{FaultProxy, Options as ServerOptions, Server};
use filrouge_types::ErrorCode;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::faults::{put, retry_until_written};
use super::servers::{block_on, close, open, separate_server_options, start_turn};

/// The warnings of this process.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects warnings.
struct Warnings;

/// The fields of an event as text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        write!(self.0, "{value:?} ").unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn count_warnings(what: &str) -> usize {
    let warnings = WARNINGS.lock().unwrap();
    warnings.iter().filter(|text| text.contains(what)).count()
}

/// The test needs a separate process, as nextest provides, because a process has one log.
#[test]
fn each_stage_of_a_lost_write_is_logged_once() {
    let server = Server::start(ServerOptions::default());
    let name = server.database();
    let proxy = FaultProxy::before(server.tcp());
    block_on(async {
        let mut options = separate_server_options(&proxy.url(&name));
        options.settle_timeout = Duration::from_secs(1);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        tracing::subscriber::set_global_default(Warnings).unwrap();
        proxy.hold();
        let own = ledger.clone();
        let write = tokio::spawn(async move { put(&*own, turn, "k").await });
        // Meanwhile the write sends its request and waits for the answer.
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| server.stop_immediate());
        proxy.release();
        let refused = write.await.unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::StoreUnavailable);
        assert_eq!(count_warnings("was lost during a write"), 1);
        assert_eq!(count_warnings("giving up a write"), 1);
        tokio::task::block_in_place(|| server.restart());
        retry_until_written(&*ledger, turn, "k").await;
        close(vec![ledger]).await;
    });
}
