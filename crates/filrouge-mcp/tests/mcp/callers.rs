//! Each caller is answered from the histories of its own request.

use filrouge_mcp::{CallerSession, Histories, HttpService, McpServer};
use http::{Method, StatusCode};
use http_body_util::Full;
use serde_json::json;

use crate::artificial_history::{corpus, library};
use crate::clients::{answer, client};
use crate::requests::{call, call_newest_version, handshake_request, read_response};

fn service() -> HttpService {
    let server = McpServer::new(Histories::PerCaller, CallerSession::default());
    HttpService::new(server, Vec::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_clients_of_one_service_see_only_their_own_histories() {
    let service = service();
    let callers = (0..16).map(|n| {
        let service = service.clone();
        tokio::spawn(async move {
            let mark = format!("caller{n}x");
            for round in 0..12 {
                let (status, answer) = match (round + n) % 2 {
                    0 => call(&service, Some(library(&mark)), "list_sessions", json!({})).await,
                    _ => {
                        let query = json!({ "query": "word" });
                        call_newest_version(&service, library(&mark), "search_sessions", query)
                            .await
                    }
                };
                assert_eq!(status, StatusCode::OK, "{answer}");
                let text = answer.to_string();
                assert!(text.contains(&mark), "{text}");
                for other in (0..16).filter(|other| *other != n) {
                    assert!(
                        !text.contains(&format!("caller{other}x")),
                        "caller {n} was given a history of caller {other}"
                    );
                }
            }
        })
    });
    for caller in Vec::from_iter(callers) {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_clients_over_pipes_see_only_their_own_histories() {
    let clients = (0..16).map(|n| {
        tokio::spawn(async move {
            let mark = format!("client{n}x");
            let client = client(library(&mark)).await;
            for _ in 0..8 {
                let arguments = json!({ "sessionID": format!("{mark}-1") });
                let (content, _) = answer(&client, "get_session_history", arguments).await;
                assert_eq!(content["session"]["id"], format!("{mark}-1"));
                assert!(
                    content
                        .to_string()
                        .contains(&format!("The word is {mark}."))
                );
            }
        })
    });
    for client in Vec::from_iter(clients) {
        client.await.unwrap();
    }
}

/// A service with a history per caller has no default history: it refuses requests without a caller.
#[tokio::test]
async fn a_request_without_a_caller_is_refused() {
    let (_, answer) = call(&service(), None, "list_sessions", json!({})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer["result"].get("structuredContent").is_none());
}

/// With DNS rebinding, a browser page reaches this machine under another name.
#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let server = McpServer::new(
        Histories::Shared(Box::new(corpus(library("amber")))),
        CallerSession::default(),
    );
    let service = HttpService::new(server, vec!["filrouge.example.org".to_owned()]);
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} }).to_string();
    for (host, origin, status) in [
        ("127.0.0.1:7717", None, 200),
        ("localhost:1", Some("http://localhost:3000"), 200),
        ("[::1]:7717", Some("http://[::1]:9"), 200),
        (
            "filrouge.example.org",
            Some("https://filrouge.example.org"),
            200,
        ),
        ("evil.example", None, 403),
        ("localhost.evil.example", None, 403),
        ("127.0.0.1.evil.example:7717", None, 403),
        ("127.0.0.1:7717", Some("https://evil.example"), 403),
        ("127.0.0.1:7717", Some("null"), 403),
        ("127.0.0.1:7717", Some("http://localhost.evil.example"), 403),
    ] {
        let mut request = handshake_request();
        request
            .headers_mut()
            .unwrap()
            .insert("Host", host.parse().unwrap());
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let request = request
            .body(Full::<bytes::Bytes>::from(list.clone()))
            .unwrap();
        let (observed, answer) = read_response(service.handle(request).await).await;
        assert_eq!(observed.as_u16(), status, "{host} {origin:?}: {answer}");
    }
}

#[tokio::test]
async fn invalid_requests_are_refused_by_status() {
    let server = McpServer::new(
        Histories::Shared(Box::new(corpus(library("amber")))),
        CallerSession::default(),
    );
    let service = HttpService::new(server, Vec::new());
    let post = handshake_request;
    let body = |text: &str| Full::<bytes::Bytes>::from(text.to_owned());
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for (request, status) in [
        (post().body(body(notice)).unwrap(), 202),
        (post().method(Method::GET).body(body("")).unwrap(), 405),
        (post().method(Method::DELETE).body(body("")).unwrap(), 405),
        (post().body(body(&" ".repeat(2_000_000))).unwrap(), 413),
    ] {
        let (observed, answer) = read_response(service.handle(request).await).await;
        assert_eq!(observed.as_u16(), status, "{answer}");
    }
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"list_sessions","arguments":{arguments}}}}}"#
        )
    };
    let batch = format!("[{}]", call("{}"));
    for (text, status, code) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        (&batch, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (&call("[]"), 200, -32602),
        (&call("\"x\""), 200, -32602),
    ] {
        let request = post().body(body(text)).unwrap();
        let (observed, answer) = read_response(service.handle(request).await).await;
        assert_eq!(
            (observed.as_u16(), &answer["error"]["code"]),
            (status, &json!(code)),
            "{text}"
        );
        assert_eq!(
            answer.get("id"),
            (status == 200).then_some(&json!(4)),
            "{answer}"
        );
    }
}

/// Responses are JSON, so a client that does not accept event streams gets them too.
#[tokio::test]
async fn a_client_need_not_accept_event_streams() {
    let server = McpServer::new(
        Histories::Shared(Box::new(corpus(library("amber")))),
        CallerSession::default(),
    );
    let service = HttpService::new(server, Vec::new());
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} }).to_string();
    for (accept, status) in [
        (Some("application/json"), 200),
        (Some("text/html, */*;q=0.1"), 200),
        (Some("application/*"), 200),
        (None, 200),
        (Some("application/json, text/event-stream"), 200),
        (Some("text/html"), 406),
    ] {
        let mut request = handshake_request();
        let headers = request.headers_mut().unwrap();
        headers.remove("Accept");
        if let Some(accept) = accept {
            headers.insert("Accept", accept.parse().unwrap());
        }
        let request = request
            .body(Full::<bytes::Bytes>::from(list.clone()))
            .unwrap();
        let (observed, answer) = read_response(service.handle(request).await).await;
        assert_eq!(observed.as_u16(), status, "{accept:?}: {answer}");
        assert_eq!(
            answer["result"]["tools"].is_array(),
            status == 200,
            "{answer}"
        );
    }
}
