//! How small the streams of a recording get, and how long that takes.
use relive_trace::{ControlDecoder, ControlEncoder, ValueDecoder, ValueEncoder};

struct Data {
    ins: u64,
    slots: Vec<Vec<u32>>,
    tags: Vec<u32>,
    values: Vec<u64>,
}

fn read(path: &str) -> Data {
    let b = std::fs::read(path).unwrap();
    let u = |i: usize| u64::from_le_bytes(b[i * 8..i * 8 + 8].try_into().unwrap());
    let mut at = 32;
    let mut u4 = || {
        let v = u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
        at += 4;
        v
    };
    let slots = (0..u(1))
        .map(|_| {
            let n = u4();
            (0..n).map(|_| u4()).collect()
        })
        .collect();
    let tags = (0..u(2)).map(|_| u4()).collect();
    let values =
        b[at..].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>();
    Data { ins: u(0), slots, tags, values }
}
fn cpu() -> u64 {
    std::thread::yield_now();
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}
fn main() {
    let mut g = [0.0f64; 6];
    let mut n = 0.0;
    println!("{:10} ctl B/ins mem B/ins  sum    enc-c enc-m dec-c dec-m ns/record", "");
    for f in std::env::args().skip(1) {
        let d = read(&f);
        let mut best = [f64::MAX; 4];
        let (mut cs, mut vs) = (0, 0);
        let mut floor = 0.0;
        for _ in 0..5 {
            let t0 = cpu();
            let mut vi = 0;
            let mut sum = 0u64;
            for &t in &d.tags {
                for &s in &d.slots[t as usize - 1] {
                    sum = sum.rotate_left(5) ^ d.values[vi] ^ u64::from(s);
                    vi += 1;
                }
            }
            std::hint::black_box(sum);
            floor = (cpu() - t0) as f64 / d.tags.len() as f64;
            let t0 = cpu();
            let mut c = ControlEncoder::new();
            for &t in &d.tags {
                c.push(t);
            }
            let c = c.finish();
            let t1 = cpu();
            let mut v = ValueEncoder::new();
            let mut vi = 0;
            for &t in &d.tags {
                for &s in &d.slots[t as usize - 1] {
                    v.push(s, d.values[vi]);
                    vi += 1;
                }
            }
            let v = v.finish();
            let t2 = cpu();
            let mut e = ControlDecoder::new(&c).unwrap();
            let mut i = 0;
            while let Some(t) = e.next().unwrap() {
                assert_eq!(t, d.tags[i]);
                i += 1;
            }
            assert_eq!(i, d.tags.len());
            let t3 = cpu();
            let mut e = ValueDecoder::new(&v).unwrap();
            let mut vi = 0;
            for &t in &d.tags {
                for &s in &d.slots[t as usize - 1] {
                    assert_eq!(e.next(s).unwrap(), d.values[vi]);
                    vi += 1;
                }
            }
            e.finish().unwrap();
            let t4 = cpu();
            for (b, t) in best.iter_mut().zip([t1 - t0, t2 - t1, t3 - t2, t4 - t3]) {
                *b = b.min(t as f64 / d.tags.len() as f64);
            }
            cs = c.len();
            vs = v.len();
        }
        let name = f.rsplit('/').next().unwrap();
        let row = [cs as f64 / d.ins as f64, vs as f64 / d.ins as f64, best[0], best[1], best[2], best[3]];
        println!(
            "{name:10} {:.4}   {:.4}   {:.4}    {:.1} {:.1} {:.1} {:.1} floor {floor:.1}",
            row[0],
            row[1],
            row[0] + row[1],
            row[2],
            row[3],
            row[4],
            row[5]
        );
        for (g, r) in g.iter_mut().zip(row) {
            *g += r.ln();
        }
        n += 1.0;
    }
    let g = g.map(|g| (g / n).exp());
    println!(
        "{:10} {:.4}   {:.4}   {:.4}    {:.1} {:.1} {:.1} {:.1}",
        "geomean",
        g[0],
        g[1],
        g[0] + g[1],
        g[2],
        g[3],
        g[4],
        g[5]
    );
}
