//! An answer as a page: what `--json` prints, and scripts that make charts and tables of it.

use crate::output::write_to;
use anyhow::Result;
use relive_html::{Kind, Page};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Data<'d, R> {
    question: &'static str,
    trace: &'d str,
    version: &'static str,
    answer: &'d R,
}

/// Writes the answer to `question` of a trace to the page at `file`.
pub(super) fn write(question: &'static str, trace: &str, answer: &impl Serialize, file: &Path) -> Result<()> {
    let data = Data { question, trace, version: env!("CARGO_PKG_VERSION"), answer };
    let title = format!("{question} of {} – relive", trace.rsplit('/').next().unwrap_or_default());
    let page = Page { title: &title, kind: Kind::Analysis, data: &data, packs: &[] };
    write_to(Some(file), |out| Ok(page.write(out)?))
}
