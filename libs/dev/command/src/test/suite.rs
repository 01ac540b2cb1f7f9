//! The jobs of a run: test binaries that cargo has built, and the examples of the documentation.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::Context;
use serde::Deserialize;
use tokio::process::Command;

use super::broker::{self, Part};
use crate::backends::{Group, Lane};
use devkit::bus::Kind;
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
/// Options that select targets of a package. Without one, the documentation is tested, too.
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
/// The slowest program, which mostly waits. It starts first, so that no processor is idle at the
/// end of the run.
const SLOWEST_PROGRAM: &str = "ledger tests/faults/main.rs";

/// Test threads of the slowest program on an embedded broker, whose tests wait for timers and
/// leases. On Apache Kafka each of its threads keeps a node running.
const SLOWEST_PROGRAM_THREADS: usize = 6;
/// Test threads for each processor in programs that test a running service. Their tests mostly wait
/// for messages and jobs.
const THREADS_PER_PROCESSOR: usize = 2;
const THREADS_OPTION: &str = "--test-threads";
/// Options of a program on Apache Kafka. Tests that need it are marked as ignored, and modules
/// named `embedded` need the embedded broker. Tests with a real LiveKit have a run of their own.
const ON_KAFKA: [&str; 3] = ["--include-ignored", "--skip=embedded::", "--skip=livekit::"];

/// The parsed arguments of `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Arguments of cargo, including the filter.
    cargo: Vec<String>,
    /// A part of the names of the selected tests.
    filter: Option<String>,
    /// Arguments of the test binaries, after `--`.
    tests: Vec<String>,
}

/// One program that runs tests.
pub(super) struct Job {
    /// Name of the package and path of the source.
    pub(super) name: String,
    /// The broker that its tests use.
    pub(super) broker: Kind,
    pub(super) command: Command,
}

impl Job {
    /// Returns the same program for these tests only.
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
        Self { name: format!("{} again", self.name), broker: self.broker, command }
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

    /// Returns true if packages were named.
    pub(super) fn has_packages(&self) -> bool {
        self.cargo.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
    }

    /// Returns true if packages, targets or tests were named.
    pub(super) fn has_selection(&self) -> bool {
        self.has_packages() || self.has(&TARGETS) || self.filter.is_some()
    }

    fn has(&self, options: &[&str]) -> bool {
        let mut names = self.cargo.iter().map(|argument| argument.split('=').next().unwrap_or_default());
        names.any(|name| options.contains(&name))
    }

    /// Returns the `cargo test` command with these options, each once.
    fn command(&self, options: &[&str]) -> Command {
        let mut cargo = devkit::cargo();
        cargo.arg("test").args(options.iter().filter(|option| !self.has(&[**option])));
        // The set of packages is the same for every broker, since other features would cause a
        // rebuild.
        if !self.has_packages() {
            cargo.arg("--workspace");
        }
        cargo.args(&self.cargo);
        cargo
    }

    /// Builds the programs. If cargo fails, its exit code is returned.
    async fn build_programs(&self) -> anyhow::Result<Result<Vec<Built>, ExitCode>> {
        let mut cargo = self.command(&["--no-run", "--message-format=json-render-diagnostics"]);
        let child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn();
        let child = child.context("failed to run cargo")?;
        let _group = Group(child.id());
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            return Ok(Err(super::code(output.status)));
        }
        Ok(Ok(output.stdout.split(|byte| *byte == b'\n').filter_map(Built::read).collect()))
    }

    /// Builds the programs and returns the jobs of the lane, the slowest first.
    ///
    /// If cargo fails, it has printed the reason, and its exit code is returned. With `every`, a
    /// run on Apache Kafka includes the tests whose result does not depend on the broker.
    pub(super) async fn build(&self, lane: Lane, every: bool) -> anyhow::Result<Result<Vec<Job>, ExitCode>> {
        let every = every || self.has_selection();
        let mut jobs = Vec::new();
        let mut has_documentation = self.has(&["--doc"]);
        if !has_documentation {
            let built = match self.build_programs().await? {
                Ok(built) => built,
                Err(code) => return Ok(Err(code)),
            };
            for built in &built {
                jobs.extend(built.jobs(self, lane, every)?);
            }
            jobs.sort_by_key(|job| {
                (!job.name.starts_with(SLOWEST_PROGRAM), job.name.contains(" src/"), job.name.clone())
            });
            has_documentation = built.iter().any(|built| built.target.doctest)
                && !self.has(&TARGETS)
                && (every || lane != Lane::Real);
        }
        if has_documentation {
            let mut command = self.command(&["--doc", "--no-fail-fast"]);
            command.arg("--").args(&self.tests);
            let broker = if lane == Lane::Real { Kind::Kafka } else { Kind::Embedded };
            jobs.push(Job { name: "documentation".to_owned(), broker, command });
        }
        if self.has(&["--no-run"]) {
            jobs.clear();
        }
        Ok(Ok(jobs))
    }
}

