//! `relive report --html`.

use crate::browser::Browser;
use crate::support::{relive, stdout, text, thing, write};
use crate::{assert_fits, assert_quiet};
use relive_profile::model::{Function, State};
use relive_testkit::compile::{Compiled, compile};
use std::path::{Path, PathBuf};

const PROGRAM: &str = r#"
#include <stdio.h>
#define KEPT __attribute__((noipa))
KEPT static unsigned spread(unsigned x) { return x * 2654435761u >> 7; }
KEPT static unsigned total_of(const unsigned *all, int count) {
    unsigned sum = 0;
    for (int i = 0; i < count; i++)
        if (all[i] & 1) sum += spread(all[i]); /* a line that is worth reading */
    return sum;
}
KEPT static int never(int x) { return x + 42; }
int main(int argc, char **argv) {
    unsigned all[100], sum = 0;
    for (int i = 0; i < 100; i++) all[i] = i * 7;
    for (int i = 0; i < 50; i++) sum += total_of(all, 100);
    if (argc > 5) sum += never(argc);
    printf("%u\n", sum);
    return 0;
}
"#;

/// A page of a real run, and the program.
fn page(folder: &Path) -> (PathBuf, Compiled) {
    let program = compile("gcc", &["-g", "-O1"], ("thing.c", PROGRAM));
    let (profile, page) = (folder.join("p.rprof"), folder.join("p.html"));
    stdout(&["run", "-o", text(&profile), "--", text(&program)]);
    stdout(&["report", text(&profile), "--html", text(&page)]);
    (page, program)
}

fn rows(browser: &Browser) -> Vec<String> {
    let names =
        browser.run("return [...document.querySelectorAll('tbody th.wide a')].map(each => each.textContent)");
    names.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_string())).collect()
}

#[test]
fn a_run_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (page, _program) = page(folder.path());
    let browser = Browser::start();
    browser.open(&page, "");
    browser.wait("document.querySelector('h1')?.textContent === 'p.rprof'");
    assert!(browser.text("main").contains("Hottest functions"));

    // The filter, by its key.
    browser.press("/");
    browser.wait("document.activeElement.type === 'search'");
    browser.press("total_of");
    browser.wait("document.querySelectorAll('tbody tr').length === 1");
    assert_eq!(rows(&browser), ["total_of"]);
    assert!(browser.run("return location.hash").as_str().is_some_and(|hash| hash.contains("q=total_of")));

    // Escape leaves it; sorting by name, up, then down.
    browser.press("\u{e00c}");
    browser.wait("document.querySelectorAll('tbody tr').length > 3");
    browser.click("thead th.wide button");
    browser.wait("document.querySelector('thead th.wide').getAttribute('aria-sort') === 'ascending'");
    let up = rows(&browser);
    let mut sorted = up.clone();
    sorted.sort_by_key(|name| name.to_lowercase());
    assert_eq!(up, sorted);
    browser.click("thead th.wide button");
    browser.wait("document.querySelector('thead th.wide').getAttribute('aria-sort') === 'descending'");
    assert_ne!(rows(&browser), up);

    // A function, by keys alone: its graph has heat, and numbers are those of the text report.
    browser.press("/");
    browser.press("total_of");
    browser.press("\u{e015}");
    browser.wait("document.activeElement.tagName === 'A'");
    browser.press("\u{e007}");
    browser.wait("document.querySelector('svg.graph a.box rect')");
    assert_eq!(browser.text("h1"), "total_of");
    assert!(browser.text(".frame svg").contains("×"));
    // Where it begins is in sight.
    browser.wait(
        "(() => { const [frame, box] = ['.frame', 'svg.graph a.box'].map(each => document.querySelector(each).getBoundingClientRect()); \
         return box.left >= frame.left && box.right <= frame.right && box.top >= frame.top; })()",
    );
    let fills = browser.run(
        "return new Set([...document.querySelectorAll('svg.graph a.box rect')].map(each => getComputedStyle(each).fill)).size",
    );
    assert!(fills.as_u64() > Some(1), "no heat");
    // Arrows are labelled with what the table of edges has.
    let rprof = folder.path().join("p.rprof");
    let edges = stdout(&["dump", text(&rprof), "--edges"]);
    let labels =
        browser.run("return [...document.querySelectorAll('.frame .label')].map(each => each.textContent)");
    let labels: Vec<&str> =
        labels.as_array().into_iter().flatten().filter_map(|label| label.as_str()).collect();
    assert!(labels.len() > 3, "{labels:?}");
    let counts: Vec<&str> = edges
        .lines()
        .filter(|line| line.contains("\ttotal_of\t"))
        .filter_map(|line| line.split('\t').nth(4))
        .collect();
    assert!(labels.iter().all(|label| counts.contains(label)), "{labels:?} {counts:?}");
    let told = stdout(&["report", text(&folder.path().join("p.rprof")), "--annotate", "total_of"]);
    let line = told.lines().find(|line| line.contains("worth reading")).expect("the line in the text report");
    let times = line.split_whitespace().next().expect("a count");
    browser.click("#tab-source");
    browser.wait("document.querySelector('.listing')");
    let cells = browser.run(
        "const line = [...document.querySelectorAll('.listing tr')].find(each => each.textContent.includes('worth reading'));
         return line.cells[0].textContent",
    );
    assert_eq!(cells.as_str(), Some(times));

    // From the graph to the block, and back by the history.
    browser.click("#tab-graph");
    browser.wait("document.querySelector('svg.graph a.box')");
    browser.run("document.querySelector('svg.graph a.box').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))");
    browser.wait("document.querySelector('.listing tr.at')");
    assert!(browser.text(".listing").contains("ret"));
    browser.run("history.back()");
    browser.wait("document.querySelector('svg.graph a.box')");

    // Who calls it, and from there on.
    browser.click("#tab-calls");
    browser.wait("document.querySelector('.bars a')");
    assert_eq!(browser.text(".bars a"), "main");
    browser.click(".bars a");
    browser.wait("document.querySelector('h1').textContent === 'main'");
    browser.click("#tab-loops");
    browser.wait("document.querySelector('#panel table')");
    assert!(browser.text("#panel").contains("50.0") && browser.text("#panel").contains("100.0"));

    // Colours: as the system has them, until somebody presses the button.
    let background = || browser.run("return getComputedStyle(document.body).backgroundColor");
    let light = background();
    browser.prefer("dark");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    let dark = background();
    assert_ne!(light, dark);
    browser.click("#theme");
    browser.wait("document.documentElement.dataset.theme === 'light'");
    assert_eq!(background(), light);

    // On a phone nothing is wider than the screen.
    browser.resize(390, 844);
    for view in [
        "overview",
        "functions",
        "calls",
        "loops",
        "coverage",
        "function/0",
        "function/0?tab=source",
        "function/0?tab=assembly",
        "function/0?tab=calls",
        "function/0?tab=loops",
    ] {
        browser.run(&format!("location.hash = '#/{view}'"));
        browser
            .wait("document.querySelector('main > *') && !document.querySelector('main').textContent.includes('Unpacking')");
        assert_fits(&browser, view);
    }
    browser.run("location.hash = '#/functions'");
    browser.wait("document.querySelector('tbody th.wide')");
    let width = browser.run("return document.querySelector('tbody th.wide').offsetWidth");
    assert!(width.as_u64() > Some(150), "no room for names: {width}");
    assert_quiet(&browser);
}

