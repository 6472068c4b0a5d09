//! Metadata: the policy for turns' metadata in the ledger, and the hashing of IP addresses in all metadata (DESIGN §7).

use std::net::{IpAddr, SocketAddr};

use filrouge_store::Keyring;
use filrouge_types::{JsonText, RawJson, TenantId, merge_objects, take_members};

/// The members of a turn's metadata that the ledger records. For an ephemeral session the hot store stores all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MetadataPolicy {
    /// All members.
    #[default]
    All,
    /// Members with these names, and those that filrouge adds itself ([`filrouge_store::hot::OWN_MEMBERS`]).
    Only(Vec<String>),
}

impl MetadataPolicy {
    /// The names, if the policy is a list.
    #[must_use]
    pub fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names.clone()),
        }
    }
}

/// The member that stores an address as a hash.
const HASH: &str = "ip_hash";

/// Names of members that contain an IP address, in lower case and without `-` and `_`. If an object has several of
/// them, the first of this list counts. Names for the client's address precede names that may stand for the operator's
/// own proxy.
const ADDRESSES: [&str; 7] = [
    "clientip",
    "ip",
    "ipaddress",
    "xforwardedfor",
    "xrealip",
    "remoteip",
    "remoteaddr",
];

/// The meaning of `null` in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A value without information.
    Values,
    /// Removes a member, as in a JSON merge patch (RFC 7396). Within arrays, `null` remains a value without
    /// information.
    Remove,
}

/// Whether a member of this name contains an IP address, which is stored only as `ip_hash` (DESIGN §7).
#[must_use]
pub fn is_address(name: &str) -> bool {
    address_rank(name).is_some()
}

/// The index of a member's name in [`ADDRESSES`], if it is there.
fn address_rank(name: &str) -> Option<usize> {
    let letters = name.bytes().filter(|b| !matches!(b, b'-' | b'_'));
    let letters = letters.map(|b| b.to_ascii_lowercase());
    let mut names = ADDRESSES.iter();
    names.position(|name| name.bytes().eq(letters.clone()))
}

fn is_address_or_hash(name: &str) -> bool {
    name == HASH || address_rank(name).is_some()
}

/// Parses the IP address in a text; drops a port, brackets and a zone. An IPv4 address mapped to IPv6 is returned as
/// IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let bare = bare.unwrap_or(text);
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

/// The first address that a value lists, as text; `None` for an empty value.
fn first_listed(value: &RawJson) -> Option<String> {
    let text = if value.is_array() {
        let values: Vec<RawJson> = serde_json::from_str(value.as_str()).ok()?;
        return values
            .first()
            .filter(|v| !v.is_array())
            .and_then(first_listed);
    } else if value.as_str() == "null" {
        return None;
    } else {
        let text = JsonText::from_raw(value.clone());
        text.map_or_else(|_| value.as_str().to_owned(), |text| text.to_plain())
    };
    let first = text.split(',').next().unwrap_or_default().trim();
    (!first.is_empty()).then(|| first.to_owned())
}

fn hash_of(text: &str, keyring: &Keyring, tenant: &TenantId) -> RawJson {
    let plain = address(text).map_or_else(|| text.to_owned(), |address| address.to_string());
    let hash = keyring.address_hash(tenant, &plain);
    RawJson::from_checked(format!("\"{}\"", hex::encode(hash)))
}

