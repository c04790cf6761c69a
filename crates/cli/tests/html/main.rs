//! Pages in a real browser: they load without complaint, and do what they say.

mod analysis;
mod browser;
mod matching;
mod report;
#[path = "../support/mod.rs"]
mod support;

use browser::Browser;

/// Fails if the page in the browser is wider than its window, whatever view is open.
fn assert_fits(browser: &Browser, view: &str) {
    let size = browser.run("return [document.documentElement.scrollWidth, innerWidth]");
    assert!(size[0].as_u64() <= size[1].as_u64(), "{view}: {size}");
}

/// Fails if the browser has something to complain of.
fn assert_quiet(browser: &Browser) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
}
