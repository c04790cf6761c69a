//! Where the profile goes.

use super::text::{Text, base_name};

/// What a pattern may ask for.
pub(crate) struct Names<'a> {
    /// `%p`
    pub(crate) pid: u32,
    /// `%e` is its last part.
    pub(crate) executable: &'a [u8],
    /// `%m`: the measured module.
    pub(crate) module: &'a [u8],
    /// What a relative path begins with.
    pub(crate) directory: &'a [u8],
}

/// Writes the absolute path that a pattern means and returns its length; `None` if it does not fit.
pub(crate) fn expand(pattern: &[u8], names: &Names<'_>, buffer: &mut [u8]) -> Option<usize> {
    let mut out = Text::new(buffer);
    if pattern.first() != Some(&b'/') {
        out.push(names.directory);
        if names.directory.last() != Some(&b'/') {
            out.push(b"/");
        }
    }
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(&[byte]);
            continue;
        }
        match bytes.next() {
            Some(b'p') => out.push_decimal(u64::from(names.pid)),
            Some(b'e') => out.push(base_name(names.executable)),
            Some(b'm') => out.push(names.module),
            Some(b'%') | None => out.push(b"%"),
            Some(&other) => out.push(&[b'%', other]),
        }
    }
    out.finish()
}

/// Writes the path beside a taken one: `name.<first digits of the checksum>.rprof`.
pub(crate) fn beside(path: &[u8], checksum: u64, buffer: &mut [u8]) -> Option<usize> {
    let stem = path.strip_suffix(b".rprof").unwrap_or(path);
    let mut out = Text::new(buffer);
    out.push(stem);
    out.push(b".");
    out.push_hex(checksum, 8);
    out.push(b".rprof");
    out.finish()
}

/// Writes the path of a file in the same directory that nobody else uses.
pub(crate) fn temporary(path: &[u8], pid: u32, salt: u64, buffer: &mut [u8]) -> Option<usize> {
    let directory = path.strip_suffix(base_name(path)).unwrap_or(path);
    let mut out = Text::new(buffer);
    out.push(directory);
    out.push(b".relive.");
    out.push_decimal(u64::from(pid));
    out.push(b".");
    out.push_decimal(salt);
    out.push(b".tmp");
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str, directory: &str) -> String {
        let (executable, module) = (&b"/usr/bin/tool"[..], &b"libx.so"[..]);
        let names = Names { pid: 4071, executable, module, directory: directory.as_bytes() };
        let mut buffer = [1u8; 64];
        let len = expand(pattern.as_bytes(), &names, &mut buffer).expect("fits");
        assert_eq!(buffer[len], 0);
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    #[test]
    fn patterns() {
        assert_eq!(expanded("/tmp/%e.%p.rprof", "/home"), "/tmp/tool.4071.rprof");
        assert_eq!(expanded("%e.rprof", "/home"), "/home/tool.rprof");
        assert_eq!(expanded("a%%p%x%", "/"), "/a%p%x%");
        assert_eq!(expanded("/%e.%m", "/home"), "/tool.libx.so");
    }

    #[test]
    fn too_long_is_noticed() {
        let names = Names { pid: 1, executable: b"", module: b"", directory: b"/a" };
        assert_eq!(expand(&[b'x'; 62], &names, &mut [0; 64]), None);
        assert_eq!(expand(&[b'x'; 60], &names, &mut [0; 64]), Some(63));
    }

    #[test]
    fn names_beside() {
        let mut buffer = [0u8; 64];
        let checksum = 0x0123_4567_89ab_cdef;
        let len = beside(b"/tmp/a.rprof", checksum, &mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"/tmp/a.01234567.rprof");
        let len = beside(b"/tmp/a.dat", checksum, &mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"/tmp/a.dat.01234567.rprof");
        let len = temporary(b"/tmp/a.dat", 17, 9, &mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"/tmp/.relive.17.9.tmp");
    }
}
