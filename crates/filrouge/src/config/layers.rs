//! The layers of settings: flags, or the settings of a program that embeds filrouge, override the environment, which overrides the file, which overrides the defaults. The
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

use crate::exit::{Result, Usage};

/// The beginning of the names of all environment variables.
const ENV_PREFIX: &str = "FILROUGE_";
/// The text of an absent value, and of an empty list.
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

/// The type that a setting must have in the file. In an environment variable or a flag, every setting is a text.
#[derive(Clone, Copy)]
pub(super) enum ValueType {
    Text,
    /// A path. In the file, a relative path starts at the file's folder.
    FilePath,
    Number,
    Boolean,
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
    /// The values that overrule all other layers, and their origins: flags, and the settings that a program gives which
    /// embeds filrouge. Each has the name of its environment variable, in lower case and without `FILROUGE_`.
    given: BTreeMap<String, (String, String)>,
    /// The settings that were read, in order.
    rows: Vec<SettingRow>,
}

/// filrouge's folder in a base folder of the XDG Base Directory Specification. `env_variable` and `fallback` are those
/// of [`base_folder`].
pub(super) fn xdg_folder(env_variable: &str, fallback: &str) -> Result<PathBuf> {
    let base = base_folder(env_variable, fallback).map(|base| base.join("filrouge"));
    let no_home =
        || Usage::new(format!("neither {env_variable} nor HOME is set")).with_hint("set HOME");
    base.ok_or_else(no_home)
}

/// The folder that an environment variable names, if it is absolute; else the folder `fallback` in the user's home.
/// `None` without a home.
pub(crate) fn base_folder(env_variable: &str, fallback: &str) -> Option<PathBuf> {
    let named = env_path(env_variable).filter(|path| path.is_absolute());
    named.or_else(|| home_folder().map(|home| home.join(fallback)))
}

/// The user's home folder; `None` if `HOME` is not an absolute path.
pub(crate) fn home_folder() -> Option<PathBuf> {
    env_path("HOME").filter(|home| home.is_absolute())
}

