//! Finds every name in a part of a template and checks it against the declarations.
//!
//! The engine resolves names only while it renders, and only on the branches that are taken. This walk covers every
//! branch when the template is saved. It relies on three properties of the language (`parse.rs`): a value has a dotted
//! name, a loop has one variable whose fields are declared, and nothing else can introduce a name.

use std::collections::{BTreeMap, BTreeSet};

use super::declaration::{VariableDeclaration, VariableKind};
use super::format::FILTERS;
use super::lexer::{Segment, SegmentContent, split};
use super::parse::{self, FilterCall, FilteredPath, NamePath, Operand, Statement, TemplateCondition};
use super::problem::{TemplatePart, TemplateProblem, nearest};

/// What an expression is, after its filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Text,
    Integer,
    Money,
    Date,
    Boolean,
    Url,
    List,
    /// Percent-encoded text, which may stand inside an address.
    Encoded,
}

impl From<&VariableKind> for ValueType {
    fn from(kind: &VariableKind) -> Self {
        match kind {
            VariableKind::Text => Self::Text,
            VariableKind::Integer => Self::Integer,
            VariableKind::Money => Self::Money,
            VariableKind::Date => Self::Date,
            VariableKind::Boolean => Self::Boolean,
            VariableKind::Url => Self::Url,
            VariableKind::List { .. } => Self::List,
        }
    }
}

/// A piece of a part as the checks of HTML see it.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// A placeholder: its name and what it prints; an unknown one has no type.
    Placeholder(String, Option<ValueType>),
    Statement,
}

/// What was found in a part.
#[derive(Debug, Default)]
pub(super) struct PartAnalysis<'a> {
    pub problems: Vec<TemplateProblem>,
    /// The declared variables that the part uses.
    pub used: BTreeSet<String>,
    /// The pieces with their lines.
    pub pieces: Vec<(Piece<'a>, usize)>,
}

pub(super) fn analyse<'a>(
    part: TemplatePart,
    source: &'a str,
    declarations: &[VariableDeclaration],
) -> PartAnalysis<'a> {
    let kinds = declarations.iter().map(|declaration| (declaration.name.as_str(), &declaration.kind)).collect();
    let mut walk = Walk { part, kinds, open: Vec::new(), found: PartAnalysis::default(), line: 1 };
    for segment in split(source) {
        walk.segment(segment);
    }
    if let Some(open) = walk.open.pop() {
        walk.line = open.line;
        walk.refuse(format!("The `{}` is not closed: write `{{% end{} %}}`.", open.keyword(), open.keyword()), None);
    }
    walk.found
}

/// A statement that is not closed yet.
struct OpenBlock<'a> {
    line: usize,
    has_else: bool,
    loop_variable: Option<LoopVariable<'a>>,
}

struct LoopVariable<'a> {
    name: &'a str,
    /// The fields of the list's objects; none if the list is not declared.
    fields: Option<BTreeMap<String, VariableKind>>,
    is_used: bool,
}

impl OpenBlock<'_> {
    fn keyword(&self) -> &'static str {
        if self.loop_variable.is_some() { "for" } else { "if" }
    }
}

struct Walk<'a, 'd> {
    part: TemplatePart,
    kinds: BTreeMap<&'d str, &'d VariableKind>,
    open: Vec<OpenBlock<'a>>,
    found: PartAnalysis<'a>,
    line: usize,
}

const LOOP_FIELDS: &[(&str, ValueType)] = &[
    ("loop.index", ValueType::Integer),
    ("loop.length", ValueType::Integer),
    ("loop.first", ValueType::Boolean),
    ("loop.last", ValueType::Boolean),
];
const MAX_OPEN_BLOCKS: usize = 16;

