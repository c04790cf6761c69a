//! The knowledge base: behaviours of programs, and how finely a profile of each can be taken apart.

use relive_impact::constructs::Level;
use serde::Deserialize;

/// A behaviour that profiles are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What it is called.
    pub name: String,
    /// The smallest constructs whose entries may be taken over by themselves.
    pub granularity: Level,
    /// Whether the order of entries says something.
    pub order: bool,
    /// Whether entries lie within others.
    pub nesting: bool,
    /// Which counts of a function it is about.
    pub about: About,
    /// Whether it is about values too: it may change although everything runs as often as before.
    pub values: bool,
}

/// Which counts of a function make up a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Every block.
    Blocks,
    /// Loop headers.
    Loops,
    /// Blocks that end with a call, and edges that are one.
    Calls,
    /// How often it is entered.
    Entries,
}

impl About {
    /// Whether it matters where calls through pointers lead.
    #[must_use]
    pub fn has_calls(self) -> bool {
        matches!(self, Self::Blocks | Self::Calls)
    }
}

/// Behaviours that are known from the start: name, granularity, what they are about. That a sequence of calls has an order, and calls lie in calls, is
/// said below.
const KNOWN: [(&str, Level, About); 7] = [
    ("edges", Level::STATEMENT, About::Blocks),
    ("loops", Level::LOOP, About::Loops),
    ("call-graph", Level::FUNCTION, About::Calls),
    ("call-frequencies", Level::FUNCTION, About::Entries),
    ("call-sequence", Level::FUNCTION, About::Calls),
    ("strides", Level::STATEMENT, About::Blocks),
    ("reuse-distances", Level::STATEMENT, About::Blocks),
];

/// What is known of behaviours.
#[derive(Clone, Debug)]
pub struct Knowledge(Vec<Behaviour>);

impl Default for Knowledge {
    fn default() -> Self {
        let all = KNOWN.into_iter().map(|(name, granularity, about)| Behaviour {
            name: name.to_owned(),
            granularity,
            order: name == "call-sequence",
            nesting: name == "call-sequence",
            about,
            values: matches!(name, "strides" | "reuse-distances"),
        });
        Self(all.collect())
    }
}

/// Why a file of behaviours was not understood.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    /// It is no list of behaviours.
    #[error("not a list of behaviours")]
    Json(#[from] serde_json::Error),
    /// A granularity that nobody knows.
    #[error("behaviour {behaviour}: there is no level {level}; levels are {}", names())]
    Level {
        /// Of which behaviour.
        behaviour: String,
        /// What the file says.
        level: String,
    },
}

fn names() -> String {
    Level::ALL.map(|level| level.name).join(", ")
}

/// A behaviour in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    behaviour: String,
    granularity: String,
    #[serde(default)]
    order: bool,
    #[serde(default)]
    nesting: bool,
}

impl Knowledge {
    /// Adds the behaviours of a file: JSON, a list of objects with `behaviour`, `granularity`, `order` and `nesting`. One that is known already
    /// is known in this way from now on.
    ///
    /// # Errors
    /// If it is no such list.
    pub fn extend(&mut self, json: &[u8]) -> Result<(), KnowledgeError> {
        for entry in serde_json::from_slice::<Vec<Entry>>(json)? {
            let Entry { behaviour, granularity, order, nesting } = entry;
            let Some(level) = Level::parse(&granularity) else {
                return Err(KnowledgeError::Level { behaviour, level: granularity });
            };
            let (about, values) =
                self.find(&behaviour).map_or((About::Blocks, true), |known| (known.about, known.values));
            self.0.retain(|known| known.name != behaviour);
            self.0.push(Behaviour { name: behaviour, granularity: level, order, nesting, about, values });
        }
        Ok(())
    }

    /// The behaviour of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Behaviour> {
        self.0.iter().find(|behaviour| behaviour.name == name)
    }

    /// The names of all.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|behaviour| behaviour.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_add_what_they_know() {
        let mut knowledge = Knowledge::default();
        let more = br#"[{"behaviour": "values", "granularity": "function", "order": true},
                        {"behaviour": "loops", "granularity": "function"}]"#;
        knowledge.extend(more).expect("understood");
        let values = knowledge.find("values").expect("known");
        assert_eq!((values.granularity, values.order, values.about), (Level::FUNCTION, true, About::Blocks));
        let loops = knowledge.find("loops").expect("known");
        assert_eq!((loops.granularity, loops.about), (Level::FUNCTION, About::Loops));
        assert!(knowledge.extend(br#"[{"behaviour": "x", "granularity": "line"}]"#).is_err());
        assert!(knowledge.extend(b"{}").is_err());
    }
}
