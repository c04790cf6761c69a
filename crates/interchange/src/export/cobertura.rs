//! Cobertura's XML: what GitLab, Jenkins and other servers read for coverage.
//!
//! Specification: `coverage-04.dtd` of Cobertura. A folder is a package, a file a class, a function a method; see
//! [`relive_profile::coverage`] for what the counts are.

use super::lcov::{covered, summary};
use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use crate::xml::escaped;
use relive_image::names::demangle;
use relive_profile::coverage::{Choice, Coverage, File};
use relive_profile::model::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format.
pub(super) struct Cobertura;

impl Exporter for Cobertura {
    fn name(&self) -> &'static str {
        "cobertura"
    }

    fn about(&self) -> &'static str {
        "coverage of lines and branches as XML for GitLab, Jenkins and others"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let coverage = covered(profile, around, self.name())?;
        let time = profile.modules.iter().map(|module| module.last_run).max().unwrap_or(0);
        write_all(&coverage, time, out)?;
        Ok(summary(&coverage))
    }
}

/// Lines and ways, and how many of them ran.
#[derive(Clone, Copy, Default)]
struct Rates {
    lines: (usize, usize),
    ways: (usize, usize),
}

impl Rates {
    fn of<'f>(files: impl IntoIterator<Item = &'f File>) -> Self {
        files.into_iter().fold(Self::default(), |sum, file| {
            let (ways, taken) = file.ways();
            Self {
                lines: (sum.lines.0 + file.lines.len(), sum.lines.1 + file.lines_hit()),
                ways: (sum.ways.0 + ways, sum.ways.1 + taken),
            }
        })
    }

    fn attributes(self) -> String {
        let rate = |(all, hit): (usize, usize)| if all == 0 { 0.0 } else { hit as f64 / all as f64 };
        format!("line-rate=\"{:.4}\" branch-rate=\"{:.4}\"", rate(self.lines), rate(self.ways))
    }
}

fn write_all(coverage: &Coverage, time: u64, out: &mut dyn Write) -> io::Result<()> {
    let rates = Rates::of(coverage.files.values());
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<!DOCTYPE coverage SYSTEM \"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">")?;
    writeln!(
        out,
        "<coverage {} lines-covered=\"{}\" lines-valid=\"{}\" branches-covered=\"{}\" branches-valid=\"{}\" \
         complexity=\"0\" version=\"relive {}\" timestamp=\"{time}\">",
        rates.attributes(),
        rates.lines.1,
        rates.lines.0,
        rates.ways.1,
        rates.ways.0,
        env!("CARGO_PKG_VERSION"),
    )?;
    // Paths of classes are whole.
    writeln!(out, "<sources><source>/</source></sources>\n<packages>")?;
    let mut packages: BTreeMap<&str, Vec<(&str, &File)>> = BTreeMap::new();
    for (path, file) in &coverage.files {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        packages.entry(folder).or_default().push((path, file));
    }
    for (folder, files) in packages {
        let rates = Rates::of(files.iter().map(|&(_, file)| file)).attributes();
        writeln!(out, "<package name=\"{}\" {rates} complexity=\"0\">\n<classes>", escaped(folder))?;
        for (path, file) in files {
            write_class(path, file, out)?;
        }
        writeln!(out, "</classes>\n</package>")?;
    }
    writeln!(out, "</packages>\n</coverage>")
}

fn write_class(path: &str, file: &File, out: &mut dyn Write) -> io::Result<()> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rates = Rates::of([file]).attributes();
    let inner = path.strip_prefix('/').unwrap_or(path);
    writeln!(
        out,
        "<class name=\"{}\" filename=\"{}\" {rates} complexity=\"0\">\n<methods>",
        escaped(name),
        escaped(inner)
    )?;
    for ((line, name), count) in &file.functions {
        let rate = if *count > 0 { "1.0" } else { "0.0" };
        writeln!(
            out,
            "<method name=\"{}\" signature=\"\" line-rate=\"{rate}\" branch-rate=\"0.0\" complexity=\"0\"><lines>\
             <line number=\"{line}\" hits=\"{count}\"/></lines></method>",
            escaped(&demangle(name))
        )?;
    }
    writeln!(out, "</methods>\n<lines>")?;
    for (line, count) in &file.lines {
        match file.branches.get(line) {
            None => writeln!(out, "<line number=\"{line}\" hits=\"{count}\" branch=\"false\"/>")?,
            Some(choices) => {
                let of_all = shared(&choices.concat());
                writeln!(
                    out,
                    "<line number=\"{line}\" hits=\"{count}\" branch=\"true\" condition-coverage=\"{of_all}\"><conditions>"
                )?;
                for (number, choice) in choices.iter().enumerate() {
                    let share = shared(choice);
                    let (percent, _) = share.split_once(' ').unwrap_or((&share, ""));
                    let kind = if choice.len() == 2 { "jump" } else { "switch" };
                    writeln!(out, "<condition number=\"{number}\" type=\"{kind}\" coverage=\"{percent}\"/>")?;
                }
                writeln!(out, "</conditions></line>")?;
            }
        }
    }
    writeln!(out, "</lines>\n</class>")
}

/// How many ways of a choice were taken: `50% (1/2)`.
fn shared(choice: &Choice) -> String {
    let taken = choice.iter().filter(|way| way.is_some_and(|count| count > 0)).count();
    format!("{}% ({taken}/{})", taken * 100 / choice.len().max(1), choice.len())
}
