//! The messages in a profile, field by field as `docs/profile.proto` has them; a test compares the two.
//!
//! Everything that there is much of lies in columns, so that equal things lie together and compress
//! well, and so that a small file cannot unfold into a large number of messages. Unless the field says
//! otherwise, the n-th number of each column of a message belongs to the n-th item.

use prost::Message;

/// The whole description.
#[derive(Clone, PartialEq, Message)]
pub struct Description {
    /// [`Module`]s, decoded one by one, so that many empty ones cost nothing.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub modules: Vec<Vec<u8>>,
    /// Which tool wrote it, for people.
    #[prost(string, tag = "2")]
    pub producer: String,
}

/// One program or library.
#[derive(Clone, PartialEq, Message)]
pub struct Module {
    /// A [`Code`]; the checksum is that of these bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub code: Vec<u8>,
    /// Where the code was when it was prepared for measuring.
    #[prost(string, tag = "2")]
    pub path: String,
    /// How many processes counted.
    #[prost(uint64, tag = "3")]
    pub runs: u64,
    /// Seconds since 1970 when the first began.
    #[prost(uint64, tag = "4")]
    pub first_run: u64,
    /// Seconds since 1970 when the last began.
    #[prost(uint64, tag = "5")]
    pub last_run: u64,
    /// What went wrong: bits.
    #[prost(uint32, tag = "6")]
    pub lost: u32,
    /// What each counter adds to the slots; those behind the last are zero.
    #[prost(uint64, repeated, tag = "7")]
    pub counters: Vec<u64>,
    /// Without counters: how often blocks ran.
    #[prost(message, optional, tag = "8")]
    pub block_counts: Option<Counts>,
    /// Without counters: how often edges were taken.
    #[prost(message, optional, tag = "9")]
    pub edge_counts: Option<Counts>,
    /// Other modules that indirect calls led to.
    #[prost(message, optional, tag = "10")]
    pub foreign: Option<Foreign>,
    /// Where indirect calls led.
    #[prost(message, optional, tag = "11")]
    pub targets: Option<Targets>,
    /// Without counters: the builds that counts were carried over from, if they were.
    #[prost(message, optional, tag = "12")]
    pub carried: Option<Sources>,
}

/// A count for each block or edge of the module, in the order of [`Blocks`] or [`Edges`].
#[derive(Clone, PartialEq, Message)]
pub struct Counts {
    /// 0 not known, 1 measured, 2 derived, 3 control-flow, 4 inferred, 8 and more matched: the level 0, 1, 1a,
    /// 2, 3, 3a, 4, 5, s.
    #[prost(uint32, repeated, tag = "1")]
    pub origin: Vec<u32>,
    /// The number, zero if it is not known. Below zero where a profile does not add up.
    #[prost(sint64, repeated, tag = "2")]
    pub count: Vec<i64>,
    /// How likely it is right, in per cent. Empty if all are 100.
    #[prost(uint32, repeated, tag = "3")]
    pub confidence: Vec<u32>,
}

/// Builds that were measured, and whose counts were carried over to this one.
#[derive(Clone, PartialEq, Message)]
pub struct Sources {
    /// Their build-ids.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub build_id: Vec<Vec<u8>>,
    /// Where they were.
    #[prost(string, repeated, tag = "2")]
    pub path: Vec<String>,
    /// How many processes counted.
    #[prost(uint64, repeated, tag = "3")]
    pub runs: Vec<u64>,
    /// How many builds away they are.
    #[prost(uint32, repeated, tag = "4")]
    pub steps: Vec<u32>,
}

/// Other modules.
#[derive(Clone, PartialEq, Message)]
pub struct Foreign {
    /// Their build-ids.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub build_id: Vec<Vec<u8>>,
    /// Their paths, perhaps cut off in front.
    #[prost(string, repeated, tag = "2")]
    pub path: Vec<String>,
}

/// Where indirect calls led.
#[derive(Clone, PartialEq, Message)]
pub struct Targets {
    /// The index of the call site: each the difference to the one before.
    #[prost(sint64, repeated, tag = "1")]
    pub site: Vec<i64>,
    /// 0 this module, 1 generated code, else two more than an index into [`Foreign`].
    #[prost(uint32, repeated, tag = "2")]
    pub module: Vec<u32>,
    /// The address as linked; zero for generated code.
    #[prost(uint64, repeated, tag = "3")]
    pub address: Vec<u64>,
    /// How often.
    #[prost(uint64, repeated, tag = "4")]
    pub count: Vec<u64>,
}

