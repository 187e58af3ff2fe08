//! ZIP archives written for a test, with stored entries.

/// One file of an archive.
#[derive(Clone, Copy)]
pub struct Entry<'e> {
    name: &'e str,
    content: &'e [u8],
    local_flags: u16,
    flags: u16,
}

impl<'e> Entry<'e> {
    pub fn named(name: &'e str) -> Self {
        Self { name, content: b"content", local_flags: 0, flags: 0 }
    }

    pub fn with(self, content: &'e [u8]) -> Self {
        Self { content, ..self }
    }

    pub fn encrypted(self) -> Self {
        Self { local_flags: 1, flags: 1, ..self }
    }

    pub fn encrypted_in_local_header_only(self) -> Self {
        Self { local_flags: 1, ..self }
    }

    /// Returns the fields that both headers have, from the flags to the length of the extra field.
    fn common(&self, flags: u16) -> Vec<u8> {
        let size = (self.content.len() as u32).to_le_bytes();
        let mut fields = flags.to_le_bytes().to_vec();
        // Method, time, date and checksum, which nobody reads here.
        fields.extend([0; 10]);
        fields.extend([size, size].concat());
        fields.extend((self.name.len() as u16).to_le_bytes());
        fields.extend([0; 2]);
        fields
    }
}

pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = archive.len() as u32;
        archive.extend(b"PK\x03\x04\x14\0");
        archive.extend(entry.common(entry.local_flags));
        archive.extend(entry.name.as_bytes());
        archive.extend(entry.content);
        directory.extend(b"PK\x01\x02\x14\0\x14\0");
        directory.extend(entry.common(entry.flags));
        // The lengths and numbers of the comment, disk and attributes.
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let (start, size, count) = (archive.len() as u32, directory.len() as u32, (entries.len() as u16).to_le_bytes());
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    archive.extend([0; 2]);
    archive
}
