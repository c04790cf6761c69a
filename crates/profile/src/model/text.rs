//! Names and reasons, each held once.

use std::collections::HashMap;
use std::sync::Arc;

/// A text in the table of its module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub(crate) u32);

/// The texts of a module.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: Vec<Arc<str>>,
    /// Made when it is first needed: who only reads never does.
    known: HashMap<Arc<str>, TextId>,
}

impl Texts {
    /// The number of a text that may be new.
    ///
    /// # Panics
    /// If there are 2³² different texts.
    pub fn intern(&mut self, text: &str) -> TextId {
        if self.known.len() != self.texts.len() {
            self.known = self.texts.iter().zip(0..).map(|(text, i)| (text.clone(), TextId(i))).collect();
        }
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        let id = TextId(u32::try_from(self.texts.len()).expect("fewer than 2^32 texts"));
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.known.insert(text, id);
        id
    }

    /// A text; empty if there is none of that number.
    #[must_use]
    pub fn get(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    /// The texts as they are numbered. If some are equal, [`Texts::intern`] finds one of them.
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        Self { texts: texts.into_iter().map(|text| text.as_ref().into()).collect(), known: HashMap::new() }
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Texts {}
