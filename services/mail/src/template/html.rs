//! Checks the HTML part: where placeholders stand, where links lead, and which elements are refused.
//!
//! Escaping makes a value safe as text and as a quoted attribute, but not as an address (`javascript:`), a style, a
//! script or the name of a tag. A statement inside a tag is refused, so the state of this scanner at a statement is the
//! same on every branch, and one pass over the source is enough.

use super::analysis::{Piece, ValueType};
use super::problem::{TemplatePart, TemplateProblem};

/// Elements that mail clients remove or that could run code.
const REFUSED_ELEMENTS: &[&str] = &[
    "script",
    "iframe",
    "frame",
    "object",
    "embed",
    "applet",
    "form",
    "base",
    "svg",
    "math",
    "template",
    // Their content is read by other rules than those of this scanner.
    "textarea",
    "xmp",
    "plaintext",
    "noscript",
    "noembed",
    "noframes",
];
const URL_ATTRIBUTES: &[&str] =
    &["href", "src", "background", "action", "formaction", "poster", "srcset", "cite", "data", "ping", "xlink:href"];

enum Place {
    Text,
    Comment,
    /// Inside `<style>`.
    Style,
    /// Inside a tag, before an attribute.
    Tag,
    TagName(String),
    AttributeName(String),
    BeforeValue(String),
    Unquoted,
    Quoted {
        attribute: String,
        quote: char,
        value: Vec<ValuePiece>,
    },
}

#[derive(Debug, PartialEq)]
enum ValuePiece {
    Literal(String),
    Placeholder(Option<ValueType>),
}

struct Scanner {
    place: Place,
    /// The name of the tag that is being read.
    element: String,
    /// The last characters, to recognise `-->` and `</style`.
    recent: String,
    line: usize,
    problems: Vec<TemplateProblem>,
}

