//! The report of a bench, as a table for the terminal and as a section of docs/performance.md.

use std::fmt;
use std::path::PathBuf;

use console::style;

use devkit::docs;

/// The page of all figures, below `docs`.
const PAGE: &str = "performance.md";

/// The sorted figures of all rounds.
#[derive(Clone, Debug)]
pub(super) struct Rounds(Vec<f64>);

impl Rounds {
    pub(super) fn new(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    /// Returns the ratios round by round, since other load affects both figures of a round.
    pub(super) fn ratios(part: &[f64], whole: &[f64]) -> Self {
        Self::new(std::iter::zip(part, whole).map(|(part, whole)| part / whole).collect())
    }

    pub(super) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len() % 2 == 1 { self.0[middle] } else { f64::midpoint(self.0[middle - 1], self.0[middle]) }
    }
}

/// Returns the value that `per_mille` thousandths of the figures do not exceed.
pub(super) fn percentile(sorted: &[f64], per_mille: usize) -> f64 {
    let index = (sorted.len() * per_mille).div_ceil(1000).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    PerSecond,
    Seconds,
    Milliseconds,
    Ratio,
    Mebibytes,
    Kibibytes,
    /// Percent of one core.
    Percent,
    Count,
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::PerSecond | Self::Count => thousands(figure),
            Self::Seconds => format!("{figure:.1} s"),
            Self::Milliseconds => format!("{figure:.1} ms"),
            Self::Ratio => format!("{figure:.2}"),
            Self::Mebibytes => format!("{figure:.0} MiB"),
            Self::Kibibytes => format!("{figure:.0} KiB"),
            Self::Percent => format!("{figure:.1} %"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// One figure of a bench.
pub(super) struct Row {
    what: String,
    unit: Unit,
    rounds: Rounds,
    goal: Option<Goal>,
}

impl Row {
    pub(super) fn new(what: impl Into<String>, unit: Unit, rounds: Rounds) -> Self {
        Self { what: what.into(), unit, rounds, goal: None }
    }

    pub(super) fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Returns the cells: name, median, least and most, goal, verdict.
    fn cells(&self) -> [String; 5] {
        let show = |figure: f64| self.unit.show(figure);
        let median = self.rounds.median();
        let spread = match self.rounds.0[..] {
            [least, .., most] => format!("{} – {}", show(least), show(most)),
            _ => String::new(),
        };
        let (goal, met) = match self.goal {
            None => (String::new(), None),
            Some(Goal::AtLeast(goal)) => (format!("≥ {}", show(goal)), Some(median >= goal)),
            Some(Goal::AtMost(goal)) => (format!("≤ {}", show(goal)), Some(median <= goal)),
            Some(Goal::Below(goal)) => (format!("< {}", show(goal)), Some(median < goal)),
        };
        let verdict = met.map_or("", |met| if met { "met" } else { "missed" });
        [self.what.clone(), show(median), spread, goal, verdict.to_owned()]
    }
}

/// The rows of one bench with their conditions.
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) conditions: String,
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
}

impl Report {
    pub(super) fn print(&self) {
        devkit::print_line(&format!("\n{}  {}", style(self.name).bold(), style(&self.conditions).dim()));
        let median = format!("median of {}", self.rounds);
        let mut table = devkit::table(["", &median, "least – most", "goal", ""]);
        for row in &self.rows {
            let [what, median, spread, goal, verdict] = row.cells();
            let verdict = match verdict.as_str() {
                "missed" => style(verdict).red(),
                _ => style(verdict).green(),
            };
            table.add_row([what, median, spread, goal, verdict.to_string()]);
        }
        devkit::print_line(&format!("{table}\n"));
    }

    /// Replaces the section of the bench in the page, and the list of missed goals of all benches.
    pub(super) fn write(&self) -> anyhow::Result<PathBuf> {
        let path = docs::write_section(PAGE, "bench", self.name, &self.to_string())?;
        let page = std::fs::read_to_string(path)?;
        docs::write_section(PAGE, "bench", "missed", &missed_goals(&page))
    }
}

/// Returns the rows of the page that miss their goal, each with its bench.
fn missed_goals(page: &str) -> String {
    let mut bench = "";
    let rows = page.lines().filter_map(|line| {
        bench = line.strip_prefix("## ").unwrap_or(bench);
        match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            [_, row, median, _, goal, "missed", _] => {
                Some(format!("| [{bench}](#{bench}) | {row} | {median} | {goal} |\n"))
            }
            _ => None,
        }
    });
    std::iter::once("| Bench | Row | Median | Goal |\n|---|---|---|---|\n".to_owned()).chain(rows).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.conditions)?;
        writeln!(f, "| | Median of {} | Least – most | Goal | |", self.rounds)?;
        writeln!(f, "|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.cells().join(" | ")))
    }
}

/// Formats `1234567.8` as `1,234,568`.
fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Goal, Rounds, Row, Unit, missed_goals};

    #[test]
    fn missed_goals_are_listed_with_their_bench() {
        let page = "\
## crm\n| board | 5.0 ms | 4.0 ms – 8.2 ms | < 300.0 ms | met |\n\
## messaging\n| relay | 0.13 | 0.09 – 0.14 | ≥ 0.50 | missed |\n| bare | 9 |  |  |  |\n";
        let expected = "\
| Bench | Row | Median | Goal |\n|---|---|---|---|\n\
| [messaging](#messaging) | relay | 0.13 | ≥ 0.50 |\n";
        assert_eq!(missed_goals(page), expected);
    }

    #[test]
    fn row_compares_the_median_with_its_goal() {
        let row = Row::new("relay", Unit::PerSecond, Rounds::new(vec![31_000.0, 19_000.4, 25_000.0]));
        let cells = row.goal(Goal::AtLeast(20_000.0)).cells();
        assert_eq!(cells, ["relay", "25,000", "19,000 – 31,000", "≥ 20,000", "met"]);
        let row = Row::new("p99", Unit::Milliseconds, Rounds::new(vec![99.0, 103.0]));
        let cells = row.goal(Goal::Below(100.0)).cells();
        assert_eq!(cells, ["p99", "101.0 ms", "99.0 ms – 103.0 ms", "< 100.0 ms", "missed"]);
    }
}
