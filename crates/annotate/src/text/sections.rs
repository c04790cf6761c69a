//! Which section the assembler is in.

/// A section as far as it is told apart here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub name: &'a [u8],
    pub is_code: bool,
}

impl Section<'_> {
    /// Whether tables to jump through are where programmers put them. Rows elsewhere are mostly what compilers say to debuggers.
    pub(super) fn may_hold_tables(&self) -> bool {
        self.is_code || self.name.starts_with(b".rodata") || self.name.starts_with(b".data")
    }
}

/// The section that the assembler is in, and those that it can go back to.
pub(super) struct Sections<'a> {
    pub current: Section<'a>,
    previous: Section<'a>,
    pushed: Vec<(Section<'a>, Section<'a>)>,
    /// Sections that are not what their names say.
    odd: Vec<Section<'a>>,
}

impl<'a> Sections<'a> {
    pub(super) fn new() -> Self {
        let text = Section { name: b".text", is_code: true };
        Self { current: text, previous: text, pushed: Vec::new(), odd: Vec::new() }
    }

    /// Goes where a directive says that [`is_directive`] knows.
    pub(super) fn follow(&mut self, directive: &[u8], operands: &'a [u8]) {
        match directive {
            b"previous" => std::mem::swap(&mut self.current, &mut self.previous),
            b"popsection" => {
                if let Some((current, previous)) = self.pushed.pop() {
                    (self.current, self.previous) = (current, previous);
                }
            }
            b"subsection" => self.previous = self.current,
            b"pushsection" => {
                self.pushed.push((self.current, self.previous));
                self.enter(self.named(operands));
            }
            b"section" => self.enter(self.named(operands)),
            b"text" => self.enter(Section { name: b".text", is_code: true }),
            _ => self.enter(Section { name: b".data", is_code: false }),
        }
    }

    fn enter(&mut self, section: Section<'a>) {
        self.previous = std::mem::replace(&mut self.current, section);
        let says = is_code_by_name(section.name);
        if section.is_code != says && !self.odd.contains(&section) {
            self.odd.push(section);
        }
    }

    /// The section that `.section` with these operands means.
    fn named(&self, operands: &'a [u8]) -> Section<'a> {
        let comma = operands.iter().position(|&byte| byte == b',').unwrap_or(operands.len());
        let (name, rest) = operands.split_at(comma);
        let name = name.trim_ascii();
        let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
        let mut quoted = rest.split(|&byte| byte == b'"');
        let is_code = match (quoted.next(), quoted.next()) {
            // Subsections have numbers before their flags.
            (Some(_), Some(flags)) => flags.contains(&b'x'),
            _ => self.odd.iter().any(|odd| odd.name == name) != is_code_by_name(name),
        };
        Section { name, is_code }
    }
}

/// What the assembler takes a section for that has no flags.
fn is_code_by_name(name: &[u8]) -> bool {
    let roots: [&[u8]; 4] = [b".text", b".init", b".fini", b".plt"];
    let is_under = |root| name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest[0] == b'.');
    roots.into_iter().any(is_under)
}

/// Whether a directive, without its dot, leads to another section.
pub(super) fn is_directive(directive: &[u8]) -> bool {
    matches!(
        directive,
        b"text"
            | b"data"
            | b"bss"
            | b"section"
            | b"pushsection"
            | b"popsection"
            | b"previous"
            | b"subsection"
            | b"struct"
            | b"offset"
    )
}
