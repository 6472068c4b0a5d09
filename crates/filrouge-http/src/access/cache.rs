//! A bounded cache of verified tokens: two generations, the older of which is dropped when the newer one is full.

use std::collections::HashMap;
use std::sync::Arc;

use super::principal::Credential;

/// The hash of a token; the token itself is not kept.
pub(super) type TokenHash = [u8; 32];

/// Most tokens of a generation.
const GENERATION: usize = 10_000;

#[derive(Default)]
pub(super) struct Cache {
    newer: HashMap<TokenHash, Arc<Credential>>,
    older: HashMap<TokenHash, Arc<Credential>>,
}

impl Cache {
    pub(super) fn get(&mut self, hash: &TokenHash) -> Option<Arc<Credential>> {
        if let Some(found) = self.newer.get(hash) {
            return Some(found.clone());
        }
        let found = self.older.remove(hash)?;
        self.put(*hash, found.clone());
        Some(found)
    }

    pub(super) fn put(&mut self, hash: TokenHash, credential: Arc<Credential>) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(hash, credential);
    }

    pub(super) fn remove(&mut self, hash: &TokenHash) {
        self.newer.remove(hash);
        self.older.remove(hash);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::TenantId;

    use super::super::principal::Subject;
    use super::*;
    use filrouge_engine::caller::Holder;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let credential = Arc::new(Credential {
            tenant: TenantId::default_tenant(),
            holder: Holder::Local,
            subject: Subject::Local,
            identity: None,
            expires_at: None,
        });
        let hash = |n: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_be_bytes());
            hash
        };
        let mut cache = Cache::default();
        for n in 0..5 * GENERATION {
            cache.put(hash(n), credential.clone());
            assert!(cache.get(&hash(0)).is_some(), "{n}");
        }
        assert!(cache.newer.len() + cache.older.len() <= 2 * GENERATION);
        assert!(cache.get(&hash(1)).is_none());
        cache.remove(&hash(0));
        assert!(cache.get(&hash(0)).is_none());
    }
}
