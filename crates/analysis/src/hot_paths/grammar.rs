//! A grammar that produces one text, found while the text is read (Nevill-Manning and Witten, "Sequitur").
//!
//! No two neighbours occur twice in it, and every rule is used at least twice. What is repeated in the text is a rule.

use crate::map::Map;

/// A letter of the text, or the number of a rule with [`RULE`].
type Value = u32;

const RULE: Value = 1 << 31;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Symbol {
    value: Value,
    before: u32,
    after: u32,
    /// It stands for the beginning and end of a rule: `value` says which.
    is_guard: bool,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    guard: u32,
    uses: u32,
}

/// A grammar.
pub(super) struct Grammar {
    symbols: Vec<Symbol>,
    free: Vec<u32>,
    rules: Vec<Rule>,
    free_rules: Vec<u32>,
    /// Where two neighbours occur.
    pairs: Map<(Value, Value), u32>,
    len: usize,
}

/// A rule of a grammar that is complete.
pub(super) struct Produced {
    /// Letters and rules: those of rules come earlier in the list.
    pub(super) symbols: Vec<Piece>,
    /// How often it occurs in the text.
    pub(super) times: u64,
}

/// A part of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Letter(u32),
    Rule(usize),
}

impl Grammar {
    pub(super) fn new() -> Self {
        let mut grammar = Self {
            symbols: Vec::new(),
            free: Vec::new(),
            rules: Vec::new(),
            free_rules: Vec::new(),
            pairs: Map::default(),
            len: 0,
        };
        grammar.new_rule();
        grammar
    }

    /// How many letters it has read.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Reads a letter: any number below 2³¹.
    pub(super) fn push(&mut self, letter: u32) {
        self.len += 1;
        let last = self.at(self.rules[0].guard).before;
        let symbol = self.new_symbol(letter);
        self.insert_after(last, symbol);
        let before = self.at(symbol).before;
        self.check(before);
    }

    fn at(&self, symbol: u32) -> Symbol {
        self.symbols[symbol as usize]
    }

    fn new_symbol(&mut self, value: Value) -> u32 {
        if value & RULE != 0 {
            self.rules[(value & !RULE) as usize].uses += 1;
        }
        self.add(Symbol { value, before: NONE, after: NONE, is_guard: false })
    }

    fn add(&mut self, symbol: Symbol) -> u32 {
        if let Some(index) = self.free.pop() {
            self.symbols[index as usize] = symbol;
            return index;
        }
        self.symbols.push(symbol);
        self.symbols.len() as u32 - 1
    }

    fn new_rule(&mut self) -> u32 {
        let number = self.free_rules.pop().unwrap_or(self.rules.len() as u32);
        let guard = self.add(Symbol { value: number, before: NONE, after: NONE, is_guard: true });
        (self.symbols[guard as usize].before, self.symbols[guard as usize].after) = (guard, guard);
        let rule = Rule { guard, uses: 0 };
        match self.rules.get_mut(number as usize) {
            Some(free) => *free = rule,
            None => self.rules.push(rule),
        }
        number
    }

    fn pair(&self, first: u32) -> Option<(Value, Value)> {
        let symbol = self.at(first);
        if symbol.is_guard || symbol.after == NONE {
            return None;
        }
        let after = self.at(symbol.after);
        (!after.is_guard).then_some((symbol.value, after.value))
    }

    /// It is not known any more that two neighbours begin here.
    fn forget(&mut self, first: u32) {
        if let Some(pair) = self.pair(first)
            && self.pairs.get(&pair) == Some(&first)
        {
            self.pairs.remove(&pair);
        }
    }

    fn is_same(&self, one: u32, other: u32) -> bool {
        let (one, other) = (self.at(one), self.at(other));
        !one.is_guard && !other.is_guard && one.value == other.value
    }

    fn join(&mut self, left: u32, right: u32) {
        if self.at(left).after != NONE {
            self.forget(left);
            // Of three that are the same, only the second pair is known: the first takes its place.
            let Symbol { before, after, .. } = self.at(right);
            if before != NONE && after != NONE && self.is_same(right, before) && self.is_same(right, after) {
                self.remember(right);
            }
            let Symbol { before, after, .. } = self.at(left);
            if before != NONE && after != NONE && self.is_same(left, before) && self.is_same(left, after) {
                self.remember(before);
            }
        }
        self.symbols[left as usize].after = right;
        self.symbols[right as usize].before = left;
    }

    fn remember(&mut self, first: u32) {
        if let Some(pair) = self.pair(first) {
            self.pairs.insert(pair, first);
        }
    }

    fn insert_after(&mut self, at: u32, symbol: u32) {
        let after = self.at(at).after;
        self.join(symbol, after);
        self.join(at, symbol);
    }

    fn delete(&mut self, symbol: u32) {
        let Symbol { value, before, after, is_guard } = self.at(symbol);
        self.join(before, after);
        if !is_guard {
            self.forget(symbol);
            if value & RULE != 0 {
                self.rules[(value & !RULE) as usize].uses -= 1;
            }
        }
        self.free.push(symbol);
    }

    /// Whether two neighbours occur elsewhere too; then they become a rule.
    fn check(&mut self, first: u32) -> bool {
        let Some(pair) = self.pair(first) else { return false };
        let Some(&other) = self.pairs.get(&pair) else {
            self.pairs.insert(pair, first);
            return false;
        };
        if other != first && self.at(other).after != first && self.at(first).after != other {
            self.unite(first, other);
        }
        true
    }

