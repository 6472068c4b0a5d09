//! The setting `source` of a projection.

use std::fmt;
use std::path::{Path, PathBuf};

use filrouge_projections::ForeignHistory;
use filrouge_sources::Program;
use filrouge_types::TenantId;

use crate::config::sources::SourceName;
use crate::exit::Result;

/// The history of another program, which a projection copies instead of the ledger.
#[derive(Debug, Clone)]
pub(crate) struct ForeignSource {
    pub(crate) program: &'static Program,
    /// The path of the history; `None` for the program's default folders.
    pub(crate) path: Option<PathBuf>,
    /// The tenant of the copied sessions.
    pub(crate) tenant: TenantId,
}

impl ForeignSource {
    /// Parses the setting, in the form of the setting `sources`; a relative path is taken from `folder`. `None` for the
    /// ledger, which is the default. `tenants` is the projection's setting.
    pub(super) fn parse(
        setting: Option<&str>,
        folder: &Path,
        tenants: Option<&[TenantId]>,
    ) -> Result<Option<Self>, String> {
        let source = setting.map(str::parse::<SourceName>).transpose();
        let source = source.map_err(|e| format!("source: {e}"))?;
        let Some(SourceName::Program(program, path)) = source else {
            return Ok(None);
        };
        let tenant = match tenants {
            None => TenantId::default_tenant(),
            Some([tenant]) => tenant.clone(),
            Some(_) => {
                let detail = "a history of another program has no tenants; tenants may name the one of its copy";
                return Err(detail.to_owned());
            }
        };
        let path = path.map(|path| folder.join(path));
        Ok(Some(Self {
            program,
            path,
            tenant,
        }))
    }

    /// What rows depend on.
    pub(super) fn structure(&self) -> String {
        let (form, tenant) = (ForeignHistory::FORM, &self.tenant);
        format!(" form {form} of {self} in {tenant}")
    }
}

impl fmt::Display for ForeignSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&SourceName::Program(self.program, self.path.clone()), f)
    }
}
