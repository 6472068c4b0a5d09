//! Charts: SVG that is drawn on the server, with its values as a table beside it. Colors come from the style sheet, so
//! that charts follow the light and the dark colors, and print.

use maud::{Markup, html};

/// The width of a chart, in tenths of a pixel.
const WIDTH: u64 = 7200;
/// The height of a chart with columns.
const HEIGHT: u64 = 2200;
/// The place of the plot in it.
const LEFT: u64 = 700;
const TOP: u64 = 150;
const BOTTOM: u64 = 1850;
/// The maximum number of names under the columns.
const LABELS_MAX: usize = 8;
/// The height of a horizontal bar with its name.
const ROW: u64 = 260;
/// Where horizontal bars begin, and their maximum length.
const BAR_LEFT: u64 = 2300;
const BAR_LENGTH: u64 = 3700;
/// The maximum number of horizontal bars.
const BARS_MAX: usize = 20;
/// The maximum number of characters of a name beside a bar.
const NAME_MAX: usize = 26;

/// A bar: its name, its length, and its value as text.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) text: String,
}

/// Draws a column for each bar, in their order, over an axis from 0. `shown` writes a value of the axis.
pub(crate) fn columns(title: &str, bars: &[Bar], shown: impl Fn(u64) -> String) -> Markup {
    let top_value = rounded_up(bars.iter().map(|bar| bar.value).max().unwrap_or(0));
    let count = bars.len().max(1) as u64;
    let step = (WIDTH - LEFT) / count;
    let labeled = bars.len().div_ceil(LABELS_MAX).max(1);
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) {
            @for value in axis_values(top_value) {
                @let y = BOTTOM - scaled(value, top_value, BOTTOM - TOP);
                line.grid x1=(LEFT) y1=(y) x2=(WIDTH) y2=(y) {}
                text.axis x=(LEFT - 80) y=(y + 40) text-anchor="end" { (shown(value)) }
            }
            @for (at, bar) in bars.iter().enumerate() {
                @let x = LEFT + at as u64 * step;
                @let height = scaled(bar.value, top_value, BOTTOM - TOP);
                rect.column x=(x + step / 8) y=(BOTTOM - height) width=((step * 3 / 4).max(1)) height=(height) {
                    title { (bar.name) ": " (bar.text) }
                }
                @if at % labeled == 0 {
                    text.axis x=(x + step / 2) y=(BOTTOM + 190) text-anchor="middle" { (bar.name) }
                }
            }
        }
    }
}

/// Draws a horizontal bar for each of the first 20 bars, one below the other.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> Markup {
    let shown = bars.get(..BARS_MAX).unwrap_or(bars);
    let longest = shown.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let height = ROW * shown.len() as u64 + 40;
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(title) {
            @for (at, bar) in shown.iter().enumerate() {
                @let y = ROW * at as u64;
                @let length = scaled(bar.value, longest, BAR_LENGTH);
                text.name x=(BAR_LEFT - 100) y=(y + 170) text-anchor="end" { (shortened(&bar.name)) }
                rect.column x=(BAR_LEFT) y=(y + 60) width=(length) height="150" {
                    title { (bar.name) ": " (bar.text) }
                }
                text.axis x=(BAR_LEFT + length + 80) y=(y + 170) { (bar.text) }
            }
            line.grid x1=(BAR_LEFT) y1="30" x2=(BAR_LEFT) y2=(height) {}
        }
    }
}

/// Draws small columns without axes, for a cell of a table.
pub(crate) fn trend(title: &str, values: &[u64]) -> Markup {
    let longest = values.iter().copied().max().unwrap_or(0).max(1);
    html! {
        svg.trend viewBox={ "0 0 " (values.len() * 100) " 300" } role="img" aria-label=(title) {
            @for (at, value) in values.iter().enumerate() {
                @let height = scaled(*value, longest, 280) + 10;
                rect.column x=(at * 100 + 15) y=(300 - height) width="70" height=(height) {}
            }
        }
    }
}

/// The values of an axis up to the highest one, which [`rounded_up`] has returned.
fn axis_values(top: u64) -> Vec<u64> {
    match top {
        0 => vec![0],
        1 => vec![0, 1],
        top => vec![0, top / 2, top],
    }
}

/// The part of `length` that a value takes, if `longest` takes all of it.
fn scaled(value: u64, longest: u64, length: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(length) / u128::from(longest.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}

/// The next even number of the form 2, 4 or 10 times a power of ten; 0 and 1 are unchanged.
fn rounded_up(value: u64) -> u64 {
    if value < 2 {
        return value;
    }
    let mut power: u64 = 1;
    loop {
        for factor in [2, 4, 10] {
            let rounded = power.saturating_mul(factor);
            if rounded >= value {
                return rounded;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// A name, cut off if it is long.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or(name)),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values() {
        for (value, expected) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 4),
            (5, 10),
            (11, 20),
            (401, 1000),
        ] {
            assert_eq!(rounded_up(value), expected, "{value}");
        }
        assert_eq!(rounded_up(u64::MAX), u64::MAX);
        assert_eq!(axis_values(4), [0, 2, 4]);
    }

    #[test]
    fn the_longest_bar_has_the_full_length() {
        assert_eq!(scaled(5, 10, 100), 50);
        assert_eq!(scaled(10, 10, 100), 100);
        assert_eq!(scaled(u64::MAX, u64::MAX, 100), 100);
        assert_eq!(scaled(0, 0, 100), 0);
    }

    #[test]
    fn names_are_text() {
        let bar = Bar {
            name: "<script>".repeat(9),
            value: 1,
            text: "1".to_owned(),
        };
        let drawn = bars("x", &[bar]).into_string();
        assert!(!drawn.contains("<script"), "{drawn}");
        assert!(drawn.contains('…'));
    }
}
