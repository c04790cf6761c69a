//! What is only looked at when asked for.
//!
//! The code of ten thousand functions as text is more than a browser should read before it shows anything. So it lies in
//! the page compressed, in packs of about a quarter of a megabyte of JSON each: small enough to be unpacked in a moment, large enough to compress
//! well (a pack for each function takes twice the room).

use crate::json;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use std::io::{self, Write};

/// So much JSON goes in one pack, and what is begun is finished.
const PACK: usize = 256 << 10;

/// Things in packs. Each is found again by the number of its pack and its place in it.
#[derive(Debug, Default)]
pub struct Packs {
    /// Finished ones: deflate, then base 64.
    finished: Vec<String>,
    /// How much room they take.
    bytes: u64,
    /// That which is being filled: JSON, a list that is not closed yet.
    open: Vec<u8>,
    /// How many things are in it.
    count: u32,
}

/// Where something is: which pack, and which place in it.
pub type Place = (u32, u32);

impl Packs {
    /// Puts `thing` in.
    ///
    /// # Errors
    ///
    /// If it cannot be said in JSON.
    pub fn add(&mut self, thing: &impl Serialize) -> io::Result<Place> {
        let place = (self.finished.len() as u32, self.count);
        self.open.push(if self.count == 0 { b'[' } else { b',' });
        json::write(thing, &mut self.open)?;
        self.count += 1;
        if self.open.len() >= PACK {
            self.close()?;
        }
        Ok(place)
    }

    /// About how much of the page all of this takes.
    #[must_use]
    pub fn len(&self) -> u64 {
        // What is open is smaller once it is packed; a fifth is usual.
        self.bytes + self.open.len() as u64 / 5
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.count == 0
    }

    fn close(&mut self) -> io::Result<()> {
        if self.count > 0 {
            self.open.push(b']');
            let mut packer = DeflateEncoder::new(Vec::new(), Compression::new(6));
            packer.write_all(&self.open)?;
            let text = base64(&packer.finish()?);
            self.bytes += text.len() as u64;
            self.finished.push(text);
            self.open.clear();
            self.count = 0;
        }
        Ok(())
    }

    /// The text of all packs, in order.
    ///
    /// # Errors
    ///
    /// None that are known: packing happens in memory.
    pub fn finish(mut self) -> io::Result<Vec<String>> {
        self.close()?;
        Ok(self.finished)
    }
}

/// Base 64 as browsers read it (`atob`).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            out.push(if shown { DIGITS[(bits >> (18 - 6 * digit) & 63) as usize].into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::DeflateDecoder;
    use serde_json::Value;
    use std::io::Read as _;

    #[test]
    fn digits_are_those_of_rfc_4648() {
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(base64(&[0xff, 0xfe, 0xfb]), "//77");
    }

    fn unpack(text: &str) -> Vec<Value> {
        let digit = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for four in text.trim_end_matches('=').as_bytes().chunks(4) {
            let bits =
                four.iter().fold(0u32, |bits, &c| bits << 6 | u32::from(digit(c))) << (6 * (4 - four.len()));
            bytes.extend(&bits.to_be_bytes()[1..four.len()]);
        }
        let mut json = String::new();
        DeflateDecoder::new(&*bytes).read_to_string(&mut json).expect("deflate");
        serde_json::from_str(&json).expect("JSON")
    }

    #[test]
    fn everything_is_found_again() {
        let mut packs = Packs::default();
        let things: Vec<String> = (0..100).map(|i| format!("{i}<").repeat(i * 100)).collect();
        let places: Vec<Place> = things.iter().map(|thing| packs.add(thing).expect("packed")).collect();
        let packs: Vec<Vec<Value>> =
            packs.finish().expect("packed").iter().map(|text| unpack(text)).collect();
        assert!(packs.len() > 3);
        for (thing, (pack, at)) in things.iter().zip(places) {
            assert_eq!(packs[pack as usize][at as usize], Value::from(thing.as_str()));
        }
        assert!(Packs::default().finish().expect("nothing to pack").is_empty());
    }
}
