//! Detects poolers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use filrouge_types::Failure;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use crate::error::failure;

/// Whether there is a pooler before the server. A pooler issues its own cancel keys. Then the process id in the
/// connection's cancel key differs from that of the server process that answers.
pub(super) async fn is_pooled(client: &Client) -> Result<bool, Failure> {
    let row = client.query_typed_one("SELECT pg_backend_pid()", &[]).await;
    let server_pid: i32 = row.map_err(|e| failure(&e))?.get(0);
    Ok(cancel_key_pid(client).await != Some(server_pid))
}

/// Returns the process id in the connection's cancel key. The driver reveals the key only in a
/// cancel request. This function sends one into a pipe, never to the server, and reads the id from it.
async fn cancel_key_pid(client: &Client) -> Option<i32> {
    let (client_end, mut server_end) = tokio::io::duplex(64);
    let token = client.cancel_token();
    let cancel = token.cancel_query_raw(client_end, PassThrough);
    let read = async {
        // The request is: length, code, process id, secret. A TLS request (length 8, code) may precede it; `S` accepts it.
        let length = server_end.read_i32().await.ok()?;
        let _code = server_end.read_i32().await.ok()?;
        if length == 8 {
            server_end.write_all(b"S").await.ok()?;
            server_end.read_i64().await.ok()?;
        }
        server_end.read_i32().await.ok()
    };
    let (_, pid) = tokio::join!(cancel, read);
    pid
}

/// A TLS connector that does not encrypt: it returns the stream unchanged.
struct PassThrough;

impl TlsConnect<DuplexStream> for PassThrough {
    type Stream = PlainStream;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<PlainStream>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        std::future::ready(Ok(PlainStream(stream)))
    }
}

struct PlainStream(DuplexStream);

impl AsyncRead for PlainStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for PlainStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
