//! Metadata: which members of turns' reach the ledger, and addresses that are known by a hash alone, wherever there is
//! metadata (DESIGN §7).

use std::net::{IpAddr, SocketAddr};

use filrouge_store::Keyring;
use filrouge_types::{JsonText, RawJson, TenantId, merge_objects, take_members};

/// Which members of a turn's metadata reach the ledger. Of an ephemeral session all stay, in the hot store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MetadataPolicy {
    /// All.
    #[default]
    All,
    /// Those with these names, and what filrouge adds itself ([`filrouge_store::hot::OWN_MEMBERS`]).
    Only(Vec<String>),
}

impl MetadataPolicy {
    /// The names, when there is a list of them.
    #[must_use]
    pub fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names.clone()),
        }
    }
}

/// What an address is kept as.
const HASH: &str = "ip_hash";

/// Members that hold an address, in lower case and without `-` and `_`. Where there are several, the first of this list
/// counts: what names the client comes before what may be a proxy of one's own.
const ADDRESSES: [&str; 7] = [
    "clientip",
    "ip",
    "ipaddress",
    "xforwardedfor",
    "xrealip",
    "remoteip",
    "remoteaddr",
];

/// What `null` is to metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A value that tells nothing.
    Values,
    /// Takes a member away, as in a JSON merge patch (RFC 7396); within arrays it is a value there, too.
    Remove,
}

/// Whether a member of this name holds an address, which is stored as `ip_hash` alone (DESIGN §7).
#[must_use]
pub fn is_address(name: &str) -> bool {
    address_rank(name).is_some()
}

/// Where a member stands among [`ADDRESSES`], if it holds an address.
fn address_rank(name: &str) -> Option<usize> {
    let letters = name.bytes().filter(|b| !matches!(b, b'-' | b'_'));
    let letters = letters.map(|b| b.to_ascii_lowercase());
    let mut known = ADDRESSES.iter();
    known.position(|known| known.bytes().eq(letters.clone()))
}

fn is_taken(name: &str) -> bool {
    name == HASH || address_rank(name).is_some()
}

/// The address that a text is, whatever is written around it: a port, brackets, a zone. IPv4 in IPv6 is IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let bare = bare.unwrap_or(text);
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

/// The first of the addresses that a value lists, as text; `None` of one that says nothing.
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

/// Metadata without addresses: in each object of it, all members that hold one have become one member `ip_hash`, unless
/// there is one already; that one is kept, and hashed only if it is an address itself. What is no address is hashed as
/// the text that it is. Where `null` removes, it stays, and takes `ip_hash` away if nothing else gives one.
#[must_use]
pub(crate) fn without_addresses(
    metadata: RawJson,
    nulls: Nulls,
    keyring: &Keyring,
    tenant: &TenantId,
) -> RawJson {
    let text = metadata.as_str();
    if !marks(text).any(|(_, mark)| mark.is_taken()) {
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
                    object.is_touched |= mark.is_taken();
                }
            }
            Mark::End => {
                if let Some(object) = open.pop().filter(|object| object.is_touched) {
                    let whole = RawJson::from_checked(&out[object.start..]);
                    let hashed = hashed_members(whole, object.nulls, keyring, tenant);
                    out.truncate(object.start);
                    out.push_str(hashed.as_str());
                }
            }
        }
    }
    out.push_str(&text[from..]);
    RawJson::from_checked(out)
}

/// What tells how a JSON text is built.
enum Mark<'a> {
    Object,
    Array,
    End,
    /// A member's name, as a JSON string.
    Name(&'a str),
}

impl Mark<'_> {
    fn is_taken(&self) -> bool {
        let Self::Name(token) = self else {
            return false;
        };
        if !token.contains('\\') {
            return is_taken(token.trim_matches('"'));
        }
        let plain = JsonText::from_raw(RawJson::from_checked(*token));
        plain.is_ok_and(|name| is_taken(&name.to_plain()))
    }
}

/// The marks of a JSON text, each with the place behind it.
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
                    let mut behind = bytes[at..].iter().skip_while(|b| b.is_ascii_whitespace());
                    if behind.next() == Some(&b':') {
                        return Some((at, Mark::Name(&text[start..at])));
                    }
                }
                _ => return Some((at, Mark::End)),
            }
        }
    })
}

/// The place behind a string whose opening quote stands before `at`.
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

/// An object whose members that hold addresses have become one.
fn hashed_members(object: RawJson, nulls: Nulls, keyring: &Keyring, tenant: &TenantId) -> RawJson {
    let (left, taken) = take_members(&object, is_taken);
    // Of a name that stands twice the last one counts, as most JSON readers have it.
    let given = taken.iter().rfind(|(name, _)| name == HASH).map(|(_, v)| v);
    let given = given.filter(|value| value.as_str() != "null");
    let plain = given
        .and_then(first_listed)
        .filter(|text| address(text).is_some());
    let holds_address = plain.is_some() || taken.iter().any(|(name, _)| name != HASH);
    if !holds_address {
        return object;
    }
    let found = || {
        let mut found: Vec<(usize, String)> = taken
            .iter()
            .rev()
            .filter_map(|(name, value)| Some((address_rank(name)?, first_listed(value)?)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().next().map(|(_, text)| text)
    };
    let hash = match (given, plain) {
        (Some(_), Some(address)) => Some(hash_of(&address, keyring, tenant)),
        (Some(given), None) => Some(given.clone()),
        (None, _) => found().map(|text| hash_of(&text, keyring, tenant)),
    };
    let mut members = Vec::new();
    if nulls == Nulls::Remove {
        let removed = taken.iter().filter(|(_, value)| value.as_str() == "null");
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
        return left;
    }
    let members = RawJson::from_checked(format!("{{{}}}", members.join(",")));
    merge_objects(&left, &members)
}

#[cfg(test)]
mod tests;
