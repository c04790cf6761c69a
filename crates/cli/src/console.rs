//! What is said beside results: how much, and in colour or not.

use clap::ColorChoice;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);
static COLOURS: AtomicBool = AtomicBool::new(false);

/// Settles both, once.
pub(crate) fn set(quiet: bool, choice: ColorChoice) {
    QUIET.store(quiet, Ordering::Relaxed);
    let colours = match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            // https://no-color.org: set, and not empty.
            let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            std::io::stderr().is_terminal() && !is_plain() && !is_unwanted
        }
    };
    COLOURS.store(colours, Ordering::Relaxed);
}

/// Whether only what went wrong is to be told.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether the terminal knows nothing but text.
pub(crate) fn is_plain() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// The choice among the arguments: it is needed before they are understood, for messages about them.
pub(crate) fn colour_choice(args: impl Iterator<Item = String>) -> ColorChoice {
    let mut args = args.take_while(|arg| arg != "--");
    let mut choice = ColorChoice::Auto;
    while let Some(arg) = args.next() {
        let value = match arg.strip_prefix("--color") {
            Some("") => args.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_string),
            None => None,
        };
        choice = value.and_then(|value| value.parse().ok()).unwrap_or(choice);
    }
    choice
}

/// Colours for what is said.
#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Red,
    Yellow,
    Green,
}

/// Text in that colour, if there are colours.
pub(crate) fn painted(text: &str, colour: Colour) -> String {
    if !COLOURS.load(Ordering::Relaxed) {
        return text.to_string();
    }
    let code = match colour {
        Colour::Red => 31,
        Colour::Yellow => 33,
        Colour::Green => 32,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Says what was done, unless nobody wants to know.
macro_rules! say {
    ($($arg:tt)*) => {
        if !$crate::console::is_quiet() {
            eprintln!($($arg)*);
        }
    };
}
pub(crate) use say;

/// Says what went wrong.
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("{} {error:#}", painted("relive:", Colour::Red));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_found_before_anything_else() {
        let choice = |line: &str| colour_choice(line.split(' ').map(str::to_string));
        assert_eq!(choice("relive --color never report"), ColorChoice::Never);
        assert_eq!(choice("relive report --color=always x"), ColorChoice::Always);
        assert_eq!(choice("relive report --color=pink"), ColorChoice::Auto);
        assert_eq!(choice("relive run -- ls --color=always"), ColorChoice::Auto);
        assert_eq!(choice("relive report --color"), ColorChoice::Auto);
    }
}
