//! What models cost: a dated table of prices per million tokens, which the operator writes.

use filrouge_engine::Tokens;
use filrouge_store::command::matches_pattern;
use filrouge_types::Timestamp;
use serde::Deserialize;

/// Price units in one unit of the currency, per token: a price per million tokens has six decimals.
const UNITS: f64 = 1e6;
/// The highest price per million tokens.
const PRICE_MAX: f64 = 1e9;
/// A day in microseconds.
pub(crate) const DAY: i64 = 86_400_000_000;

/// A table of prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    currency: Box<str>,
    models: Vec<ModelPrice>,
}

/// The text is no table of prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PricesError(String);

/// A sum in the currency of a table, in millionths of a millionth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(u128);

/// The price of a model from a day on, in millionths of the currency per million tokens.
#[derive(Debug, Clone, PartialEq)]
struct ModelPrice {
    pattern: Box<str>,
    since: i64,
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    currency: Box<str>,
    #[serde(default)]
    models: Vec<ModelText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelText {
    model: Box<str>,
    since: Box<str>,
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Prices {
    /// A table without prices, with which nothing has a cost.
    pub fn none() -> Self {
        Self {
            currency: "USD".into(),
            models: Vec::new(),
        }
    }

    /// Reads a table, which is TOML in the form of `prices.toml`.
    ///
    /// # Errors
    /// [`PricesError`] if the text has another form, a day does not exist, or a price is negative or above 10⁹.
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let table: TableText = toml::from_str(text).map_err(|e| PricesError(e.to_string()))?;
        let models = table.models.into_iter().map(ModelPrice::read);
        Ok(Self {
            currency: table.currency,
            models: models.collect::<Result<_, _>>()?,
        })
    }

    /// The currency, such as `USD`.
    pub(crate) fn currency(&self) -> &str {
        &self.currency
    }

    /// What these uses of models cost together. Each use is a model, the day (counted from 1970-01-01, in UTC) and the
    /// tokens. `None` if one of them has no price; uses without tokens need none.
    pub(crate) fn cost<'a>(
        &self,
        uses: impl IntoIterator<Item = (Option<&'a str>, i64, &'a Tokens)>,
    ) -> Option<Cost> {
        let mut sum = Cost::default();
        for (model, day, tokens) in uses {
            sum.add(self.cost_of(model, day, tokens)?);
        }
        Some(sum)
    }

    /// What the tokens of one model cost; `None` without a price.
    fn cost_of(&self, model: Option<&str>, day: i64, tokens: &Tokens) -> Option<Cost> {
        if tokens.total() == 0 {
            return Some(Cost::default());
        }
        let model = model?;
        let mut prices = self.models.iter().rev();
        let price =
            prices.find(|price| price.since <= day && matches_pattern(model, &price.pattern))?;
        price.of(tokens)
    }
}

impl ModelPrice {
    fn read(text: ModelText) -> Result<Self, PricesError> {
        let named = |what: &str| PricesError(format!("{}: {what}", text.model));
        let price = |price: Option<f64>| {
            let is_valid = |price: &f64| (0.0..=PRICE_MAX).contains(price);
            match price {
                Some(price) if !is_valid(&price) => Err(named("a price is from 0 to 1000000000")),
                price => Ok(price.map(units)),
            }
        };
        let since = day_of(&text.since).ok_or_else(|| named("since is no day such as 2025-01-31"));
        Ok(Self {
            since: since?,
            input: price(text.input)?,
            output: price(text.output)?,
            cache_read: price(text.cache_read)?,
            cache_write: price(text.cache_write)?,
            pattern: text.model.clone(),
        })
    }

    /// What these tokens cost; `None` if one of the counts has no price.
    fn of(&self, tokens: &Tokens) -> Option<Cost> {
        let counts = [
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.reasoning, self.output),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
        ];
        let mut sum = Cost::default();
        for (count, price) in counts.into_iter().filter(|(count, _)| *count > 0) {
            sum.add(Cost(u128::from(count) * u128::from(price?)));
        }
        Some(sum)
    }
}

impl Cost {
    /// Adds another sum.
    pub(crate) const fn add(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }

    /// The sum in hundredths of the currency, rounded half up.
    pub(crate) const fn hundredths(self) -> u128 {
        self.0.saturating_add(5_000_000_000) / 10_000_000_000
    }

