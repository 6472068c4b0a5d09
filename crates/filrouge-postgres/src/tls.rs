//! TLS for connections to PostgreSQL. `sslmode` has the meanings that libpq defines (PostgreSQL documentation, 34.19
//! SSL Support).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_types::Failure;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres::Socket;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url::{UrlParts, invalid};

/// The value of `sslmode`: whether connections are encrypted, and how strictly the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The value of `sslrootcert` that means the CA certificates of the operating system.
const SYSTEM_ROOTS: &str = "system";

impl Mode {
    fn from_parts(parts: &UrlParts<'_>, roots: Option<&str>) -> Result<Self, Failure> {
        let system = roots == Some(SYSTEM_ROOTS);
        let mode = match parts.parameter("sslmode")?.as_deref() {
            None if system => Self::VerifyFull,
            None | Some("prefer") => Self::Prefer,
            Some("disable") => Self::Disable,
            Some("require") => Self::Require,
            Some("verify-ca") => Self::VerifyCa,
            Some("verify-full") => Self::VerifyFull,
            Some(_) => {
                return Err(invalid(
                    "sslmode is none of disable, prefer, require, verify-ca, verify-full",
                ));
            }
        };
        if system && mode < Self::VerifyFull {
            // Anyone can get a certificate of a public authority for a name of their own, so the server's name must be
            // verified.
            return Err(invalid("sslrootcert=system requires sslmode=verify-full"));
        }
        if mode == Self::Disable && roots.is_some() {
            return Err(invalid(
                "sslrootcert requires an sslmode other than disable",
            ));
        }
        // As in libpq, a URL that names a CA requires that the server's certificate is verified against it.
        Ok(match mode {
            Self::Require if roots.is_some() => Self::VerifyCa,
            mode => mode,
        })
    }
}

/// The TLS settings of a URL: how connections are encrypted, and which certificates are accepted.
#[derive(Clone)]
pub(crate) struct Tls {
    mode: Mode,
    config: MakeRustlsConnect,
    /// Whether [`Self::warn`] has logged its warning.
    warned: Arc<AtomicBool>,
}

impl Tls {
    /// Determines the settings of a URL, and reads the files of certificates that it names.
    pub(crate) fn from_parts(parts: &UrlParts<'_>) -> Result<Self, Failure> {
        let roots = parts.parameter("sslrootcert")?;
        let mode = Mode::from_parts(parts, roots.as_deref())?;
        let provider = Arc::new(ring::default_provider());
        let verifier = match roots.as_deref() {
            Some(path) if path != SYSTEM_ROOTS => {
                Some(webpki_verifier(&provider, roots_from_file(path)?)?)
            }
            _ if mode >= Mode::VerifyCa => Some(webpki_verifier(&provider, system_roots())?),
            _ => None,
        };
        let verifier = Verifier {
            webpki: verifier,
            check_name: mode == Mode::VerifyFull,
            provider: provider.clone(),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| invalid(format!("TLS: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match client_certificate(parts)? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| invalid(format!("sslcert and sslkey: {e}")))?,
            None => builder.with_no_client_auth(),
        };
        Ok(Self {
            mode,
            config: MakeRustlsConnect::new(config),
            warned: Arc::default(),
        })
    }

    /// The mode in which the driver negotiates TLS with the server. The certificate is verified afterwards.
    pub(crate) fn ssl_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Returns the TLS connector for one connection.
    pub(crate) fn recording_connector(&self) -> RecordingMakeConnect {
        RecordingMakeConnect {
            inner_connect: self.config.clone(),
            handshake_begun: Arc::default(),
        }
    }

    /// Logs a warning, once, that data crosses the network unencrypted.
    pub(crate) fn warn(&self, server: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server,
                "the connection to PostgreSQL is not encrypted; use sslmode=verify-full"
            );
        }
    }
}

fn webpki_verifier(
    provider: &Arc<CryptoProvider>,
    roots: RootCertStore,
) -> Result<Arc<WebPkiServerVerifier>, Failure> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| {
            invalid(format!("the CA certificates: {e}"))
                .with_hint("name the file of the server's CA in sslrootcert")
        })
}

