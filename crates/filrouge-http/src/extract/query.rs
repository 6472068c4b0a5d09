//! Reads query strings: typed parameters, and the common ones of lists and long polls.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use filrouge_store::record::Seqs;
use filrouge_types::{ErrorCode, Timestamp};
use percent_encoding::percent_decode_str;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::reworded::RewordedError;
use crate::problem::Problem;

/// The query of a request, deserialized as `T`. If `T` denies unknown fields, unknown parameters are refused.
pub struct Query<T>(pub T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    S: Send + Sync,
    T: DeserializeOwned + IntoParams,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if let Some(pair) = parts.uri.query().and_then(first_non_utf8) {
            return Err(non_utf8_problem(pair));
        }
        parse_query::<T>(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Parses a query; an error names the parameter that caused it.
fn parse_query<T: DeserializeOwned + IntoParams>(query: &str) -> Result<T, Problem> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let pairs = serde_urlencoded::Deserializer::new(pairs);
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let name = error.path().to_string();
        let message = error.into_inner().to_string();
        let (detail, hint) = describe_error::<T>(&name, &message, query);
        Problem::new(ErrorCode::Invalid, detail).with_hint(hint)
    })
}

/// Returns the detail and the hint for an error of the parameter `name`.
fn describe_error<T: IntoParams>(name: &str, message: &str, query: &str) -> (String, String) {
    let error = RewordedError::from_serde(message, "parameter");
    if !error.is_about_value {
        return (error.message, known_parameters::<T>());
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let has_space = pairs.any(|(key, value)| key == name && value.contains(' '));
    let hint = match error.valid_values {
        _ if has_space => "a + in a query means a space: write + as %2B".to_owned(),
        Some(values) => format!("known: {values}"),
        None if is_time::<T>(name) => {
            "write a time such as 2027-01-31T00:00:00Z; in a query the + of +01:00 is %2B"
                .to_owned()
        }
        None => known_parameters::<T>(),
    };
    (format!("{name}: {}", error.message), hint)
}

/// Returns the first parameter (`name=value`) whose bytes are not UTF-8 after percent-decoding. It is refused, because
/// a lossy decoding would change its meaning.
fn first_non_utf8(query: &str) -> Option<&str> {
    let is_utf8 = |pair: &&str| percent_decode_str(pair).decode_utf8().is_ok();
    query.split('&').find(|pair| !is_utf8(pair))
}

fn non_utf8_problem(pair: &str) -> Problem {
    let name = pair.split('=').next().unwrap_or_default();
    let what = format!("the parameter `{name}` is not UTF-8 after percent-decoding");
    Problem::new(ErrorCode::Invalid, what)
        .with_hint("percent-encode the bytes of UTF-8: é is %C3%A9")
}

/// Whether the parameter `name` is a time.
fn is_time<T: IntoParams>(name: &str) -> bool {
    let mut parameters = T::into_params(|| None).into_iter();
    let schema = parameters.find(|p| p.name == name).and_then(|p| p.schema);
    let timestamp_suffix = format!("/{}", Timestamp::name());
    matches!(schema, Some(RefOr::Ref(schema)) if schema.ref_location.ends_with(&timestamp_suffix))
}

/// Returns the hint that lists the parameters of a route.
fn known_parameters<T: IntoParams>() -> String {
    let parameters = T::into_params(|| None).into_iter();
    let known: Vec<String> = parameters.map(|p| p.name).collect();
    match known.is_empty() {
        true => "this route takes no parameters".to_owned(),
        false => format!("known parameters, each at most once: {}", known.join(", ")),
    }
}

macro_rules! no_parameters {
    ($($type:ident),+) => {$(
        impl IntoParams for $type {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                Vec::new()
            }
        }
    )+};
}

/// The query of a route that takes no parameters, and refuses any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

/// The query of a route that ignores its parameters.
#[derive(Deserialize)]
pub struct AnyQuery {}

no_parameters!(NoParameters, AnyQuery);

macro_rules! schemas {
    ($($type:ident: $schema:expr;)+) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema))
            }
        }

        impl ToSchema for $type {}
    )+};
}

/// A cursor of 1 to 19 digits, as an earlier page returned it in `next_cursor`.
pub struct Cursor(u64);

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0.to_string()
    }
}

impl From<Cursor> for u64 {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let is_digits = text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_digits);
        let message = "no cursor; pass a next_cursor unchanged, or leave it out for the first page";
        number.map(Self).ok_or_else(|| D::Error::custom(message))
    }
}

/// A set of at most [`LIMIT_MAX`] seqs: numbers and ranges, separated by commas.
pub struct SeqList(Seqs);

impl From<SeqList> for Seqs {
    fn from(list: SeqList) -> Self {
        list.0
    }
}

impl<'de> Deserialize<'de> for SeqList {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let ranges: Option<Vec<_>> = text.split(',').map(Seqs::parse_range).collect();
        let seqs = ranges.and_then(Seqs::from_ranges);
        let seqs = seqs.filter(|seqs| seqs.count() <= LIMIT_MAX as u64);
        seqs.map(Self).ok_or_else(|| {
            let message = "no seqs and ranges of seqs, such as 3,9,12-15";
            D::Error::custom(format_args!("{message}, of at most {LIMIT_MAX} items"))
        })
    }
}

schemas! {
    SeqList: ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"))
        .build();
    Cursor: ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[0-9]{1,19}$"))
        .build();
    Limit: ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(LIMIT_MAX))
        .default(Some(LIMIT_DEFAULT.into()))
        .build();
}