/// The path in an environment variable; `None` if the variable is empty or not set.
pub(crate) fn env_path(env_variable: &str) -> Option<PathBuf> {
    let value = env::var_os(env_variable).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Parses the text of a setting. The caller adds the setting's name to the error.
pub(super) fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
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
fn env_variable(name: &str) -> String {
    let short = match name {
        "sources" => "source",
        "search.embedder.kind" => "embedder",
        name if name.starts_with("search.embedder.") => name.trim_start_matches("search."),
        name => ["secrets.", "calls.", "access."]
            .iter()
            .find_map(|section| name.strip_prefix(section))
            .unwrap_or(name),
    };
    format!("{ENV_PREFIX}{}", short.replace('.', "_").to_uppercase())
}

/// Converts a value of the file to the text of its environment variable; `None` when its type is wrong.
fn toml_as_text(value_type: ValueType, value: &DeValue<'_>) -> Option<String> {
    match (value_type, value) {
        (ValueType::Text | ValueType::FilePath, DeValue::String(text)) => Some(text.to_string()),
        (ValueType::Number, DeValue::Integer(number)) => {
            let number = u64::from_str_radix(number.as_str(), number.radix());
            Some(number.ok()?.to_string())
        }
        (ValueType::Boolean, DeValue::Boolean(value)) => Some(value.to_string()),
        (ValueType::List, DeValue::Array(list)) => {
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
    /// Parses the file. `text` is the content of the file at `path`; without a file it is empty. `given` are
    /// the values that overrule all other layers.
    ///
    /// # Errors
    /// [`Usage`] with the number of the line that is not TOML.
    pub(super) fn new(
        path: Option<&'a Path>,
        text: &'a str,
        given: BTreeMap<String, (String, String)>,
    ) -> Result<Self> {
        let mut layers = Self {
            path,
            text,
            table: DeTable::new(),
            given,
            rows: Vec::new(),
        };
        let table = DeTable::parse(text).map_err(|e| layers.malformed_toml(&e))?;
        layers.table = table.into_inner();
        Ok(layers)
    }

    /// Returns the rows of all settings that were read, in order. Must be called after all settings were read.
    ///
    /// # Errors
    /// [`Usage`] for a setting that was not read, and hence is unknown.
    pub(super) fn finish(self) -> Result<Vec<SettingRow>> {
        if let Some(name) = self.given.keys().next() {
            return Err(Usage::new(format!("unknown setting `{name}`")).with_hint(
                "docs/settings.md lists the settings; a name here is that of the environment variable in lower case, without FILROUGE_",
            ));
        }
        match self.first_unknown("", &self.table) {
            Some((name, span)) => {
                let detail = format!("unknown field `{name}`");
                Err(self
                    .error_at_line(span, &detail)
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
    pub(super) fn section<T: Deserialize<'a>>(&mut self, name: &str) -> Result<Option<T>> {
        let value = self.remove_from_file(name);
        let read = value.map(|value| T::deserialize(value.into_deserializer()));
        read.transpose().map_err(|e| self.malformed_toml(&e))
    }

    /// Reads a setting. `read` parses the text of the strongest layer that has the setting. `default` gives the value
    /// if no layer has it. `display` formats the value for its row.
    pub(super) fn read<T>(
        &mut self,
        (name, value_type): (&'static str, ValueType),
        default: impl FnOnce() -> Result<T>,
        read: impl FnOnce(&str) -> Result<T, String>,
        display: impl FnOnce(&T) -> String,
    ) -> Result<T> {
        let (value, origin) = match self.lookup(name, value_type)? {
            Some((text, origin)) => {
                let to_usage = |e| Usage::new(format!("{origin}: {name}: {e}"));
                (read(&text).map_err(to_usage)?, origin)
            }
            None => (default()?, "default".to_owned()),
        };
        let (name, display) = (name.to_owned(), display(&value));
        self.rows.push(SettingRow {
            name,
            value: display,
            origin,
        });
        Ok(value)
    }

    /// Reads a text that is parsed as a `T`.
    pub(super) fn text<T>(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Result<T>,
    ) -> Result<T>
    where
        T: FromStr<Err: Display> + Display,
    {
        self.read((name, ValueType::Text), default, parse, T::to_string)
    }

    /// Reads a list of texts, each parsed by `read`.
    pub(super) fn list<T: ToString>(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Vec<T>,
        read: fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>> {
        let read_all = |text: &str| {
            text.split(',')
                .map(|element| read(element.trim()))
                .collect()
        };
        let display = |values: &Vec<T>| format_list(values);
        self.read((name, ValueType::List), || Ok(default()), read_all, display)
    }

    /// Reads a text without a default; `None` when no layer has it.
    pub(super) fn optional<T: Display>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let read = |text: &str| read(text).map(Some);
        self.read((name, ValueType::Text), || Ok(None), read, format_or_none)
    }

    /// Reads a path and keeps a relative path relative, even in the file.
    pub(super) fn path(
        &mut self,
        name: &'static str,
        default: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        let read = |text: &str| Ok(text.into());
        self.read((name, ValueType::Text), default, read, DISPLAY_PATH)
    }

    pub(super) fn boolean(&mut self, name: &'static str, default: bool) -> Result<bool> {
        let read = |text: &str| {
            text.parse()
                .map_err(|_| format!("{text:?} is neither true nor false"))
        };
        let setting = (name, ValueType::Boolean);
        self.read(setting, || Ok(default), read, bool::to_string)
    }

    /// Reads a whole number within `bounds`.
    pub(super) fn number<N: TryFrom<u64> + Display>(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: N,
    ) -> Result<N> {
        let read = |text: &str| {
            let number = N::try_from(parse_within(&bounds, text)?);
            number.map_err(|_| format!("{text:?} is too large for this machine"))
        };
        let setting = (name, ValueType::Number);
        self.read(setting, || Ok(default), read, N::to_string)
    }

    /// Reads a number of milliseconds within `bounds`.
    pub(super) fn millis(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: Duration,
    ) -> Result<Duration> {
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
    ) -> Result<Duration> {
        self.number(name, bounds, default.as_secs())
            .map(Duration::from_secs)
    }

    /// Returns the text of the strongest layer that has the setting, and the name of that layer. Removes the setting
    /// from `table` even if another layer is stronger, so that [`Self::finish`] does not report it as unknown.
    fn lookup(
        &mut self,
        name: &'static str,
        value_type: ValueType,
    ) -> Result<Option<(String, String)>> {
        let in_file = self.remove_from_file(name).map(|value| {
            let type_error =
                || self.error_at_line(value.span(), &format!("{name} {}", type_rule(value_type)));
            toml_as_text(value_type, value.get_ref()).ok_or_else(type_error)
        });
        let in_file = in_file.transpose()?.map(|text| match value_type {
            ValueType::FilePath => self.folder().join(text).to_string_lossy().into_owned(),
            _ => text,
        });
        let in_file = in_file.map(|text| (text, self.file()));
        let env_variable = env_variable(name);
        let short = env_variable.trim_start_matches(ENV_PREFIX).to_lowercase();
        if let Some(given) = self.given.remove(&short) {
            return Ok(Some(given));
        }
        match env::var(&env_variable) {
            Ok(text) if !text.is_empty() => Ok(Some((text, env_variable))),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(in_file),
            Err(env::VarError::NotUnicode(_)) => {
                Err(Usage::new(format!("{env_variable} is not UTF-8")))
            }
        }
    }

    /// Removes a value from `table` by its name with sections, such as `search.index`.
    fn remove_from_file(&mut self, name: &str) -> Option<Spanned<DeValue<'a>>> {
        let mut table = &mut self.table;
        let mut member = name;
        while let Some((section, remainder)) = member.split_once('.') {
            table = match table.get_mut(section)?.get_mut() {
                DeValue::Table(inner) => inner,
                _ => return None,
            };
            member = remainder;
        }
        table.remove(member)
    }

    /// Returns the first unread name of `table`, which is unknown, and its position. A section is known if a setting
    /// in it was read. `prefix` is the name of `table` with a final dot.
    fn first_unknown(
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
                    self.first_unknown(&section, inner)
                }
                _ => Some((name, key.span())),
            }
        })
    }

    /// The error `detail` with the number of the line at `span`.
    fn error_at_line(&self, span: std::ops::Range<usize>, detail: &str) -> Usage {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Usage::new(format!("{}: line {line}: {detail}", self.file()))
    }

    /// The error for TOML that cannot be read, with its line. The message is left out if it may quote a secret.
    fn malformed_toml(&self, error: &toml::de::Error) -> Usage {
        let may_contain_secret =
            |t: &str| t.contains("secret") || t.contains("://") && t.contains('@');
        let span = error.span().unwrap_or(0..0);
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count();
        let source_text = match error.span() {
            Some(_) => self.text.lines().nth(line).unwrap_or_default(),
            None => self.text,
        };
        let section = before.rsplit("\n[").next().unwrap_or_default();
        if may_contain_secret(source_text)
            || may_contain_secret(section)
            || error.message().contains("whsec_")
        {
            return self.error_at_line(
                span,
                "it is invalid (it is not shown, because it may contain a secret)",
            );
        }
        self.error_at_line(span, error.message())
    }
}

/// The rule for a type, for errors.
fn type_rule(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Text | ValueType::FilePath => "must be a text",
        ValueType::Number => "must be a whole number, not below 0",
        ValueType::Boolean => "must be true or false",
        ValueType::List => "must be a list of texts",
    }
}

/// Parses an integer within bounds.
pub(super) fn parse_within(bounds: &RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| match (bounds.start(), bounds.end()) {
        (min, &u64::MAX) => format!("{text:?} is no whole number from {min} up"),
        (min, max) => format!("{text:?} is no whole number from {min} to {max}"),
    })
}

/// Formats a path.
pub(super) const DISPLAY_PATH: fn(&PathBuf) -> String = |path| path.display().to_string();

/// Formats a value; [`NONE`] if it is absent.
pub(super) fn format_or_none<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| NONE.to_owned(), T::to_string)
}

/// Formats a list in the form that its environment variable has; [`NONE`] if it is empty.
pub(super) fn format_list<T: ToString>(values: &[T]) -> String {
    let texts: Vec<_> = values.iter().map(T::to_string).collect();
    match values.is_empty() {
        true => NONE.to_owned(),
        false => texts.join(","),
    }
}

#[cfg(test)]
mod tests;
