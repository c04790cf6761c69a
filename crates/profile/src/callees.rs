//! What calls led to: by name, and which function of the profile that is.

use crate::model::{Call, Callee, Count, Function, Module, Profile, Target};
use std::borrow::Cow;
use std::collections::HashMap;

/// A function of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId {
    /// Which of [`Profile::modules`].
    pub module: u32,
    /// Which of [`Module::functions`].
    pub function: u32,
}

/// What a call led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called<'p> {
    /// As in the symbol table; what is not known is `?`, code in no file `generated`.
    pub name: Cow<'p, str>,
    /// Which function of the profile it is, if it is one.
    pub function: Option<FunctionId>,
    /// How often, if that is known.
    pub count: Option<u64>,
}

/// Finds out what calls led to.
pub struct Callees<'p> {
    profile: &'p Profile,
    /// Functions that ran, by name; nothing if several are called so.
    by_name: HashMap<&'p str, Option<FunctionId>>,
}

impl<'p> Callees<'p> {
    /// Of all calls of `profile`.
    #[must_use]
    pub fn new(profile: &'p Profile) -> Self {
        let mut by_name = HashMap::new();
        // In a profile of one module there is no other to import from.
        for (module, m) in profile.modules.iter().zip(0..).filter(|_| profile.modules.len() > 1) {
            for (function, f) in module.functions.iter().zip(0..) {
                // What never ran was never called.
                if function.entries().is_none_or(|entries| entries.value() > 0) {
                    let id = FunctionId { module: m, function: f };
                    by_name
                        .entry(module.name(function))
                        .and_modify(|known| *known = None)
                        .or_insert(Some(id));
                }
            }
        }
        Self { profile, by_name }
    }

    /// What `call` of `function` led to.
    #[must_use]
    pub fn of(&self, module: &'p Module, function: &Function, call: &Call) -> Vec<Called<'p>> {
        let count = module.call_count(function, call).map(Count::value);
        let called = match call.callee {
            Callee::Direct { address, name } => {
                let name = match module.text(name) {
                    "" => Cow::Owned(format!("{address:#x}")),
                    name => Cow::Borrowed(name),
                };
                Called { name, function: self.at(module, address), count }
            }
            Callee::Import { name } => {
                let name = module.text(name);
                // `puts@plt`, `puts@GLIBC_2.2.5`.
                let plain = name.split('@').next().unwrap_or(name);
                let function = self.by_name.get(plain).copied().flatten();
                Called { name: name.into(), function, count }
            }
            Callee::Indirect { .. } => return self.targets(module, call.callee, count),
        };
        vec![called]
    }

    fn targets(&self, module: &'p Module, callee: Callee, total: Option<u64>) -> Vec<Called<'p>> {
        let targets = module.targets(callee);
        let mut all: Vec<_> = targets.iter().map(|t| self.target(module, t.target, t.count)).collect();
        let known: u64 = targets.iter().fold(0, |sum, target| sum.saturating_add(target.count));
        let rest = total.map(|total| total.saturating_sub(known));
        if all.is_empty() || rest.is_some_and(|rest| rest > 0) {
            let count = if all.is_empty() { total } else { rest };
            all.push(Called { name: "?".into(), function: None, count });
        }
        all
    }

    fn target(&self, module: &'p Module, target: Target, count: u64) -> Called<'p> {
        let (function, otherwise) = match target {
            Target::Own(address) => (self.at(module, address), format!("{address:#x}")),
            Target::Foreign { module: foreign, address } => {
                let foreign = module.foreign.get(foreign as usize);
                let other = foreign.filter(|foreign| !foreign.build_id.is_empty()).and_then(|foreign| {
                    self.profile.modules.iter().find(|other| other.build_id == foreign.build_id)
                });
                let path = foreign.map_or("?", |foreign| foreign.path.as_str());
                (other.and_then(|other| self.at(other, address)), format!("{path}+{address:#x}"))
            }
            Target::Generated => (None, "generated".to_string()),
        };
        let name = function.map_or_else(|| Cow::Owned(otherwise), |id| self.profile.name(id).into());
        Called { name, function, count: Some(count) }
    }

    /// The function that begins at `address`.
    fn at(&self, module: &'p Module, address: u64) -> Option<FunctionId> {
        let function = module.functions.binary_search_by_key(&address, |f| f.address).ok()?;
        let module = self.profile.modules.iter().position(|other| std::ptr::eq(other, module))?;
        Some(FunctionId { module: u32::try_from(module).ok()?, function: u32::try_from(function).ok()? })
    }
}

impl Profile {
    /// A module and a function of it.
    ///
    /// # Panics
    /// If it is not of this profile.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> (&Module, &Function) {
        let module = &self.modules[id.module as usize];
        (module, &module.functions[id.function as usize])
    }

    /// The name of a function, as in the symbol table.
    ///
    /// # Panics
    /// If it is not of this profile.
    #[must_use]
    pub fn name(&self, id: FunctionId) -> &str {
        let (module, function) = self.function(id);
        module.name(function)
    }

    /// All functions.
    pub fn ids(&self) -> impl Iterator<Item = FunctionId> {
        self.modules.iter().zip(0..).flat_map(|(m, module)| {
            (0..).zip(&m.functions).map(move |(function, _)| FunctionId { module, function })
        })
    }
}
