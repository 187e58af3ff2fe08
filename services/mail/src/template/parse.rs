//! Parses what stands inside placeholders and statements: our subset of the template language.
//!
//! ```text
//! placeholder   path filter*
//! statement     if condition | elif condition | else | endif | for name in path | endfor
//! condition     all ("or" all)*        all   not ("and" not)*       not   "not" not | "(" condition ")" | comparison
//! comparison    operand [("==" | "!=" | "<" | "<=" | ">" | ">=") operand]
//! operand       path filter* | "quoted text" | integer
//! path          name ("." name)*       filter   "|" name ["(" ["quoted text"] ")"]
//! ```
//!
//! Everything that could hide a misspelt name is absent: `default`, `is defined`, `x[y]`, `set`, and words like `true`.

use super::lexer::Lexeme;

/// A dotted name.
#[derive(Debug)]
pub(super) struct NamePath<'a> {
    pub names: Vec<&'a str>,
}

impl NamePath<'_> {
    pub(super) fn dotted(&self) -> String {
        self.names.join(".")
    }
}

#[derive(Debug)]
pub(super) struct FilterCall<'a> {
    pub name: &'a str,
    pub argument: Option<&'a str>,
}

/// A variable and the filters applied to it.
#[derive(Debug)]
pub(super) struct FilteredPath<'a> {
    pub path: NamePath<'a>,
    pub filters: Vec<FilterCall<'a>>,
}

#[derive(Debug)]
pub(super) enum Operand<'a> {
    Variable(FilteredPath<'a>),
    Text,
    Integer,
}

#[derive(Debug)]
pub(super) enum TemplateCondition<'a> {
    /// True if the value is true, or not empty, or not zero.
    Truth(Operand<'a>),
    Compare {
        left: Operand<'a>,
        operator: &'static str,
        right: Operand<'a>,
    },
    /// The parts of `and`, `or` and `not`: which of them does not matter when checking names and kinds.
    Combined(Vec<TemplateCondition<'a>>),
}

#[derive(Debug)]
pub(super) enum Statement<'a> {
    If(TemplateCondition<'a>),
    ElseIf(TemplateCondition<'a>),
    Else,
    EndIf,
    For { target: &'a str, list: NamePath<'a> },
    EndFor,
}

/// Words that the language uses, so that no variable may have them as a name.
pub(super) const RESERVED: &[&str] = &[
    "and",
    "elif",
    "else",
    "endfor",
    "endif",
    "false",
    "for",
    "if",
    "in",
    "is",
    "loop",
    "none",
    "not",
    "or",
    "recursive",
    "self",
    "true",
    "False",
    "None",
    "True",
];

const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
const MAX_DEPTH: usize = 16;

pub(super) fn output<'a>(lexemes: &[Lexeme<'a>]) -> Result<FilteredPath<'a>, String> {
    let mut parser = Parser { lexemes, at: 0 };
    let value = match parser.operand()? {
        Operand::Variable(value) => value,
        Operand::Text | Operand::Integer => {
            return Err("A placeholder prints a variable: write fixed text outside the braces.".into());
        }
    };
    parser.end()?;
    Ok(value)
}

pub(super) fn statement<'a>(lexemes: &[Lexeme<'a>]) -> Result<Statement<'a>, String> {
    let Some(Lexeme::Name(keyword)) = lexemes.first() else {
        return Err("A statement begins with `if`, `elif`, `else`, `endif`, `for` or `endfor`.".into());
    };
    let mut parser = Parser { lexemes, at: 1 };
    let statement = match *keyword {
        "if" => Statement::If(parser.condition(0)?),
        "elif" => Statement::ElseIf(parser.condition(0)?),
        "else" => Statement::Else,
        "endif" => Statement::EndIf,
        "for" => parser.for_loop()?,
        "endfor" => Statement::EndFor,
        "include" | "import" | "from" | "extends" | "block" | "macro" | "call" => {
            return Err(format!(
                "`{keyword}` is not available: a template is complete in itself, so copy the text here."
            ));
        }
        other => {
            let known =
                "use `if`, `elif`, `else`, `endif`, `for` and `endfor`, and prepare values before requesting the mail";
            return Err(format!("The statement `{other}` is not available: {known}."));
        }
    };
    parser.end()?;
    Ok(statement)
}