/// The code of a module and what each counter means.
#[derive(Clone, PartialEq, Message)]
pub struct Code {
    /// Its build-id; if it has none, a hash of its text.
    #[prost(bytes = "vec", tag = "1")]
    pub build_id: Vec<u8>,
    /// 0 functions, 1 blocks, 2 edges were counted.
    #[prost(uint32, tag = "2")]
    pub mode: u32,
    /// What a slot holds.
    #[prost(message, optional, tag = "3")]
    pub slot: Option<SlotLayout>,
    /// Names and reasons: other messages hold indices into this.
    #[prost(string, repeated, tag = "4")]
    pub texts: Vec<String>,
    /// Source files.
    #[prost(string, repeated, tag = "5")]
    pub files: Vec<String>,
    /// Functions.
    #[prost(message, optional, tag = "6")]
    pub functions: Option<Functions>,
    /// The pieces of all functions, one after the other.
    #[prost(message, optional, tag = "7")]
    pub pieces: Option<Pieces>,
    /// The blocks of all functions.
    #[prost(message, optional, tag = "8")]
    pub blocks: Option<Blocks>,
    /// The edges of all functions.
    #[prost(message, optional, tag = "9")]
    pub edges: Option<Edges>,
    /// The loops of all functions.
    #[prost(message, optional, tag = "10")]
    pub loops: Option<Loops>,
    /// The calls of all functions.
    #[prost(message, optional, tag = "11")]
    pub calls: Option<Calls>,
    /// Indirect calls whose targets are recorded.
    #[prost(message, optional, tag = "12")]
    pub sites: Option<Sites>,
    /// The bytes of all pieces, one after the other; empty if nobody kept them.
    #[prost(bytes = "vec", tag = "13")]
    pub text: Vec<u8>,
    /// Data that code speaks of.
    #[prost(message, optional, tag = "14")]
    pub data: Option<Data>,
    /// Words in data that hold addresses.
    #[prost(message, optional, tag = "15")]
    pub pointers: Option<Pointers>,
    /// Whether only functions that ran are described.
    #[prost(bool, tag = "16")]
    pub only_executed: bool,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SlotLayout {
    /// Counters.
    #[prost(uint32, tag = "1")]
    pub counters: u32,
    /// Indirect call sites.
    #[prost(uint32, tag = "2")]
    pub sites: u32,
    /// Room for further targets.
    #[prost(uint32, tag = "3")]
    pub overflows: u32,
    /// Room for other modules.
    #[prost(uint32, tag = "4")]
    pub modules: u32,
}

/// Functions, by address.
#[derive(Clone, PartialEq, Message)]
pub struct Functions {
    /// Name: a text.
    #[prost(uint32, repeated, tag = "1")]
    pub name: Vec<u32>,
    /// Address as linked: each the difference to the one before.
    #[prost(sint64, repeated, tag = "2")]
    pub address: Vec<i64>,
    /// Bytes of code.
    #[prost(uint64, repeated, tag = "3")]
    pub size: Vec<u64>,
    /// 0 not measured, 1 only entries, 2 measured.
    #[prost(uint32, repeated, tag = "4")]
    pub state: Vec<u32>,
    /// Why it is not measured: one more than a text; zero if it is.
    #[prost(uint32, repeated, tag = "5")]
    pub reason: Vec<u32>,
    /// Why counts may be off: one more than a text; zero if they are not.
    #[prost(uint32, repeated, tag = "6")]
    pub approximate: Vec<u32>,
    /// How many hubs it has.
    #[prost(uint32, repeated, tag = "7")]
    pub hubs: Vec<u32>,
    /// How many pieces.
    #[prost(uint32, repeated, tag = "8")]
    pub pieces: Vec<u32>,
    /// How many blocks.
    #[prost(uint32, repeated, tag = "9")]
    pub blocks: Vec<u32>,
    /// How many edges.
    #[prost(uint32, repeated, tag = "10")]
    pub edges: Vec<u32>,
    /// How many loops.
    #[prost(uint32, repeated, tag = "11")]
    pub loops: Vec<u32>,
    /// How many calls.
    #[prost(uint32, repeated, tag = "12")]
    pub calls: Vec<u32>,
    /// Whether the counter of its entry leaves out calls from measured functions. Empty if none does.
    #[prost(bool, repeated, tag = "13")]
    pub called: Vec<bool>,
}

/// Code that lies together.
#[derive(Clone, PartialEq, Message)]
pub struct Pieces {
    /// Address: each the difference to the one before, over all functions.
    #[prost(sint64, repeated, tag = "1")]
    pub start: Vec<i64>,
    /// Length.
    #[prost(uint64, repeated, tag = "2")]
    pub len: Vec<u64>,
}

/// Basic blocks.
#[derive(Clone, PartialEq, Message)]
pub struct Blocks {
    /// Address: each the difference to the end of the one before, over all functions.
    #[prost(sint64, repeated, tag = "1")]
    pub address: Vec<i64>,
    /// Length.
    #[prost(uint32, repeated, tag = "2")]
    pub size: Vec<u32>,
    /// Instructions.
    #[prost(uint32, repeated, tag = "3")]
    pub insns: Vec<u32>,
    /// Bits: 1 the function is entered here, 2 exceptions are caught here.
    #[prost(uint32, repeated, tag = "5")]
    pub flags: Vec<u32>,
    /// One more than the index of a source file, or zero: each the difference to the one before.
    #[prost(sint64, repeated, tag = "6")]
    pub file: Vec<i64>,
    /// Line: each the difference to the one before.
    #[prost(sint64, repeated, tag = "7")]
    pub line: Vec<i64>,
    /// Zero if it has no counter; else its number less that of the counter before, and one more if that
    /// is not below zero. Empty if no block has one.
    #[prost(sint64, repeated, tag = "8")]
    pub counter: Vec<i64>,
}

/// Edges.
///
/// A node is 0 for the outside, 1 + 2 b for block b of the function, 2 + 2 h for hub h.
#[derive(Clone, PartialEq, Message)]
pub struct Edges {
    /// Where from: each the difference to the one before within the function.
    #[prost(sint64, repeated, tag = "1")]
    pub from: Vec<i64>,
    /// Where to: the difference to where from.
    #[prost(sint64, repeated, tag = "2")]
    pub to: Vec<i64>,
    /// Why: 0 entered, 1 fall-through, 2 taken, 3 jump, 4 case, 5 call-return, 6 landing-pad, 7 tail-call,
    /// 8 return, 9 no-return.
    #[prost(uint32, repeated, tag = "3")]
    pub kind: Vec<u32>,
    /// As for blocks. Empty if no edge has one.
    #[prost(sint64, repeated, tag = "4")]
    pub counter: Vec<i64>,
    /// One more than the first entry of the table that leads this way; zero if it is no case. Empty if none is. Behind a hub, entries of the
    /// table of the next jump (by block) begin 2²⁴ further.
    #[prost(uint32, repeated, tag = "5")]
    pub case: Vec<u32>,
}

/// Loops.
#[derive(Clone, PartialEq, Message)]
pub struct Loops {
    /// The header: a block of the function.
    #[prost(uint32, repeated, tag = "1")]
    pub header: Vec<u32>,
    /// One more than the index of the loop around it within the function, or zero.
    #[prost(uint32, repeated, tag = "2")]
    pub parent: Vec<u32>,
    /// How many loops are around it.
    #[prost(uint32, repeated, tag = "3")]
    pub depth: Vec<u32>,
    /// One more than the index of a source file, or zero.
    #[prost(uint32, repeated, tag = "4")]
    pub file: Vec<u32>,
    /// Line.
    #[prost(uint32, repeated, tag = "5")]
    pub line: Vec<u32>,
    /// How many blocks it has.
    #[prost(uint32, repeated, tag = "6")]
    pub blocks: Vec<u32>,
    /// The blocks of all loops, ascending within each: the difference to the one before in the loop,
    /// of the first the number itself.
    #[prost(uint32, repeated, tag = "7")]
    pub block: Vec<u32>,
}

/// Calls, and jumps to other functions.
#[derive(Clone, PartialEq, Message)]
pub struct Calls {
    /// Twice the block that ends with it; or one more than twice the edge that is it.
    #[prost(uint32, repeated, tag = "1")]
    pub by: Vec<u32>,
    /// 0 to an address of this module, 1 to a name of another, 2 indirect.
    #[prost(uint32, repeated, tag = "2")]
    pub kind: Vec<u32>,
    /// 0 and 1: the name, a text. 2: one more than the index of the site, or zero.
    #[prost(uint32, repeated, tag = "3")]
    pub value: Vec<u32>,
    /// 0: the address. Else zero.
    #[prost(uint64, repeated, tag = "4")]
    pub address: Vec<u64>,
    /// The address of the instruction: each the difference to the one before, over all functions.
    #[prost(sint64, repeated, tag = "5")]
    pub site: Vec<i64>,
}

/// Indirect calls whose targets are recorded.
#[derive(Clone, PartialEq, Message)]
pub struct Sites {
    /// The index of the function.
    #[prost(uint32, repeated, tag = "1")]
    pub function: Vec<u32>,
    /// The block within it.
    #[prost(uint32, repeated, tag = "2")]
    pub block: Vec<u32>,
    /// The address of the instruction: each the difference to the one before.
    #[prost(sint64, repeated, tag = "3")]
    pub address: Vec<i64>,
}

/// Data that code speaks of, by address.
#[derive(Clone, PartialEq, Message)]
pub struct Data {
    /// Address: each the difference to the end of the one before.
    #[prost(sint64, repeated, tag = "1")]
    pub address: Vec<i64>,
    /// Length.
    #[prost(uint64, repeated, tag = "2")]
    pub size: Vec<u64>,
    /// Name: one more than a text; zero if it has none.
    #[prost(uint32, repeated, tag = "3")]
    pub name: Vec<u32>,
    /// 0 constant, 1 text, 2 variable, 3 zeroed, 4 jump table, 5 import.
    #[prost(uint32, repeated, tag = "4")]
    pub kind: Vec<u32>,
    /// Stands for the content.
    #[prost(fixed64, repeated, tag = "5")]
    pub hash: Vec<u64>,
}

/// Words in data that hold addresses, by place.
#[derive(Clone, PartialEq, Message)]
pub struct Pointers {
    /// Where: each the difference to the one before.
    #[prost(sint64, repeated, tag = "1")]
    pub at: Vec<i64>,
    /// What it points to: each the difference to the one before.
    #[prost(sint64, repeated, tag = "2")]
    pub to: Vec<i64>,
}
