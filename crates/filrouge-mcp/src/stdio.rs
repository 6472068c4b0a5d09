//! The protocol's transport "stdio": each line of standard input or output is one message, and logs go elsewhere. The
//! server stops at the end of its input, or when nobody reads its output any more. An invalid line gets an error
//! response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, ProtocolVersion};
use rmcp::service::{
    RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, JsonRpcMessageCodec};
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio::sync::Notify;
use tokio_util::codec::Decoder;

use crate::faults::{Fault, check_form};
use crate::server::McpServer;

/// The maximum size of a received message in bytes.
const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Why the server stopped before the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client violated the protocol before its first request.
    #[error("the client violates the protocol: {0}")]
    Refused(String),
    /// A task of the server panicked.
    #[error("the server failed: {0}")]
    Failed(#[from] tokio::task::JoinError),
}

/// Serves this process's standard input and output until the input ends, and returns when all requests received by then
/// are answered.
///
/// # Errors
/// [`StdioError`].
pub async fn serve_stdio(server: McpServer) -> Result<(), StdioError> {
    let (input, output) = stdio_pipes();
    serve(server, input, output).await
}

/// Serves `input` and `output` as [`serve_stdio`] serves standard input and output.
///
/// # Errors
/// [`StdioError`].
pub async fn serve<R, W>(server: McpServer, input: R, output: W) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = CheckedLines {
        input: BufReader::new(input),
        line: BytesMut::new(),
        too_long: false,
        input_ended: false,
        codec: JsonRpcMessageCodec::new(),
        output: AsyncRwTransport::new_server(tokio::io::empty(), output),
        error_write: None,
        output_closed: Arc::default(),
        is_begun: false,
    };
    match serve_server(server, transport).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The input ended before the first request.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(StdioError::Refused(error.to_string())),
    }
}

/// Checks each line before the SDK receives it: lines that the SDK would drop silently get an error as their response.
/// Notifications and responses before the first request that [`begins_connection`] the connection are dropped, because
/// the SDK would end the connection for them.
struct CheckedLines<R, W: AsyncWrite> {
    input: BufReader<R>,
    /// The line being read.
    line: BytesMut,
    /// Whether the line being read is too long; then the rest of it is skipped.
    too_long: bool,
    /// Whether the input has ended.
    input_ended: bool,
    codec: JsonRpcMessageCodec<RxJsonRpcMessage<RoleServer>>,
    output: AsyncRwTransport<RoleServer, Empty, W>,
    /// Writes the error for an invalid line; `None` while no error is being written.
    error_write: Option<ErrorWrite>,
    /// Notified when a write fails because nobody reads the output any more.
    output_closed: Arc<Notify>,
    /// Whether a request has begun the connection; see [`begins_connection`].
    is_begun: bool,
}

/// Writes an error; completes with whether it was written.
type ErrorWrite = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Whether a message begins the connection: `initialize`, the handshake of older versions of the protocol, or a request
/// with the metadata that the versions without a handshake require. `ping` and `discover` do not.
fn begins_connection(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let version = ProtocolVersion::V_2026_07_28;
            other.get_meta().missing_required_keys(&version).is_empty()
        }
    }
}

impl<R, W> CheckedLines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn begin_error_write(&mut self, fault: Fault) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(fault.error, fault.id);
        let sending = self.output.send(answer);
        self.error_write = Some(Box::pin(async move { sending.await.is_ok() }));
    }

    /// Reads the next line that is not blank, and checks its form; `None` after the end of the input, or when it cannot
    /// be read. The last line needs no line end. Cancel-safe.
    async fn next_line(&mut self) -> Option<Result<BytesMut, Fault>> {
        while !self.input_ended {
            let buffered = self.input.fill_buf().await.ok()?;
            let end = buffered.iter().position(|byte| *byte == b'\n');
            let chunk = &buffered[..end.unwrap_or(buffered.len())];
            self.input_ended = buffered.is_empty();
            self.too_long |= self.line.len() + chunk.len() > LINE_MAX_BYTES;
            if !self.too_long {
                self.line.extend_from_slice(chunk);
            }
            let consumed = chunk.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            if end.is_none() && !self.input_ended {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.too_long) {
                let message = format!("a message has at most {LINE_MAX_BYTES} bytes");
                return Some(Err(Fault::parse_error(message)));
            }
            if !line.trim_ascii().is_empty() {
                return Some(check_form(&line).map(|()| line));
            }
        }
        None
    }
}

impl<R, W> Transport<RoleServer> for CheckedLines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (sending, output_closed) = (self.output.send(message), self.output_closed.clone());
        async move {
            let result = sending.await;
            if result.is_err() {
                output_closed.notify_one();
            }
            result
        }
    }

    /// Returns the next valid message; `None` stops the server. Cancel-safe: a partial line, or an error that is being
    /// written, is kept for the next call.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(error_write) = &mut self.error_write {
                let written = error_write.await;
                self.error_write = None;
                if !written {
                    return None;
                }
            }
            let output_closed = self.output_closed.clone();
            let line = tokio::select! {
                biased;
                () = output_closed.notified() => return None,
                line = self.next_line() => line?,
            };
            let mut line = match line {
                Ok(line) => line,
                Err(fault) => {
                    self.begin_error_write(fault);
                    continue;
                }
            };
            line.extend_from_slice(b"\n");
            let message = match self.codec.decode(&mut line) {
                Ok(Some(message)) => message,
                // A notification that the SDK does not know is ignored, not refused.
                Ok(None) => continue,
                Err(_) => {
                    self.begin_error_write(Fault::invalid_request("Invalid request"));
                    continue;
                }
            };
            self.is_begun = self.is_begun || begins_connection(&message);
            if self.is_begun || matches!(message, ClientJsonRpcMessage::Request(_)) {
                return Some(message);
            }
            tracing::debug!("a message before the first request was left out");
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await
    }
}
