//! The structure of a message: line ends, header fields, and parts, with limits on all of them.
//!
//! A returned mail is written by strangers and often broken, so nothing here fails: what cannot be read is text.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// What lies beyond is not read: a report is at the beginning of a message, the returned mail at its end.
pub(super) const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
const MAX_HEADERS: usize = 300;
const MAX_HEADER_BYTES: usize = 8 * 1024;
const MAX_PARTS: usize = 64;
const MAX_DEPTH: usize = 8;

/// Header fields in order, their names in lower case and their values on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeaderFields(pub Vec<(String, String)>);

impl HeaderFields {
    /// Returns the first value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    fn media_type(&self) -> String {
        let value = self.get("content-type").unwrap_or("text/plain");
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let value = self.get("content-type")?;
        let parameters = value.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
        let found = parameters.into_iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().trim_matches('"').to_owned()).filter(|value| !value.is_empty())
    }
}

/// A part that contains no further parts.
#[derive(Debug)]
pub(super) struct LeafPart {
    pub media_type: String,
    /// The body after its transfer encoding was removed.
    pub body: Vec<u8>,
}

/// Returns the message with LF at the end of every line, without an mbox separator before it.
pub(super) fn normalised(raw: &[u8]) -> Vec<u8> {
    let raw = &raw[..raw.len().min(MAX_MESSAGE_BYTES)];
    let mut bytes = Vec::with_capacity(raw.len());
    let mut previous = 0;
    for byte in raw {
        match (*byte, previous) {
            (b'\n', b'\r') => {}
            (b'\r', _) => bytes.push(b'\n'),
            (other, _) => bytes.push(other),
        }
        previous = *byte;
    }
    let begin = bytes.iter().position(|byte| *byte != b'\n').unwrap_or(bytes.len());
    bytes.drain(..begin);
    if bytes.starts_with(b"From ") {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        bytes.drain(..end);
    }
    bytes
}

/// Separates the header fields from the body. A block that does not begin with a field has none.
pub(super) fn split_header(bytes: &[u8]) -> (HeaderFields, &[u8]) {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (line, after) = (&rest[..end], &rest[(end + 1).min(rest.len())..]);
        if line.is_empty() {
            return (HeaderFields(fields), after);
        }
        let line = String::from_utf8_lossy(line);
        let is_first = fields.is_empty();
        match (field(&line), fields.last_mut()) {
            (_, Some((_, value))) if line.starts_with([' ', '\t']) => continue_value(value, &line),
            (Some(field), _) => {
                if fields.len() < MAX_HEADERS {
                    fields.push(field);
                }
            }
            // Text where a field should be: everything from here on is the body.
            (None, _) => return (HeaderFields(fields), if is_first { bytes } else { rest }),
        }
        rest = after;
    }
    (HeaderFields(fields), rest)
}

fn continue_value(value: &mut String, line: &str) {
    if value.len() < MAX_HEADER_BYTES {
        value.push(' ');
        value.push_str(line.trim());
    }
}

/// Reads a line such as `Name: value`.
pub(super) fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let named = !name.is_empty() && name.len() <= 60 && name.bytes().all(is_name);
    named.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
}

/// Returns the parts that contain no others, in order.
pub(super) fn leaves(headers: &HeaderFields, body: &[u8]) -> Vec<LeafPart> {
    let mut found = Vec::new();
    collect(headers, body, 0, &mut found);
    found
}

fn collect(headers: &HeaderFields, body: &[u8], depth: usize, found: &mut Vec<LeafPart>) {
    if found.len() >= MAX_PARTS {
        return;
    }
    let media_type = headers.media_type();
    let boundary = headers.parameter("boundary");
    if let (true, Some(boundary)) = (media_type.starts_with("multipart/") && depth < MAX_DEPTH, boundary) {
        let sections = sections(body, &boundary);
        for section in &sections {
            let (headers, body) = split_header(section);
            collect(&headers, body, depth + 1, found);
        }
        if !sections.is_empty() {
            return;
        }
    }
    // A multipart without its boundaries is read as text.
    let media_type = if media_type.starts_with("multipart/") { "text/plain".to_owned() } else { media_type };
    found.push(LeafPart { media_type, body: decoded(headers, body) });
}

/// Splits at the lines that are boundaries; what comes before the first one belongs to no part.
fn sections<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let delimiter = format!("--{boundary}").into_bytes();
    let closing = format!("--{boundary}--").into_bytes();
    let mut sections = Vec::new();
    let mut begin: Option<usize> = None;
    let mut at = 0;
    while at < body.len() && sections.len() < MAX_PARTS {
        let end = body[at..].iter().position(|byte| *byte == b'\n').map_or(body.len(), |end| at + end);
        let line = body[at..end].trim_ascii_end();
        if line == delimiter || line == closing {
            sections.extend(begin.map(|begin| &body[begin..at]));
            begin = (line == delimiter).then_some((end + 1).min(body.len()));
        }
        at = end + 1;
    }
    sections.extend(begin.map(|begin| &body[begin..]));
    sections
}

fn decoded(headers: &HeaderFields, body: &[u8]) -> Vec<u8> {
    let encoding = headers.get("content-transfer-encoding").unwrap_or_default().to_ascii_lowercase();
    let bytes = match encoding.trim() {
        "base64" => base64_lenient(body).unwrap_or_else(|| body.to_vec()),
        "quoted-printable" => quoted_printable(body),
        _ => body.to_vec(),
    };
    in_utf8(bytes, headers.parameter("charset").as_deref())
}

/// Converts from the part's character set with the help of `mailparse`; unknown sets stay as they are.
fn in_utf8(bytes: Vec<u8>, charset: Option<&str>) -> Vec<u8> {
    let Some(charset) = charset.filter(|charset| charset.bytes().all(|byte| byte.is_ascii_graphic())) else {
        return bytes;
    };
    if matches!(charset.to_ascii_lowercase().as_str(), "utf-8" | "us-ascii" | "ascii") {
        return bytes;
    }
    let header = format!("Content-Type: text/plain; charset=\"{charset}\"\nContent-Transfer-Encoding: 8bit\n\n");
    let whole = [header.as_bytes(), &bytes].concat();
    let text = mailparse::parse_mail(&whole).and_then(|mail| mail.get_body());
    text.map_or(bytes, String::into_bytes)
}

fn base64_lenient(body: &[u8]) -> Option<Vec<u8>> {
    let configuration = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, configuration);
    let letters: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    engine.decode(letters).ok()
}

fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        if *byte == b'=' && body.get(at + 1) == Some(&b'\n') {
            at += 2;
        } else if let (b'=', Some(high), Some(low)) = (byte, hex(body.get(at + 1)), hex(body.get(at + 2))) {
            decoded.push(high * 16 + low);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    decoded
}
