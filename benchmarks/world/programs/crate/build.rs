fn main() {
    let folder = std::env::var("OUT_DIR").expect("set by cargo");
    std::fs::write(format!("{folder}/made.rs"), "pub const MADE: u32 = 42;").expect("written");
    println!("cargo:rerun-if-changed=build.rs");
}
