//! `relive match --html`.

use crate::browser::Browser;
use crate::support::versions::version;
use crate::support::{stdout, text};
use crate::{assert_fits, assert_quiet};

#[test]
fn two_builds_can_be_looked_at_side_by_side() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (old, new) = (version(1), version(2));
    let page = folder.path().join("match.html");
    stdout(&["match", text(&old), text(&new), "--html", text(&page)]);
    let json = stdout(&["match", text(&old), text(&new), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");

    let browser = Browser::start();
    browser.open(&page, "");
    browser.wait("document.querySelector('h1')?.textContent === 'Two builds side by side'");
    let matched = format!("{} of {}", json["blocks"]["matched"], json["blocks"]["new"]);
    assert!(browser.text("main").replace(',', "").contains(&matched), "{matched}");

    // A function that changed, by its name.
    browser.press("/");
    browser.wait("document.activeElement.type === 'search'");
    browser.press("main");
    browser.wait("document.querySelectorAll('tbody th.wide a').length === 1");
    browser.click("tbody th.wide a");
    browser.wait("document.querySelector('.pane .block')");
    assert_eq!(browser.text("h1"), "main");

    // A block that has a partner: both are marked, and both can be seen.
    let chosen = browser.run(
        "const block = [...document.querySelectorAll('[id^=new].block:not(.alone)')].at(-1);
         block.scrollIntoView(); block.click();
         return [...document.querySelectorAll('.block.at')].map(each => each.id)",
    );
    let ids: Vec<&str> = chosen.as_array().into_iter().flatten().filter_map(|id| id.as_str()).collect();
    assert!(matches!(ids[..], [old, new] if old.starts_with("old") && new.starts_with("new")), "{ids:?}");
    browser.wait(
        "[...document.querySelectorAll('.block.at')].every(each => {
            const [box, pane] = [each, each.closest('.pane')].map(one => one.getBoundingClientRect());
            return box.top < pane.bottom && box.bottom > pane.top;
         })",
    );
    // The pair is one that the table of pairs has.
    let place = |id: &str| {
        browser.run(&format!("return document.getElementById('{id}').querySelector('b').textContent"))
    };
    let [x, y] = [ids[0], ids[1]].map(|id| place(id).as_str().unwrap_or_default().to_string());
    let pairs = stdout(&["match", text(&old), text(&new), "--tsv"]);
    let is_told = |line: &str| {
        line.contains(&format!("\t0x{x}\t0x{y}\t"))
            && (line.starts_with("block") || line.starts_with("partial"))
    };
    assert!(pairs.lines().any(is_told), "{x} and {y}");
    assert!(browser.run("return location.hash").as_str().is_some_and(|hash| hash.contains("block=new")));

    // Keys lead from block to block; what has no partner says so.
    browser.press("j");
    browser.wait(
        "document.activeElement.id === 'new0' && document.querySelector('#new0').classList.contains('at')",
    );
    browser.run("location.hash = '#/functions?show=new'");
    browser.wait("document.querySelector('.state.new')");
    browser.click("tbody th.wide a");
    browser.wait("document.querySelector('.block.alone .chip.none')");

    browser.resize(390, 844);
    for view in ["overview", "functions", "pair/0", "pair/1?block=new0"] {
        browser.run(&format!("location.hash = '#/{view}'"));
        browser.wait("document.querySelector('main > *') && !document.querySelector('main').textContent.includes('Unpacking')");
        assert_fits(&browser, view);
    }
    assert_quiet(&browser);
}
