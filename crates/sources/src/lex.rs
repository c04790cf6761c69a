//! Text into tokens, without comments and layout.
//!
//! Syntax trees say how statements nest; what a statement says is its tokens. That way text the grammar cannot make
//! sense of is compared like any other, and none is lost.

use crate::Language;

/// What kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or keyword.
    Word,
    /// A number, string or character.
    Literal,
    /// Punctuation.
    Mark,
    /// A comment that is an order to the compiler (`//go:…`).
    Order,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The line it begins on, from one.
    pub(crate) line: u32,
    pub(crate) kind: TokenKind,
    /// Whether it is the `#` of a preprocessor directive, or belongs to one.
    pub(crate) directive: Directive,
    /// Of its text.
    pub(crate) hash: u64,
}

/// Whether a token belongs to a preprocessor directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    No,
    First,
    Rest,
}

impl Token {
    pub(crate) fn text<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// Mixes a value into a hash.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64) ^ ((product >> 64) as u64).wrapping_add(value.rotate_left(23))
}

/// The hash of some text.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let fnv = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(fnv, text.len() as u64)
}

const MARKS: [&[u8]; 31] = [
    b"<<=", b">>=", b"...", b"<=>", b"->*", b"..=", b"&^=", b"->", b"::", b"++", b"--", b"&&", b"||", b"==",
    b"!=", b"<=", b">=", b"+=", b"-=", b"*=", b"/=", b"%=", b"&=", b"|=", b"^=", b"<<", b">>", b"=>", b":=",
    b"##", b"..",
];

struct Lexer<'a> {
    text: &'a [u8],
    language: Language,
    at: usize,
    line: u32,
}

/// The tokens of a text.
pub(crate) fn lex(text: &[u8], language: Language) -> Vec<Token> {
    let mut lexer = Lexer { text, language, at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 6);
    let mut line_start = true;
    let mut directive = false;
    while lexer.at < text.len() {
        let (at, line) = (lexer.at, lexer.line);
        let byte = text[at];
        if byte == b'\n' {
            lexer.skip(1);
            line_start = true;
            directive = false;
            continue;
        }
        if byte.is_ascii_whitespace() || (at == 0 && text.starts_with(b"\xef\xbb\xbf")) {
            lexer.skip(if byte == 0xef { 3 } else { 1 });
            continue;
        }
        if byte == b'\\' && lexer.splice(at).is_some() {
            lexer.skip(lexer.splice(at).unwrap_or(1));
            continue;
        }
        let mut kind = TokenKind::Mark;
        if let Some(length) = lexer.comment() {
            let order = language == Language::Go && text[at..].starts_with(b"//go:");
            lexer.skip(length);
            if !order {
                continue;
            }
            kind = TokenKind::Order;
        } else {
            let (length, found) = lexer.token();
            kind = if found == TokenKind::Mark { kind } else { found };
            lexer.skip(length);
        }
        let mut belongs = if directive { Directive::Rest } else { Directive::No };
        if byte == b'#' && line_start && language.is_c() {
            directive = true;
            belongs = Directive::First;
        }
        line_start = false;
        let end = lexer.at;
        let hash = hash(&text[at..end]);
        tokens.push(Token { start: at as u32, end: end as u32, line, kind, directive: belongs, hash });
    }
    tokens
}

