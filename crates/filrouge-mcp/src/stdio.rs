//! Standard input and output: a line is a message; logs go elsewhere. The end of the input ends the server, and so does an
//! output that nobody reads any more. A line that is no message is answered with an error.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, ProtocolVersion};
use rmcp::service::{
    RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::faults::Fault;
use crate::lines::Lines;
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
    let (input, faults) = Lines::new(input, LINE_BYTES);
    // A line has its end besides.
    let lines = AsyncRwTransport::new_server(input, output).with_max_line_length(LINE_BYTES + 1);
    let transport = Patient {
        lines,
        faults,
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

/// Lets pass what comes before the first request only if it is one: the SDK ends the conversation for anything else.
struct Patient<T> {
    lines: T,
    /// What was no message.
    faults: UnboundedReceiver<Fault>,
    /// The answer to such a one while it is written.
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

impl<T: Transport<RoleServer>> Patient<T> {
    fn tell(&mut self, fault: Fault) {
        let told = self
            .lines
            .send(TxJsonRpcMessage::<RoleServer>::error(fault.error, fault.id));
        self.telling = Some(Box::pin(async move { told.await.is_ok() }));
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (sent, gone) = (self.lines.send(message), self.gone.clone());
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
            let message = tokio::select! {
                biased;
                () = self.gone.notified() => return None,
                Some(fault) = self.faults.recv() => {
                    self.tell(fault);
                    continue;
                }
                message = self.lines.receive() => message,
            };
            let Some(message) = message else {
                // What was told of the last lines is still to be answered.
                let fault = self.faults.try_recv().ok()?;
                self.tell(fault);
                continue;
            };
            self.begun = self.begun || begins(&message);
            if self.begun || matches!(message, ClientJsonRpcMessage::Request(_)) {
                return Some(message);
            }
            tracing::debug!("a message before the first request was left out");
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
