//! The page: its head, styles, data and scripts, in one file.

use crate::json;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// What a page shows: it decides which scripts are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A profile.
    Report,
    /// Two builds side by side.
    Match,
    /// What was found in a trace.
    Analysis,
}

/// A page.
#[derive(Debug)]
pub struct Page<'p, D> {
    /// What the browser writes on top.
    pub title: &'p str,
    /// Which scripts it needs.
    pub kind: Kind,
    /// What they show at once.
    pub data: &'p D,
    /// What they show when asked: the result of [`crate::Packs::finish`].
    pub packs: &'p [String],
}

/// Nothing is loaded from anywhere, and nothing is sent.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

const STYLES: [&str; 3] = [
    include_str!("../assets/page.css"),
    include_str!("../assets/parts.css"),
    include_str!("../assets/code.css"),
];

/// What all pages need, in this order.
const SHARED: [&str; 5] = [
    include_str!("../assets/core.js"),
    include_str!("../assets/shell.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/graph.js"),
    include_str!("../assets/chart.js"),
];

impl Kind {
    const fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::Report => &[
                include_str!("../assets/report.js"),
                include_str!("../assets/function.js"),
                include_str!("../assets/code.js"),
            ],
            Self::Match => &[include_str!("../assets/match.js")],
            Self::Analysis => &[include_str!("../assets/analysis.js")],
        }
    }
}

impl<D: Serialize> Page<'_, D> {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
        writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
        writeln!(out, "<title>{}</title>\n<style>", Text(self.title))?;
        STYLES.iter().try_for_each(|style| out.write_all(style.as_bytes()))?;
        writeln!(out, "</style>\n</head>\n<body>")?;
        writeln!(
            out,
            "<noscript>This page shows its contents with a script, which is in it; scripts are turned off here.</noscript>"
        )?;
        write!(out, "<script type=\"application/json\" id=\"data\">")?;
        json::write(self.data, out)?;
        writeln!(out, "</script>")?;
        for pack in self.packs {
            writeln!(out, "<script type=\"text/plain\" class=\"pack\">{pack}</script>")?;
        }
        writeln!(out, "<script>\n(() => {{\n'use strict';")?;
        SHARED.iter().chain(self.kind.scripts()).try_for_each(|script| out.write_all(script.as_bytes()))?;
        writeln!(out, "start();\n}})();\n</script>\n</body>\n</html>")
    }
}

/// Text between tags.
struct Text<'t>(&'t str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            c if c.is_control() => f.write_str("\u{fffd}"),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(kind: Kind, title: &str, data: &str) -> String {
        let mut out = Vec::new();
        Page { title, kind, data: &data, packs: &["AAAA".to_string()] }.write(&mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn nothing_breaks_out() {
        let evil = "</script></title><img src=x onerror=alert(1)>";
        for kind in [Kind::Report, Kind::Match, Kind::Analysis] {
            let (bad, good) = (page(kind, evil, evil), page(kind, "t", "d"));
            assert!(!bad.contains("<img") && bad.contains("&lt;img"));
            for tag in ["<script", "</script>", "</title>", "<style", "</style>"] {
                assert_eq!(bad.matches(tag).count(), good.matches(tag).count(), "{tag}");
            }
        }
    }

    #[test]
    fn scripts_write_no_markup_and_load_nothing() {
        for kind in [Kind::Report, Kind::Match, Kind::Analysis] {
            let page = page(kind, "t", "d");
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "fetch(",
                "XMLHttpRequest",
                "import(",
                "https://",
                " src=",
                "@import",
                "url(",
            ] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
            // The name of SVG is no address that anything is loaded from.
            assert_eq!(page.matches("http://").count(), page.matches("http://www.w3.org/2000/svg").count());
        }
    }
}