/// An artifact message of cargo.
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
    /// Reads a message. Returns `None` unless it is about a test binary.
    fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok().filter(|built: &Self| built.profile.test)
    }

    /// Returns the runs of this program that belong to the lane.
    fn jobs(&self, arguments: &Arguments, lane: Lane, every: bool) -> anyhow::Result<Vec<Job>> {
        let package = self.manifest_path.parent().unwrap_or(stack::root());
        let source = self.target.src_path.strip_prefix(package).unwrap_or(&self.target.src_path);
        let name =
            format!("{} {}", package.file_name().map_or(package, Path::new).display(), source.display());
        let job = |broker, filters: Vec<String>| self.job(arguments, package, &name, broker, filters);
        let on_kafka = |filters| {
            let mut job = job(Kind::Kafka, filters);
            job.command.args(ON_KAFKA);
            job
        };
        if lane == Lane::Embedded {
            return Ok(vec![job(Kind::Embedded, Vec::new())]);
        }
        if lane == Lane::Real && every {
            return Ok(vec![on_kafka(Vec::new())]);
        }
        let (real, rest) = match broker::part(package, source)? {
            Part::None => (None, Vec::new()),
            Part::All => (Some(on_kafka(Vec::new())), vec!["embedded::".to_owned()]),
            Part::Modules(modules) => {
                let rest = modules.iter().map(|module| format!("--skip={module}")).collect();
                (Some(on_kafka(modules)), rest)
            }
        };
        if lane == Lane::Real {
            return Ok(real.into_iter().collect());
        }
        let rest = job(Kind::Embedded, rest);
        Ok(real
            .map(|job| Job { name: format!("{} on Kafka", job.name), ..job })
            .into_iter()
            .chain([rest])
            .collect())
    }

    /// Returns the program as cargo runs it, with these filters.
    fn job(
        &self,
        arguments: &Arguments,
        package: &Path,
        name: &str,
        broker: Kind,
        filters: Vec<String>,
    ) -> Job {
        let mut command = Command::new(&self.executable);
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
        command.args(&arguments.filter).args(&arguments.tests).args(filters);
        let names_threads = arguments.tests.iter().any(|option| option.starts_with(THREADS_OPTION));
        if let Some(threads) = threads(name, broker)
            && !names_threads
        {
            command.arg(format!("{THREADS_OPTION}={threads}"));
        }
        Job { name: name.to_owned(), broker, command }
    }
}

/// Returns the number of test threads of a program, or `None` for the default of libtest.
fn threads(program: &str, broker: Kind) -> Option<usize> {
    if program == SLOWEST_PROGRAM {
        return (broker == Kind::Embedded).then_some(SLOWEST_PROGRAM_THREADS);
    }
    let processors = std::thread::available_parallelism().ok()?;
    program.ends_with(" tests/it/main.rs").then(|| processors.get() * THREADS_PER_PROCESSOR)
}

#[cfg(test)]
mod tests {
    use devkit::bus::Kind;
    use devkit::stack;

    use super::{Arguments, Built, Job, ON_KAFKA, THREADS_OPTION};
    use crate::backends::Lane;

