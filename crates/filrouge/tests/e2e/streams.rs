//! Provider streams are recorded while they arrive: in every case the received text is kept, and the turn ends.

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::limits::{metric, until};
use crate::upload_client::{
    DONE, Upload, answer_end, calls, chunk, journal, text, text_chunk, turn, wait_for_draft,
};
use crate::world::World;

/// Checks that the context of the session `s` can be read in every format.
pub(crate) fn assert_readable_in_every_format(client: &Client) {
    for format in [
        "openai-chat",
        "openai-responses",
        "anthropic",
        "gemini",
        "pairs",
    ] {
        client.get_body(&format!("/s/context?format={format}"));
    }
}

fn error_code(journal: &[(String, Value)]) -> &str {
    let (channel, parts) = journal.last().unwrap();
    assert_eq!(channel, "error", "{journal:?}");
    parts[0]["code"].as_str().unwrap()
}

fn channels(journal: &[(String, Value)]) -> Vec<&str> {
    journal
        .iter()
        .map(|(channel, _)| channel.as_str())
        .collect()
}

#[test]
fn an_answer_ends_its_turn() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "&agent=desk");
    upload.send_text("To the ");
    upload.send_text("left.");
    upload.send(&answer_end());
    let turn = upload.end().wrote(200);
    assert_eq!(turn["status"], "finalized");
    assert_eq!(turn["answer_neutral"], "To the left.");
    let items = client.all("/s/items", 100);
    let last = &items[1];
    assert_eq!(
        (&last["agent"], &last["model"]),
        (&json!("desk"), &json!("m-1"))
    );
    assert_eq!(last["metadata"]["finish_reason"], "stop");
    assert_readable_in_every_format(&client);
    server.stop();
    world.verify();
}

#[test]
fn a_complete_response_is_recorded_too() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let response = json!({"id": "c", "object": "chat.completion", "model": "m-1", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Left."}, "finish_reason": "stop"}]});
    let done = client.post(&format!("{path}/stream?format=openai-chat"), &response);
    assert_eq!(done.wrote(200)["answer_neutral"], "Left.");
    let repeated = client.post(&format!("{path}/stream?format=openai-chat"), &response);
    repeated.fails(409, "turn_closed");
    server.stop();
}

#[test]
fn tool_calls_are_items_and_their_results_precede_the_next_stream() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("I look.");
    upload.send(&calls(&[("c1", "look"), ("c2", "listen")]));
    let open = upload.end().wrote(200);
    assert_eq!(open["status"], "open");
    let before = journal(&client);
    assert_eq!(
        channels(&before),
        ["question", "observation", "tool_call", "tool_call"]
    );
    assert_eq!(before[2].1[0]["args"], json!({"where": "left"}));
    let result = |id: &str| {
        json!({"role": "tool", "channel": "tool_result", "item_id": format!("of-{id}"),
        "parts": [{"type": "tool_result", "call_id": id, "ok": true, "content": "a wall"}]})
    };
    client
        .post(
            &format!("{path}/items"),
            &json!({"items": [result("c1"), result("c2")]}),
        )
        .wrote(201);
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("Right.");
    upload.send(&answer_end());
    let done = upload.end().wrote(200);
    assert_eq!(
        (&done["status"], &done["answer_neutral"]),
        (&json!("finalized"), &json!("Right."))
    );
    let context = client.get_body("/s/context?format=openai-chat");
    let roles: Vec<&str> = context["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
    assert_readable_in_every_format(&client);
    server.stop();
    world.verify();
}

#[test]
fn without_finalize_the_caller_ends_the_turn() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "&finalize=false");
    upload.send(&(text_chunk("Left.") + &answer_end()));
    assert_eq!(upload.end().wrote(200)["status"], "open");
    let end = json!({"answer_translated": "Nach links."});
    let done = client.post(&format!("{path}/finalize"), &end).wrote(200);
    assert_eq!(done["answer_neutral"], "Left.");
    assert_eq!(done["answer_translated"], "Nach links.");
    server.stop();
    world.verify();
}