/// The default number of rows of a list (DESIGN §12).
const LIMIT_DEFAULT: usize = 50;
/// The maximum number of rows of a list (DESIGN §12).
pub const LIMIT_MAX: usize = 500;

/// The maximum number of rows that a list returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(LIMIT_DEFAULT)
    }
}

impl From<Limit> for usize {
    fn from(limit: Limit) -> Self {
        limit.0
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let number = text.parse().ok().filter(|n| (1..=LIMIT_MAX).contains(n));
        number
            .map(Self)
            .ok_or_else(|| D::Error::custom(format_args!("no whole number from 1 to {LIMIT_MAX}")))
    }
}

/// The maximum duration of a long poll in milliseconds. A response must begin within 120 s by default, so the poll ends
/// well before that.
pub const WAIT_MAX_MS: u64 = 60_000;

/// Returns the duration of a long poll from the parameter `wait` in milliseconds; zero without the parameter.
///
/// # Errors
/// `invalid` if it is greater than [`WAIT_MAX_MS`].
pub fn wait(requested: Option<u64>) -> Result<Duration, Problem> {
    match requested {
        None => Ok(Duration::ZERO),
        Some(ms @ 0..=WAIT_MAX_MS) => Ok(Duration::from_millis(ms)),
        Some(_) => Err(Problem::new(
            ErrorCode::Invalid,
            format!("wait: no whole number of milliseconds from 0 to {WAIT_MAX_MS}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{IdentityId, TurnStatus};
    use serde::de::IntoDeserializer;
    use serde::de::value::StrDeserializer;

    use super::*;

    #[derive(Debug, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "the tests read them through `Debug` and serde")]
    struct TestQuery {
        identity_id: IdentityId,
        status: Option<TurnStatus>,
        since: Option<Timestamp>,
        after: Option<u64>,
        #[serde(default)]
        limit: Limit,
        #[serde(default)]
        all: bool,
        #[serde(default)]
        #[param(inline)]
        format: Format,
    }

    #[derive(Debug, Default, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    enum Format {
        #[default]
        Md,
        Html,
    }

    fn parse(query: &str) -> Result<TestQuery, (String, String)> {
        parse_query(query).map_err(|problem| {
            let failure = *problem.0;
            (failure.detail, failure.hint.unwrap())
        })
    }

    #[test]
    fn valid_queries_are_parsed() {
        let query = "identity_id=a%20b&status=open&since=2026-11-21T09:30:00%2B01:00&after=7&all=true&format=html";
        let parsed = parse(query).unwrap();
        assert_eq!(parsed.identity_id.as_str(), "a b");
        assert_eq!(
            parsed.since.unwrap().to_string(),
            "2026-11-21T08:30:00.000000Z"
        );
        assert_eq!(
            (parsed.after, parsed.limit, parsed.all),
            (Some(7), Limit(50), true)
        );
        assert!(matches!(parsed.format, Format::Html));
    }

    #[test]
    fn a_parameter_that_is_not_utf_8_is_refused() {
        for (query, expected) in [
            ("q=%C3%A9&x=%25ff&y=%zz&z=%f", None),
            ("q=a&x=%ff&y=%fe", Some("x=%ff")),
            ("q=%C3&x=%A9", Some("q=%C3")),
            ("%ff=1", Some("%ff=1")),
            ("%ED%A0%80", Some("%ED%A0%80")),
        ] {
            assert_eq!(first_non_utf8(query), expected, "{query}");
        }
        let failure = non_utf8_problem("x=%ff").0;
        assert_eq!(failure.code, ErrorCode::Invalid);
        assert_eq!(
            failure.detail,
            "the parameter `x` is not UTF-8 after percent-decoding"
        );
    }

    #[test]
    fn seqs_are_parsed() {
        let parse = |text: &str| {
            let text: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
            SeqList::deserialize(text)
                .ok()
                .map(|list| list.0.to_string())
        };
        for (text, expected) in [
            ("3", "3"),
            ("3,9,12-15", "3 9 12-15"),
            ("6,5,4-5,6", "4-6"),
            ("1-500", "1-500"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "3,",
            "0",
            "5-4",
            "3 9",
            "a",
            "1-501",
            "1-300,400-600",
            "18446744073709551616",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_error_names_the_parameter() {
        let known = "known parameters, each at most once: identity_id, status, since, after, limit, all, format";
        for (query, detail, hint) in [
            ("", "the parameter `identity_id` is missing", known),
            ("a=1", r#"there is no parameter "a""#, known),
            (
                "all=true&all=true",
                "the parameter `all` is given twice",
                known,
            ),
            (
                "identity_id=",
                "identity_id: an id must not be empty",
                known,
            ),
            ("limit=abc", "limit: no whole number from 1 to 500", known),
            ("limit=501", "limit: no whole number from 1 to 500", known),
            ("after=x", "after: no whole number, 0 or more", known),
            ("all=1", "all: neither true nor false", known),
            ("format=pdf", "format: not known", "known: md, html"),
            (
                "status=done",
                r#"status: unknown turn status "done""#,
                "known: open, interrupted, finalized, failed, cancelled",
            ),
            (
                "since=yesterday",
                "since: not an RFC 3339 time such as 2026-11-21T09:30:00Z",
                "write a time such as 2027-01-31T00:00:00Z; in a query the + of +01:00 is %2B",
            ),
            (
                "since=2026-11-21T09:30:00+01:00",
                "since: not an RFC 3339 time such as 2026-11-21T09:30:00Z",
                "a + in a query means a space: write + as %2B",
            ),
        ] {
            let refused = parse(query).unwrap_err();
            assert_eq!(refused, (detail.to_owned(), hint.to_owned()), "{query}");
        }
    }
}
