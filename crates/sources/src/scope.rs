//! Which files see each other's definitions, and what imports bring into a file.

use std::collections::{HashMap, HashSet};

use crate::Language;
use crate::file::File;
use crate::lex::TokenKind;
use crate::model::What;
use crate::structure::Item;

/// Which files are read together.
pub(crate) struct Scope {
    /// For each file, the files that include it, by way of others too; sorted. Each includes itself.
    readers: Vec<Vec<u32>>,
}

impl Scope {
    pub(crate) fn new(files: &[File]) -> Self {
        let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
        for (at, file) in files.iter().enumerate() {
            by_name.entry(base(file.path)).or_default().push(at as u32);
        }
        let included = files.iter().map(|file| includes(file, files, &by_name)).collect::<Vec<_>>();
        let mut readers = vec![Vec::new(); files.len()];
        for reader in 0..files.len() as u32 {
            let mut seen = HashSet::from([reader]);
            let mut queue = vec![reader];
            while let Some(at) = queue.pop() {
                readers[at as usize].push(reader);
                queue.extend(included[at as usize].iter().filter(|&&next| seen.insert(next)));
            }
        }
        Self { readers }
    }

    /// Whether what one file defines can be mentioned in another.
    pub(crate) fn shared(&self, files: &[File], a: u32, b: u32) -> bool {
        if a == b {
            return true;
        }
        let (file, other) = (&files[a as usize], &files[b as usize]);
        if !file.language.is_c() || !other.language.is_c() {
            return file.language == other.language;
        }
        let (mut a, mut b) = (&self.readers[a as usize][..], &self.readers[b as usize][..]);
        while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
            match first_a.cmp(first_b) {
                std::cmp::Ordering::Less => a = rest_a,
                std::cmp::Ordering::Greater => b = rest_b,
                std::cmp::Ordering::Equal => return true,
            }
        }
        false
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The directory of a path.
pub(crate) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn includes(file: &File, files: &[File], by_name: &HashMap<&str, Vec<u32>>) -> Vec<u32> {
    let imports =
        file.structure.items.iter().filter(|item| item.what == What::Import && file.language.is_c());
    let mut found = Vec::new();
    for import in imports {
        if !import.name.starts_with(['"', '<']) {
            // A macro names the file, so it may be any; `using` is no include.
            let uses = import.name.starts_with("using") || import.name.starts_with("namespace");
            found.extend((0..files.len() as u32).filter(|_| !uses));
            continue;
        }
        let path = import.name.trim_matches(|c| matches!(c, '"' | '<' | '>'));
        let candidates = by_name.get(base(path)).map_or(&[][..], Vec::as_slice);
        let path = path.trim_start_matches("../").trim_start_matches("./");
        let exact = |&&at: &&u32| files[at as usize].path.ends_with(path);
        let exact = candidates.iter().filter(exact).copied().collect::<Vec<_>>();
        found.extend(if exact.is_empty() { candidates.to_vec() } else { exact });
    }
    found
}

/// What the imports of each file bring in: full paths, and the names they go by.
pub(crate) struct Imports<'a>(HashMap<&'a str, HashSet<(String, String)>>);

impl<'a> Imports<'a> {
    pub(crate) fn new(files: &'a [File]) -> Self {
        let of = |file: &File| {
            let imports = file.structure.items.iter().filter(|item| item.what == What::Import);
            imports.flat_map(|item| paths(file, item)).collect()
        };
        Self(files.iter().map(|file| (file.path, of(file))).collect())
    }

    /// The names by which something else is known in a file than what an import of another version says.
    pub(crate) fn missing(&self, file: &File, item: &Item) -> Vec<String> {
        let there = self.0.get(file.path);
        let missing =
            paths(file, item).into_iter().filter(|path| !there.is_some_and(|there| there.contains(path)));
        missing.map(|(_, name)| name).collect()
    }
}

/// Each path an import brings in, with its name.
fn paths(file: &File, item: &Item) -> Vec<(String, String)> {
    if file.language != Language::Rust {
        // The same under another condition is not the same.
        let said = file.structure.nodes[item.node as usize].hash;
        let name = item.names.first().cloned().unwrap_or_default();
        return vec![(format!("{} {said:x}", item.name), name)];
    }
    let tokens = file.structure.own(item.node).iter().map(|&token| &file.structure.tokens[token as usize]);
    let mut prefixes: Vec<String> = Vec::new();
    let mut path = String::new();
    let mut name = String::new();
    let mut found = Vec::new();
    let mut renames = false;
    for token in tokens {
        let said = String::from_utf8_lossy(token.text(file.text)).into_owned();
        match said.as_str() {
            "{" => prefixes.push(std::mem::take(&mut path)),
            "," | "}" | ";" => {
                if !name.is_empty() {
                    found.push((prefixes.concat() + &path, std::mem::take(&mut name)));
                }
                path.clear();
                renames = false;
                if said == "}" {
                    prefixes.pop();
                }
            }
            "as" => renames = true,
            _ if renames => name = said,
            _ => {
                path += &said;
                path += if token.kind == TokenKind::Word && matches!(said.as_str(), "use" | "pub") {
                    " "
                } else {
                    ""
                };
                name = said;
            }
        }
    }
    found
}
