//! The programs that were measured, as far as they are still there.

use super::super::binary;
use crate::args::Report;
use anyhow::{Result, bail};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::Loaded;
use relive_profile::model::{Function, Module, Profile};

/// What became of the file of a module.
pub(super) enum Opened<'p> {
    /// It is there.
    There(&'p Module, Box<Loaded>),
    /// It is not, or it is another build: this is why there is no source.
    Missing(String),
}

/// Opens the program of each module.
pub(super) fn open<'p>(profile: &'p Profile, args: &Report) -> Result<Vec<Opened<'p>>> {
    let mut is_used = false;
    let mut opened = Vec::new();
    for module in &profile.modules {
        let mut found = open_one(module, None, args)?;
        if let (Opened::Missing(_), Some(_)) = (&found, &args.binary) {
            found = open_one(module, args.binary.as_deref(), args)?;
            is_used |= matches!(found, Opened::There(..));
        } else if args.binary.is_some() {
            // It is where it was, and given too: either will do.
            is_used |= matches!(open_one(module, args.binary.as_deref(), args)?, Opened::There(..));
        }
        opened.push(found);
    }
    match &args.binary {
        Some(binary) if !is_used => bail!(
            "{}: not the build that {} was measured on (give that one with --binary)",
            binary.display(),
            args.profile.display()
        ),
        _ => Ok(opened),
    }
}

fn open_one<'p>(module: &'p Module, given: Option<&std::path::Path>, args: &Report) -> Result<Opened<'p>> {
    let Some(loaded) = binary::open(module, given, &args.debug_root)? else {
        return Ok(Opened::Missing("The program is not where it was; give it with --binary.".into()));
    };
    let same_build = match loaded.image() {
        Ok(image) => image.identity.build_id.as_ref().is_none_or(|id| *id == module.build_id),
        Err(_) => false,
    };
    Ok(if same_build {
        Opened::There(module, Box::new(loaded))
    } else {
        Opened::Missing(
            "The program at its place is another build; give the one that was measured with --binary.".into(),
        )
    })
}

/// The code and the lines of programs.
pub(super) struct Programs<'p> {
    all: Vec<Result<Program<'p>, String>>,
}

pub(super) struct Program<'p> {
    module: &'p Module,
    pub(super) image: Image<'p>,
    pub(super) lines: Lines<'p>,
}

impl<'p> Programs<'p> {
    pub(super) fn new(opened: &'p [Opened<'p>]) -> Self {
        let read = |opened: &'p Opened<'p>| match opened {
            Opened::Missing(why) => Err(why.clone()),
            Opened::There(module, loaded) => match loaded.image() {
                Ok(image) => Ok(Program { module, image, lines: Lines::new(loaded) }),
                Err(error) => Err(error.to_string()),
            },
        };
        Self { all: opened.iter().map(read).collect() }
    }

    /// The program that a function of `module` is in, if its code there is what was measured.
    pub(super) fn of(&self, module: &Module, function: &Function) -> Option<&Program<'p>> {
        let mut all = self.all.iter().filter_map(|program| program.as_ref().ok());
        let program = all.find(|program| std::ptr::eq(program.module, module))?;
        binary::check(&program.image, module, function, std::path::Path::new(&module.path)).ok()?;
        Some(program)
    }

    /// Why the program of that module cannot be looked at, if it cannot.
    pub(super) fn state(&self, module: usize) -> Option<&str> {
        self.all.get(module)?.as_ref().err().map(String::as_str)
    }
}