impl<'a> Walk<'a, '_> {
    fn refuse(&mut self, message: String, placeholder: Option<&str>) {
        let mut problem = TemplateProblem::new(self.part, self.line, message);
        problem.placeholder = placeholder.map(str::to_owned);
        self.found.problems.push(problem);
    }

    fn segment(&mut self, segment: Segment<'a>) {
        self.line = segment.line;
        let piece = match segment.content {
            SegmentContent::Text(text) => Piece::Text(text),
            SegmentContent::Broken(message) => {
                self.refuse(message, None);
                Piece::Placeholder(String::new(), None)
            }
            SegmentContent::Output(lexemes) => match parse::output(&lexemes) {
                Ok(value) => self.output(&value),
                Err(message) => {
                    self.refuse(message, None);
                    Piece::Placeholder(String::new(), None)
                }
            },
            SegmentContent::Statement(lexemes) => {
                match parse::statement(&lexemes) {
                    Ok(statement) => self.statement(statement),
                    Err(message) => self.refuse(message, None),
                }
                Piece::Statement
            }
        };
        self.found.pieces.push((piece, segment.line));
    }

    fn output(&mut self, value: &FilteredPath<'a>) -> Piece<'a> {
        let name = value.path.dotted();
        let value_type = self.filtered(value);
        match value_type {
            Some(ValueType::Boolean) => {
                self.refuse(format!("`{name}` is true or false: use it in `{{% if {name} %}}`."), Some(&name));
            }
            Some(ValueType::List) => {
                self.refuse(format!("`{name}` is a list: print its items in a `for` loop."), Some(&name));
            }
            _ => {}
        }
        Piece::Placeholder(name, value_type)
    }

    fn statement(&mut self, statement: Statement<'a>) {
        match statement {
            Statement::If(condition) => {
                self.condition(&condition);
                self.push(None);
            }
            Statement::For { target, list } => self.begin_loop(target, &list),
            Statement::ElseIf(condition) => {
                self.condition(&condition);
                match self.open.last() {
                    Some(open) if open.keyword() == "if" && !open.has_else => {}
                    _ => self.refuse("`elif` belongs after an `if` and before its `else`.".into(), None),
                }
            }
            Statement::Else => match self.open.last_mut() {
                Some(open) if !open.has_else => open.has_else = true,
                _ => self.refuse("`else` belongs once into an `if` or a `for`.".into(), None),
            },
            Statement::EndIf => self.close("if"),
            Statement::EndFor => self.close("for"),
        }
    }

    fn push(&mut self, loop_variable: Option<LoopVariable<'a>>) {
        if self.open.len() == MAX_OPEN_BLOCKS {
            self.refuse(format!("More than {MAX_OPEN_BLOCKS} statements are open: simplify the template."), None);
        }
        self.open.push(OpenBlock { line: self.line, has_else: false, loop_variable });
    }

    fn close(&mut self, keyword: &str) {
        match self.open.pop() {
            Some(OpenBlock { loop_variable: Some(LoopVariable { name, is_used: false, .. }), line, .. })
                if keyword == "for" =>
            {
                self.line = line;
                self.refuse(format!("The loop never uses its variable `{name}`: print its fields."), Some(name));
            }
            Some(open) if open.keyword() == keyword => {}
            Some(open) => {
                let expected = open.keyword();
                self.refuse(format!("`end{keyword}` closes a `{expected}`: write `end{expected}` first."), None);
            }
            None => self.refuse(format!("`end{keyword}` closes nothing: remove it."), None),
        }
    }

    fn begin_loop(&mut self, target: &'a str, list: &NamePath<'a>) {
        let name = list.dotted();
        let fields = match self.kinds.get(name.as_str()) {
            Some(VariableKind::List { fields }) => {
                self.found.used.insert(name);
                Some(fields.clone())
            }
            _ => {
                if self.path(list).is_some() {
                    self.refuse(format!("`{name}` is not a list: a loop needs a list."), Some(&name));
                }
                None
            }
        };
        let shadows = |declared: &&str| declared.split('.').next() == Some(target);
        if target == "loop" || self.kinds.keys().any(shadows) {
            self.refuse(
                format!("`{target}` is already a variable: name the loop's variable differently."),
                Some(target),
            );
        }
        if self.open.iter().any(|open| open.loop_variable.is_some()) {
            self.refuse("A loop inside a loop is not available: prepare one list.".into(), None);
        }
        self.push(Some(LoopVariable { name: target, fields, is_used: false }));
    }

    fn condition(&mut self, condition: &TemplateCondition<'a>) {
        match condition {
            TemplateCondition::Combined(parts) => parts.iter().for_each(|part| self.condition(part)),
            TemplateCondition::Truth(operand) => match (operand, self.operand(operand)) {
                (Operand::Text | Operand::Integer, _) => {
                    self.refuse("A condition must depend on a variable.".into(), None);
                }
                (_, Some(ValueType::Money | ValueType::Date | ValueType::Url)) => {
                    self.refuse("The variable always has a value here: use a yes/no variable.".into(), None);
                }
                _ => {}
            },
            TemplateCondition::Compare { left, operator, right } => {
                let types = (self.operand(left), self.operand(right));
                let has_variable = matches!(left, Operand::Variable(_)) || matches!(right, Operand::Variable(_));
                let comparable = match types {
                    (Some(left), Some(right)) => match *operator {
                        "==" | "!=" => left == right && matches!(left, ValueType::Text | ValueType::Integer),
                        _ => left == right && left == ValueType::Integer,
                    },
                    // The unknown name is reported already.
                    _ => true,
                };
                if !has_variable || !comparable {
                    let message = "Compare a text with a text (`==`, `!=`) or a whole number with a whole number.";
                    self.refuse(message.into(), None);
                }
            }
        }
    }

    fn operand(&mut self, operand: &Operand<'a>) -> Option<ValueType> {
        match operand {
            Operand::Variable(value) => self.filtered(value),
            Operand::Text => Some(ValueType::Text),
            Operand::Integer => Some(ValueType::Integer),
        }
    }

    fn filtered(&mut self, value: &FilteredPath<'a>) -> Option<ValueType> {
        let mut value_type = self.path(&value.path);
        for filter in &value.filters {
            value_type = self.filter(filter, value_type);
        }
        value_type
    }

    fn filter(&mut self, filter: &FilterCall<'a>, input: Option<ValueType>) -> Option<ValueType> {
        let name = filter.name;
        let Some(rule) = FILTERS.iter().find(|rule| rule.name == name) else {
            let message = match name {
                "default" | "d" => {
                    "The filter `default` would hide misspelt names: declare a default for the variable."
                }
                "safe" | "escape" | "e" => "The filter is not available: values are escaped as their part requires.",
                _ => "There is no such filter.",
            };
            let problem = TemplateProblem::new(self.part, self.line, message).with_placeholder(name);
            self.found.problems.push(problem.suggesting(name, FILTERS.iter().map(|rule| rule.name)));
            return None;
        };
        if let Some(argument) = filter.argument
            && !rule.styles.contains(&argument)
        {
            let styles = if rule.styles.is_empty() { "none".to_owned() } else { rule.styles.join(", ") };
            self.refuse(format!("The filter `{name}` does not know this argument. It knows: {styles}."), Some(name));
        }
        let output = match (name, input?) {
            ("upper" | "lower" | "title" | "trim", ValueType::Text) => ValueType::Text,
            ("length", ValueType::List) => ValueType::Integer,
            ("urlencode", ValueType::Text | ValueType::Integer | ValueType::Url) => ValueType::Encoded,
            ("money", ValueType::Money) | ("date", ValueType::Date) => ValueType::Text,
            _ => {
                self.refuse(format!("The filter `{name}` cannot be applied to a value of this kind."), Some(name));
                return None;
            }
        };
        Some(output)
    }

    /// Looks a name up and reports it if it is not declared.
    fn path(&mut self, path: &NamePath<'a>) -> Option<ValueType> {
        let name = path.dotted();
        let open_loop = self.open.iter_mut().rev().find_map(|open| {
            let has_else = open.has_else;
            open.loop_variable.as_mut().filter(|_| !has_else)
        });
        let mut known: Vec<String> = self.kinds.keys().map(|name| (*name).to_owned()).collect();
        if let Some(LoopVariable { name: variable, fields, is_used }) = open_loop {
            if let Some((_, value_type)) = LOOP_FIELDS.iter().find(|(field, _)| *field == name) {
                return Some(*value_type);
            }
            *is_used |= path.names[0] == *variable;
            match (fields, path.names.as_slice()) {
                // The list itself is not declared, which is reported already.
                (None, [first, ..]) if first == variable => return None,
                (Some(fields), [first, field]) if first == variable && fields.contains_key(*field) => {
                    return fields.get(*field).map(ValueType::from);
                }
                (Some(fields), _) => {
                    known.extend(fields.keys().map(|field| format!("{variable}.{field}")));
                    known.extend(LOOP_FIELDS.iter().map(|(field, _)| (*field).to_owned()));
                }
                _ => {}
            }
        }
        if let Some((declared, kind)) = self.kinds.get_key_value(name.as_str()) {
            self.found.used.insert((*declared).to_owned());
            return Some(ValueType::from(*kind));
        }
        self.unknown(&name, &known);
        None
    }

    fn unknown(&mut self, name: &str, known: &[String]) {
        let prefix = format!("{name}.");
        let problem = if known.iter().any(|declared| declared.starts_with(&prefix)) {
            let inside = known.iter().filter(|declared| declared.starts_with(&prefix));
            let choices = inside.map(|declared| format!("`{declared}`")).collect::<Vec<_>>().join(", ");
            let message = format!("`{name}` is a group of variables: name one of {choices}.");
            let mut problem = TemplateProblem::new(self.part, self.line, message);
            problem.nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
            problem
        } else {
            let message = format!("The placeholder `{name}` is not a declared variable: correct or declare it.");
            TemplateProblem::new(self.part, self.line, message).suggesting(name, known.iter().map(String::as_str))
        };
        self.found.problems.push(problem.with_placeholder(name));
    }
}
