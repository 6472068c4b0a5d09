//! A certificate authority for tests.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use tempfile::TempDir;

/// A CA that is not publicly trusted.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    folder: TempDir,
}

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = key();
        let mut params = CertificateParams::default();
        let folder = tempfile::tempdir().unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, folder.path().to_str().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
            folder,
        }
    }

    /// Signs a certificate for `name`: for a host in its SAN, and for a user in its CN.
    pub(crate) fn sign(&self, name: &str) -> Signed {
        let key = key();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        Signed {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The CA's own certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Writes the CA's own certificate to a file; returns its path, percent-encoded for a URL.
    pub(crate) fn file(&self) -> String {
        self.keep("ca.pem", &self.pem)
    }

    /// Writes a file that is deleted with this value; returns its path, percent-encoded for a URL.
    pub(crate) fn keep(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().replace('/', "%2F")
    }
}

/// A self-signed certificate for the host `name`.
pub(crate) fn self_signed(name: &str, is_ca: bool) -> Signed {
    let key = key();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = if is_ca {
        IsCa::Ca(BasicConstraints::Unconstrained)
    } else {
        IsCa::ExplicitNoCa
    };
    Signed {
        certificate: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}
