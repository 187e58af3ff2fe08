//! RFC 2047: text beyond ASCII in headers.

use super::header_line::HeaderLine;
use base64::{Engine, engine::general_purpose::STANDARD};

const OPENING: &str = "=?utf-8?b?";
const CLOSING: &str = "?=";
/// The longest encoded-word, with its delimiters.
const MAX_WORD: usize = 75;
/// The longest word that is written as it is: it fits beside the name of every header.
const MAX_PLAIN_WORD: usize = 60;

/// Returns whether unstructured text can be written as it is and read back unchanged: visible ASCII words with single
/// spaces between them, none too long to be folded, none that looks encoded.
pub(super) fn is_plain(text: &str) -> bool {
    !text.contains("=?")
        && text.split(' ').all(|word| {
            !word.is_empty() && word.len() <= MAX_PLAIN_WORD && word.bytes().all(|byte| byte.is_ascii_graphic())
        })
}

/// Appends `text` as encoded-words, each on the current line if it fits there. Readers drop the space between two of
/// them. A character is never divided.
pub(super) fn append_encoded(line: &mut HeaderLine, text: &str) {
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = prefix_within(rest, room(line.columns_left()));
        if end == 0 {
            // Every line has room for more than one character after its beginning.
            line.fold();
            end = prefix_within(rest, room(line.columns_left()));
        }
        let (now, later) = rest.split_at(end);
        line.word(&format!("{OPENING}{}{CLOSING}", STANDARD.encode(now)));
        rest = later;
    }
}

/// Returns how many bytes of text an encoded-word of at most `columns` holds.
fn room(columns: usize) -> usize {
    let letters = columns.min(MAX_WORD).saturating_sub(OPENING.len() + CLOSING.len());
    letters / 4 * 3
}

/// Returns the length of the longest prefix of whole characters that has at most `max` bytes.
fn prefix_within(text: &str, max: usize) -> usize {
    let ends = text.char_indices().map(|(start, character)| start + character.len_utf8());
    ends.take_while(|end| *end <= max).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> String {
        let mut line = HeaderLine::new("Subject");
        append_encoded(&mut line, text);
        line.finish()
    }

    #[test]
    fn each_encoded_word_has_at_most_75_characters_on_lines_of_at_most_76() {
        for text in ["Hồ sơ của bạn đã được tiếp nhận", &"ồ".repeat(300), &"😀".repeat(80), &"a".repeat(500)]
        {
            let header = encoded(text);
            for line in header.split("\r\n") {
                assert!(line.len() <= 76, "{line}");
            }
            assert!(header.split_whitespace().skip(1).all(|word| word.len() <= 75), "{header}");
        }
    }

    #[test]
    fn text_that_would_not_survive_is_not_plain() {
        assert!(is_plain("Is dinner ready?"));
        for text in ["", " a", "a ", "a  b", "a\tb", "=?utf-8?b?YQ==?=", "ü", &"a".repeat(80)] {
            assert!(!is_plain(text), "{text:?}");
        }
    }
}
