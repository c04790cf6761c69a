//! Who may call whom.

use crate::changes::function_at;
use relive_profile::model::{Callee, Function, Module, Target};

/// Whether a function is what a program begins with: the one of that name, or, in a file without names, the one that hands control to the C library.
pub(crate) fn begins_program(module: &Module, function: &Function) -> bool {
    let hands_over = |callee: Callee| {
        let name = module.callee_name(callee).unwrap_or_default();
        name.split('@').next() == Some("__libc_start_main")
    };
    module.name(function) == "_start" || function.calls.iter().any(|call| hands_over(call.callee))
}

/// For each function of a module, which others of it it may call: where code says so, and where a recorded call led.
pub struct Calls(Vec<Vec<u32>>);

impl Calls {
    /// The calls of a module.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let callees = |callee: Callee| -> Vec<u32> {
            let direct = match callee {
                Callee::Direct { address, .. } => function_at(module, address),
                _ => None,
            };
            let recorded = module.targets(callee).iter().filter_map(|to| match to.target {
                Target::Own(address) => function_at(module, address),
                _ => None,
            });
            direct.into_iter().chain(recorded).collect()
        };
        Self(
            module
                .functions
                .iter()
                .map(|function| {
                    let mut all: Vec<u32> =
                        function.calls.iter().flat_map(|call| callees(call.callee)).collect();
                    all.sort_unstable();
                    all.dedup();
                    all
                })
                .collect(),
        )
    }

    /// What a function may call.
    #[must_use]
    pub fn callees(&self, function: u32) -> &[u32] {
        self.0.get(function as usize).map_or(&[], Vec::as_slice)
    }

    /// These functions and all they may call, directly or not, in ascending order.
    #[must_use]
    pub fn downstream(&self, from: &[u32]) -> Vec<u32> {
        let mut reached = vec![false; self.0.len()];
        let mut open: Vec<u32> = from.to_vec();
        while let Some(function) = open.pop() {
            if reached.get(function as usize).is_some_and(|reached| !reached) {
                reached[function as usize] = true;
                open.extend(self.callees(function));
            }
        }
        (0..).zip(reached).filter(|(_, reached)| *reached).map(|(function, _)| function).collect()
    }
}
