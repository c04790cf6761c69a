//! Builds small programs and describes them as profiles do.

use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::program::analyze;
use relive_image::watch::Watch;
use relive_probe::survey::Survey;
use relive_profile::model::Module;
use std::path::Path;

/// What is known of a binary, with lines if it has any.
pub(crate) fn describe(path: &Path) -> Module {
    let loaded = Loaded::open(path, &Options::default()).expect("a readable file");
    let image: Image<'_> = loaded.image().expect("a binary");
    let lines = Lines::new(&loaded);
    let program = analyze(&image);
    Survey::new(&image, &program).module(Some(&lines), &path.to_string_lossy(), &Watch::default())
}