struct Parser<'p, 'a> {
    lexemes: &'p [Lexeme<'a>],
    at: usize,
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Option<Lexeme<'a>> {
        self.lexemes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Lexeme<'a>> {
        let lexeme = self.peek()?;
        self.at += 1;
        Some(lexeme)
    }

    fn skip(&mut self, wanted: Lexeme<'_>) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(unexpected) => Err(refusal(unexpected)),
        }
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.next() {
            Some(Lexeme::Name(name)) if !RESERVED.contains(&name) || name == "loop" => Ok(name),
            Some(Lexeme::Name(name)) => Err(format!("`{name}` is a word of the language: name a variable here.")),
            Some(unexpected) => Err(refusal(unexpected)),
            None => Err("The name of a variable is missing.".into()),
        }
    }

    fn path(&mut self) -> Result<NamePath<'a>, String> {
        let mut names = vec![self.name()?];
        while self.skip(Lexeme::Sign(".")) {
            names.push(self.name()?);
        }
        Ok(NamePath { names })
    }

    fn filters(&mut self) -> Result<Vec<FilterCall<'a>>, String> {
        let mut filters = Vec::new();
        while self.skip(Lexeme::Sign("|")) {
            let Some(Lexeme::Name(name)) = self.next() else {
                return Err("The name of a filter is missing after `|`.".into());
            };
            let mut argument = None;
            if self.skip(Lexeme::Sign("(")) {
                if let Some(Lexeme::Quoted(text)) = self.peek() {
                    self.at += 1;
                    argument = Some(text);
                }
                if !self.skip(Lexeme::Sign(")")) {
                    return Err(format!("The filter `{name}` takes one quoted text at the most."));
                }
            }
            filters.push(FilterCall { name, argument });
        }
        Ok(filters)
    }

    fn operand(&mut self) -> Result<Operand<'a>, String> {
        match self.peek() {
            Some(Lexeme::Quoted(_)) => {
                self.at += 1;
                Ok(Operand::Text)
            }
            Some(Lexeme::Integer(_)) => {
                self.at += 1;
                Ok(Operand::Integer)
            }
            _ => Ok(Operand::Variable(FilteredPath { path: self.path()?, filters: self.filters()? })),
        }
    }

    fn condition(&mut self, depth: usize) -> Result<TemplateCondition<'a>, String> {
        if depth > MAX_DEPTH {
            return Err("The condition is nested too deeply: prepare a yes/no variable instead.".into());
        }
        let mut parts = vec![self.negation(depth)?];
        while self.skip(Lexeme::Name("and")) || self.skip(Lexeme::Name("or")) {
            parts.push(self.negation(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { TemplateCondition::Combined(parts) })
    }

    fn negation(&mut self, depth: usize) -> Result<TemplateCondition<'a>, String> {
        if self.skip(Lexeme::Name("not")) {
            if depth > MAX_DEPTH {
                return Err("The condition is nested too deeply: prepare a yes/no variable instead.".into());
            }
            return Ok(TemplateCondition::Combined(vec![self.negation(depth + 1)?]));
        }
        if self.skip(Lexeme::Sign("(")) {
            let inner = self.condition(depth + 1)?;
            return if self.skip(Lexeme::Sign(")")) { Ok(inner) } else { Err("A parenthesis is not closed.".into()) };
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<TemplateCondition<'a>, String> {
        let left = self.operand()?;
        match self.peek() {
            Some(Lexeme::Sign(operator)) if COMPARISONS.contains(&operator) => {
                self.at += 1;
                let right = self.operand()?;
                Ok(TemplateCondition::Compare { left, operator, right })
            }
            _ => Ok(TemplateCondition::Truth(left)),
        }
    }

    fn for_loop(&mut self) -> Result<Statement<'a>, String> {
        let target = self.name()?;
        if !self.skip(Lexeme::Name("in")) {
            return Err("A loop is written `for name in list`.".into());
        }
        Ok(Statement::For { target, list: self.path()? })
    }
}

/// Returns why a lexeme cannot stand where it was found.
fn refusal(unexpected: Lexeme<'_>) -> String {
    match unexpected {
        Lexeme::Sign("[") => {
            "A subscript such as `x[y]` cannot be checked when the template is saved: use a dotted name.".into()
        }
        Lexeme::Sign("(") => "Functions are not available: prepare the value before requesting the mail.".into(),
        Lexeme::Name("is") => {
            "Tests such as `is defined` are not available: every declared variable has a value.".into()
        }
        Lexeme::Name("if") => "Write `{% if … %}` around the placeholder instead of an inline `if`.".into(),
        Lexeme::Name(word) => format!("`{word}` is not expected here."),
        Lexeme::Quoted(_) => "A quoted text is not expected here.".into(),
        Lexeme::Integer(number) => format!("The number {number} is not expected here."),
        Lexeme::Sign(sign) => format!("`{sign}` is not expected here."),
        Lexeme::Other(sign) => format!("`{sign}` is not available: prepare the value before requesting the mail."),
    }
}
