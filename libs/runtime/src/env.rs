//! Typed configuration from the environment, with every mistake reported at once.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::bail;

/// A variable that a service reads, for `--help` and its README.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// `None`: required. An empty text: optional.
    pub default: Option<String>,
    pub about: &'static str,
}

/// Finds the value of a variable.
type Lookup = Box<dyn Fn(&str) -> Option<String>>;

/// Reads variables and remembers what was wrong with them.
///
/// Each read answers `Option`; a configuration reads all of them first and unwraps them with `?` at
/// the end, so that [`Env::finish`] can report every mistake together.
pub struct Env {
    lookup: Lookup,
    variables: Vec<Variable>,
    mistakes: Vec<String>,
}

impl Env {
    /// The environment of this process.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn from_process() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// An environment of the caller's own: the local stack and the tests configure services by it.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + 'static) -> Self {
        Self { lookup: Box::new(lookup), variables: Vec::new(), mistakes: Vec::new() }
    }

    /// A variable without which the service cannot start.
    pub fn require<T>(&mut self, name: &'static str, about: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        self.declare(name, None, about);
        let Some(text) = self.value(name) else {
            self.mistakes.push(format!("{name} is missing: {about}"));
            return None;
        };
        self.parse(name, &text)
    }

    /// A variable that has a default.
    pub fn or<T>(&mut self, name: &'static str, default: T, about: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display> + Display,
    {
        self.declare(name, Some(default.to_string()), about);
        match self.value(name) {
            Some(text) => self.parse(name, &text),
            None => Some(default),
        }
    }

    /// A variable that may be absent. The outer `None` is a mistake, the inner one absence.
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

    /// A comma-separated list, empty by default.
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

    /// Every variable that was asked for.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// # Errors
    /// All the mistakes, a line each.
    pub fn finish<C>(self, config: Option<C>) -> anyhow::Result<C> {
        match config {
            Some(config) if self.mistakes.is_empty() => Ok(config),
            _ => bail!("the configuration is not usable:\n  {}", self.mistakes.join("\n  ")),
        }
    }

    /// Two parts of a service may read the same variable; it is told of once.
    fn declare(&mut self, name: &'static str, default: Option<String>, about: &'static str) {
        if self.variables.iter().all(|variable| variable.name != name) {
            self.variables.push(Variable { name, default, about });
        }
    }

    /// The variable, or the content of the file that `<NAME>_FILE` names (how secrets are mounted).
    fn value(&mut self, name: &str) -> Option<String> {
        if let Some(value) = (self.lookup)(name).filter(|value| !value.is_empty()) {
            return Some(value);
        }
        let path = (self.lookup)(&format!("{name}_FILE"))?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(text.trim_end().to_owned()),
            Err(error) => {
                self.mistakes.push(format!("{name}_FILE: {path}: {error}"));
                None
            }
        }
    }

    /// The value itself is never repeated: it may be a secret.
    fn parse<T: FromStr<Err: Display>>(&mut self, name: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.mistakes.push(format!("{name} is not valid: {error}"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Env;

    #[test]
    fn every_mistake_is_reported_at_once() {
        let mut env = Env::new(|name| (name == "PORT").then(|| "many".to_owned()));
        let port = env.or::<u16>("PORT", 8080, "port");
        let url = env.require::<String>("DATABASE_URL", "where the database is");
        let error = env.finish(port.zip(url)).unwrap_err().to_string();
        assert!(error.contains("PORT is not valid"), "{error}");
        assert!(error.contains("DATABASE_URL is missing"), "{error}");
    }

    #[test]
    fn a_secret_may_be_a_file() {
        let path = std::env::temp_dir().join(format!("env-test-{}", std::process::id()));
        std::fs::write(&path, "secret\n").unwrap();
        let file = path.to_string_lossy().into_owned();
        let mut env = Env::new(move |name| (name == "PASSWORD_FILE").then(|| file.clone()));
        let password = env.require::<String>("PASSWORD", "a secret");
        assert_eq!(env.finish(password).unwrap(), "secret");
        std::fs::remove_file(path).unwrap();
    }
}