#[test]
fn names_are_text_and_tables_may_be_long() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut module = thing();
    let evil =
        "</script><script>window.broken = 1</script><img src=x onerror=\"window.broken = 1\">\u{2028}';//";
    module.functions[0].name = module.texts.intern(evil);
    module.path = format!("/opt/{evil}");
    module.files = vec![evil.to_string()];
    let reason = module.texts.intern(evil);
    module.functions[3].state = State::NotMeasured { reason };
    for i in 0..20_000u64 {
        let name = module.texts.intern(&format!("function_{i}<b>"));
        module.functions.push(Function::new(name, 0x10_0000 + i * 16, 16, State::Measured));
    }
    let profile = write(folder.path(), "evil.rprof", &module);
    let page = folder.path().join("evil.html");
    stdout(&["report", &profile, "--html", text(&page)]);

    let browser = Browser::start();
    browser.open(&page, "#/functions?show=all");
    browser.wait("document.querySelectorAll('tbody tr').length > 20");
    let found = browser.run(
        "return [document.querySelectorAll('tbody tr').length, document.querySelector('.found').textContent]",
    );
    assert!(found[0].as_u64() < Some(100), "a table of 20,000 rows has {} in the page", found[0]);
    assert_eq!(found[1], "20,004 rows");
    // The last row is there when it is scrolled to.
    browser.run("const box = document.querySelector('.scroll'); box.scrollTop = box.scrollHeight");
    browser.wait("[...document.querySelectorAll('tbody tr')].some(row => row.getAttribute('aria-rowindex') === '20005')");
    for view in [
        "overview",
        "calls",
        "loops",
        "coverage",
        "function/0",
        "function/0?tab=assembly",
        "function/0?tab=calls",
        "function/3",
    ] {
        browser.run(&format!("location.hash = '#/{view}'"));
        browser
            .wait("document.querySelector('main > *') && !document.querySelector('main').textContent.includes('Unpacking')");
    }
    browser.run("location.hash = '#/overview'");
    browser
        .wait(&format!("document.querySelector('main').textContent.includes({})", serde_json::json!(evil)));
    assert_eq!(
        browser.run("return [window.broken ?? null, document.images.length]"),
        serde_json::json!([null, 0])
    );
    assert_quiet(&browser);
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = write(folder.path(), "thing.rprof", &thing());
    let nowhere = folder.path().join("no/such/folder.html");
    let output = relive(&["report", &profile, "--html", text(&nowhere)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("no/such/folder.html") && said.contains("is the folder there"), "{said}");
    let page = folder.path().join("page.html");
    let output = relive(&["report", &profile, "--html", text(&page), "--binary", "/bin/true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("/bin/true: not the build") && !page.exists(), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "something was left behind");
}
