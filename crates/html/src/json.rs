//! JSON for pages.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// The largest number up to which JavaScript has all of them.
const LARGEST: u64 = 1 << 53;

/// Writes `value` so that it can stand between tags: nothing in it can be taken for one. Numbers that JavaScript would
/// round become strings.
///
/// # Errors
///
/// If `out` cannot be written to, or `value` cannot be said in JSON.
pub fn write(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, ForPages);
    value.serialize(&mut serializer).map_err(Into::into)
}

struct ForPages;

impl Formatter for ForPages {
    fn write_u64<W: ?Sized + Write>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        if value > LARGEST { write!(out, "\"{value}\"") } else { CompactFormatter.write_u64(out, value) }
    }

    fn write_i64<W: ?Sized + Write>(&mut self, out: &mut W, value: i64) -> io::Result<()> {
        if value.unsigned_abs() > LARGEST {
            write!(out, "\"{value}\"")
        } else {
            CompactFormatter.write_i64(out, value)
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, from) = rest.split_at(at);
            let special = from.chars().next().unwrap_or_default();
            write!(out, "{before}\\u{:04x}", u32::from(special))?;
            rest = &from[special.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn text(value: &Value) -> String {
        let mut out = Vec::new();
        write(value, &mut out).expect("memory can be written to");
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn nothing_ends_the_script() {
        let name = "</script><script>alert(1)</script><!--<script>&amp;\u{2028}";
        let written = text(&json!({ name: name }));
        assert!(!written.contains(['<', '>', '&', '\u{2028}']), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), json!({ name: name }));
    }

    #[test]
    fn large_numbers_stay_exact() {
        let written = text(&json!([1u64 << 53, (1u64 << 53) + 1, u64::MAX, i64::MIN, -1, 0.5]));
        assert_eq!(
            written,
            "[9007199254740992,\"9007199254740993\",\"18446744073709551615\",\"-9223372036854775808\",-1,0.5]"
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back(name in any::<String>()) {
            let written = text(&json!(name));
            prop_assert!(!written.contains('<'));
            prop_assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), json!(name));
        }
    }
}
