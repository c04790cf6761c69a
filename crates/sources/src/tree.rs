//! A tree of sources.

use std::collections::BTreeMap;

use crate::Language;

/// The sources of a program: files by their path from the tree's root.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Adds a file, in place of one with the same path. Files of no known language are ignored, as are those of
    /// 4 GiB and more; the answer is whether the file was taken.
    pub fn insert(&mut self, path: impl Into<String>, bytes: Vec<u8>) -> bool {
        let path = path.into();
        let known = Language::of_path(&path).is_some() && u32::try_from(bytes.len()).is_ok();
        if known {
            self.files.insert(path, bytes);
        }
        known
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
