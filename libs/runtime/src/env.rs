//! Typed configuration from the environment. All errors are reported together.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::bail;

/// A variable that a service reads, for the command `config` and the service's README.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// The default value. `None` for a required variable, empty for an optional one.
    pub default: Option<String>,
    pub about: &'static str,
}

/// A function that returns the value of a variable.
type Source = Box<dyn Fn(&str) -> Option<String>>;

/// Reads variables and collects their errors.
///
/// Each read returns an `Option`, which is `None` after an error. A configuration reads all
/// variables first and unwraps them at the end, so that [`Env::finish`] can report all errors
/// together.
pub struct Env {
    source: Source,
    variables: Vec<Variable>,
    errors: Vec<String>,
}

impl Env {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
    pub fn from_process() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// Reads variables from `source`. The local stack and the tests configure services with it.
    pub fn new(source: impl Fn(&str) -> Option<String> + 'static) -> Self {
        Self { source: Box::new(source), variables: Vec::new(), errors: Vec::new() }
    }

    /// Reads a required variable.
    pub fn require<T>(&mut self, name: &'static str, about: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        self.declare(name, None, about);
        let Some(text) = self.value(name) else {
            self.errors.push(format!("{name} is missing: {about}"));
            return None;
        };
        self.parse(name, &text)
    }

    /// Reads a variable with a default.
    pub fn with_default<T>(&mut self, name: &'static str, default: T, about: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display> + Display,
    {
        self.declare(name, Some(default.to_string()), about);
        match self.value(name) {
            Some(text) => self.parse(name, &text),
            None => Some(default),
        }
    }

    /// Reads a variable that may be unset. The outer `None` is an error, the inner one an unset
    /// variable.
    pub fn optional<T>(&mut self, name: &'static str, about: &'static str) -> Option<Option<T>>
    where
        T: FromStr<Err: Display>,
    {
        self.declare(name, Some(String::new()), about);
        match self.value(name) {
            Some(text) => self.parse(name, &text).map(Some),
            None => Some(None),
        }
    }

    /// Reads a comma-separated list, which is empty by default.
    pub fn list<T>(&mut self, name: &'static str, about: &'static str) -> Option<Vec<T>>
    where
        T: FromStr<Err: Display>,
    {
        self.declare(name, Some(String::new()), about);
        let text = self.value(name).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| self.parse(name, item))
            .collect()
    }

    /// Rejects a value that contradicts another one. Returns `None`, as a read does after an error.
    pub fn reject<T>(&mut self, name: &'static str, reason: &str) -> Option<T> {
        self.errors.push(format!("{name} is not valid: {reason}"));
        None
    }

    /// Returns every variable that was read.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns `config`.
    ///
    /// # Errors
    /// All errors of the reads, one a line.
    pub fn finish<C>(self, config: Option<C>) -> anyhow::Result<C> {
        match config {
            Some(config) if self.errors.is_empty() => Ok(config),
            _ => bail!("the configuration is invalid:\n  {}", self.errors.join("\n  ")),
        }
    }

    /// Lists a variable once, even if two parts of a service read it.
    fn declare(&mut self, name: &'static str, default: Option<String>, about: &'static str) {
        if self.variables.iter().all(|variable| variable.name != name) {
            self.variables.push(Variable { name, default, about });
        }
    }

    /// Returns the variable, or the content of the file that `<NAME>_FILE` names. Secrets are
    /// mounted as files.
    fn value(&mut self, name: &str) -> Option<String> {
        if let Some(value) = (self.source)(name).filter(|value| !value.is_empty()) {
            return Some(value);
        }
        let path = (self.source)(&format!("{name}_FILE"))?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(text.trim_end().to_owned()),
            Err(error) => {
                self.errors.push(format!("{name}_FILE: {path}: {error}"));
                None
            }
        }
    }

    /// Parses a value. An error does not repeat it, since it may be a secret.
    fn parse<T: FromStr<Err: Display>>(&mut self, name: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.errors.push(format!("{name} is not valid: {error}"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Env;

    /// RULE-ALL-074: the configuration reports every mistake at once.
    #[test]
    fn all_errors_are_reported_together() {
        let mut env = Env::new(|name| (name == "PORT").then(|| "many".to_owned()));
        let port = env.with_default::<u16>("PORT", 8080, "port");
        let url = env.require::<String>("DATABASE_URL", "URL of the database");
        let error = env.finish(port.zip(url)).unwrap_err().to_string();
        assert!(error.contains("PORT is not valid"), "{error}");
        assert!(error.contains("DATABASE_URL is missing"), "{error}");
    }

    /// RULE-ALL-074: a secret may be in a file.
    #[test]
    fn secret_is_read_from_its_file() {
        let path = std::env::temp_dir().join(format!("env-test-{}", std::process::id()));
        std::fs::write(&path, "secret\n").unwrap();
        let file = path.to_string_lossy().into_owned();
        let mut env = Env::new(move |name| (name == "PASSWORD_FILE").then(|| file.clone()));
        let password = env.require::<String>("PASSWORD", "a secret");
        assert_eq!(env.finish(password).unwrap(), "secret");
        std::fs::remove_file(path).unwrap();
    }
}