fn roots_from_file(path: &str) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        roots
            .add(certificate)
            .map_err(|e| invalid(format!("sslrootcert {path:?}: {e}")))?;
    }
    Ok(roots)
}

fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the system's CA certificates cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(found.certs);
    if unusable > 0 {
        tracing::warn!(
            unusable,
            "some of the system's CA certificates are unusable"
        );
    }
    roots
}

type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate(parts: &UrlParts<'_>) -> Result<Option<ClientCertificate>, Failure> {
    let (chain, key) = (parts.parameter("sslcert")?, parts.parameter("sslkey")?);
    match (chain, key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = certificates("sslcert", &chain)?;
            let key =
                PrivateKeyDer::from_pem_file(&key).map_err(|e| unreadable("sslkey", &key, &e))?;
            Ok(Some((chain, key)))
        }
        _ => Err(invalid("sslcert and sslkey must be given together")),
    }
}

fn certificates(name: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| unreadable(name, path, &e))?;
    if certificates.is_empty() {
        return Err(invalid(format!("{name} {path:?} holds no PEM certificate")));
    }
    Ok(certificates)
}

fn unreadable(name: &str, path: &str, error: &rustls::pki_types::pem::Error) -> Failure {
    invalid(format!("{name} {path:?}: {error}"))
        .with_hint("name a PEM file that this process may read; a key without a passphrase")
}

/// Verifies the server's certificate as strictly as `sslmode` requires.
#[derive(Debug)]
struct Verifier {
    /// Verifies the certificate's chain and name. `None`: any certificate is accepted.
    webpki: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the certificate has to be valid for the server's name.
    check_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(webpki) = &self.webpki else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // rustls verifies the chain before the name, so this error means that the chain is valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The TLS connector of one connection, which records whether a TLS handshake was begun.
pub(crate) struct RecordingMakeConnect {
    inner_connect: MakeRustlsConnect,
    handshake_begun: Arc<AtomicBool>,
}

impl RecordingMakeConnect {
    /// A flag that is set when the TLS handshake begins.
    pub(crate) fn handshake_begun(&self) -> Arc<AtomicBool> {
        self.handshake_begun.clone()
    }
}

type RustlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;

impl MakeTlsConnect<Socket> for RecordingMakeConnect {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = RecordingConnect;
    type Error = Infallible;

    fn make_tls_connect(&mut self, domain: &str) -> Result<RecordingConnect, Infallible> {
        let inner_connect =
            MakeTlsConnect::<Socket>::make_tls_connect(&mut self.inner_connect, domain)?;
        Ok(RecordingConnect {
            inner_connect,
            handshake_begun: self.handshake_begun.clone(),
        })
    }
}

pub(crate) struct RecordingConnect {
    inner_connect: RustlsConnect,
    handshake_begun: Arc<AtomicBool>,
}

impl TlsConnect<Socket> for RecordingConnect {
    type Stream = <RustlsConnect as TlsConnect<Socket>>::Stream;
    type Error = <RustlsConnect as TlsConnect<Socket>>::Error;
    type Future = <RustlsConnect as TlsConnect<Socket>>::Future;

    fn connect(self, stream: Socket) -> Self::Future {
        self.handshake_begun.store(true, Ordering::Relaxed);
        self.inner_connect.connect(stream)
    }
}

/// The hint for an error of TLS, such as a certificate that one of the two sides refused; `None` for other errors.
pub(crate) fn hint(error: &tokio_postgres::Error) -> Option<&'static str> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .and_then(|inner| inner.downcast_ref::<Error>());
        if let Some(inner) = inner {
            return Some(hint_for(inner));
        }
        source = cause.source();
    }
    None
}

fn hint_for(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(cause) => match cause {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "name the file of the CA that signed the server's certificate in sslrootcert"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "connect by a name that the server's certificate contains, or use sslmode=verify-ca"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server needs a new certificate; check this machine's clock too"
            }
            _ => "the server needs another certificate; see docs/postgresql.md",
        },
        Error::AlertReceived(_) => {
            "the server refuses TLS; check its log, and sslcert and sslkey of the URL"
        }
        _ => "check the server's TLS settings and log",
    }
}
