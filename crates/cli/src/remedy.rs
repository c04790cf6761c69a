//! What to do about what is wrong: libraries say what is wrong and where, and no more.

use relive_image::annotations::side_file::SideFileError;
use relive_image::error::ImageError;
use relive_image::loader::LoadError;
use relive_profile::ProfileError;

/// Adds what to do to what is wrong.
pub(crate) fn with_remedy(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    let remedy = if let Some(error) = error.downcast_ref::<ImageError>() {
        of_image(error)
    } else if let Some(error) = error.downcast_ref::<LoadError>() {
        of_file(error)
    } else if let Some(error) = error.downcast_ref::<ProfileError>() {
        of_profile(error)
    } else {
        return error;
    };
    anyhow::anyhow!("{error} ({remedy})")
}

fn of_image(error: &ImageError) -> &'static str {
    match error {
        ImageError::NotElf => {
            "give the program itself, not a script that starts it or an archive that holds it"
        }
        ImageError::WrongClass(_) | ImageError::WrongMachine(_) => "build or fetch it for x86-64",
        ImageError::WrongType(_) => "link it first",
        ImageError::Damaged { .. } => "fetch or build the file again",
        ImageError::NoCode => "if this is a separate debug file, give the program it belongs to",
    }
}

fn of_file(error: &LoadError) -> &'static str {
    match error {
        LoadError::Empty { .. } => "fetch or build the file again",
        LoadError::Missing { .. } => "check the spelling and the folder",
        LoadError::Directory { .. } => "give one file in it",
        LoadError::Special { .. } => "copy what it holds to a file, and give that",
        LoadError::Forbidden { .. } => "become its owner, or ask them to let you read it",
        LoadError::Unreadable { .. } => "copy it to another disk, and give the copy",
        LoadError::Annotations { source, .. } => match source {
            SideFileError::OtherBuild { .. } | SideFileError::NoBuildId { .. } => {
                "give the file that `relive annotate extract` made of this very build"
            }
            SideFileError::NotOne => "give a file that `relive annotate extract` made",
            SideFileError::Version(_) => "make it again with this version of relive",
            _ => "make or copy it again",
        },
    }
}

fn of_profile(error: &ProfileError) -> &'static str {
    match error {
        ProfileError::NotAProfile => "give a file that a measured program or `relive merge` wrote",
        ProfileError::Version { .. } => "read it with the version of relive that measured it",
        ProfileError::Damaged { .. } => "copy it again from where it was measured, or measure again",
        ProfileError::Io(_) => "copy it to another disk, and give the copy",
    }
}
