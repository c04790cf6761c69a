//! XML.

use std::borrow::Cow;

/// Text as it is written between elements and in attributes.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| "<>&\"'".contains(c) || is_forbidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_forbidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What XML 1.0 cannot hold, however it is written.
fn is_forbidden(c: char) -> bool {
    c.is_control() || c == '\u{fffe}' || c == '\u{ffff}'
}
