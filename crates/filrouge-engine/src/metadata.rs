//! Metadata: the policy for turns' metadata in the ledger, and the hashing of IP addresses in all metadata (DESIGN §7).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use filrouge_store::Keyring;
use filrouge_types::{JsonText, RawJson, TenantId, merge_objects, take_members};

/// The members of a turn's metadata that the ledger records. For an ephemeral session, the hot store keeps all members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MetadataPolicy {
    /// All members.
    #[default]
    All,
    /// Members with these names, and those that filrouge adds itself ([`filrouge_store::hot::INTERNAL_MEMBERS`]).
    Only(Vec<String>),
}

impl MetadataPolicy {
    /// The listed names; `None` if all members are recorded.
    pub fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names.clone()),
        }
    }
}

/// The name of the member that contains the hash of an address.
const IP_HASH: &str = "ip_hash";

/// Names of members that contain an IP address, in lower case and without `-` and `_`. If an object has several of
/// them, the hash is computed from the one that comes first in this list. Names for the client's address precede names
/// whose value may be the address of the operator's own proxy.
const ADDRESS_MEMBERS: [&str; 7] = [
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
    /// `null` is an ordinary value.
    Values,
    /// Removes a member, as in a JSON merge patch (RFC 7396). Within arrays, `null` remains an ordinary
    /// value.
    Remove,
}

/// Whether a member of this name contains an IP address, which is stored only as `ip_hash` (DESIGN §7).
pub fn is_address(name: &str) -> bool {
    address_rank(name).is_some()
}

/// The bytes of a name in lower case and without `-` and `_`; bytes outside ASCII become `?`.
pub(crate) fn normalized(name: &str) -> impl Iterator<Item = u8> + Clone {
    let bytes = name.bytes().filter(|b| !matches!(b, b'-' | b'_'));
    bytes.map(|b| match b.is_ascii() {
        true => b.to_ascii_lowercase(),
        false => b'?',
    })
}

/// The index of a member's name in [`ADDRESS_MEMBERS`]; `None` if the list does not contain it.
fn address_rank(name: &str) -> Option<usize> {
    let normalized = normalized(name);
    let mut names = ADDRESS_MEMBERS.iter();
    names.position(|name| name.bytes().eq(normalized.clone()))
}

fn is_address_or_hash(name: &str) -> bool {
    name == IP_HASH || address_rank(name).is_some()
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

/// The first element of a value that may list several addresses, in an array or separated by commas, as in
/// `X-Forwarded-For`. `None` if the value is empty.
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

fn hashed_address(text: &str, keyring: &Keyring, tenant: &TenantId) -> RawJson {
    let plain = address(text).map_or_else(|| text.to_owned(), |address| address.to_string());
    let hash = keyring.address_hash(tenant, &plain);
    RawJson::from_checked(format!("\"{}\"", hex::encode(hash)))
}

/// Replaces IP addresses in metadata: in each object, all members whose name is in [`ADDRESS_MEMBERS`] become one
/// member `ip_hash`. If such a member's value is not an address, its text is hashed. An existing `ip_hash` is kept;
/// only if its value is itself an address, it is hashed. Under [`Nulls::Remove`], an address member that is `null`
/// stays; `ip_hash` then becomes `null` as well, unless another member provides an address.
pub(crate) fn without_addresses(
    metadata: RawJson,
    nulls: Nulls,
    keyring: &Keyring,
    tenant: &TenantId,
) -> RawJson {
    let text = metadata.as_str();
    if !tokens(text).any(|(_, token)| token.is_address_or_hash()) {
        return metadata;
    }
    struct OpenValue {
        start: usize,
        nulls: Nulls,
        has_address: bool,
    }
    let (mut output, mut copied) = (String::with_capacity(text.len()), 0);
    let mut open: Vec<OpenValue> = Vec::new();
    for (end, token) in tokens(text) {
        output.push_str(&text[copied..end]);
        copied = end;
        match token {
            Token::Array => open.push(OpenValue {
                start: output.len() - 1,
                nulls: Nulls::Values,
                has_address: false,
            }),
            Token::Object => open.push(OpenValue {
                start: output.len() - 1,
                nulls: open.last().map_or(nulls, |parent| parent.nulls),
                has_address: false,
            }),
            Token::Name(_) => {
                if let Some(object) = open.last_mut() {
                    object.has_address |= token.is_address_or_hash();
                }
            }
            Token::End => {
                if let Some(object) = open.pop().filter(|object| object.has_address) {
                    let members = RawJson::from_checked(&output[object.start..]);
                    let hashed = hashed_members(members, object.nulls, keyring, tenant);
                    output.truncate(object.start);
                    output.push_str(hashed.as_str());
                }
            }
        }
    }
    output.push_str(&text[copied..]);
    RawJson::from_checked(output)
}

/// A token that gives a JSON text its structure. Values other than objects and arrays are skipped.
enum Token<'a> {
    Object,
    Array,
    /// The end of an object or array.
    End,
    /// A member's name, as a JSON string.
    Name(&'a str),
}

impl<'a> Token<'a> {
    /// A member's name with its escapes resolved; `None` for other tokens.
    fn name(&self) -> Option<Cow<'a, str>> {
        let Self::Name(name) = self else {
            return None;
        };
        if !name.contains('\\') {
            return Some(name.trim_matches('"').into());
        }
        let plain = JsonText::from_raw(RawJson::from_checked(*name)).ok()?;
        Some(plain.to_plain().into())
    }

    fn is_address_or_hash(&self) -> bool {
        self.name().is_some_and(|name| is_address_or_hash(&name))
    }
}

