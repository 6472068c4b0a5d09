//! Standard input and output: a line is a message; logs go elsewhere. The end of the input ends the server.

use std::future::Future;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, ProtocolVersion};
use rmcp::service::{
    RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::McpServer;

/// At most so many bytes of one message; a longer one is left out, and the log says so.
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
    let lines = AsyncRwTransport::new_server(input, output).with_max_line_length(LINE_BYTES);
    let transport = Patient {
        lines,
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
    begun: bool,
}

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

impl<T: Transport<RoleServer>> Transport<RoleServer> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.lines.receive().await?;
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
