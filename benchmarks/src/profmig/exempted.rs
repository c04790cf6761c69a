//! What is left of the cost of counting if most functions are not measured.

use super::bench::Bench;
use crate::pairs::Pair;
use crate::table::Table;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// As many draws of the functions that are not measured.
const DRAWS: u64 = 3;

pub(super) fn run(
    pairs: &[Pair],
    percent: u32,
    runs: usize,
    bench: &dyn Fn(&Pair) -> Result<Bench>,
) -> Result<u64> {
    let draws: Vec<String> = (1..=DRAWS).map(|draw| format!("draw {draw}")).collect();
    let mut header = vec!["program", "version", "functions"];
    for costs in ["instructions", "seconds"] {
        header.extend([costs, "full"]);
        header.extend(draws.iter().map(String::as_str));
        header.extend(["mean", "of the cost"]);
    }
    let mut table = Table::new(&header);
    let mut violations = 0;
    for pair in pairs {
        eprintln!("{}", pair.name());
        let bench = bench(pair)?;
        let plan = bench.plan()?;
        let functions = listed(&plan)?;
        let drawn: Vec<Value> = (1..=DRAWS).map(|seed| exempting(&plan, &functions, percent, seed)).collect();
        let mut cells = vec![pair.new.program.clone(), pair.new.version.clone(), functions.len().to_string()];
        let [times, instructions] = bench.by_plans(&drawn, runs)?;
        for (costs, unit) in [(instructions, 1e9), (times, 1.0)] {
            let cost = |what: &str| costs.get(what).with_context(|| format!("{what} was not measured"));
            let native = cost("native")?;
            let ratios: Vec<f64> =
                draws.iter().map(|draw| Ok(cost(draw)? / native)).collect::<Result<_>>()?;
            let full = cost("full")? / native;
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            violations += u64::from(mean >= full);
            cells.push(format!("{:.2}", native / unit));
            cells.extend([full].iter().chain(&ratios).chain([&mean]).map(|ratio| format!("{ratio:.3}")));
            cells.push(format!("{:.0} %", 100.0 * (mean - 1.0) / (full - 1.0)));
        }
        table.row(cells);
    }
    println!(
        "{table}\nThe program as it is on all five inputs, in 10^9 instructions and in seconds of processor time (best of {runs}, in turn); and relative to \
         that, measured in full, and with {percent} % of its functions, drawn at random, exempted by a plan. *Of the cost*: what is left of what \
         counting adds. Violations: no closer to native. violations: {violations}"
    );
    Ok(violations)
}

/// All functions of a plan.
fn listed(plan: &Value) -> Result<Vec<Value>> {
    let list = |what: &str| plan[what].as_array().with_context(|| format!("a plan without {what}"));
    let function = |f: &Value| json!({ "name": f["name"], "address": f["address"] });
    Ok(list("exempt")?.iter().chain(list("measure")?).map(function).collect())
}

/// The plan with so many per cent of the functions exempted, whichever come up.
fn exempting(plan: &Value, functions: &[Value], percent: u32, seed: u64) -> Value {
    let mut functions = functions.to_vec();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for last in (1..functions.len()).rev() {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let random = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        functions.swap(last, (random % (last as u64 + 1)) as usize);
    }
    let measured = functions.split_off(functions.len() * percent as usize / 100);
    let mut plan = plan.clone();
    plan["exempt"] = functions.into();
    plan["measure"] = measured
        .into_iter()
        .map(|mut function| {
            function["why"] = "drawn".into();
            function
        })
        .collect();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw() {
        let plan = json!({
            "relive_plan": 1,
            "exempt": (0..60).map(|n| json!({"name": "f", "address": format!("{n:#x}")})).collect::<Vec<_>>(),
            "measure": (60..100).map(|n| json!({"name": "f", "address": format!("{n:#x}"), "why": "x", "reusable": ["0x1"]})).collect::<Vec<_>>(),
        });
        let functions = listed(&plan).unwrap();
        let drawn = exempting(&plan, &functions, 90, 1);
        assert_eq!(drawn["exempt"].as_array().unwrap().len(), 90);
        assert_eq!(drawn["measure"].as_array().unwrap().len(), 10);
        assert_eq!(drawn["relive_plan"], 1);
        let mut all: Vec<String> = listed(&drawn).unwrap().iter().map(|f| f["address"].to_string()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 100);
        assert_ne!(drawn, exempting(&plan, &functions, 90, 2));
        assert_eq!(drawn, exempting(&plan, &functions, 90, 1));
    }
}
