//! A flame graph: a picture of stacks that can be zoomed into and searched, without anything from elsewhere.
//!
//! Specification: Brendan Gregg, *The Flame Graph*, Communications of the ACM 59 (2016). Width is cost, callers are below callees;
//! the order from left to right means nothing. Written here because the crate for it, inferno, is under the CDDL.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::stacks::Stacks;
use crate::surroundings::Surroundings;
use crate::xml::escaped;
use relive_profile::model::Profile;
use relive_sequence::Sequence;
use std::io::Write;

/// The format.
pub(super) struct Flamegraph;

/// Units of the picture; it is stretched to the width of the window.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 46.0;
const FOOT: f64 = 26.0;
/// Narrower ones cannot be seen.
const NARROWEST: f64 = 0.2;

impl Exporter for Flamegraph {
    fn name(&self) -> &'static str {
        "flamegraph"
    }

    fn about(&self) -> &'static str {
        "a flame graph (SVG) for a browser; estimated for a profile, exact for calls (.rcalls)"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        write(&Stacks::estimated(profile, around), out)
    }

    fn write_calls(&self, calls: &Sequence, out: &mut dyn Write) -> Result<Summary, ExportError> {
        write(&Stacks::exact(calls), out)
    }
}

/// A box of the picture.
struct Flame {
    name: String,
    /// From the left, in units of cost.
    start: f64,
    cost: u64,
    depth: usize,
}

fn write(stacks: &Stacks, out: &mut dyn Write) -> Result<Summary, ExportError> {
    let total = stacks.total();
    let flames = layout(stacks, total);
    let rows = flames.iter().map(|flame| flame.depth + 1).max().unwrap_or(1);
    let height = HEAD + rows as f64 * ROW + FOOT;
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" role=\"img\" onload=\"start()\">"
    )?;
    writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", escaped(&stacks.title))?;
    writeln!(out, "<script><![CDATA[{SCRIPT}]]></script>")?;
    writeln!(out, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>")?;
    let heading = format!("{}: {}, stacks {}", stacks.title, stacks.unit, stacks.evidence());
    writeln!(out, "<text class=\"head\" x=\"600\" y=\"22\">{}</text>", escaped(&heading))?;
    writeln!(out, "<text class=\"button\" id=\"reset\" x=\"10\" y=\"40\" tabindex=\"0\">Reset zoom</text>")?;
    writeln!(out, "<text class=\"button\" id=\"search\" x=\"1190\" y=\"40\" tabindex=\"0\">Search</text>")?;
    writeln!(out, "<text id=\"detail\" x=\"10\" y=\"{}\"> </text>\n<g id=\"flames\">", height - 9.0)?;
    for flame in &flames {
        let share = |part: f64| part / total.max(1) as f64;
        let (x, width) = (share(flame.start) * WIDTH, share(flame.cost as f64) * WIDTH);
        let y = HEAD + (rows - 1 - flame.depth) as f64 * ROW;
        let name = escaped(&flame.name);
        let percent = share(flame.cost as f64) * 100.0;
        let (red, green, blue) = colour(&flame.name);
        writeln!(
            out,
            "<g><title>{name} ({} {}, {percent:.2} %)</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" \
             height=\"16\" fill=\"rgb({red},{green},{blue})\"/><text x=\"{:.2}\" y=\"{}\">{}</text></g>",
            flame.cost,
            stacks.unit,
            x + 3.0,
            y + 12.0,
            escaped(&label(&flame.name, width)),
        )?;
    }
    writeln!(out, "</g>\n</svg>")?;
    let mut summary = stacks.summary(flames.len() as u64);
    summary.written[0].0 = "flames";
    Ok(summary)
}

