//! The configured projections of an open store.

use std::sync::Arc;

use filrouge_engine::Engine;
use filrouge_projections::{ForeignHistory, Projection, ProjectionCleaner};
use filrouge_search::embed::Embedder;
use filrouge_types::SystemClock;

use crate::config::sources::open_program;
use crate::config::{Config, ProjectionConfig};
use crate::exit::Result;

/// Opens the configured embedder if one of the projections stores vectors; otherwise this would only take time.
///
/// # Errors
/// If the embedder cannot be opened.
fn embedder_of<'c>(
    config: &Config,
    mut projections: impl Iterator<Item = &'c ProjectionConfig>,
) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
    match projections.any(|projection| projection.vectors) {
        true => config.search.embedder(),
        false => Ok(None),
    }
}

/// The enabled projections.
pub(crate) fn enabled(config: &Config) -> impl Iterator<Item = &ProjectionConfig> {
    config.projections.iter().filter(|p| p.enabled)
}

/// The history that a projection copies, which is not opened yet; `None` for the ledger.
pub(crate) fn history_of(projection: &ProjectionConfig) -> Option<Arc<ForeignHistory>> {
    let source = projection.source.clone()?;
    let tenant = source.tenant.clone();
    let open = move || {
        let opened = open_program(source.program, source.path.as_deref());
        opened.map_err(|usage| usage.to_string())
    };
    Some(Arc::new(ForeignHistory::new(tenant, open)))
}

/// Opens a projection, without contacting its target or reading its history. `embedder` is the configured one.
///
/// # Errors
/// [`crate::exit::Usage`] when its settings are wrong.
pub(crate) fn open(
    projection: &ProjectionConfig,
    embedder: Option<&Arc<dyn Embedder>>,
) -> Result<Projection> {
    projection.open(embedder, history_of(projection))
}

/// As [`install_with`], for a command, which has opened no embedder.
///
/// # Errors
/// As [`install_with`], and if the embedder cannot be opened.
pub(crate) fn install(
    config: &Config,
    engine: &Arc<Engine>,
) -> anyhow::Result<Vec<Arc<Projection>>> {
    let embedder = embedder_of(config, enabled(config))?;
    Ok(install_with(config, engine, embedder.as_ref())?)
}

/// Opens the enabled projections, and makes redactions and erasures of the engine clean them. `embedder` is the
/// configured one.
///
/// # Errors
/// [`crate::exit::Usage`] when the settings of one are wrong. Without it, its copies of erased contents would stay.
pub(crate) fn install_with(
    config: &Config,
    engine: &Arc<Engine>,
    embedder: Option<&Arc<dyn Embedder>>,
) -> Result<Vec<Arc<Projection>>> {
    let opened = enabled(config).map(|projection| open(projection, embedder).map(Arc::new));
    let projections = opened.collect::<Result<Vec<_>>>()?;
    ProjectionCleaner::install(engine, projections.clone(), Arc::new(SystemClock));
    Ok(projections)
}

/// Opens the projection with this name, even if it is not enabled.
///
/// # Errors
/// [`crate::exit::Usage`] if no projection has this name, or its settings are wrong; if the embedder cannot be opened.
pub(crate) fn open_named(config: &Config, name: &str) -> anyhow::Result<Projection> {
    let projection = named(config, name)?;
    let embedder = embedder_of(config, std::iter::once(projection))?;
    Ok(open(projection, embedder.as_ref())?)
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