impl Lexer<'_> {
    fn skip(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        self.line += self.text[self.at..end].iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.at = end;
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// The length of a backslash with the line break it hides.
    fn splice(&self, at: usize) -> Option<usize> {
        let rest = self.text.get(at + 1..)?;
        if !self.language.is_c() {
            None
        } else if rest.starts_with(b"\n") {
            Some(2)
        } else if rest.starts_with(b"\r\n") {
            Some(3)
        } else {
            None
        }
    }

    /// Where a line ends, hidden line breaks left out.
    fn line_end(&self, mut at: usize) -> usize {
        while at < self.text.len() && self.text[at] != b'\n' {
            at += if self.text[at] == b'\\' { self.splice(at).unwrap_or(1) } else { 1 };
        }
        at.min(self.text.len())
    }

    /// The length of the comment here.
    fn comment(&self) -> Option<usize> {
        let rest = &self.text[self.at..];
        if rest.starts_with(b"//") {
            return Some(self.line_end(self.at) - self.at);
        }
        if !rest.starts_with(b"/*") {
            return None;
        }
        let nests = self.language == Language::Rust;
        let (mut depth, mut at) = (1, 2);
        while at < rest.len() && depth > 0 {
            if rest[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
            } else if nests && rest[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else {
                at += 1;
            }
        }
        Some(at)
    }

    fn token(&self) -> (usize, TokenKind) {
        let at = self.at;
        let byte = self.text[at];
        if is_word_start(byte) {
            let end = self.word_end(at);
            let quoted = matches!(self.byte(end), b'"' | b'\'' | b'#').then(|| self.prefixed(end)).flatten();
            return quoted.map_or((end - at, TokenKind::Word), |end| (end - at, TokenKind::Literal));
        }
        if byte.is_ascii_digit() || (byte == b'.' && self.byte(at + 1).is_ascii_digit()) {
            return (self.number_end(at) - at, TokenKind::Literal);
        }
        match byte {
            b'"' => (self.string_end(at, b'"') - at, TokenKind::Literal),
            b'`' if self.language == Language::Go => (self.find(at + 1, b"`") - at, TokenKind::Literal),
            b'\'' if self.language == Language::Rust => self.lifetime_or_char(at),
            b'\'' => (self.string_end(at, b'\'') - at, TokenKind::Literal),
            _ => {
                let rest = &self.text[at..];
                let mark = MARKS.iter().find(|mark| rest.starts_with(mark));
                (mark.map_or(1, |mark| mark.len()), TokenKind::Mark)
            }
        }
    }

    fn word_end(&self, mut at: usize) -> usize {
        while is_word_start(self.byte(at)) || self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at.min(self.text.len())
    }

    /// The end of the literal whose prefix ends at `quote`, if that is what it is.
    fn prefixed(&self, quote: usize) -> Option<usize> {
        let prefix = &self.text[self.at..quote];
        match self.language {
            Language::Rust => {
                let mut hashes = 0;
                while self.byte(quote + hashes) == b'#' {
                    hashes += 1;
                }
                if prefix.ends_with(b"r") && prefix.len() <= 2 && self.byte(quote + hashes) == b'"' {
                    let close = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
                    return Some(self.find(quote + hashes + 1, &close));
                }
                if hashes > 0 || !matches!(prefix, b"b" | b"c") {
                    return None;
                }
                Some(self.string_end(quote, self.byte(quote)))
            }
            Language::C | Language::Cpp => {
                if !matches!(prefix, b"L" | b"u" | b"U" | b"u8" | b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
                    return None;
                }
                if prefix.ends_with(b"R") {
                    let open = self.text[quote..].iter().take(18).position(|&byte| byte == b'(')?;
                    let delimiter = &self.text[quote + 1..quote + open];
                    if self.language == Language::C || delimiter.iter().any(u8::is_ascii_whitespace) {
                        return None;
                    }
                    return Some(self.find(quote + open + 1, &[b")", delimiter, b"\""].concat()));
                }
                (self.byte(quote) != b'#').then(|| self.string_end(quote, self.byte(quote)))
            }
            Language::Go => None,
        }
    }

    /// The end of the first `close` from `at` on, or of the text.
    fn find(&self, at: usize, close: &[u8]) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.windows(close.len())
            .position(|window| window == close)
            .map_or(self.text.len(), |p| at + p + close.len())
    }

    /// The end of a string; a line break ends one that is not closed, except in Rust.
    fn string_end(&self, quote: usize, close: u8) -> usize {
        let mut at = quote + 1;
        while at < self.text.len() {
            match self.text[at] {
                b'\\' => at += if self.text[at..].starts_with(b"\\\r\n") { 3 } else { 2 },
                b'\n' if self.language != Language::Rust => return at,
                byte if byte == close => return at + 1,
                _ => at += 1,
            }
        }
        self.text.len()
    }

    fn lifetime_or_char(&self, at: usize) -> (usize, TokenKind) {
        if self.byte(at + 1) == b'\\' {
            return (self.string_end(at, b'\'') - at, TokenKind::Literal);
        }
        let rest = self.text.get(at + 1..).unwrap_or_default();
        let width = match rest.first() {
            None => 0,
            Some(&first) if first < 0x80 => 1,
            Some(_) => rest.iter().skip(1).take_while(|&&byte| byte & 0xc0 == 0x80).count() + 1,
        };
        if width > 0 && rest.get(width) == Some(&b'\'') {
            return (width + 2, TokenKind::Literal);
        }
        ((self.word_end(at + 1) - at).max(1), TokenKind::Mark)
    }

    fn number_end(&self, mut at: usize) -> usize {
        let c = self.language.is_c();
        loop {
            let byte = self.byte(at);
            let exponent = match byte {
                b'e' | b'E' => !self.text[self.at..at].starts_with(b"0x"),
                byte => matches!(byte, b'p' | b'P'),
            };
            if exponent && matches!(self.byte(at + 1), b'+' | b'-') {
                at += 2;
            } else if is_word_start(byte)
                || byte.is_ascii_digit()
                || (byte == b'.'
                    && (c || self.byte(at + 1).is_ascii_digit() || self.language == Language::Go))
            {
                at += 1;
            } else if c && byte == b'\'' && self.byte(at + 1).is_ascii_alphanumeric() {
                at += 2;
            } else {
                return at.min(self.text.len());
            }
        }
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, language: Language) -> Vec<String> {
        let tokens = lex(text.as_bytes(), language);
        tokens.iter().map(|token| String::from_utf8_lossy(token.text(text.as_bytes())).into_owned()).collect()
    }

    #[test]
    fn comments_and_layout_are_no_tokens() {
        assert_eq!(texts("a /* b\n */ ->b // c \\\n d\n+++e", Language::C), ["a", "->", "b", "++", "+", "e"]);
        assert_eq!(texts("a /* /* b */ c */ d", Language::Rust), ["a", "d"]);
    }

    #[test]
    fn literals_stay_whole() {
        assert_eq!(
            texts(r#"L"a\"b" '\'' 1'000 0x1p-3"#, Language::Cpp),
            [r#"L"a\"b""#, r"'\''", "1'000", "0x1p-3"]
        );
        assert_eq!(texts("R\"x(a\n)\" )x\" y", Language::Cpp), ["R\"x(a\n)\" )x\"", "y"]);
        assert_eq!(
            texts("'a 'b' r#\"x\"y\"# b'c' 1..2", Language::Rust),
            ["'a", "'b'", "r#\"x\"y\"#", "b'c'", "1", "..", "2"]
        );
        assert_eq!(texts("`a\n//b` 'x'", Language::Go), ["`a\n//b`", "'x'"]);
    }

    #[test]
    fn open_strings_end_somewhere() {
        assert_eq!(texts("\"abc\nd", Language::C), ["\"abc", "d"]);
        assert_eq!(texts("\"abc\nd", Language::Rust), ["\"abc\nd"]);
        assert_eq!(texts("'", Language::Rust), ["'"]);
        assert_eq!(texts("/* a", Language::Go), Vec::<String>::new());
    }
}