/// Where each stack is: below the one it calls, next to its brothers, those that cost most first.
fn layout(stacks: &Stacks, total: u64) -> Vec<Flame> {
    let inclusive = stacks.inclusive();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); stacks.stacks.len()];
    let mut roots = Vec::new();
    for (at, stack) in stacks.stacks.iter().enumerate() {
        match stack.parent {
            Some(parent) => below[parent].push(at),
            None => roots.push(at),
        }
    }
    let mut flames = vec![Flame { name: "all".to_string(), start: 0.0, cost: total, depth: 0 }];
    let mut open = vec![(roots, 0.0, 1)];
    while let Some((mut brothers, mut start, depth)) = open.pop() {
        brothers.sort_by_key(|&at| (std::cmp::Reverse(inclusive[at]), at));
        for at in brothers {
            let cost = inclusive[at];
            if (cost as f64) < total as f64 * NARROWEST / WIDTH || cost == 0 {
                continue;
            }
            let name = stacks.frames[stacks.stacks[at].frame].name.clone();
            flames.push(Flame { name, start, cost, depth });
            open.push((std::mem::take(&mut below[at]), start, depth + 1));
            start += cost as f64;
        }
    }
    flames
}

/// As much of a name as there is room for.
fn label(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / 6.8).max(0.0) as usize;
    match name.chars().count() {
        len if len <= room => name.to_string(),
        _ if room < 3 => String::new(),
        _ => name.chars().take(room - 2).chain("..".chars()).collect(),
    }
}

/// A warm colour, the same for the same name.
fn colour(name: &str) -> (u8, u8, u8) {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let part = |shift: u32, range: u64| (hash >> shift) as u8 as u64 * range / 255;
    ((205 + part(8, 50)) as u8, (90 + part(24, 130)) as u8, (40 + part(40, 50)) as u8)
}

const STYLE: &str = "text{font:12px sans-serif;fill:#222;pointer-events:none}.back{fill:#fdfcf8}.head{font-size:15px;text-anchor:middle}\
.button{fill:#444;cursor:pointer;pointer-events:auto;text-decoration:underline}#search{text-anchor:end}\
#flames rect{stroke:#fdfcf8;stroke-width:.5}#flames g{cursor:pointer}#flames g:hover rect{stroke:#222}.found rect{fill:#c050e0}.above rect{opacity:.5}";

/// Zooms to what is clicked, colours what is searched. Coordinates of the whole picture are kept in `data-x` and `data-w`.
const SCRIPT: &str = r##"
var flames = [];
function label(name, width) {
  var room = Math.floor((width - 6) / 6.8);
  return name.length <= room ? name : room < 3 ? "" : name.slice(0, room - 2) + "..";
}
function start() {
  document.querySelectorAll("#flames > g").forEach(function (g) {
    var rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
    var flame = { g: g, rect: rect, text: g.querySelector("text"), title: title,
      name: title.slice(0, title.lastIndexOf(" (")), x: +rect.getAttribute("x"), w: +rect.getAttribute("width"), y: +rect.getAttribute("y") };
    flames.push(flame);
    g.addEventListener("click", function () { zoom(flame); });
    g.addEventListener("mouseover", function () { document.getElementById("detail").textContent = title; });
  });
  function act(id, action) {
    var button = document.getElementById(id);
    button.addEventListener("click", action);
    button.addEventListener("keydown", function (e) { if (e.key === "Enter") action(); });
  }
  act("reset", function () { zoom(flames[0]); });
  act("search", function () { search(prompt("Search for (regular expression):", "")); });
}
function zoom(to) {
  flames.forEach(function (f) {
    var inside = f.x >= to.x - 0.01 && f.x + f.w <= to.x + to.w + 0.01 && f.y <= to.y;
    var above = f.y > to.y && f.x <= to.x + 0.01 && f.x + f.w >= to.x + to.w - 0.01;
    f.g.style.display = inside || above ? "" : "none";
    f.g.classList.toggle("above", above);
    if (!inside && !above) return;
    var x = above ? 0 : (f.x - to.x) / to.w * 1200, w = above ? 1200 : f.w / to.w * 1200;
    f.rect.setAttribute("x", x); f.rect.setAttribute("width", w);
    f.text.setAttribute("x", x + 3); f.text.textContent = label(f.name, w);
  });
}
function search(what) {
  if (what === null) return;
  var pattern = what ? new RegExp(what, "i") : null;
  flames.forEach(function (f, i) { f.g.classList.toggle("found", i > 0 && !!pattern && pattern.test(f.name)); });
}
"##;
