//! The breadth run in numbers: faults, totals, and the most common reasons.

use super::Inspected;
use super::outcome::Outcome;
use crate::table::{Table, percent};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

/// So many reasons are shown, each with so many example files.
const REASONS: usize = 10;
const EXAMPLES: usize = 3;

pub(crate) fn write_tsv(all: &[Inspected], path: &Path) -> Result<()> {
    let mut text = String::from(
        "file\toutcome\tseconds\tfunctions\tfunctions understood\ttext bytes\ttext bytes understood\tmessage\n",
    );
    for one in all {
        let numbers = match &one.outcome {
            Outcome::Inspected(n) => {
                format!("{}\t{}\t{}\t{}", n.functions, n.functions_understood, n.bytes, n.bytes_understood)
            }
            _ => "\t\t\t".to_owned(),
        };
        let (file, word, message) =
            (one.file.display(), one.outcome.word(), one.outcome.message().replace('\t', " "));
        writeln!(text, "{file}\t{word}\t{:.3}\t{numbers}\t{message}", one.seconds)?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints everything and returns the number of faults.
pub(crate) fn print(all: &[Inspected]) -> u64 {
    let faults: Vec<&Inspected> = all.iter().filter(|one| one.outcome.is_fault()).collect();
    for one in &faults {
        println!("{}: {} {}", one.file.display(), one.outcome.word(), one.outcome.message());
    }
    println!("\n{}\n{}\n{}", outcomes(all), totals(all), reasons(all));
    faults.len() as u64
}

fn outcomes(all: &[Inspected]) -> Table {
    let mut table = Table::new(&["outcome", "files", "an example"]);
    for word in ["inspected", "refused", "crash", "hang", "bad output"] {
        let files: Vec<&Inspected> = all.iter().filter(|one| one.outcome.word() == word).collect();
        let example = files
            .first()
            .filter(|_| word != "inspected")
            .map(|one| format!("{}: {}", one.file.display(), one.outcome.message()));
        table.row(vec![word.to_owned(), files.len().to_string(), example.unwrap_or_default()]);
    }
    table
}

fn totals(all: &[Inspected]) -> Table {
    let mut sums = [0; 4];
    for one in all {
        if let Outcome::Inspected(n) = &one.outcome {
            let numbers = [n.functions, n.functions_understood, n.bytes, n.bytes_understood];
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
    }
    let mut table = Table::new(&["", "total", "understood", "%"]);
    for (name, total, understood) in [("functions", sums[0], sums[1]), ("text bytes", sums[2], sums[3])] {
        table.row(vec![
            name.to_owned(),
            total.to_string(),
            understood.to_string(),
            percent(understood, total),
        ]);
    }
    table
}

fn reasons(all: &[Inspected]) -> Table {
    #[derive(Default)]
    struct Sum<'a> {
        functions: u64,
        bytes: u64,
        files: Vec<(u64, &'a Path)>,
    }
    let mut sums: HashMap<&str, Sum> = HashMap::new();
    for one in all {
        let Outcome::Inspected(numbers) = &one.outcome else { continue };
        for reason in &numbers.reasons {
            let sum = sums.entry(&reason.reason).or_default();
            sum.functions += reason.functions;
            sum.bytes += reason.bytes;
            sum.files.push((reason.functions, &one.file));
        }
    }
    let mut sorted: Vec<(&str, Sum)> = sums.into_iter().collect();
    sorted.sort_by(|(a, x), (b, y)| y.functions.cmp(&x.functions).then(a.cmp(b)));
    let mut table = Table::new(&["reason", "functions", "bytes", "files", "most in"]);
    for (reason, mut sum) in sorted.into_iter().take(REASONS) {
        sum.files.sort_by(|(a, x), (b, y)| b.cmp(a).then(x.cmp(y)));
        let examples: Vec<String> = sum
            .files
            .iter()
            .take(EXAMPLES)
            .map(|(functions, file)| format!("{} ({functions})", file.display()))
            .collect();
        let cells = [sum.functions, sum.bytes, sum.files.len() as u64].map(|n| n.to_string());
        let mut row = vec![reason.to_owned()];
        row.extend(cells);
        row.push(examples.join(", "));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Numbers, Reason};
    use super::*;

    #[test]
    fn sums() {
        let reason = |functions| Reason { reason: "why".to_owned(), functions, bytes: 5 };
        let one = |file: &str, functions| Inspected {
            file: file.into(),
            seconds: 0.1,
            outcome: Outcome::Inspected(Numbers {
                functions: 10,
                functions_understood: 10 - functions,
                bytes: 100,
                bytes_understood: 95,
                reasons: vec![reason(functions)],
            }),
        };
        let all = [one("/a", 1), one("/b", 3)];
        assert!(totals(&all).to_string().contains("80.00"));
        assert!(reasons(&all).to_string().contains("/b (3), /a (1)"));
        assert_eq!(print(&all), 0);
    }
}
