//! One line table: which source line each stretch of code comes from.

use super::Location;
use super::complaints::Complaints;
use super::extent::Text;
use super::reading::Slice;
use gimli::{AttributeValue, ColumnType, LineProgramHeader, UnitRef};
use relive_code::addr::{AddrRange, LinkAddr};

/// No file system accepts a longer path (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;
/// What a path is called that the table refers to and does not hold.
const UNKNOWN_FILE: &str = "?";
/// The smallest number there is, in the form of line programs. Only a damaged program goes back that
/// many lines, and gimli 0.34 turns the number round: a panic where arithmetic is checked.
const SMALLEST: &[u8] = b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f";
/// In place of a file's index: no line, because no code of this table is there.
const GAP: u32 = u32::MAX;

/// The rows of a line table, flattened: each counts up to the next.
#[derive(Default)]
pub(super) struct LineTable {
    files: Box<[Box<str>]>,
    rows: Box<[Row]>,
}

#[derive(Clone, Copy)]
struct Row {
    start: LinkAddr,
    file: u32,
    line: u32,
    column: u32,
    discriminator: u32,
}

impl LineTable {
    /// Runs the line program of `unit`. What could be read before a fault is kept.
    pub(super) fn read(unit: UnitRef<'_, Slice<'_>>, text: &Text, complaints: &Complaints) -> Self {
        let Some(program) = unit.line_program.clone() else { return Self::default() };
        if program.header().raw_program_buf().windows(SMALLEST.len()).any(|bytes| bytes == SMALLEST) {
            complaints.add(".debug_line", "a line number that makes no sense");
            return Self::default();
        }
        let files = render_files(unit, program.header());
        let sequences = match read_sequences(program, text) {
            (sequences, Ok(())) => sequences,
            (sequences, Err(why)) => {
                complaints.add(".debug_line", why);
                sequences
            }
        };
        Self { files, rows: flatten(sequences) }
    }

    /// The line of `at`.
    pub(super) fn at(&self, at: LinkAddr) -> Option<Location<'_>> {
        let row = self.rows[..self.rows.partition_point(|r| r.start <= at)].last()?;
        (row.file != GAP).then(|| Location { file: self.file(row.file), line: row.line, column: row.column })
    }

    /// What tells the code at `at` apart from other code of its line; zero if nothing does.
    pub(super) fn discriminator(&self, at: LinkAddr) -> u32 {
        self.rows[..self.rows.partition_point(|r| r.start <= at)].last().map_or(0, |row| row.discriminator)
    }

    /// Where rows begin or end in `range`.
    pub(super) fn borders(&self, range: AddrRange) -> impl Iterator<Item = LinkAddr> + '_ {
        let first = self.rows.partition_point(|r| r.start < range.start);
        self.rows[first..].iter().map(|r| r.start).take_while(move |&start| start < range.end)
    }

    /// The stretches of code it describes.
    pub(super) fn covered(&self) -> impl Iterator<Item = AddrRange> + '_ {
        let mut start = None;
        self.rows.iter().filter_map(move |row| match (row.file, start) {
            (GAP, Some(from)) => {
                start = None;
                Some(AddrRange::new(from, row.start))
            }
            (GAP, None) => None,
            _ => {
                start.get_or_insert(row.start);
                None
            }
        })
    }

    /// The path of a file, by its number in the table.
    pub(super) fn file(&self, index: u32) -> &str {
        self.files.get(index as usize).map_or(UNKNOWN_FILE, |path| path)
    }
}

/// Rows of rising address, and the address behind the last.
struct Sequence {
    rows: Vec<Row>,
    end: LinkAddr,
}

/// Runs the program; also gives what came before a fault.
fn read_sequences(
    program: gimli::IncompleteLineProgram<Slice<'_>>,
    text: &Text,
) -> (Vec<Sequence>, gimli::Result<()>) {
    let mut sequences = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut program = program.rows();
    loop {
        let row = match program.next_row() {
            Ok(Some((_, row))) => row,
            Ok(None) => return (sequences, Ok(())),
            Err(why) => return (sequences, Err(why)),
        };
        let start = LinkAddr(row.address());
        if row.end_sequence() {
            let rows = std::mem::take(&mut rows);
            if rows.first().is_some_and(|first| first.start < start && text.holds(first.start)) {
                sequences.push(Sequence { rows, end: start });
            }
            continue;
        }
        let next = Row {
            start,
            file: u32::try_from(row.file_index()).map_or(GAP - 1, |index| index.min(GAP - 1)),
            line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(u32::MAX)),
            column: match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(u32::MAX),
            },
            discriminator: u32::try_from(row.discriminator()).unwrap_or(0),
        };
        match rows.last_mut() {
            // Of several rows for one address the last says what is there.
            Some(last) if last.start == start => *last = next,
            Some(last) if last.start > start => {}
            _ => rows.push(next),
        }
    }
}