    fn unite(&mut self, first: u32, other: u32) {
        let before = self.at(other).before;
        let behind = self.at(self.at(other).after).after;
        let rule = if self.at(before).is_guard && self.at(behind).is_guard {
            let rule = self.at(before).value;
            self.substitute(first, rule);
            rule
        } else {
            let rule = self.new_rule();
            let values = [self.at(first).value, self.at(self.at(first).after).value];
            for value in values {
                let symbol = self.new_symbol(value);
                let last = self.at(self.rules[rule as usize].guard).before;
                self.insert_after(last, symbol);
            }
            self.substitute(other, rule);
            self.substitute(first, rule);
            let start = self.at(self.rules[rule as usize].guard).after;
            self.remember(start);
            rule
        };
        let start = self.at(self.rules[rule as usize].guard).after;
        let value = self.at(start).value;
        if value & RULE != 0 && self.rules[(value & !RULE) as usize].uses == 1 {
            self.expand(start);
        }
    }

    fn substitute(&mut self, first: u32, rule: u32) {
        let before = self.at(first).before;
        let second = self.at(first).after;
        self.delete(first);
        self.delete(second);
        let symbol = self.new_symbol(RULE | rule);
        self.insert_after(before, symbol);
        if !self.check(before) {
            let after = self.at(before).after;
            self.check(after);
        }
    }

    /// A rule that is used only here is written out.
    fn expand(&mut self, symbol: u32) {
        let Symbol { value, before, after, .. } = self.at(symbol);
        let number = value & !RULE;
        let guard = self.rules[number as usize].guard;
        let (first, last) = (self.at(guard).after, self.at(guard).before);
        self.forget(symbol);
        self.symbols[before as usize].after = NONE;
        self.free.push(symbol);
        self.free.push(guard);
        self.free_rules.push(number);
        self.symbols[last as usize].after = NONE;
        self.join(before, first);
        self.join(last, after);
        self.remember(last);
    }

    /// All rules, those that others are made of first; the last one is the text.
    pub(super) fn produced(&self) -> Vec<Produced> {
        let mut numbers: Vec<Option<usize>> = vec![None; self.rules.len()];
        let mut produced: Vec<Produced> = Vec::new();
        // Rules that have been looked into, before those they are made of.
        let mut waiting: Vec<(u32, bool)> = vec![(0, false)];
        while let Some((rule, is_ready)) = waiting.pop() {
            if numbers[rule as usize].is_some() {
                continue;
            }
            let guard = self.rules[rule as usize].guard;
            let values = std::iter::successors(Some(self.at(guard).after), |&at| Some(self.at(at).after))
                .take_while(|&at| at != guard)
                .map(|at| self.at(at).value);
            if is_ready {
                let piece = |value: Value| match value & RULE {
                    0 => Piece::Letter(value),
                    _ => Piece::Rule(numbers[(value & !RULE) as usize].unwrap_or(0)),
                };
                let symbols = values.map(piece).collect();
                numbers[rule as usize] = Some(produced.len());
                produced.push(Produced { symbols, times: 0 });
            } else {
                waiting.push((rule, true));
                waiting.extend(values.filter(|value| value & RULE != 0).map(|value| (value & !RULE, false)));
            }
        }
        if let Some(text) = produced.last_mut() {
            text.times = 1;
        }
        for at in (0..produced.len()).rev() {
            let times = produced[at].times;
            for piece in produced[at].symbols.clone() {
                if let Piece::Rule(rule) = piece {
                    produced[rule].times += times;
                }
            }
        }
        produced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn written_out(produced: &[Produced], at: usize) -> Vec<u32> {
        produced[at]
            .symbols
            .iter()
            .flat_map(|piece| match *piece {
                Piece::Letter(letter) => vec![letter],
                Piece::Rule(rule) => written_out(produced, rule),
            })
            .collect()
    }

    fn check(text: &[u32]) -> Vec<Produced> {
        let mut grammar = Grammar::new();
        text.iter().for_each(|&letter| grammar.push(letter));
        let produced = grammar.produced();
        assert_eq!(written_out(&produced, produced.len() - 1), text);
        let mut uses: BTreeMap<usize, u64> = BTreeMap::new();
        for rule in &produced {
            for piece in &rule.symbols {
                if let Piece::Rule(used) = piece {
                    *uses.entry(*used).or_default() += 1;
                }
            }
        }
        assert!((0..produced.len() - 1).all(|rule| uses[&rule] >= 2), "every rule is used twice");
        produced
    }

    #[test]
    fn what_is_repeated_is_a_rule() {
        let produced = check(&[1, 2, 3, 1, 2, 3, 4, 1, 2, 3]);
        let rule = produced.iter().position(|rule| rule.times == 3).expect("a rule");
        assert_eq!(written_out(&produced, rule), [1, 2, 3]);
        check(&[1; 1000]);
        check(&[1, 2, 2, 2, 1, 2, 3, 2, 2]);
        check(&[]);
    }

    #[test]
    fn loops_make_small_grammars() {
        let text: Vec<u32> = (0..20_000).map(|i| if i % 1000 == 999 { 7 } else { i % 10 % 4 }).collect();
        let produced = check(&text);
        assert!(produced.iter().map(|rule| rule.symbols.len()).sum::<usize>() < 200);
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in prop::collection::vec(0u32..4, 0..400)) {
            check(&text);
        }
    }
}