    fn parse(arguments: &str) -> Arguments {
        Arguments::parse(&arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn filter_is_the_argument_without_an_option() {
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
    fn arguments_after_two_dashes_belong_to_the_tests() {
        let parsed = parse("--locked -p crm deal_ -- --skip=x -- y");
        assert_eq!(parsed.cargo, ["--locked", "-p", "crm", "deal_"]);
        assert_eq!(parsed.tests, ["--skip=x", "--", "y"]);
    }

    #[test]
    fn packages_and_targets_are_distinguished_from_filters() {
        assert!(parse("-p crm").has_packages() && parse("--package=crm").has_packages());
        assert!(!parse("--locked crm").has_packages());
        assert!(parse("--test=it").has(&super::TARGETS) && parse("--lib").has(&super::TARGETS));
        assert!(!parse("--locked it").has(&super::TARGETS));
    }

    #[test]
    fn only_test_binaries_run() {
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/clone/services/crm/Cargo.toml", "executable": {executable},
                "target": {{"src_path": "/clone/services/crm/tests/it/main.rs", "doctest": false, "kind": ["test"]}},
                "profile": {{"test": {test}, "opt_level": "0"}}}}"#
            )
        };
        let read = |line: &str| Built::read(line.as_bytes());
        let built = read(&line(r#""/target/debug/deps/it-1""#, true)).unwrap();
        let jobs = built.jobs(&parse("deal_ -- --test-threads=1"), Lane::Embedded, false).unwrap();
        assert_eq!(names_and_arguments(&jobs), [("crm tests/it/main.rs", vec!["deal_", "--test-threads=1"])]);
        assert!(read(&line(r#""/target/debug/crm""#, false)).is_none());
        assert!(read(&line("null", true)).is_none());
        assert!(read(r#"{"reason": "build-finished", "success": true}"#).is_none());
    }

    fn names_and_arguments(jobs: &[Job]) -> Vec<(&str, Vec<&str>)> {
        let described = |job| {
            let Job { name, command, .. }: &Job = job;
            (&**name, command.as_std().get_args().map(|one| one.to_str().unwrap()).collect())
        };
        jobs.iter().map(described).collect()
    }

    fn program(package: &str, source: &str) -> Built {
        let folder = stack::root().join(package).display().to_string();
        let line = format!(
            r#"{{"manifest_path": "{folder}/Cargo.toml", "executable": "/target/debug/deps/it-1",
            "target": {{"src_path": "{folder}/{source}", "doctest": false}}, "profile": {{"test": true}}}}"#
        );
        Built::read(line.as_bytes()).unwrap()
    }

    #[test]
    fn lane_of_both_brokers_runs_each_test_once() {
        let jobs = |package, source| program(package, source).jobs(&parse(""), Lane::Both, false).unwrap();

        let crm = jobs("services/crm", "tests/it/main.rs");
        let [real, rest] = &crm[..] else { panic!("{} programs", crm.len()) };
        assert_eq!((real.broker, rest.broker), (Kind::Kafka, Kind::Embedded));
        let mut runs = names_and_arguments(&crm);
        for (_, options) in &mut runs {
            let count = options.len();
            options.retain(|option| !option.starts_with(THREADS_OPTION));
            assert_eq!(options.len(), count - 1, "{options:?}");
        }
        let modules = runs[0].1.strip_suffix(&ON_KAFKA).unwrap();
        assert!(modules.contains(&"deal_create::"), "{modules:?}");
        let skipped: Vec<_> =
            runs[1].1.iter().map(|option| option.strip_prefix("--skip=").unwrap()).collect();
        assert_eq!(skipped, modules);

        let ledger = jobs("libs/ledger", "tests/faults/main.rs");
        assert_eq!(
            names_and_arguments(&ledger),
            [
                ("ledger tests/faults/main.rs on Kafka", ON_KAFKA.to_vec()),
                ("ledger tests/faults/main.rs", vec!["embedded::", "--test-threads=6"])
            ]
        );
        let unit = jobs("services/crm", "src/lib.rs");
        assert_eq!(names_and_arguments(&unit), [("crm src/lib.rs", vec![])]);
    }
}
