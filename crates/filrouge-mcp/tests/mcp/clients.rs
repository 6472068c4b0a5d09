//! Clients of a server in this process, over a pipe.

use filrouge_mcp::{CallerSession, Corpus, Histories, McpServer, StdioError, serve};
use filrouge_sources::Library;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;

use crate::artificial_history::corpus;

/// The client of the MCP SDK.
pub(crate) type Client = RunningService<RoleClient, ()>;

/// A client of a server with the history of a library.
pub(crate) async fn client(library: Library) -> Client {
    client_with_session(library, CallerSession::default()).await
}

/// Like [`client`]; `caller_session` defines how the server recognizes the client's own session.
pub(crate) async fn client_with_session(library: Library, caller_session: CallerSession) -> Client {
    client_of(corpus(library), caller_session).await
}

/// A client of a server with these histories.
pub(crate) async fn client_of(corpus: Corpus, caller_session: CallerSession) -> Client {
    let (client_end, server_end) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(server_end);
        serve(
            McpServer::new(Histories::Shared(Box::new(corpus)), caller_session),
            input,
            output,
        )
        .await
    });
    ().serve(client_end).await.unwrap()
}

/// Calls a tool.
pub(crate) async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = arguments.as_object().cloned();
    client.call_tool(params).await.unwrap()
}

/// The answer of a successful call: its structured content and its text.
pub(crate) async fn answer(client: &Client, tool: &str, arguments: Value) -> (Value, String) {
    let result = call(client, tool, arguments).await;
    let text = result.content[0].as_text().unwrap().text.clone();
    assert_eq!(result.is_error, Some(false), "{text}");
    (result.structured_content.unwrap(), text)
}

/// The error of a refused call.
pub(crate) async fn refusal(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = call(client, tool, arguments).await;
    assert_eq!(result.is_error, Some(true), "{result:?}");
    assert_eq!(result.structured_content, None);
    let refusal: Value = serde_json::from_str(&result.content[0].as_text().unwrap().text).unwrap();
    for member in ["code", "message", "hint"] {
        assert!(refusal[member].is_string(), "{refusal}");
    }
    refusal
}

/// A client that exchanges lines of JSON, so that a test controls every byte.
pub(crate) struct LineClient {
    pipe: BufReader<DuplexStream>,
    pub(crate) server: JoinHandle<Result<(), StdioError>>,
}

impl LineClient {
    /// Connects to a new server.
    pub(crate) fn open(library: Library) -> Self {
        let (client_end, server_end) = tokio::io::duplex(1 << 16);
        let server = tokio::spawn(async move {
            let (input, output) = tokio::io::split(server_end);
            let server = McpServer::new(
                Histories::Shared(Box::new(corpus(library))),
                CallerSession::default(),
            );
            serve(server, input, output).await
        });
        Self {
            pipe: BufReader::new(client_end),
            server,
        }
    }

    /// Sends one line.
    pub(crate) async fn send(&mut self, line: &str) {
        self.pipe.write_all(line.as_bytes()).await.unwrap();
        self.pipe.write_all(b"\n").await.unwrap();
    }

    /// Sends bytes unchanged, without a line end.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.pipe.write_all(bytes).await.unwrap();
    }

    /// Receives one message.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.pipe.read_line(&mut line).await.unwrap() > 0,
            "the server has closed its output"
        );
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and receives its answer.
    pub(crate) async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request.to_string()).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Performs the handshake of older versions; returns the server's result.
    pub(crate) async fn initialize(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let answer = self.request(1, "initialize", params).await;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        answer["result"].clone()
    }

    /// Closes the server's input, and waits until the server ends; returns the remaining answers.
    pub(crate) async fn end(mut self) -> Vec<Value> {
        self.pipe.shutdown().await.unwrap();
        let mut remaining = Vec::new();
        let mut line = String::new();
        while self.pipe.read_line(&mut line).await.unwrap() > 0 {
            remaining.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        self.server.await.unwrap().unwrap();
        remaining
    }
}

/// The metadata of each request of version 2026-07-28.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
