//! `relive analyze … --html`.

use crate::browser::Browser;
use crate::support::{relive, text};
use crate::{assert_fits, assert_quiet};
use relive_testkit::compile::compile;

const PROGRAM: &str = r#"
#include <pthread.h>
static int shared_total;
static char field[1 << 16];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int guarded;
static void *work(void *unused) {
    for (int i = 0; i < 1000; i++) { shared_total += i; field[(i * 97) & 0xffff]++; }
    pthread_mutex_lock(&lock); guarded++; pthread_mutex_unlock(&lock);
    return unused;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    work(0);
    pthread_join(other, 0);
    return guarded != 2;
}
"#;

#[test]
fn answers_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("gcc", &["-g", "-O1", "-pthread"], ("threads.c", PROGRAM));
    let trace = folder.path().join("t.rtrace");
    let traced = relive(&["trace", "-o", text(&trace), "--", text(&program)]);
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let browser = Browser::start();
    // What the page of each question shows in its overview, and which other views it has.
    let questions: [(&[&str], &str, &str, &[&str]); 8] = [
        (&["cache"], "Cache misses", "figure svg rect", &["functions", "lines"]),
        (&["reuse"], "Reuse distances", "figure svg rect", &["functions", "lines", "instructions"]),
        (&["working-set", "--window", "1000"], "Working set", "figure svg path.line", &["windows"]),
        (&["races"], "race", ".race .frames", &[]),
        (&["races", "--guard", "shared_total=lock"], "Accesses without their lock", ".tiles", &["accesses"]),
        (&["mix"], "Instructions", ".bars li", &["modules", "functions"]),
        (&["strides"], "Strides", ".stack span", &["accesses"]),
        (&["hot-paths"], "Hot paths", ".path li", &[]),
    ];
    for (question, title, wanted, views) in questions {
        let name = question[0];
        let page = folder.path().join(format!("{name}.html"));
        let args = [&["analyze", name, text(&trace)], &question[1..], &["--html", text(&page)]].concat();
        let output = relive(&args);
        let is_fine = output.status.success() || (name == "races" && output.status.code() == Some(1));
        assert!(is_fine, "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        browser.resize(1400, 900);
        browser.open(&page, "");
        browser.wait(&format!("document.querySelector('h1')?.textContent.includes('{title}')"));
        browser.wait(&format!("document.querySelector('{wanted}')"));
        if question == ["races"] {
            let main = browser.text("main");
            assert!(
                main.contains("shared_total") && main.contains("threads.c:8") && !main.contains("guarded"),
                "{main}"
            );
            assert_eq!(
                browser.run("return document.querySelector('.race').querySelectorAll('.access').length"),
                2
            );
        }
        for view in views {
            browser.run(&format!("location.hash = '#/{view}'"));
            browser.wait("document.querySelectorAll('tbody tr').length > 0");
        }
        browser.resize(390, 844);
        for view in ["overview"].iter().chain(views) {
            browser.run(&format!("location.hash = '#/{view}'"));
            browser.wait("document.querySelector('main > *')");
            assert_fits(&browser, &format!("{name} {view}"));
        }
        assert_quiet(&browser);
    }
}
