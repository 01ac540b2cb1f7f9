//! What is to run: the test binaries that cargo has built, and the examples of the documentation.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::Context;
use serde::Deserialize;
use tokio::process::Command;

use super::broker;
use crate::needs::Group;
use devkit::stack;

/// Options of `cargo test` whose value is the next argument.
const WITH_VALUE: [&str; 19] = [
    "-p",
    "--package",
    "--exclude",
    "--bin",
    "--example",
    "--test",
    "--bench",
    "-F",
    "--features",
    "-j",
    "--jobs",
    "--profile",
    "--target",
    "--target-dir",
    "--manifest-path",
    "--message-format",
    "--color",
    "--config",
    "-Z",
];
/// Those that choose among the targets of a package. The documentation is tested where none does.
const TARGETS: [&str; 10] = [
    "--lib",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--test",
    "--tests",
    "--bench",
    "--benches",
    "--all-targets",
];
/// Waits far more than it works, and far longer than any other: what comes last would be waited for by all.
const LONGEST: &str = "ledger tests/faults/main.rs";

/// Test threads of [`LONGEST`], whose tests mostly wait for timers and leases. With a real Kafka each test starts nodes of its
/// own, and six at once take twice as long as two.
const THREADS_OF_LONGEST: u8 = 6;
const THREADS: &str = "--test-threads";

/// What `cargo test` was told, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Those of cargo, the filter among them.
    cargo: Vec<String>,
    /// Part of the names of the tests that are wanted.
    filter: Option<String>,
    /// Those of the test binaries, which follow on `--`.
    tests: Vec<String>,
}

/// One program that runs tests.
pub(super) struct Job {
    /// Its package and its source.
    pub(super) name: String,
    pub(super) command: Command,
}

impl Job {
    /// The same program for these tests alone.
    pub(super) fn only(&self, tests: &[String]) -> Self {
        let all = self.command.as_std();
        let mut command = Command::new(all.get_program());
        command.args(all.get_args()).arg("--exact").args(tests);
        for (name, value) in all.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = all.get_current_dir() {
            command.current_dir(folder);
        }
        Self { name: format!("{} again", self.name), command }
    }
}

impl Arguments {
    pub(super) fn parse(arguments: &[String]) -> Self {
        let mut parts = arguments.splitn(2, |argument| argument == "--").map(<[_]>::to_vec);
        let (cargo, tests) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut before = "";
        let filter = cargo.iter().find(|argument| {
            let is_value = WITH_VALUE.contains(&before);
            before = argument;
            !is_value && !argument.starts_with('-')
        });
        Self { filter: filter.cloned(), cargo, tests }
    }

    /// With these for the tests, too.
    pub(super) fn with(&mut self, choice: &[&str]) -> &Self {
        self.tests.extend(choice.iter().map(|choice| (*choice).to_owned()));
        self
    }

    /// Whether packages were named; then it is all about them.
    pub(super) fn names_packages(&self) -> bool {
        self.cargo.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
    }

    /// Returns whether packages, targets or tests were named.
    fn chooses(&self) -> bool {
        self.names_packages() || self.has(&TARGETS) || self.filter.is_some()
    }

    fn has(&self, options: &[&str]) -> bool {
        let mut names = self.cargo.iter().map(|argument| argument.split('=').next().unwrap_or_default());
        names.any(|name| options.contains(&name))
    }

    /// `cargo test` of what these name, with these options once.
    fn command(&self, options: &[&str]) -> Command {
        let mut cargo = devkit::cargo();
        cargo.arg("test").args(options.iter().filter(|option| !self.has(&[**option])));
        // Of the same packages whatever the broker, or other features would be built anew.
        if !self.names_packages() {
            cargo.arg("--workspace");
        }
        cargo.args(&self.cargo);
        cargo
    }

