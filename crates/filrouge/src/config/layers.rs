//! The layers of settings: flags override the environment, which overrides the file, which overrides the defaults. The
//! layer that gives each value is recorded.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::Usage;

/// The text that stands for an absent value, and for an empty list.
pub(super) const NONE: &str = "none";

/// A setting as `config show` lists it.
#[derive(Debug, Clone)]
pub(crate) struct SettingRow {
    pub(crate) name: String,
    pub(crate) value: String,
    /// The layer that gives the value: `default`, the path of the file, the name of the environment variable, or the
    /// flag.
    pub(crate) origin: String,
}

/// The type that a setting must have in the file. In a variable or a flag, every setting is a text.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    /// A path. In the file, a relative path starts at the file's folder.
    FilePath,
    Number,
    Truth,
    /// A list of texts; in a variable, separated by commas.
    List,
}

/// The layers, from which settings are read by name. A setting gets its value from the strongest layer that has it, and
/// is recorded as a row.
pub(super) struct Layers<'a> {
    /// The configuration file, if there is one.
    path: Option<&'a Path>,
    text: &'a str,
    /// The part of the file that no setting has read yet.
    table: DeTable<'a>,
    flags: BTreeMap<&'static str, String>,
    /// The settings that were read, in order.
    rows: Vec<SettingRow>,
}

/// filrouge's folder in a base folder of the XDG Base Directory Specification. `variable` and `fallback` are those of
/// [`base`].
pub(super) fn xdg(variable: &str, fallback: &str) -> Result<PathBuf, Usage> {
    let base = base(variable, fallback).map(|base| base.join("filrouge"));
    let what = || Usage::new(format!("neither {variable} nor HOME is set")).with_hint("set HOME");
    base.ok_or_else(what)
}

/// The folder that an environment variable names, if it is absolute; else the folder `fallback` in the user's home.
/// `None` without a home.
pub(crate) fn base(variable: &str, fallback: &str) -> Option<PathBuf> {
    let named = path_in(variable).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(fallback)))
}

/// The user's home folder; `None` if `HOME` is not an absolute path.
pub(crate) fn home() -> Option<PathBuf> {
    path_in("HOME").filter(|home| home.is_absolute())
}

/// The path in an environment variable; `None` if the variable is empty or not set.
pub(crate) fn path_in(variable: &str) -> Option<PathBuf> {
    let value = env::var_os(variable).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Parses the text of a setting. The caller adds the setting's name to the error.
pub(super) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

/// Parses a text that must not be empty.
pub(super) fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("must not be empty".to_owned());
    }
    Ok(text.to_owned())
}

/// The environment variable of a setting: `FILROUGE_` and the setting's name in capitals. The names of some sections
/// are left out.
fn variable(name: &str) -> String {
    let short = match name {
        "sources" => "source",
        "search.embedder.kind" => "embedder",
        name if name.starts_with("search.embedder.") => name.trim_start_matches("search."),
        name => ["secrets.", "calls.", "access."]
            .iter()
            .find_map(|section| name.strip_prefix(section))
            .unwrap_or(name),
    };
    format!("FILROUGE_{}", short.replace('.', "_").to_uppercase())
}

/// A value of the file as the text that its environment variable would have; `None` when its type is wrong.
fn written(form: Form, value: &DeValue<'_>) -> Option<String> {
    match (form, value) {
        (Form::Text | Form::FilePath, DeValue::String(text)) => Some(text.to_string()),
        (Form::Number, DeValue::Integer(number)) => {
            let number = u64::from_str_radix(number.as_str(), number.radix());
            Some(number.ok()?.to_string())
        }
        (Form::Truth, DeValue::Boolean(truth)) => Some(truth.to_string()),
        (Form::List, DeValue::Array(list)) => {
            let texts = list.iter().map(|text| text.get_ref().as_str());
            let texts = texts.collect::<Option<Vec<_>>>()?;
            // A list with one empty text must differ from an empty list.
            Some(if texts == [""] {
                ",".to_owned()
            } else {
                texts.join(",")
            })
        }
        _ => None,
    }
}

impl<'a> Layers<'a> {
    /// Parses the file. `text` is the content of the file at `path`; without a file it is empty. `flags` maps names of
    /// settings to values.
    ///
    /// # Errors
    /// [`Usage`] with the number of the line that is not TOML.
    pub(super) fn new(
        path: Option<&'a Path>,
        text: &'a str,
        flags: BTreeMap<&'static str, String>,
    ) -> Result<Self, Usage> {
        let mut layers = Self {
            path,
            text,
            table: DeTable::new(),
            flags,
            rows: Vec::new(),
        };
        let table = DeTable::parse(text).map_err(|e| layers.malformed(&e))?;
        layers.table = table.into_inner();
        Ok(layers)
    }

