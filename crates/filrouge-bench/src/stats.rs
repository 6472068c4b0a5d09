//! Medians, percentiles, and the results of a measured leg.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;

/// The results of one leg.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Leg {
    /// Calls per second over the whole leg.
    pub(crate) per_s: f64,
    /// Median latency, µs.
    pub(crate) p50: f64,
    /// 99th percentile of the latency, µs.
    pub(crate) p99: f64,
}

impl Leg {
    /// Computes the results from the latencies of all callers, and the time from the first call to the last answer.
    pub(crate) fn new(mut micros: Vec<f64>, wall_time: Duration) -> Self {
        micros.sort_by(f64::total_cmp);
        let per_s = micros.len() as f64 / wall_time.as_secs_f64().max(1e-9);
        Self {
            per_s,
            p50: quantile(&micros, 0.5),
            p99: quantile(&micros, 0.99),
        }
    }

    /// Runs `tasks` concurrently; all of them begin at the same time. Each returns the latencies of its calls in µs.
    pub(crate) async fn of_tasks<F>(tasks: Vec<F>) -> Result<Self>
    where
        F: Future<Output = Result<Vec<f64>>> + Send + 'static,
    {
        let barrier = Arc::new(Barrier::new(tasks.len() + 1));
        let spawn = |task: F| {
            let barrier = barrier.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                task.await
            })
        };
        let handles: Vec<_> = tasks.into_iter().map(spawn).collect();
        barrier.wait().await;
        let start = Instant::now();
        let mut latencies = Vec::new();
        for handle in handles {
            latencies.extend(handle.await??);
        }
        Ok(Self::new(latencies, start.elapsed()))
    }
}

/// The value at the quantile `q` of sorted values; NaN if there are none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The values at several quantiles; NaN if there are no values.
pub(crate) fn quantiles<const N: usize>(mut values: Vec<f64>, at: [f64; N]) -> [f64; N] {
    values.sort_by(f64::total_cmp);
    at.map(|q| quantile(&values, q))
}

/// The median; NaN if there are no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// Microseconds since `start`.
pub(crate) fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// The same leg measured in every pair.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Series {
    /// The measured operation.
    pub(crate) name: String,
    /// One leg per pair.
    pub(crate) legs: Vec<Leg>,
}

impl Series {
    /// An empty series.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            legs: Vec::new(),
        }
    }

    /// A metric of each leg.
    pub(crate) fn values(&self, metric: fn(&Leg) -> f64) -> Vec<f64> {
        self.legs.iter().map(metric).collect()
    }

    /// The median of a metric over the legs.
    pub(crate) fn median(&self, metric: fn(&Leg) -> f64) -> f64 {
        median(self.values(metric))
    }
}

/// The series with the lowest median latency.
pub(crate) fn fastest(series: &[Series]) -> Result<&Series> {
    let p50 = |s: &Series| s.median(|l| l.p50);
    let fastest = series.iter().min_by(|a, b| p50(a).total_cmp(&p50(b)));
    fastest.context("no series to choose from")
}

/// The processor time that a process has used so far, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The process name before this parenthesis may contain spaces and parentheses.
    let (_, rest) = stat
        .rsplit_once(") ")
        .context("/proc/PID/stat has an unexpected form")?;
    // User and system time are fields 14 and 15; Linux counts them in hundredths of a second.
    let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_computed() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median([]).is_nan());
        assert_eq!(quantiles(vec![3.0, 1.0, 2.0], [0.0, 0.95]), [1.0, 3.0]);
        let leg = Leg::new((1..=101).map(f64::from).collect(), Duration::from_secs(1));
        assert!((leg.p50 - 51.0).abs() < f64::EPSILON && (leg.p99 - 100.0).abs() < f64::EPSILON);
    }
}
