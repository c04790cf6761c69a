//! JSON.

use crate::error::ExportError;
use serde::Serialize;
use std::io::{self, Write};

/// Writes a value and the end of a line.
pub(crate) fn write(value: &impl Serialize, out: &mut dyn Write) -> Result<(), ExportError> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}