/// The names of the members in a JSON text, at any depth, each with the position after it.
pub(crate) fn member_names(json: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    tokens(json).filter_map(|(end, token)| Some((end, token.name()?)))
}

/// The structural tokens of a JSON text, each with the position after it.
fn tokens(text: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let is_structural = |b: &u8| matches!(b, b'"' | b'{' | b'[' | b'}' | b']');
            let start = at + bytes.get(at..)?.iter().position(is_structural)?;
            at = start + 1;
            match bytes[start] {
                b'{' => return Some((at, Token::Object)),
                b'[' => return Some((at, Token::Array)),
                b'"' => {
                    at = string_end(bytes, at);
                    let mut rest = bytes[at..].iter().skip_while(|b| b.is_ascii_whitespace());
                    if rest.next() == Some(&b':') {
                        return Some((at, Token::Name(&text[start..at])));
                    }
                }
                _ => return Some((at, Token::End)),
            }
        }
    })
}

/// The position after a string whose opening quote precedes `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(offset) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += offset;
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
        .rfind(|(name, _)| name == IP_HASH)
        .map(|(_, v)| v);
    let given_hash = given_hash.filter(|value| value.as_str() != "null");
    let plain = given_hash
        .and_then(first_listed)
        .filter(|text| address(text).is_some());
    let has_address = plain.is_some() || address_members.iter().any(|(name, _)| name != IP_HASH);
    if !has_address {
        return object;
    }
    let first_address = || {
        let mut ranked: Vec<(usize, String)> = address_members
            .iter()
            .rev()
            .filter_map(|(name, value)| Some((address_rank(name)?, first_listed(value)?)))
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().next().map(|(_, text)| text)
    };
    let hash = match (given_hash, plain) {
        (Some(_), Some(address)) => Some(hashed_address(&address, keyring, tenant)),
        (Some(given_hash), None) => Some(given_hash.clone()),
        (None, _) => first_address().map(|text| hashed_address(&text, keyring, tenant)),
    };
    let mut members = Vec::new();
    if nulls == Nulls::Remove {
        let removed = address_members
            .iter()
            .filter(|(_, value)| value.as_str() == "null");
        let removed = removed.filter(|(name, _)| name != IP_HASH);
        members.extend(removed.map(|(name, _)| {
            let name = JsonText::from_plain(name);
            format!("{}:null", name.as_token())
        }));
    }
    match hash {
        Some(hash) => members.push(format!("\"{IP_HASH}\":{}", hash.as_str())),
        None if nulls == Nulls::Remove => members.push(format!("\"{IP_HASH}\":null")),
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