/// Puts the sequences behind each other. Where two cover the same code, as after identical functions
/// were folded, the one that starts first counts, and the program's first of those that start at once.
fn flatten(mut sequences: Vec<Sequence>) -> Box<[Row]> {
    sequences.sort_by_key(|s| s.rows.first().map(|row| row.start));
    let mut all: Vec<Row> = Vec::with_capacity(sequences.iter().map(|s| s.rows.len() + 1).sum());
    let mut done = LinkAddr(0);
    for sequence in sequences {
        if sequence.end <= done {
            continue;
        }
        if all.last().is_some_and(|gap| sequence.rows.first().is_some_and(|row| row.start <= gap.start)) {
            all.pop();
        }
        let ends = sequence.rows.iter().skip(1).map(|row| row.start).chain([sequence.end]);
        for (row, end) in sequence.rows.iter().zip(ends) {
            if end > done && row.start < end {
                all.push(Row { start: row.start.max(done), ..*row });
            }
        }
        done = sequence.end;
        all.push(Row { start: done, file: GAP, line: 0, column: 0, discriminator: 0 });
    }
    all.into_boxed_slice()
}

/// The paths of all files of the table, by number.
fn render_files<'a>(unit: UnitRef<'_, Slice<'a>>, header: &LineProgramHeader<Slice<'a>>) -> Box<[Box<str>]> {
    // Numbers begin with one before DWARF 5; zero then means the unit's own file.
    let count = header.file_names().len() as u64 + u64::from(header.version() <= 4);
    (0..count).map(|index| render_file(unit, header, index).into_boxed_str()).collect()
}

fn render_file<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    header: &LineProgramHeader<Slice<'a>>,
    index: u64,
) -> String {
    let Some(file) = header.file(index) else { return UNKNOWN_FILE.to_string() };
    let text = |value: AttributeValue<Slice<'a>>| {
        let bytes = unit.attr_string(value).ok()?;
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_PATH)]).into_owned())
    };
    let Some(name) = text(file.path_name()) else { return UNKNOWN_FILE.to_string() };
    let mut path = match unit.comp_dir {
        Some(dir) => text(AttributeValue::String(dir)).unwrap_or_default(),
        None => String::new(),
    };
    // Folder zero is the one the compiler ran in.
    if file.directory_index() != 0
        && let Some(dir) = file.directory(header).and_then(text)
    {
        push_path(&mut path, &dir);
    }
    push_path(&mut path, &name);
    path
}

fn push_path(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(starts: &[u64], end: u64, line: u32) -> Sequence {
        let row = |&start| Row { start: LinkAddr(start), file: 0, line, column: 0, discriminator: 0 };
        Sequence { rows: starts.iter().map(row).collect(), end: LinkAddr(end) }
    }

    fn lines(sequences: Vec<Sequence>, at: &[u64]) -> Vec<Option<u32>> {
        let table = LineTable { files: Box::new([]), rows: flatten(sequences) };
        at.iter().map(|&at| table.at(LinkAddr(at)).map(|l| l.line)).collect()
    }

    #[test]
    fn sequences_side_by_side_with_a_gap() {
        let table = vec![sequence(&[20, 25], 30, 2), sequence(&[10], 20, 1), sequence(&[40], 50, 3)];
        let at = [9, 10, 19, 20, 29, 30, 39, 40, 49, 50];
        let found = [None, Some(1), Some(1), Some(2), Some(2), None, None, Some(3), Some(3), None];
        assert_eq!(lines(table, &at), found);
    }

    #[test]
    fn where_sequences_overlap_the_first_counts() {
        let table = vec![sequence(&[10, 14], 20, 1), sequence(&[10], 16, 2), sequence(&[18, 22], 30, 3)];
        assert_eq!(
            lines(table, &[10, 15, 19, 20, 29, 30]),
            [Some(1), Some(1), Some(1), Some(3), Some(3), None]
        );
    }

    #[test]
    fn what_is_covered() {
        let sequences = vec![sequence(&[10], 20, 1), sequence(&[20, 25], 30, 2), sequence(&[40], 50, 3)];
        let table = LineTable { files: Box::new([]), rows: flatten(sequences) };
        let range = |start, end| AddrRange::new(LinkAddr(start), LinkAddr(end));
        assert_eq!(table.covered().collect::<Vec<_>>(), [range(10, 30), range(40, 50)]);
        let borders: Vec<u64> = table.borders(range(20, 41)).map(|at| at.0).collect();
        assert_eq!(borders, [20, 25, 30, 40]);
    }

    #[test]
    fn paths_are_joined() {
        let mut path = String::from("/build");
        push_path(&mut path, "src");
        push_path(&mut path, "a.c");
        assert_eq!(path, "/build/src/a.c");
        push_path(&mut path, "/usr/include/b.h");
        assert_eq!(path, "/usr/include/b.h");
    }
}
