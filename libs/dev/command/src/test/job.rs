//! Parallel test programs. The output of each is stored in a file and printed as a whole when the
//! program has ended, or immediately if programs run one at a time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::try_join_all;
use tokio::process::Command;

use super::suite::Job;
use crate::backends::{Environment, Group};
use devkit::bus::Kind;
use devkit::stack;

/// Interval of the checks for output and exit.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the reminders that a program still runs, since its output is not visible yet.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);
/// Number of lines of a panic in the summary.
const REASON_LINES: usize = 6;

/// The result of one program.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) counts: Counts,
    pub(super) took: Duration,
    pub(super) succeeded: bool,
    /// Tests that failed first and passed when they ran again alone.
    pub(super) recovered: Vec<String>,
}

impl Outcome {
    /// Returns true if the name of every failed test is known. A name is unknown if the program
    /// crashed, or if its output lines are interleaved.
    fn has_every_failure_name(&self) -> bool {
        self.counts.failed > 0 && self.counts.failed == self.counts.failures.len() as u64
    }

    /// Merges the results of the second run of the failed tests.
    fn merge(&mut self, second: Self) {
        // A program that finds no test succeeds, too.
        self.succeeded = second.succeeded && second.counts.passed == self.counts.failed;
        let failed = mem::replace(&mut self.counts.failures, second.counts.failures);
        self.recovered = failed.into_iter().filter(|name| !self.counts.failures.contains(name)).collect();
        self.counts.passed += second.counts.passed;
        self.counts.failed = second.counts.failed;
        self.counts.reasons.push_str(&second.counts.reasons);
        self.took += second.took;
    }
}

/// The results of the tests of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    /// Names of the failed tests.
    pub(super) failures: Vec<String>,
    /// The first lines of each panic.
    pub(super) reasons: String,
}

impl Counts {
    /// Parses lines such as `test a::b ... FAILED` and `test result: ok. 12 passed; 0 failed; 1
    /// ignored; …`, and the panics below `---- a::b stdout ----`.
    fn of(output: &str) -> Self {
        let mut counts = Self::default();
        let (mut is_reported, mut lines_left) = (false, 0);
        for line in output.lines() {
            if line.starts_with("---- ") && line.ends_with(" stdout ----") {
                (is_reported, lines_left) = (true, 0);
                counts.reasons.extend([line, "\n"]);
            } else if is_reported && line.contains(" panicked at ") {
                lines_left = REASON_LINES;
            }
            if lines_left > 0 {
                lines_left -= 1;
                counts.reasons.extend([line, "\n"]);
            }
            if let Some(result) = line.strip_prefix("test result: ") {
                counts.add(result);
            } else if let Some(name) =
                line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
            {
                counts.failures.push(name.to_owned());
            }
        }
        counts
    }