    /// Returns the rows of all settings that were read, in order. Must be called after all settings were read.
    ///
    /// # Errors
    /// [`Usage`] for a setting in the file that was not read, and hence is unknown.
    pub(super) fn finish(self) -> Result<Vec<SettingRow>, Usage> {
        match self.unknown("", &self.table) {
            Some((name, span)) => {
                let what = format!("unknown field `{name}`");
                Err(self
                    .at(span, &what)
                    .with_hint("docs/settings.md lists the settings"))
            }
            None => Ok(self.rows),
        }
    }

    /// Adds a row for a value of the file that was read with [`Self::section`].
    pub(super) fn add_row(&mut self, name: String, value: &impl Display) {
        let origin = self.file();
        let value = value.to_string();
        self.rows.push(SettingRow {
            name,
            value,
            origin,
        });
    }

    /// The path of the file as text; empty without a file.
    pub(super) fn file(&self) -> String {
        self.path
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }

    /// The folder of the file; empty without a file.
    pub(super) fn folder(&self) -> &'a Path {
        self.path.and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Whether the file has this section or setting, and no setting has read it yet.
    pub(super) fn has(&self, section: &str) -> bool {
        self.table.contains_key(section)
    }

    /// Reads a section that only the file can have, as a value of its own type. `None` when it is absent.
    pub(super) fn section<T: Deserialize<'a>>(&mut self, name: &str) -> Result<Option<T>, Usage> {
        let value = self.take(name);
        let read = value.map(|value| T::deserialize(value.into_deserializer()));
        read.transpose().map_err(|e| self.malformed(&e))
    }

    /// Reads a setting. `read` parses the text of the strongest layer that has the setting. `default` gives the value
    /// if no layer has it. `shown` formats the value for its row.
    pub(super) fn read<T>(
        &mut self,
        (name, form): (&'static str, Form),
        default: impl FnOnce() -> Result<T, Usage>,
        read: impl FnOnce(&str) -> Result<T, String>,
        shown: impl FnOnce(&T) -> String,
    ) -> Result<T, Usage> {
        let (value, origin) = match self.find(name, form)? {
            Some((text, origin)) => {
                let wrong = |e| Usage::new(format!("{origin}: {name}: {e}"));
                (read(&text).map_err(wrong)?, origin)
            }
            None => (default()?, "default".to_owned()),
        };
        let (name, shown) = (name.to_owned(), shown(&value));
        self.rows.push(SettingRow {
            name,
            value: shown,
            origin,
        });
        Ok(value)
    }

    /// Reads a text that is parsed as a `T`.
    pub(super) fn text<T>(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Result<T, Usage>,
    ) -> Result<T, Usage>
    where
        T: FromStr<Err: Display> + Display,
    {
        self.read((name, Form::Text), default, parsed, T::to_string)
    }

    /// Reads a list of texts, each parsed by `read`.
    pub(super) fn several<T: ToString>(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Vec<T>,
        read: fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, Usage> {
        let all = |text: &str| text.split(',').map(|one| read(one.trim())).collect();
        let shown = |all: &Vec<T>| joined(all);
        self.read((name, Form::List), || Ok(default()), all, shown)
    }

    /// Reads a text without a default; `None` when no layer has it.
    pub(super) fn optional<T: Display>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Usage> {
        let read = |text: &str| read(text).map(Some);
        self.read(
            (name, Form::Text),
            || Ok(None),
            read,
            |value| shown_or_none(value.as_ref()),
        )
    }

    /// Reads a path unchanged: a relative path remains relative, even in the file.
    pub(super) fn path(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Result<PathBuf, Usage>,
    ) -> Result<PathBuf, Usage> {
        let shown = |path: &PathBuf| path.display().to_string();
        self.read((name, Form::Text), default, |text| Ok(text.into()), shown)
    }

    pub(super) fn truth(&mut self, name: &'static str, default: bool) -> Result<bool, Usage> {
        let read = |text: &str| {
            text.parse()
                .map_err(|_| format!("{text:?} is neither true nor false"))
        };
        self.read((name, Form::Truth), || Ok(default), read, bool::to_string)
    }

    /// Reads a whole number within `bounds`.
    pub(super) fn number<N: TryFrom<u64> + Display>(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: N,
    ) -> Result<N, Usage> {
        let read = |text: &str| {
            let number = N::try_from(within(&bounds, text)?);
            number.map_err(|_| format!("{text:?} is too large for this machine"))
        };
        self.read((name, Form::Number), || Ok(default), read, N::to_string)
    }

    /// Reads a number of milliseconds within `bounds`.
    pub(super) fn millis(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: Duration,
    ) -> Result<Duration, Usage> {
        let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        self.number(name, bounds, default)
            .map(Duration::from_millis)
    }

    /// Reads a number of seconds within `bounds`.
    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: Duration,
    ) -> Result<Duration, Usage> {
        self.number(name, bounds, default.as_secs())
            .map(Duration::from_secs)
    }

    /// The text of the strongest layer that has the setting, and the name of that layer. Takes the setting out of the
    /// file even if another layer is stronger, so that [`Self::finish`] does not find it there.
    fn find(&mut self, name: &'static str, form: Form) -> Result<Option<(String, String)>, Usage> {
        let in_file = self.take(name).map(|value| {
            let wrong = || self.at(value.span(), &format!("{name} {}", must_be(form)));
            written(form, value.get_ref()).ok_or_else(wrong)
        });
        let in_file = in_file.transpose()?.map(|text| match form {
            Form::FilePath => self.folder().join(text).to_string_lossy().into_owned(),
            _ => text,
        });
        let in_file = in_file.map(|text| (text, self.file()));
        if let Some(text) = self.flags.remove(name) {
            return Ok(Some((text, format!("--{name}"))));
        }
        let variable = variable(name);
        match env::var(&variable) {
            Ok(text) if !text.is_empty() => Ok(Some((text, variable))),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(in_file),
            Err(env::VarError::NotUnicode(_)) => {
                Err(Usage::new(format!("{variable} is not UTF-8")))
            }
        }
    }

    /// Takes a value out of the file, by its name with sections, such as `search.index`.
    fn take(&mut self, name: &str) -> Option<Spanned<DeValue<'a>>> {
        let mut table = &mut self.table;
        let mut member = name;
        while let Some((section, rest)) = member.split_once('.') {
            table = match table.get_mut(section)?.get_mut() {
                DeValue::Table(inner) => inner,
                _ => return None,
            };
            member = rest;
        }
        table.remove(member)
    }

    /// The first name in the rest of the file, which is unknown, and its position. A section is known if a setting in
    /// it was read. `prefix` is the name of `table` with a final dot.
    fn unknown(
        &self,
        prefix: &str,
        table: &DeTable<'a>,
    ) -> Option<(String, std::ops::Range<usize>)> {
        table.iter().find_map(|(key, value)| {
            let name = format!("{prefix}{}", key.get_ref());
            let section = format!("{name}.");
            match value.get_ref() {
                DeValue::Table(inner)
                    if self.rows.iter().any(|row| row.name.starts_with(&section)) =>
                {
                    self.unknown(&section, inner)
                }
                _ => Some((name, key.span())),
            }
        })
    }

    /// The error `what` with the number of the line at `span`.
    fn at(&self, span: std::ops::Range<usize>, what: &str) -> Usage {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Usage::new(format!("{}: line {line}: {what}", self.file()))
    }

    /// The error for TOML that cannot be read, with its line. The message is left out if it may quote a secret.
    fn malformed(&self, error: &toml::de::Error) -> Usage {
        let may_contain_secret =
            |t: &str| t.contains("secret") || t.contains("://") && t.contains('@');
        let span = error.span().unwrap_or(0..0);
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count();
        let near = match error.span() {
            Some(_) => self.text.lines().nth(line).unwrap_or_default(),
            None => self.text,
        };
        let section = before.rsplit("\n[").next().unwrap_or_default();
        if may_contain_secret(near)
            || may_contain_secret(section)
            || error.message().contains("whsec_")
        {
            return self.at(
                span,
                "it is invalid (it is not shown, because it may contain a secret)",
            );
        }
        self.at(span, error.message())
    }
}

/// The rule for a form, for errors.
fn must_be(form: Form) -> &'static str {
    match form {
        Form::Text | Form::FilePath => "must be a text",
        Form::Number => "must be a whole number, not below 0",
        Form::Truth => "must be true or false",
        Form::List => "must be a list of texts",
    }
}

/// Parses an integer within bounds.
pub(super) fn within(bounds: &RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| match (bounds.start(), bounds.end()) {
        (least, &u64::MAX) => format!("{text:?} is no whole number from {least} up"),
        (least, greatest) => format!("{text:?} is no whole number from {least} to {greatest}"),
    })
}

/// Formats a value; [`NONE`] if it is absent.
pub(super) fn shown_or_none<T: Display>(value: Option<&T>) -> String {
    value.map_or_else(|| NONE.to_owned(), T::to_string)
}

/// Formats a list as its environment variable would be written; [`NONE`] if it is empty.
pub(super) fn joined<T: ToString>(all: &[T]) -> String {
    match all {
        [] => NONE.to_owned(),
        all => all.iter().map(T::to_string).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests;
