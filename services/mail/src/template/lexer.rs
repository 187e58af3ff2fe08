//! Splits a template into text, placeholders (`{{ … }}`) and statements (`{% … %}`), with their lines.
//!
//! Only lexemes that our subset of the language uses are recognised; every other character becomes a
//! [`Lexeme::Other`], which the parser refuses. So a placeholder that the engine would understand differently is
//! refused rather than missed.

/// A piece of a template, in order of appearance.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    pub content: SegmentContent<'a>,
    /// The line on which it begins, from 1.
    pub line: usize,
}

#[derive(Debug)]
pub(super) enum SegmentContent<'a> {
    /// Text that is sent as it is.
    Text(&'a str),
    /// `{{ … }}`.
    Output(Vec<Lexeme<'a>>),
    /// `{% … %}`.
    Statement(Vec<Lexeme<'a>>),
    /// A piece that could not be read, with the sentence that says why.
    Broken(String),
}

/// A word or a sign inside a placeholder or a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lexeme<'a> {
    Name(&'a str),
    /// A quoted text, without its quotes.
    Quoted(&'a str),
    Integer(i64),
    /// One of `SIGNS`.
    Sign(&'static str),
    /// Anything else, for example an arithmetic operator.
    Other(char),
}

const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "|", ".", "(", ")", ",", "[", "]", "="];

pub(super) fn split(source: &str) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while !rest.is_empty() {
        let (content, length) = next_segment(rest);
        if let Some(content) = content {
            segments.push(Segment { content, line });
        }
        // Every segment has at least one byte; the maximum guards against an endless loop.
        let (taken, remaining) = rest.split_at(length.clamp(1, rest.len()));
        line += taken.bytes().filter(|byte| *byte == b'\n').count();
        rest = remaining;
    }
    segments
}

/// Returns the first segment and its length in bytes; a comment has no content.
fn next_segment(rest: &str) -> (Option<SegmentContent<'_>>, usize) {
    let (open, close) = match rest.get(..2) {
        Some("{{") => ("{{", "}}"),
        Some("{%") => ("{%", "%}"),
        Some("{#") => {
            return match rest[2..].find("#}") {
                Some(end) => (None, end + 4),
                None => (Some(SegmentContent::Broken("The comment is not closed: write `#}`.".into())), rest.len()),
            };
        }
        _ => {
            let end = ["{{", "{%", "{#"].iter().filter_map(|open| rest.find(open)).min().unwrap_or(rest.len());
            return (Some(SegmentContent::Text(&rest[..end])), end);
        }
    };
    match lexemes(&rest[2..], close) {
        Ok((lexemes, length)) if open == "{{" => (Some(SegmentContent::Output(lexemes)), length + 2),
        Ok((lexemes, length)) => (Some(SegmentContent::Statement(lexemes)), length + 2),
        Err(message) => (Some(SegmentContent::Broken(message)), broken_length(rest, close)),
    }
}

/// Continues after the next closing sign, so that one broken placeholder does not hide the problems after it.
fn broken_length(rest: &str, close: &str) -> usize {
    rest.find(close).map_or(rest.len(), |end| end + 2)
}

/// Reads lexemes until `close`; returns them and the length of what was read, `close` included.
fn lexemes<'a>(inside: &'a str, close: &str) -> Result<(Vec<Lexeme<'a>>, usize), String> {
    // `{%-` and `-%}` remove white space around the tag.
    let mut at = usize::from(inside.starts_with(['-', '+']));
    let mut found = Vec::new();
    loop {
        let rest = &inside[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with(close) {
            return Ok((found, at + close.len()));
        }
        if trimmed.strip_prefix(['-', '+']).is_some_and(|after| after.starts_with(close)) {
            return Ok((found, at + close.len() + 1));
        }
        let (lexeme, length) = next_lexeme(trimmed, close)?;
        found.push(lexeme);
        at += length;
    }
}

fn next_lexeme<'a>(text: &'a str, close: &str) -> Result<(Lexeme<'a>, usize), String> {
    let Some(first) = text.chars().next() else {
        return Err(format!("The tag is not closed: write `{close}`."));
    };
    let word_length =
        || text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    match first {
        '"' | '\'' => quoted(text, first),
        '0'..='9' => {
            let word = &text[..word_length()];
            let number = word.parse().map_err(|_| format!("`{word}` is not a whole number."))?;
            Ok((Lexeme::Integer(number), word.len()))
        }
        letter if letter.is_ascii_alphabetic() || letter == '_' => {
            let word = &text[..word_length()];
            Ok((Lexeme::Name(word), word.len()))
        }
        other => match SIGNS.iter().find(|sign| text.starts_with(**sign)) {
            Some(sign) => Ok((Lexeme::Sign(sign), sign.len())),
            None => Ok((Lexeme::Other(other), other.len_utf8())),
        },
    }
}

fn quoted(text: &str, quote: char) -> Result<(Lexeme<'_>, usize), String> {
    let inside = &text[1..];
    let end = inside.find(quote).ok_or("A quoted text is not closed.")?;
    let content = &inside[..end];
    if content.contains(['\\', '\n', '\r']) {
        return Err("A quoted text may contain neither a backslash nor a line break.".into());
    }
    Ok((Lexeme::Quoted(content), end + 2))
}
