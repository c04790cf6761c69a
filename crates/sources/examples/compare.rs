//! Prints what changed between two directories of sources as tab-separated values; see the crate's documentation.

use std::path::Path;
use std::process::ExitCode;

use relive_sources::{Changes, Span, Tree, compare};

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [old, new] = &arguments[..] else {
        eprintln!("usage: compare OLD-DIRECTORY NEW-DIRECTORY");
        return ExitCode::from(2);
    };
    match read(Path::new(old)).and_then(|old| Ok((old, read(Path::new(new))?))) {
        Ok((old, new)) => print(&compare(&old, &new)),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn read(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries =
            std::fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            // Links may lead back up.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                tree.insert(name, bytes);
            }
        }
    }
    Ok(tree)
}

fn print(found: &Changes) {
    let place = |span: Option<Span>, files: &[String]| match span {
        Some(span) => format!("{}\t{}\t{}", files[span.file.0 as usize], span.first, span.last),
        None => "\t\t".to_owned(),
    };
    let mut out = String::from(
        "kind\twhat\tname\told_file\told_first\told_last\tnew_file\tnew_first\tnew_last\tbecause\n",
    );
    for change in &found.changes {
        let because = change.because.as_ref().map_or(String::new(), |cause| {
            let via = if cause.via == cause.name { String::new() } else { format!(" via {}", cause.via) };
            format!("{} {}{via}", cause.what, cause.name)
        });
        let (old, new) = (place(change.old, &found.old_files), place(change.new, &found.new_files));
        let name = change.name.as_deref().unwrap_or_default();
        out += &format!("{}\t{}\t{name}\t{old}\t{new}\t{because}\n", change.kind, change.what);
    }
    if std::env::var_os("UNCHANGED").is_some() {
        for (from, to) in &found.unchanged {
            let (old, new) = (&found.old_files[from.file.0 as usize], &found.new_files[to.file.0 as usize]);
            out += &format!("unchanged\tline\t\t{old}\t{0}\t{0}\t{new}\t{1}\t{1}\t\n", from.line, to.line);
        }
    }
    print!("{out}");
    let counts = found.statements;
    eprintln!(
        "{} and {} statements: {} changed, {} added, {} deleted; significance {:.2} %",
        counts.old,
        counts.new,
        counts.changed,
        counts.added,
        counts.deleted,
        100.0 * counts.significance()
    );
}
