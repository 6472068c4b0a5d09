//! Verifies the signatures of tokens with `ring`, a dependency that TLS needs anyway.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as keys;

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
    Ok(Box::new(Key {
        algorithm: *algorithm,
        key: key.kind().clone(),
    }))
}

struct Key {
    algorithm: Algorithm,
    key: DecodingKeyKind,
}

impl JwtVerifier for Key {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Key {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let refused = |_| signature::Error::new();
        match &self.key {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let significant = n.iter().position(|byte| *byte != 0).unwrap_or(n.len());
                keys::RsaPublicKeyComponents {
                    n: n.get(significant..).unwrap_or_default(),
                    e: e.as_slice(),
                }
                .verify(rsa(self.algorithm)?, message, signed)
                .map_err(refused)
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let algorithm: &dyn keys::VerificationAlgorithm = match self.algorithm {
                    Algorithm::ES256 => &keys::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &keys::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &keys::ED25519,
                    _ => return Err(signature::Error::new()),
                };
                keys::UnparsedPublicKey::new(algorithm, point)
                    .verify(message, signed)
                    .map_err(refused)
            }
        }
    }
}

fn rsa(algorithm: Algorithm) -> Result<&'static keys::RsaParameters, signature::Error> {
    Ok(match algorithm {
        Algorithm::RS256 => &keys::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &keys::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &keys::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &keys::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &keys::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &keys::RSA_PSS_2048_8192_SHA512,
        _ => return Err(signature::Error::new()),
    })
}
