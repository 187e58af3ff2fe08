//! Maps the codes of a font to characters and widths.

use lopdf::{Dictionary, Document, Encoding, Object};
use std::collections::HashMap;

/// Ranges of a width table are expanded up to this many codes.
const MAX_WIDTHS: usize = 70_000;
/// The width where a font declares none, in thousandths of its size.
const DEFAULT_WIDTH: f32 = 500.0;

pub(super) struct Font<'d> {
    encoding: Encoding<'d>,
    widths: HashMap<u32, f32>,
    /// The width of codes that are not in `widths`.
    default_width: f32,
    bytes_per_code: usize,
}

impl<'d> Font<'d> {
    pub(super) fn new(document: &'d Document, font: &'d Dictionary, unpacked_bytes: usize) -> Option<Self> {
        let encoding = font.get_font_encoding_with_limit(document, unpacked_bytes).ok()?;
        let composite = font.get_deref(b"DescendantFonts", document).and_then(Object::as_array).ok();
        let descendant = composite.and_then(|fonts| document.dereference(fonts.first()?).ok()?.1.as_dict().ok());
        Some(match descendant {
            Some(descendant) => {
                let default_width = descendant.get_deref(b"DW", document).and_then(Object::as_float).unwrap_or(1000.0);
                let widths = composite_widths(document, descendant).unwrap_or_default();
                Self { encoding, widths, default_width, bytes_per_code: 2 }
            }
            None => {
                let widths = simple_widths(document, font).unwrap_or_default();
                Self { encoding, widths, default_width: DEFAULT_WIDTH, bytes_per_code: 1 }
            }
        })
    }

    /// Returns the characters of `codes`, or `None` if the font does not define them.
    pub(super) fn decode(&self, codes: &[u8]) -> Option<String> {
        self.encoding.bytes_to_string(codes).ok()
    }

    /// Returns the width of `codes` as a fraction of the font's size.
    pub(super) fn width(&self, codes: &[u8]) -> f32 {
        let code = |bytes: &[u8]| bytes.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte));
        let width = |bytes| self.widths.get(&code(bytes)).unwrap_or(&self.default_width);
        codes.chunks(self.bytes_per_code).map(width).sum::<f32>() / 1000.0
    }
}

fn simple_widths(document: &Document, font: &Dictionary) -> Option<HashMap<u32, f32>> {
    let first = u32::try_from(font.get_deref(b"FirstChar", document).ok()?.as_i64().ok()?).ok()?;
    let widths = font.get_deref(b"Widths", document).ok()?.as_array().ok()?;
    let width = |object: &Object| document.dereference(object).ok()?.1.as_float().ok();
    Some((first..).zip(widths.iter().take(256)).filter_map(|(code, object)| Some((code, width(object)?))).collect())
}

/// Reads a sequence of `first [w w w]` and `first last w` entries.
fn composite_widths(document: &Document, font: &Dictionary) -> Option<HashMap<u32, f32>> {
    let mut all = HashMap::new();
    let mut rest = font.get_deref(b"W", document).ok()?.as_array().ok()?.as_slice();
    while let [first, second, more @ ..] = rest {
        let first = u32::try_from(first.as_i64().ok()?).ok()?;
        let remaining = MAX_WIDTHS.saturating_sub(all.len());
        match (document.dereference(second).ok()?.1, more) {
            (Object::Array(widths), _) => {
                all.extend((first..).zip(widths.iter().filter_map(|width| width.as_float().ok())).take(remaining));
                rest = more;
            }
            (last, [width, more @ ..]) => {
                let last = u32::try_from(last.as_i64().ok()?).ok()?;
                let width = width.as_float().ok()?;
                all.extend((first..=last).map(|code| (code, width)).take(remaining));
                rest = more;
            }
            _ => break,
        }
    }
    Some(all)
}
