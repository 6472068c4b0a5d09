//! Verifies the signatures of tokens with `ring`, which TLS already depends on.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring_signature;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `ring` the provider with which this process verifies tokens. Does nothing if another provider is installed.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

/// Always fails: the server signs no tokens.
fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if key.family() == AlgorithmFamily::Hmac {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        key: key.kind().clone(),
    }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKeyKind,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature_bytes: &Vec<u8>) -> Result<(), signature::Error> {
        let invalid = |_| signature::Error::new();
        match &self.key {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let first_significant = n.iter().position(|byte| *byte != 0).unwrap_or(n.len());
                ring_signature::RsaPublicKeyComponents {
                    n: n.get(first_significant..).unwrap_or_default(),
                    e: e.as_slice(),
                }
                .verify(rsa_parameters(self.algorithm)?, message, signature_bytes)
                .map_err(invalid)
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let algorithm: &dyn ring_signature::VerificationAlgorithm = match self.algorithm {
                    Algorithm::ES256 => &ring_signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &ring_signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &ring_signature::ED25519,
                    _ => return Err(signature::Error::new()),
                };
                ring_signature::UnparsedPublicKey::new(algorithm, point)
                    .verify(message, signature_bytes)
                    .map_err(invalid)
            }
        }
    }
}

fn rsa_parameters(
    algorithm: Algorithm,
) -> Result<&'static ring_signature::RsaParameters, signature::Error> {
    Ok(match algorithm {
        Algorithm::RS256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
        _ => return Err(signature::Error::new()),
    })
}