#[test]
fn a_turn_whose_client_disconnects_keeps_its_text_and_reopens() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the ");
    upload.send_text("le");
    wait_for_draft(&server);
    upload.send_text("ft");
    upload.disconnect();
    until("the turn is interrupted", || {
        client.get_body(&path)["status"] == "interrupted"
    });
    let kept = journal(&client);
    assert_eq!(channels(&kept), ["question", "partial", "error"]);
    assert_eq!(kept[1].1, text("To the left"));
    assert_eq!(error_code(&kept), "client_gone");
    assert_readable_in_every_format(&client);
    // Its own key opens it again, as after the death of a server.
    let again = json!({"request_id": "r", "question_neutral": "Which way?"});
    let reopened = client.post("/s/turns", &again).wrote(200);
    assert_eq!(
        (&reopened["status"], &reopened["replayed"]),
        (&json!("open"), &json!(true))
    );
    let mut upload = Upload::chat(&server, &path, "");
    upload.send(&(text_chunk("To the right.") + &answer_end()));
    let done = upload.end().wrote(200);
    assert_eq!(done["answer_neutral"], "To the right.");
    assert_readable_in_every_format(&client);
    server.stop();
    world.verify();
}

#[test]
fn a_stream_that_ends_early_fails() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for (n, sent, code) in [
        (0, text_chunk("To the le"), "stream_truncated"),
        (1, String::new(), "stream_empty"),
        (2, "<html>bad gateway</html>".to_owned(), "stream_malformed"),
        (
            3,
            text_chunk("To")
                + "data: {\"error\": {\"message\": \"Too many\", \"type\": \"requests\", \"code\": \"rate_limit_exceeded\"}}\n\n",
            "rate_limit_exceeded",
        ),
    ] {
        let path = turn(&client, &format!("r{n}"));
        let mut upload = Upload::chat(&server, &path, "");
        if !sent.is_empty() {
            upload.send(&sent);
        }
        let failed = upload.end().wrote(200);
        assert_eq!(failed["status"], "failed", "{code}");
        let journal = journal(&client);
        assert_eq!(error_code(&journal), code);
        let partial = journal.iter().rev().nth(1).unwrap();
        assert_eq!(
            partial.0 == "partial",
            sent.starts_with("data"),
            "{journal:?}"
        );
        assert_readable_in_every_format(&client);
    }
    server.stop();
    world.verify();
}

#[test]
fn a_cancelled_turn_answers_its_stream_at_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the left");
    wait_for_draft(&server);
    client
        .post(&format!("{path}/cancel"), &json!({}))
        .wrote(200);
    // Nothing more is sent, the body has not ended, and the silence limit is longer than this test waits.
    let turn = upload.response().wrote(200);
    assert_eq!(turn["status"], "cancelled");
    let journal = journal(&client);
    assert_eq!(channels(&journal), ["question", "partial", "cancelled"]);
    assert_eq!(journal[1].1, text("To the left"));
    assert_readable_in_every_format(&client);
    server.stop();
    world.verify();
}

#[test]
fn text_not_drafted_yet_is_kept_when_the_turn_ends() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let received = || metric(&server.client(), "filrouge_stream_bytes_total");
    for (request, end, body) in [
        ("r1", "cancel", json!({})),
        ("r2", "fail", json!({"error": {"code": "e"}})),
    ] {
        let path = turn(&client, request);
        let mut upload = Upload::chat(&server, &path, "");
        let mut sent = String::new();
        for n in 0..5 {
            let before = received();
            let word = format!("word {n} ");
            upload.send_text(&word);
            sent.push_str(&word);
            until("the text has arrived", || received() > before);
        }
        client.post(&format!("{path}/{end}"), &body).wrote(200);
        upload.response().wrote(200);
        let journal = journal(&client);
        let partial = journal.iter().rfind(|(channel, _)| channel == "partial");
        assert_eq!(partial.unwrap().1, text(&sent), "{end}");
    }
    server.stop();
    world.verify();
}

#[test]
fn a_turn_is_recorded_from_one_stream_at_a_time() {
    let world = World::new();
    let (one, two) = (world.serve(), world.serve());
    let client = one.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&one, &path, "");
    upload.send_text("To");
    wait_for_draft(&one);
    for server in [&one, &two] {
        let refused = Upload::chat(server, &path, "").response();
        refused.fails(409, "stream_open");
        let end = server
            .client()
            .post(&format!("{path}/finalize"), &json!({"answer_neutral": "x"}));
        end.fails(409, "stream_open");
    }
    upload.send(&answer_end());
    assert_eq!(upload.end().wrote(200)["status"], "finalized");
    one.stop();
    two.stop();
    world.verify();
}

#[test]
fn an_erased_session_ends_its_streams() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the left");
    wait_for_draft(&server);
    client.delete("/s").wrote(200);
    upload.response().fails(410, "session_erased");
    server.stop();
    world.verify();
}

