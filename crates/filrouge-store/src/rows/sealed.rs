//! The methods that every row with a MAC has.

/// Implements a row's MAC, over the session's number, the other values of the row's key, and the body; and the row's
/// encoding, which is the body and then the MAC.
macro_rules! sealed_row {
    ($row:ty, $domain:ident, $visibility:vis fn $sign:ident, |$self:ident| $($key:expr),*) => {
        impl $row {
            fn compute_mac(&$self, keyring: &Keyring, pk: SessionPk) -> Option<[u8; MAC_BYTES]> {
                let pieces: &[&[u8]] = &[&pk.to_be_bytes(), $(&$key,)* &$self.body()];
                keyring.mac($self.key_id, Domain::$domain, pieces)
            }

            /// Signs the row with the active key.
            #[must_use]
            $visibility fn $sign(mut self, keyring: &Keyring, pk: SessionPk) -> Self {
                self.key_id = keyring.active();
                self.mac = self.compute_mac(keyring, pk).unwrap_or_default();
                self
            }

            /// Whether the stored MAC is correct; `None` when the key is missing.
            #[must_use]
            pub fn mac_matches(&self, keyring: &Keyring, pk: SessionPk) -> Option<bool> {
                Some(equal_macs(&self.compute_mac(keyring, pk)?, &self.mac))
            }

            /// The stored bytes, without the values of the row's key.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = self.body();
                out.extend_from_slice(&self.mac);
                out
            }
        }
    };
}
