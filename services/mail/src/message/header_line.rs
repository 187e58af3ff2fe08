//! One header, folded at white space.

/// The columns of a header's line, without its line break.
const MAX_COLUMNS: usize = 76;

/// A header that is written word by word. A word that does not fit is written on the next line; a word that is longer
/// than a line is written on a line of its own, because an address or a link must not be divided. The first word is
/// always beside the name, because some programs take a first line without a value for an empty header.
pub(super) struct HeaderLine {
    text: String,
    column: usize,
    is_line_empty: bool,
}

impl HeaderLine {
    pub(super) fn new(name: &str) -> Self {
        Self { text: format!("{name}:"), column: name.len() + 1, is_line_empty: true }
    }

    /// Returns how long a word may be to fit on this line, after the space before it.
    pub(super) fn columns_left(&self) -> usize {
        MAX_COLUMNS.saturating_sub(self.column + 1)
    }

    /// Continues on the next line, unless this line has no word yet: a line of white space alone is not allowed.
    pub(super) fn fold(&mut self) {
        if !self.is_line_empty {
            self.text.push_str("\r\n");
            self.column = 0;
            self.is_line_empty = true;
        }
    }

    /// Appends a space and the word.
    pub(super) fn word(&mut self, word: &str) {
        if word.len() > self.columns_left() {
            self.fold();
        }
        self.text.push(' ');
        self.text.push_str(word);
        self.column += 1 + word.len();
        self.is_line_empty = false;
    }

    /// Appends text to the last word, which stays on its line.
    pub(super) fn attach(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.len();
    }

    /// Returns the header with its line break.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("\r\n");
        self.text
    }
}