    fn add(&mut self, result: &str) {
        let words: Vec<_> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            let count = pair[0].parse().unwrap_or(0);
            match pair[1] {
                "passed;" => self.passed += count,
                "failed;" => self.failed += count,
                "ignored;" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// Runs the jobs. An environment runs the jobs of its broker in sequence.
///
/// With one environment, output is printed immediately, else when the program has ended. With
/// `again`, a failed test runs once more, alone.
pub(super) async fn run_all(
    jobs: Vec<Job>,
    environments: &[Environment],
    again: bool,
) -> anyhow::Result<Vec<Outcome>> {
    let logs = logs()?;
    let prints_directly = environments.len() == 1;
    let waiting = RefCell::new(jobs);
    let next = |broker| {
        let mut jobs = waiting.borrow_mut();
        let position = jobs.iter().position(|job| job.broker == broker)?;
        Some(jobs.remove(position))
    };
    let workers = environments.iter().map(async |environment| {
        let mut outcomes = Vec::new();
        while let Some(mut job) = next(environment.broker) {
            job.command.envs(&environment.variables);
            let log = logs.join(format!("{}.log", job.name.replace([' ', '/'], "-")));
            let mut outcome = run(&mut job, &log, prints_directly).await?;
            if again && outcome.has_every_failure_name() {
                let mut failed = job.only(&outcome.counts.failures);
                outcome.merge(run(&mut failed, &log.with_extension("again.log"), prints_directly).await?);
            }
            outcomes.push(outcome);
        }
        anyhow::Ok(outcomes)
    });
    Ok(try_join_all(workers).await?.into_iter().flatten().collect())
}

/// Plays the demo. It succeeds or fails as a whole, so it has no counts.
pub(super) async fn run_demo(command: Command) -> anyhow::Result<Outcome> {
    let mut job = Job { name: "demo".to_owned(), broker: Kind::Kafka, command };
    run(&mut job, &logs()?.join("demo.log"), false).await
}

fn logs() -> anyhow::Result<PathBuf> {
    let logs = stack::dev_path("logs/test")?;
    std::fs::create_dir_all(&logs)?;
    Ok(logs)
}

async fn run(
    Job { name, command, .. }: &mut Job,
    log: &Path,
    prints_directly: bool,
) -> anyhow::Result<Outcome> {
    let written = File::create(log).with_context(|| log.display().to_string())?;
    let mut output = File::open(log)?;
    command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written);
    // A group of its own, so that all processes of the program end with it.
    let mut child = command.process_group(0).spawn().with_context(|| format!("failed to run {name}"))?;
    let _group = Group(child.id());
    let (started, mut reminded) = (Instant::now(), Instant::now());
    let heading = || println!("\n     Running {name}");
    if prints_directly {
        heading();
    } else {
        eprintln!("     Started {name}");
    }
    let status = loop {
        let ended = tokio::time::timeout(POLL_INTERVAL, child.wait()).await;
        if prints_directly {
            show(&mut output)?;
        } else if reminded.elapsed() > REMINDER_INTERVAL {
            reminded = Instant::now();
            eprintln!("       Still {name}, {} s; see {}", started.elapsed().as_secs(), log.display());
        }
        if let Ok(status) = ended {
            break status?;
        }
    };
    if !prints_directly {
        heading();
        show(&mut output)?;
    }
    let counts = Counts::of(&String::from_utf8_lossy(&std::fs::read(log)?));
    let (name, took) = (name.clone(), started.elapsed());
    Ok(Outcome { name, counts, took, succeeded: status.success(), recovered: Vec::new() })
}

/// Prints the new output.
fn show(output: &mut File) -> io::Result<()> {
    let mut new = Vec::new();
    output.read_to_end(&mut new)?;
    print!("{}", String::from_utf8_lossy(&new));
    io::stdout().flush()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use devkit::bus::Kind;
    use tokio::process::Command;

    use super::{Counts, Job, run_all};
    use crate::backends::Environment;

    #[test]
    fn results_of_a_program_add_up() {
        let counts = Counts::of(
            "thread 'other' panicked at src/lib.rs:7:5:\nexpected by its test\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.07s\n\
             test a_test_result ... ok\n\
             test a::b ... FAILED\n\
             ---- a::b stdout ----\n\
             output before the panic\n\
             thread 'a::b' panicked at src/lib.rs:8:5:\nleft: 1\nright: 2\n1\n2\n3\n4\n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        let failures = vec!["a::b".to_owned()];
        let reasons =
            "---- a::b stdout ----\nthread 'a::b' panicked at src/lib.rs:8:5:\nleft: 1\nright: 2\n1\n2\n3\n";
        let expected = Counts { passed: 15, failed: 2, ignored: 1, failures, reasons: reasons.to_owned() };
        assert_eq!(counts, expected);
    }

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Job { name: name.to_owned(), broker: Kind::Embedded, command }
    }

    fn environment(variables: HashMap<&'static str, String>) -> Environment {
        Environment { broker: Kind::Embedded, variables }
    }

    #[tokio::test]
    async fn environments_run_in_parallel_and_their_programs_in_sequence() {
        let folder = std::env::temp_dir().join(format!("side-by-side-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let environment = |place: &str| {
            environment(HashMap::from([
                ("PLACE", folder.join(place).display().to_string()),
                ("HERE", folder.display().to_string()),
            ]))
        };
        // The first two programs wait for each other. A program fails if its place is taken.
        let turn =
            "mkdir \"$PLACE\" || exit 7; echo 'test result: ok. 1 passed; 0 failed;'; rmdir \"$PLACE\"";
        let meets = |own: &str, other: &str| {
            format!("touch \"$HERE/{own}\"; until [ -e \"$HERE/{other}\" ]; do sleep 0.02; done; {turn}")
        };
        let jobs = vec![
            job("test one", &meets("a", "b")),
            job("test two", &meets("b", "a")),
            job("test three", turn),
            job("test four", turn),
            job(
                "test five",
                "echo 'test x::y ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed;' >&2; exit 101",
            ),
        ];
        let outcomes = run_all(jobs, &[environment("x"), environment("y")], false).await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(outcomes.len(), 5);
        assert_eq!(outcomes.iter().map(|outcome| outcome.counts.passed).sum::<u64>(), 4);
        let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.succeeded).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!((&*failed[0].name, failed[0].counts.failed), ("test five", 1));
        assert_eq!(failed[0].counts.failures, ["x::y"]);
    }

    #[tokio::test]
    async fn failed_test_runs_again_alone() {
        let folder = std::env::temp_dir().join(format!("again-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let environment = environment(HashMap::from([("HERE", folder.display().to_string())]));
        // In a second run, `$0 $*` are `--exact` and the failed tests.
        let recovers = "if [ -e \"$HERE/again\" ]; then [ \"$0 $*\" = '--exact a::b' ] && echo 'test result: ok. 1 passed; 0 failed;'; \
             else touch \"$HERE/again\"; echo 'test a::b ... FAILED'; echo 'test result: FAILED. 4 passed; 1 failed;'; exit 101; fi";
        let fails = "echo 'test a::c ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed;'; exit 101";
        let vanishes = "[ \"$0\" = --exact ] && { echo 'test result: ok. 0 passed; 0 failed;'; exit 0; }
             echo 'test a::d ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed;'; exit 101";
        let crashes = "[ \"$0\" = --exact ] && exit 0; echo 'test a::e ... '; exit 134";
        let jobs = [recovers, fails, vanishes, crashes].map(|script| job("again", script));
        let outcomes = run_all(jobs.into(), &[environment], true).await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let results: Vec<_> = outcomes
            .iter()
            .map(|outcome| {
                (outcome.succeeded, outcome.counts.passed, outcome.counts.failed, &*outcome.recovered)
            })
            .collect();
        let recovered = ["a::b".to_owned()];
        assert_eq!(results[0], (true, 5, 0, &recovered[..]));
        assert_eq!(results[1], (false, 0, 1, &[][..]));
        assert!(!results[2].0 && !results[3].0);
    }
}
