//! Something to compile.

use std::collections::BTreeMap;
use std::fmt::Debug;

include!(concat!(env!("OUT_DIR"), "/made.rs"));

trait Shape: Debug {
    fn area(&self) -> f64;
}

#[derive(Debug, Clone, PartialEq)]
struct Circle(f64);
#[derive(Debug, Clone, PartialEq)]
struct Square(f64);

impl Shape for Circle {
    fn area(&self) -> f64 {
        self.0 * self.0 * std::f64::consts::PI
    }
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

fn words(text: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for word in text.split_whitespace() {
        *all.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    all
}

fn main() {
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Circle(1.0)), Box::new(Square(2.0))];
    println!("{MADE} {} {:.3}", macros::count!(a b c d), shapes.iter().map(|s| s.area()).sum::<f64>());
    println!("{:?} {:?}", words("one two One three"), shapes);
    let handles: Vec<_> = (0..4u64).map(|n| std::thread::spawn(move || (0..1000).map(|i| i * n).sum::<u64>())).collect();
    println!("{}", handles.into_iter().map(|h| h.join().expect("no panic")).sum::<u64>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_words() {
        assert_eq!(words("a A b")["a"], 2);
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panics() {
        panic!("on purpose");
    }
}