    /// Builds all that these name and answers what there is to run then, what takes longest first; or how cargo has failed,
    /// which has said why.
    pub(super) async fn build(&self, only_broker: bool) -> anyhow::Result<Result<Vec<Job>, ExitCode>> {
        let mut jobs = Vec::new();
        let mut has_documentation = self.has(&["--doc"]);
        if !has_documentation {
            let mut cargo = self.command(&["--no-run", "--message-format=json-render-diagnostics"]);
            let child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn();
            let child = child.context("cargo cannot be run")?;
            let _group = Group(child.id());
            let output = child.wait_with_output().await?;
            if !output.status.success() {
                return Ok(Err(super::code(output.status)));
            }
            let built: Vec<_> = output.stdout.split(|byte| *byte == b'\n').filter_map(Built::read).collect();
            for built in &built {
                jobs.extend(built.job(self, only_broker)?);
            }
            jobs.sort_by_key(|job| (job.name != LONGEST, job.name.contains(" src/"), job.name.clone()));
            has_documentation = built.iter().any(|built| built.target.doctest) && !self.has(&TARGETS);
        }
        if has_documentation {
            let mut command = self.command(&["--doc", "--no-fail-fast"]);
            command.arg("--").args(&self.tests);
            jobs.push(Job { name: "documentation".to_owned(), command });
        }
        if self.has(&["--no-run"]) {
            jobs.clear();
        }
        Ok(Ok(jobs))
    }
}

/// What cargo tells of a program that it has built.
#[derive(Deserialize)]
struct Built {
    manifest_path: PathBuf,
    executable: PathBuf,
    target: Target,
    profile: Profile,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
    doctest: bool,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Built {
    /// `None`: anything but a test binary.
    fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok().filter(|built: &Self| built.profile.test)
    }

    /// Returns the program as cargo would run it; `None` where only tests of the broker are wanted and it has none.
    fn job(&self, arguments: &Arguments, only_broker: bool) -> anyhow::Result<Option<Job>> {
        let package = self.manifest_path.parent().unwrap_or(stack::root());
        let source = self.target.src_path.strip_prefix(package).unwrap_or(&self.target.src_path);
        let name =
            format!("{} {}", package.file_name().map_or(package, Path::new).display(), source.display());
        let mut command = Command::new(&self.executable);
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
        command.args(&arguments.filter).args(&arguments.tests);
        if name == LONGEST
            && !only_broker
            && !arguments.tests.iter().any(|option| option.starts_with(THREADS))
        {
            command.arg(format!("{THREADS}={THREADS_OF_LONGEST}"));
        }
        if only_broker && !arguments.chooses() {
            match broker::filters(package, source)? {
                Some(filters) => command.args(filters),
                None => return Ok(None),
            };
        }
        Ok(Some(Job { name, command }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Built};

    fn parse(arguments: &str) -> Arguments {
        Arguments::parse(&arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_filter_is_what_belongs_to_no_option() {
        for (arguments, filter) in [
            ("", None),
            ("--locked", None),
            ("-p crm", None),
            ("-p crm deal_", Some("deal_")),
            ("deal_ -p crm", Some("deal_")),
            ("--package=crm --locked deal_ -- --nocapture", Some("deal_")),
            ("--locked --test it livekit:: -- --ignored", Some("livekit::")),
            ("--locked -- deal_", None),
        ] {
            assert_eq!(parse(arguments).filter.as_deref(), filter, "{arguments}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_for_the_tests() {
        let parsed = parse("--locked -p crm deal_ -- --skip=x -- y");
        assert_eq!(parsed.cargo, ["--locked", "-p", "crm", "deal_"]);
        assert_eq!(parsed.tests, ["--skip=x", "--", "y"]);
    }

    #[test]
    fn packages_and_targets_are_told_apart_from_filters() {
        assert!(parse("-p crm").names_packages() && parse("--package=crm").names_packages());
        assert!(!parse("--locked crm").names_packages());
        assert!(parse("--test=it").has(&super::TARGETS) && parse("--lib").has(&super::TARGETS));
        assert!(!parse("--locked it").has(&super::TARGETS));
    }

    #[test]
    fn only_test_binaries_are_run() {
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/clone/services/crm/Cargo.toml", "executable": {executable},
                "target": {{"src_path": "/clone/services/crm/tests/it/main.rs", "doctest": false, "kind": ["test"]}},
                "profile": {{"test": {test}, "opt_level": "0"}}}}"#
            )
        };
        let read = |line: &str| Built::read(line.as_bytes());
        let built = read(&line(r#""/target/debug/deps/it-1""#, true)).unwrap();
        let job = built.job(&parse("deal_ -- --nocapture"), false).unwrap().unwrap();
        assert_eq!(job.name, "crm tests/it/main.rs");
        let arguments: Vec<_> = job.command.as_std().get_args().collect();
        assert_eq!(arguments, ["deal_", "--nocapture"]);
        assert!(read(&line(r#""/target/debug/crm""#, false)).is_none());
        assert!(read(&line("null", true)).is_none());
        assert!(read(r#"{"reason": "build-finished", "success": true}"#).is_none());
    }
}
