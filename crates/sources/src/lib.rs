//! What changed from one source tree to the next, statement by statement: ProfMig's atomic changes.