    /// The sum with two decimals, or with four below one hundredth.
    pub(crate) fn text(self) -> String {
        let hundredths = self.hundredths();
        if self.0 > 0 && hundredths == 0 {
            let ten_thousandths = (self.0 + 50_000_000) / 100_000_000;
            return format!("0.{ten_thousandths:04}");
        }
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// A day as the number of days since 1970-01-01; `None` if the text is no day such as `2025-01-31`.
pub(crate) fn day_of(text: &str) -> Option<i64> {
    let midnight: Timestamp = format!("{text}T00:00:00Z").parse().ok()?;
    (text.len() == 10).then(|| midnight.as_micros().div_euclid(DAY))
}

/// A price in millionths. The caller has checked the bounds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn units(price: f64) -> u64 {
    (price * UNITS).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        currency = "EUR"
        [[models]]
        model = "small-*"
        since = "2025-01-01"
        input = 1.0
        output = 2.5
        [[models]]
        model = "small-*"
        since = "2026-01-01"
        input = 0.5
        output = 2.5
        [[models]]
        model = "small-free"
        since = "2025-01-01"
        input = 0
        output = 0
    "#;

    fn cost(model: &str, day: &str, input: u64, output: u64) -> Option<String> {
        let prices = Prices::parse(TABLE).unwrap();
        let tokens = Tokens {
            input,
            output,
            ..Tokens::default()
        };
        let day = day_of(day).unwrap();
        let cost = prices.cost([(Some(model), day, &tokens)]);
        cost.map(Cost::text)
    }

    #[test]
    fn the_last_entry_that_fits_on_the_day_counts() {
        let two = |model, day| cost(model, day, 1_000_000, 2_000_000);
        assert_eq!(two("small-a", "2025-06-30").as_deref(), Some("6.00"));
        assert_eq!(two("small-a", "2026-01-01").as_deref(), Some("5.50"));
        assert_eq!(two("small-free", "2026-01-01").as_deref(), Some("0.00"));
        assert_eq!(two("small-a", "2024-12-31"), None);
        assert_eq!(two("large", "2026-01-01"), None);
    }

    #[test]
    fn without_a_price_there_is_no_cost() {
        let prices = Prices::parse(TABLE).unwrap();
        let cached = Tokens {
            cache_read: 1,
            ..Tokens::default()
        };
        let none = Tokens::default();
        assert_eq!(prices.cost([(Some("small-a"), 30_000, &cached)]), None);
        assert_eq!(prices.cost([(None, 30_000, &cached)]), None);
        let unused = prices.cost([(Some("large"), 30_000, &none)]);
        assert_eq!(unused, Some(Cost::default()));
    }

    #[test]
    fn small_sums_have_more_decimals() {
        assert_eq!(
            cost("small-a", "2025-01-01", 1234, 0).as_deref(),
            Some("0.0012")
        );
        assert_eq!(
            cost("small-a", "2025-01-01", 5000, 0).as_deref(),
            Some("0.01")
        );
    }

    #[test]
    fn tables_that_cannot_be_meant_are_refused() {
        let entry = |line: &str| {
            format!("currency = \"USD\"\n[[models]]\nmodel = \"m\"\nsince = \"2025-01-01\"\n{line}")
        };
        Prices::parse(&entry("input = 1")).unwrap();
        for text in [
            "",
            &entry("input = -1"),
            &entry("input = nan"),
            &entry("inputs = 1"),
            &entry("").replace("01-01", "02-30"),
        ] {
            Prices::parse(text).unwrap_err();
        }
    }

    #[test]
    fn the_file_to_copy_has_an_example_and_no_prices() {
        let file = include_str!("prices.toml");
        assert!(file.lines().all(|line| line.starts_with('#')));
        let (_, example) = file.split_once("# Example\n").unwrap();
        let example: String = example
            .lines()
            .map(|line| format!("{}\n", line.get(2..).unwrap_or_default()))
            .collect();
        let prices = Prices::parse(&example).unwrap();
        let used = Tokens {
            input: 1_000_000,
            output: 1_000_000,
            cache_read: 1_000_000,
            cache_write: 1_000_000,
            ..Tokens::default()
        };
        let day = day_of("2026-01-31").unwrap();
        let cost = |prices: &Prices, day| prices.cost([(Some("my-model-1"), day, &used)]);
        assert_eq!(cost(&prices, day).map(Cost::text).as_deref(), Some("9.65"));
        assert_eq!(cost(&prices, day - 1), None);
        assert_eq!(cost(&Prices::none(), day), None);
    }
}
