//! Standard input and output: a line is a message; logs go elsewhere. The end of the input ends the server, and so does an
//! output that nobody reads any more. A line that is no message is answered with an error.

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

use crate::faults::{Fault, look};
use crate::server::McpServer;

/// At most so many bytes of one message.
const LINE_BYTES: usize = 4 * 1024 * 1024;

/// Why a conversation ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client cannot be talked with.
    #[error("the client cannot be talked with: {0}")]
    Refused(String),
    /// A task of the server panicked.
    #[error("the server failed: {0}")]
    Failed(#[from] tokio::task::JoinError),
}

/// Talks over this process's standard input and output until the input ends, and answers what was asked before.
///
/// # Errors
/// [`StdioError`].
pub async fn serve_stdio(server: McpServer) -> Result<(), StdioError> {
    let (input, output) = stdio_pipes();
    serve(server, input, output).await
}

/// Talks over `input` and `output` as [`serve_stdio`] does.
///
/// # Errors
/// [`StdioError`].
pub async fn serve<R, W>(server: McpServer, input: R, output: W) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = Patient {
        input: BufReader::new(input),
        line: BytesMut::new(),
        too_long: false,
        ended: false,
        codec: JsonRpcMessageCodec::new(),
        output: AsyncRwTransport::new_server(tokio::io::empty(), output),
        telling: None,
        gone: Arc::default(),
        begun: false,
    };
    match serve_server(server, transport).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // Nobody has said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(StdioError::Refused(error.to_string())),
    }
}

/// Checks each line before the SDK reads it: what the SDK would drop silently is answered. Lets pass what comes
/// before the first request only if it is one: the SDK ends the conversation for anything else.
struct Patient<R, W: AsyncWrite> {
    input: BufReader<R>,
    /// The line that is being read.
    line: BytesMut,
    /// What of it was too long; its end is waited for.
    too_long: bool,
    ended: bool,
    codec: JsonRpcMessageCodec<RxJsonRpcMessage<RoleServer>>,
    output: AsyncRwTransport<RoleServer, Empty, W>,
    /// The answer to a line that was no message while it is written.
    telling: Option<Telling>,
    /// Told when the output has gone.
    gone: Arc<Notify>,
    begun: bool,
}

/// Ends with whether it was written.
type Telling = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Whether a request begins the conversation: the handshake of older generations, or any request of those that have none.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
            missing.is_empty()
        }
    }
}

impl<R, W> Patient<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn tell(&mut self, fault: Fault) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(fault.error, fault.id);
        let told = self.output.send(answer);
        self.telling = Some(Box::pin(async move { told.await.is_ok() }));
    }

    /// The next line that is not blank; the end of the input ends a line, too. It may be dropped and called again.
    async fn line(&mut self) -> Option<Result<BytesMut, Fault>> {
        while !self.ended {
            let read = self.input.fill_buf().await.ok()?;
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            self.ended = read.is_empty();
            self.too_long |= self.line.len() + piece.len() > LINE_BYTES;
            if !self.too_long {
                self.line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_none() && !self.ended {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.too_long) {
                let why = format!("a message has at most {LINE_BYTES} bytes");
                return Some(Err(Fault::unread(why)));
            }
            if !line.trim_ascii().is_empty() {
                return Some(look(&line).map(|()| line));
            }
        }
        None
    }
}

impl<R, W> Transport<RoleServer> for Patient<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (sent, gone) = (self.output.send(message), self.gone.clone());
        async move {
            let sent = sent.await;
            if sent.is_err() {
                gone.notify_one();
            }
            sent
        }
    }

    /// May be dropped and begun anew: what it was about to do is kept.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(telling) = &mut self.telling {
                let told = telling.await;
                self.telling = None;
                if !told {
                    return None;
                }
            }
            let gone = self.gone.clone();
            let line = tokio::select! {
                biased;
                () = gone.notified() => return None,
                line = self.line() => line?,
            };
            let mut line = match line {
                Ok(line) => line,
                Err(fault) => {
                    self.tell(fault);
                    continue;
                }
            };
            line.extend_from_slice(b"\n");
            let message = match self.codec.decode(&mut line) {
                Ok(Some(message)) => message,
                // Notifications that the SDK does not know are no faults.
                Ok(None) => continue,
                Err(_) => {
                    self.tell(Fault::invalid("Invalid request"));
                    continue;
                }
            };
            self.begun = self.begun || begins(&message);
            if self.begun || matches!(message, ClientJsonRpcMessage::Request(_)) {
                return Some(message);
            }
            tracing::debug!("a message before the first request was left out");
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await
    }
}
