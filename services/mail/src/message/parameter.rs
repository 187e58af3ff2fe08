//! File names as parameters: RFC 2231 for those who can read it, ASCII for the others.

use icu_normalizer::DecomposingNormalizerBorrowed;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but the letters, digits and marks that RFC 5987 and RFC 2231 both allow.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the parameters that name a file, each to be written on a line of its own. The extended one is one parameter
/// and not continued in several, which many programs cannot read; a name of 255 bytes stays below 998 columns.
pub(super) fn file_name_parameters(name: &str) -> Vec<String> {
    let plain = format!("filename={}", quoted(&ascii(name)));
    if name.is_ascii() {
        return vec![plain];
    }
    vec![plain, format!("filename*=utf-8''{}", utf8_percent_encode(name, ENCODED))]
}

/// Returns the quoted string of RFC 5322.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the name without its marks, and with `_` for what has no ASCII letter.
fn ascii(name: &str) -> String {
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(name);
    let is_mark = |character: &char| matches!(character, '\u{0300}'..='\u{036F}');
    let letter = |character: char| match character {
        'đ' | 'ð' => 'd',
        'Đ' | 'Ð' => 'D',
        'ø' => 'o',
        'Ø' => 'O',
        'ł' => 'l',
        'Ł' => 'L',
        _ if character.is_ascii() && !character.is_ascii_control() => character,
        _ => '_',
    };
    decomposed.chars().filter(|character| !is_mark(character)).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vietnamese_name_has_an_extended_and_an_ascii_form() {
        assert_eq!(
            file_name_parameters("Bằng tốt nghiệp.pdf"),
            ["filename=\"Bang tot nghiep.pdf\"", "filename*=utf-8''B%E1%BA%B1ng%20t%E1%BB%91t%20nghi%E1%BB%87p.pdf"]
        );
        assert_eq!(file_name_parameters("Đơn 申請.txt")[0], "filename=\"Don __.txt\"");
    }

    #[test]
    fn an_ascii_name_has_one_form_with_its_quotation_marks_escaped() {
        assert_eq!(file_name_parameters("a \"b\".pdf"), ["filename=\"a \\\"b\\\".pdf\""]);
    }
}