pub(super) fn check_html(pieces: &[(Piece<'_>, usize)]) -> Vec<TemplateProblem> {
    let mut scanner =
        Scanner { place: Place::Text, element: String::new(), recent: String::new(), line: 1, problems: Vec::new() };
    for (piece, line) in pieces {
        scanner.line = *line;
        match piece {
            Piece::Text(text) => text.chars().for_each(|letter| scanner.letter(letter)),
            Piece::Placeholder(name, value_type) => scanner.placeholder(name, *value_type),
            Piece::Statement => scanner.statement(),
        }
    }
    if !matches!(scanner.place, Place::Text) {
        scanner.refuse("A tag, a comment or a style is not closed.");
    }
    scanner.problems
}

impl Scanner {
    fn refuse(&mut self, message: impl Into<String>) {
        self.problems.push(TemplateProblem::new(TemplatePart::Html, self.line, message));
    }

    /// Returns true after `<`, which could begin a tag together with what a placeholder prints.
    fn begins_tag(&self) -> bool {
        matches!(self.place, Place::Text) && self.recent.ends_with('<')
    }

    fn statement(&mut self) {
        if self.begins_tag() || !matches!(self.place, Place::Text | Place::Comment) {
            self.refuse("A statement cannot stand inside a tag or a style: put it around the whole element.");
        }
    }

    fn placeholder(&mut self, name: &str, value_type: Option<ValueType>) {
        let begins_tag = self.begins_tag();
        match &mut self.place {
            Place::Text | Place::Comment if !begins_tag => {}
            Place::Quoted { attribute, value, .. } if attribute != "style" => {
                value.push(ValuePiece::Placeholder(value_type));
            }
            _ => {
                let message = "A placeholder in a tag can only stand in a quoted attribute other than `style`.";
                let problem = TemplateProblem::new(TemplatePart::Html, self.line, message);
                self.problems.push(problem.with_placeholder(name));
            }
        }
    }

    fn letter(&mut self, letter: char) {
        self.line += usize::from(letter == '\n');
        self.recent.push(letter.to_ascii_lowercase());
        if self.recent.chars().count() > 8 {
            self.recent.remove(0);
        }
        let place = std::mem::replace(&mut self.place, Place::Text);
        self.place = self.next_place(place, letter);
    }

    fn next_place(&mut self, place: Place, letter: char) -> Place {
        match place {
            Place::Text => self.after_text(letter),
            Place::Comment if self.recent.ends_with("-->") || self.recent.ends_with("--!>") => Place::Text,
            Place::Style if self.recent.ends_with("</style") => {
                self.element.clear();
                Place::Tag
            }
            Place::Comment | Place::Style => place,
            Place::TagName(name) => self.after_tag_name(name, letter),
            Place::Tag => self.in_tag(letter),
            Place::AttributeName(name) => match letter {
                '=' => Place::BeforeValue(name),
                _ if letter.is_whitespace() || letter == '>' || letter == '/' => {
                    self.check_attribute(&name, &[]);
                    self.in_tag(letter)
                }
                _ => Place::AttributeName(format!("{name}{}", letter.to_ascii_lowercase())),
            },
            Place::BeforeValue(name) => self.before_value(name, letter),
            Place::Unquoted if letter == '>' => self.end_of_tag(),
            Place::Unquoted if letter.is_whitespace() => Place::Tag,
            Place::Unquoted => Place::Unquoted,
            Place::Quoted { attribute, quote, value } if letter == quote => {
                self.check_attribute(&attribute, &value);
                Place::Tag
            }
            Place::Quoted { attribute, quote, mut value } => {
                match value.last_mut() {
                    Some(ValuePiece::Literal(text)) => text.push(letter),
                    _ => value.push(ValuePiece::Literal(letter.to_string())),
                }
                Place::Quoted { attribute, quote, value }
            }
        }
    }

    fn after_text(&mut self, letter: char) -> Place {
        let tag_begins = letter.is_ascii_alphabetic() || letter == '/' || letter == '!';
        let before = self.recent.chars().rev().nth(1);
        if before == Some('<') && tag_begins { Place::TagName(letter.to_ascii_lowercase().into()) } else { Place::Text }
    }

    fn after_tag_name(&mut self, name: String, letter: char) -> Place {
        let longer = format!("{name}{}", letter.to_ascii_lowercase());
        if longer.starts_with("!--") {
            return Place::Comment;
        }
        let continues = letter.is_ascii_alphanumeric() || "/!-:".contains(letter);
        if continues && letter != '>' {
            return Place::TagName(longer);
        }
        let element = name.trim_matches('/').to_owned();
        if REFUSED_ELEMENTS.contains(&element.as_str()) {
            self.refuse(format!("The element `<{element}>` is not allowed in a mail: remove it."));
        }
        self.element = name;
        self.in_tag(letter)
    }

    fn in_tag(&mut self, letter: char) -> Place {
        match letter {
            '>' => self.end_of_tag(),
            '/' => Place::Tag,
            _ if letter.is_whitespace() => Place::Tag,
            _ => Place::AttributeName(letter.to_ascii_lowercase().into()),
        }
    }

    fn end_of_tag(&mut self) -> Place {
        self.recent.clear();
        if self.element == "style" { Place::Style } else { Place::Text }
    }

    fn before_value(&mut self, name: String, letter: char) -> Place {
        match letter {
            '"' | '\'' => Place::Quoted { attribute: name, quote: letter, value: Vec::new() },
            _ if letter.is_whitespace() => Place::BeforeValue(name),
            _ => {
                if URL_ATTRIBUTES.contains(&name.as_str()) || name.starts_with("on") {
                    self.refuse(format!("Put the value of `{name}` into quotes."));
                }
                if letter == '>' { self.end_of_tag() } else { Place::Unquoted }
            }
        }
    }

    fn check_attribute(&mut self, name: &str, value: &[ValuePiece]) {
        if name.starts_with("on") {
            self.refuse(format!("The attribute `{name}` would run a script: remove it."));
        }
        if URL_ATTRIBUTES.contains(&name)
            && let Err(message) = check_address(value)
        {
            self.refuse(format!("The address in `{name}` is refused: {message}"));
        }
    }
}

/// An address begins with `https://` and a fixed host, with `mailto:`, with `#`, or with a variable of kind URL.
fn check_address(value: &[ValuePiece]) -> Result<(), &'static str> {
    let rest = match value.split_first() {
        None => return Err("it is empty."),
        Some((ValuePiece::Placeholder(Some(ValueType::Url) | None), rest)) => rest,
        Some((ValuePiece::Placeholder(_), _)) => {
            return Err("it must begin with a variable of kind URL or with https://.");
        }
        Some((ValuePiece::Literal(text), rest)) => {
            let text = text.trim_start().to_ascii_lowercase();
            let has_fixed_host = |after: &str| {
                let host = after.split(['/', '?', '#']).next().unwrap_or_default();
                !host.is_empty() && (host.len() < after.len() || rest.is_empty())
            };
            match text.strip_prefix("https://") {
                Some(after) if has_fixed_host(after) => rest,
                Some(_) => return Err("write the whole host before the first placeholder."),
                None if text.starts_with("mailto:") || text.starts_with('#') => rest,
                None => return Err("it must begin with https:// or mailto:, or be a variable of kind URL."),
            }
        }
    };
    let allowed = |piece: &ValuePiece| match piece {
        ValuePiece::Literal(_) => true,
        ValuePiece::Placeholder(value_type) => {
            matches!(value_type, None | Some(ValueType::Encoded | ValueType::Integer))
        }
    };
    if rest.iter().all(allowed) { Ok(()) } else { Err("apply the filter `urlencode` to the text inside it.") }
}
