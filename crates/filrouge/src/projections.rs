//! The configured projections of an open store.

use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_projections::{Projection, ProjectionCleaner};
use filrouge_types::SystemClock;

use crate::config::{Config, ProjectionConfig};
use crate::exit::Result;

/// The enabled projections, and makes redactions and erasures of the engine clean them.
///
/// # Errors
/// [`crate::exit::Usage`] when the settings of one are wrong. Without it, its copies of erased contents would stay.
pub(crate) fn install(config: &Config, engine: &Arc<Engine>) -> Result<Vec<Arc<Projection>>> {
    let enabled = config.projections.iter().filter(|p| p.enabled);
    let opened = enabled.map(|projection| projection.open().map(Arc::new));
    let projections = opened.collect::<Result<Vec<_>>>()?;
    ProjectionCleaner::install(engine, projections.clone(), Arc::new(SystemClock));
    Ok(projections)
}

/// The configuration of a projection.
///
/// # Errors
/// [`crate::exit::Usage`] if no projection has this name.
pub(crate) fn named<'c>(config: &'c Config, name: &str) -> Result<&'c ProjectionConfig> {
    let mut projections = config.projections.iter();
    let found = projections.find(|projection| projection.name.as_str() == name);
    found.ok_or_else(|| {
        let names = config.projections.iter().map(|p| p.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        crate::exit::Usage::new(format!(
            "no projection {name:?} is configured; configured: {names}"
        ))
    })
}