#[test]
fn a_login_during_a_stream_loses_nothing() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the ");
    wait_for_draft(&server);
    let ada = client.for_identity("ada");
    ada.put("/s/link", &json!({"identity_id": "ada"}))
        .wrote(200);
    upload.send_text("left.");
    upload.send(&answer_end());
    assert_eq!(upload.end().wrote(200)["status"], "finalized");
    assert_eq!(ada.get_body(&path)["answer_neutral"], "To the left.");
    client.get(&path).fails(404, "session_not_found");
    assert_readable_in_every_format(&ada);
    server.stop();
    world.verify();
}

#[test]
fn a_stream_is_refused_before_its_body_is_sent() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let sse = ("content-type", "text/event-stream");
    let refused = |path: &str, headers: &[(&str, &str)]| -> Response {
        Upload::begin(server.origin(), path, headers).response()
    };
    let unknown = refused(&format!("{path}/stream?format=chatgpt"), &[sse]).fails(422, "invalid");
    assert!(
        unknown["hint"].as_str().unwrap().contains("ag-ui"),
        "{unknown}"
    );
    let nameless = format!("{path}/stream?format=openai-chat&agent=");
    refused(&nameless, &[sse]).fails(422, "invalid");
    let missing = refused(&format!("{path}/stream"), &[sse]).fails(422, "invalid");
    assert!(
        missing["detail"].as_str().unwrap().contains("format"),
        "{missing}"
    );
    let valid = format!("{path}/stream?format=openai-chat");
    refused(&valid, &[sse, ("filrouge-fence", "1")]).fails(409, "stale_fence");
    refused(&valid, &[sse, ("filrouge-fence", "x")]).fails(422, "invalid");
    let zipped =
        refused(&valid, &[sse, ("content-encoding", "gzip")]).fails(415, "unsupported_media_type");
    let hint = zipped["hint"].as_str().unwrap();
    assert!(hint.contains("iter_bytes()"), "{zipped}");
    for form in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    ] {
        let problem =
            refused(&valid, &[("content-type", form)]).fails(415, "unsupported_media_type");
        assert!(
            problem["hint"].as_str().unwrap().contains("--data-binary"),
            "{problem}"
        );
    }
    refused(&valid, &[("origin", server.origin())]).fails(415, "unsupported_media_type");
    let missing = path.replace("/s/", "/none/");
    refused(&format!("{missing}/stream?format=openai-chat"), &[sse])
        .fails(404, "session_not_found");
    let hers = json!({"request_id": "r", "question_neutral": "?"});
    let hers = client
        .for_identity("ada")
        .post("/hers/turns", &hers)
        .wrote(201);
    let hers = format!(
        "/hers/turns/{}/stream?format=openai-chat",
        hers["turn_id"].as_str().unwrap()
    );
    refused(&hers, &[sse, ("filrouge-identity", "bob")]).fails(404, "session_not_found");
    let turn_id = path.strip_prefix("/s/turns/").unwrap();
    let absent = path.replace(turn_id, "00000000-0000-8000-8000-000000000000");
    refused(&format!("{absent}/stream?format=openai-chat"), &[sse]).fails(404, "turn_not_found");
    // The turn is still open, and a request without a content type may record it.
    let mut upload = Upload::begin(server.origin(), &valid, &[]);
    upload.send(&(text_chunk("Left.") + &answer_end()));
    assert_eq!(upload.end().wrote(200)["status"], "finalized");
    refused(&valid, &[sse]).fails(409, "turn_closed");
    server.stop();
    world.verify();
}

#[test]
fn unknown_events_are_kept_and_counted() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send("data: {\"strange\": 1.50}\n\n");
    upload.send(&(chunk(&json!({"content": "Left."}), Some("stop")) + DONE));
    assert_eq!(upload.end().wrote(200)["status"], "finalized");
    let kept = journal(&client);
    let kept = kept.iter().find(|(c, _)| c == "stream_events").unwrap();
    assert_eq!(
        kept.1.to_string(),
        r#"[{"event":{"strange":1.5},"type":"raw_event"}]"#
    );
    let metrics = client.get("/metrics").text;
    for line in [
        r#"filrouge_streams_total{format="openai-chat",outcome="finalized"} 1"#,
        "filrouge_stream_unknown_events_total 1",
        "filrouge_streams_under_way 0",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
    server.stop();
}