/// Replaces IP addresses in metadata: in each object, all members whose name is in [`ADDRESSES`] become one member
/// `ip_hash`. If such a member's value is not an address, its text is hashed. An existing `ip_hash` is kept; only if
/// its value is itself an address, it is hashed. Under [`Nulls::Remove`], an address member that is `null` stays;
/// `ip_hash` then becomes `null` as well, unless another member provides an address.
#[must_use]
pub(crate) fn without_addresses(
    metadata: RawJson,
    nulls: Nulls,
    keyring: &Keyring,
    tenant: &TenantId,
) -> RawJson {
    let text = metadata.as_str();
    if !marks(text).any(|(_, mark)| mark.is_address_or_hash()) {
        return metadata;
    }
    struct Open {
        start: usize,
        nulls: Nulls,
        is_touched: bool,
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    let mut open: Vec<Open> = Vec::new();
    for (end, mark) in marks(text) {
        out.push_str(&text[from..end]);
        from = end;
        match mark {
            Mark::Array => open.push(Open {
                start: out.len() - 1,
                nulls: Nulls::Values,
                is_touched: false,
            }),
            Mark::Object => open.push(Open {
                start: out.len() - 1,
                nulls: open.last().map_or(nulls, |around| around.nulls),
                is_touched: false,
            }),
            Mark::Name(_) => {
                if let Some(object) = open.last_mut() {
                    object.is_touched |= mark.is_address_or_hash();
                }
            }
            Mark::End => {
                if let Some(object) = open.pop().filter(|object| object.is_touched) {
                    let members = RawJson::from_checked(&out[object.start..]);
                    let hashed = hashed_members(members, object.nulls, keyring, tenant);
                    out.truncate(object.start);
                    out.push_str(hashed.as_str());
                }
            }
        }
    }
    out.push_str(&text[from..]);
    RawJson::from_checked(out)
}

/// The structural characters of a JSON text.
enum Mark<'a> {
    Object,
    Array,
    End,
    /// A member's name, as a JSON string.
    Name(&'a str),
}

impl Mark<'_> {
    fn is_address_or_hash(&self) -> bool {
        let Self::Name(token) = self else {
            return false;
        };
        if !token.contains('\\') {
            return is_address_or_hash(token.trim_matches('"'));
        }
        let plain = JsonText::from_raw(RawJson::from_checked(*token));
        plain.is_ok_and(|name| is_address_or_hash(&name.to_plain()))
    }
}

/// The marks of a JSON text, each with the position after it.
fn marks(text: &str) -> impl Iterator<Item = (usize, Mark<'_>)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let is_mark = |b: &u8| matches!(b, b'"' | b'{' | b'[' | b'}' | b']');
            let start = at + bytes.get(at..)?.iter().position(is_mark)?;
            at = start + 1;
            match bytes[start] {
                b'{' => return Some((at, Mark::Object)),
                b'[' => return Some((at, Mark::Array)),
                b'"' => {
                    at = string_end(bytes, at);
                    let mut rest = bytes[at..].iter().skip_while(|b| b.is_ascii_whitespace());
                    if rest.next() == Some(&b':') {
                        return Some((at, Mark::Name(&text[start..at])));
                    }
                }
                _ => return Some((at, Mark::End)),
            }
        }
    })
}

/// The position after a string whose opening quote precedes `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Replaces the address members of one object by one `ip_hash`.
fn hashed_members(object: RawJson, nulls: Nulls, keyring: &Keyring, tenant: &TenantId) -> RawJson {
    let (others, address_members) = take_members(&object, is_address_or_hash);
    // Of duplicate names the last one counts, as in most JSON readers.
    let given_hash = address_members
        .iter()
        .rfind(|(name, _)| name == HASH)
        .map(|(_, v)| v);
    let given_hash = given_hash.filter(|value| value.as_str() != "null");
    let plain = given_hash
        .and_then(first_listed)
        .filter(|text| address(text).is_some());
    let holds_address = plain.is_some() || address_members.iter().any(|(name, _)| name != HASH);
    if !holds_address {
        return object;
    }
    let first_address = || {
        let mut found: Vec<(usize, String)> = address_members
            .iter()
            .rev()
            .filter_map(|(name, value)| Some((address_rank(name)?, first_listed(value)?)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().next().map(|(_, text)| text)
    };
    let hash = match (given_hash, plain) {
        (Some(_), Some(address)) => Some(hash_of(&address, keyring, tenant)),
        (Some(given_hash), None) => Some(given_hash.clone()),
        (None, _) => first_address().map(|text| hash_of(&text, keyring, tenant)),
    };
    let mut members = Vec::new();
    if nulls == Nulls::Remove {
        let removed = address_members
            .iter()
            .filter(|(_, value)| value.as_str() == "null");
        let removed = removed.filter(|(name, _)| name != HASH);
        members.extend(removed.map(|(name, _)| {
            let name = JsonText::from_plain(name);
            format!("{}:null", name.as_token())
        }));
    }
    match hash {
        Some(hash) => members.push(format!("\"{HASH}\":{}", hash.as_str())),
        None if nulls == Nulls::Remove => members.push(format!("\"{HASH}\":null")),
        None => {}
    }
    if members.is_empty() {
        return others;
    }
    let members = RawJson::from_checked(format!("{{{}}}", members.join(",")));
    merge_objects(&others, &members)
}

#[cfg(test)]
mod tests;
