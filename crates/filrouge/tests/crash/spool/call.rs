//! A live call over HTTP, and the check of its items in the ledger.

use serde_json::{Value, json};

use crate::http::{CrashClient, CrashResponse};

/// A live call: one turn under one lease, to which items are appended.
pub(crate) struct Call {
    session: String,
    fence: Value,
    /// The path of the turn's items.
    items: String,
    /// The acknowledged texts, in order.
    acked: Vec<String>,
    /// The number of acknowledged writes that were spooled.
    spooled: usize,
}

impl Call {
    /// Acquires the session's lease and starts the turn, both in the ledger.
    pub(crate) fn begin(client: &CrashClient, session: &str) -> Self {
        let path = format!("/api/v1/sessions/{session}");
        let body = json!({"holder": "h", "create": true, "ttl_ms": 600_000});
        let resumed = client
            .post(&format!("{path}/resume"), &body)
            .expect("the server responds");
        assert!(resumed.is_success(), "{resumed:?}");
        let fence = resumed.body["fence"].clone();
        let body = json!({"request_id": "r", "question_neutral": "0", "fence": fence});
        let turn = client
            .post(&format!("{path}/turns"), &body)
            .expect("the server responds");
        assert_eq!(turn.status, 201, "{turn:?}");
        let id = turn.body["turn_id"]
            .as_str()
            .expect("the response names the turn")
            .to_owned();
        Self {
            session: path.clone(),
            fence,
            items: format!("{path}/turns/{id}/items"),
            acked: vec!["0".to_owned()],
            spooled: 0,
        }
    }

    /// Appends one item.
    pub(crate) fn write(&mut self, client: &CrashClient) -> CrashResponse {
        let text = self.acked.len().to_string();
        let parts = json!([{"type": "text", "text": text}]);
        let item = json!({"role": "assistant", "channel": "observation", "parts": parts});
        let body = json!({"items": [item], "fence": self.fence});
        let response = client
            .post(&self.items, &body)
            .expect("the server responds");
        if response.is_success() {
            self.acked.push(text);
            self.spooled += usize::from(response.status == 202);
        }
        response
    }

    /// Returns the number of acknowledged writes that were spooled.
    pub(crate) fn spooled(&self) -> usize {
        self.spooled
    }

    /// Checks that the ledger contains exactly the acknowledged texts, in order.
    pub(crate) fn check(&self, client: &CrashClient) {
        let page = client.get(&format!("{}/items?limit=500", self.session));
        let items = page["data"].as_array().expect("items");
        let text = |item: &Value| item["parts"][0]["text"].as_str().map(str::to_owned);
        let texts: Vec<_> = items.iter().filter_map(text).collect();
        assert_eq!(texts, self.acked, "{}", self.session);
        let seqs: Vec<_> = items
            .iter()
            .filter_map(|item| item["seq"].as_u64())
            .collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    }
}

/// Waits until the spool is empty; no write may have been refused.
pub(crate) fn wait_until_drained(client: &CrashClient) {
    let begun = std::time::Instant::now();
    loop {
        let ready = client.get("/readyz");
        if ready["spool"]["entries"] == 0 && ready["store"].is_null() {
            assert_eq!(ready["spool"]["dead_letters"], 0, "{ready}");
            return;
        }
        let waited = begun.elapsed();
        assert!(
            waited < std::time::Duration::from_secs(60),
            "the spool is not empty after {waited:?}: {ready}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
