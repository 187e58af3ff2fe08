//! Splits Rust source into code, strings and comments, so that a check for code ignores strings about code.

/// The kind of a piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Anything else, including character literals.
    Code,
    /// The content of a string literal of any form.
    Text,
    /// A comment, including its slashes.
    Comment,
}

/// A piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
    /// The line on which it starts.
    pub(super) line: usize,
}

impl<'a> Token<'a> {
    /// Returns its lines with their numbers in the file.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let first = self.line;
        self.text.split('\n').enumerate().map(move |(index, line)| (first + index, line))
    }
}

/// Splits the source into tokens; quotes themselves are in none of them.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner { source, at: 0, code_from: 0, line: 1, counted_to: 0, tokens: Vec::new() };
    while scanner.at < source.len() {
        scanner.step();
    }
    scanner.end_code();
    scanner.tokens
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    code_from: usize,
    line: usize,
    counted_to: usize,
    tokens: Vec<Token<'a>>,
}

impl Scanner<'_> {
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            self.special(TokenKind::Comment, 0, end, 0);
        } else if rest.starts_with("/*") {
            self.special(TokenKind::Comment, 0, block_comment_len(rest), 0);
        } else if let Some(hashes) = raw_string_hashes(rest).filter(|_| !self.inside_word()) {
            let open = rest.find('"').map_or(rest.len(), |quote| quote + 1);
            let close = format!("\"{}", "#".repeat(hashes));
            let len = rest[open..].find(&close).unwrap_or(rest.len() - open);
            self.special(TokenKind::Text, open, len, close.len());
        } else if let Some(inside) = rest.strip_prefix('"') {
            self.special(TokenKind::Text, 1, string_len(inside), 1);
        } else if rest.starts_with('\'') {
            self.at += char_literal_len(rest);
        } else {
            self.at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }

    /// Returns whether the position is inside a word. `for"` cannot occur, but an identifier may end in `r` or `br`.
    fn inside_word(&self) -> bool {
        let before = self.source[..self.at].chars().next_back();
        before.is_some_and(|character| character.is_alphanumeric() || character == '_')
    }

    fn special(&mut self, kind: TokenKind, open: usize, len: usize, close: usize) {
        self.end_code();
        let start = self.at + open;
        let end = (start + len).min(self.source.len());
        self.push(kind, start, end);
        self.at = (end + close).min(self.source.len());
        self.code_from = self.at;
    }

    fn end_code(&mut self) {
        if self.code_from < self.at {
            self.push(TokenKind::Code, self.code_from, self.at);
        }
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.line += self.source[self.counted_to..start].matches('\n').count();
        self.counted_to = start;
        self.tokens.push(Token { kind, text: &self.source[start..end], line: self.line });
    }
}

/// Returns the number of hashes of `r"`, `r#"`, `br##"` and the other raw strings.
fn raw_string_hashes(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let unhashed = after.trim_start_matches('#');
    unhashed.starts_with('"').then_some(after.len() - unhashed.len())
}

fn string_len(inside: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index,
            _ => {}
        }
    }
    inside.len()
}

fn block_comment_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of a character literal. `'a'` and `'\''` are literals, `'a` is a lifetime: only its quote is
/// skipped.
fn char_literal_len(rest: &str) -> usize {
    let inside = &rest[1..];
    if let Some(escaped) = inside.strip_prefix('\\') {
        // The character after the backslash may itself be a quote.
        let skip = 1 + escaped.chars().next().map_or(0, char::len_utf8);
        return inside[skip..].find('\'').map_or(1, |close| 1 + skip + close + 1);
    }
    match inside.chars().next() {
        Some(character) if inside[character.len_utf8()..].starts_with('\'') => 1 + character.len_utf8() + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(TokenKind, &str, usize)]) {
        let found: Vec<_> = tokens(source).iter().map(|token| (token.kind, token.text, token.line)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn code_strings_and_comments_are_distinguished() {
        check(
            "let a = \"x // \\\" y\"; // \"no\"\nb",
            &[
                (TokenKind::Code, "let a = ", 1),
                (TokenKind::Text, "x // \\\" y", 1),
                (TokenKind::Code, "; ", 1),
                (TokenKind::Comment, "// \"no\"", 1),
                (TokenKind::Code, "\nb", 1),
            ],
        );
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        check("r#\"a \"quoted\"\nword\"#;c", &[(TokenKind::Text, "a \"quoted\"\nword", 1), (TokenKind::Code, ";c", 2)]);
    }

    #[test]
    fn quotes_in_characters_and_lifetimes_open_nothing() {
        check(
            "fn f<'a>(c: &'a str) { '\"'; '\\''; b'x' }",
            &[(TokenKind::Code, "fn f<'a>(c: &'a str) { '\"'; '\\''; b'x' }", 1)],
        );
    }

    #[test]
    fn block_comments_nest() {
        check("/* a /* b */ c */d", &[(TokenKind::Comment, "/* a /* b */ c */", 1), (TokenKind::Code, "d", 1)]);
    }
}
