//! The progress of a command at the terminal: a line for each step, with its time.

use std::fmt::Display;
use std::time::Instant;

use console::{Term, style};

/// Width of a step's name, so that the details are aligned.
const NAME_WIDTH: usize = 12;

/// A step in progress. A step that is dropped before it is done leaves no line.
pub struct Step {
    term: Term,
    name: String,
    started: Instant,
}

impl Step {
    pub fn start(name: impl Into<String>) -> Self {
        let step = Self { term: Term::stderr(), name: name.into(), started: Instant::now() };
        step.note("…");
        step
    }

    /// Shows the current activity, at a terminal only.
    pub fn note(&self, text: impl Display) {
        if !self.term.is_term() {
            return;
        }
        // The mark, two spaces and an empty last column take four columns.
        let width = usize::from(self.term.size().1).saturating_sub(NAME_WIDTH + 4);
        let text = console::truncate_str(text.to_string().trim(), width, "…").into_owned();
        self.write(&format!(
            "{} {:<NAME_WIDTH$} {}",
            style("·").cyan().for_stderr(),
            self.name,
            style(text).dim().for_stderr()
        ));
    }

    pub fn done(self, detail: impl Display) {
        let took = self.started.elapsed().as_secs_f32();
        let took = if took < 0.1 { String::new() } else { format!(" ({took:.1} s)") };
        let tick = style("✓").green().for_stderr();
        self.write(&format!(
            "{tick} {:<NAME_WIDTH$} {detail}{}\n",
            self.name,
            style(took).dim().for_stderr()
        ));
    }

    /// Writes to the terminal and ignores failures.
    fn write(&self, text: &str) {
        if self.term.is_term() {
            let _ = self.term.clear_line();
        }
        let _ = self.term.write_str(text);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if self.term.is_term() {
            let _ = self.term.clear_line();
        }
    }
}
