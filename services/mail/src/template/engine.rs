//! The template engine, set up so that it cannot guess: strict about missing names, escaping by part, limited in work.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value as EngineValue};

use super::format::add_filters;
use super::problem::{RenderError, TemplatePart};

/// The largest part that is rendered, in bytes.
pub(super) const MAX_RENDERED_BYTES: usize = 2 * 1024 * 1024;
/// Instructions that rendering may execute: a loop of 100 items over the largest source fits several times.
const FUEL: u64 = 50_000_000;
const RECURSION_LIMIT: usize = 50;

/// Returns an environment for one part.
///
/// Escaping depends on the part and never on a name, because templates are stored under identifiers without `.html`.
fn environment(part: TemplatePart) -> Environment<'static> {
    let mut environment = Environment::empty();
    let escape = if part == TemplatePart::Html { AutoEscape::Html } else { AutoEscape::None };
    environment.set_auto_escape_callback(move |_| escape.clone());
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_LIMIT);
    let mut syntax = SyntaxConfig::builder();
    // A statement on a line of its own leaves no empty line in a plain text mail.
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    if let Ok(syntax) = syntax.build() {
        environment.set_syntax(syntax);
    }
    add_filters(&mut environment);
    environment
}

/// Returns the names that the engine would look up, or the line and the message of its syntax error.
pub(super) fn names_used(part: TemplatePart, source: &str) -> Result<Vec<String>, (usize, String)> {
    let environment = environment(part);
    match environment.template_from_str(source) {
        Ok(template) => Ok(template.undeclared_variables(true).into_iter().collect()),
        Err(error) => Err((error.line().unwrap_or(1), error.detail().unwrap_or("it is not a template").to_owned())),
    }
}

pub(super) fn render(part: TemplatePart, source: &str, context: &EngineValue) -> Result<String, RenderError> {
    let environment = environment(part);
    let template = environment.template_from_str(source).map_err(|_| RenderError::Engine { part })?;
    let mut output = BoundedOutput { bytes: Vec::new(), exceeded: false };
    // The error is dropped on purpose: its text may contain values.
    let rendered = template.render_captured_to(context.clone(), &mut output).is_ok();
    if output.exceeded {
        return Err(RenderError::TooLarge { part, limit_bytes: MAX_RENDERED_BYTES });
    }
    let text = String::from_utf8(output.bytes).map_err(|_| RenderError::Engine { part })?;
    if rendered { Ok(text) } else { Err(RenderError::Engine { part }) }
}

/// Refuses to grow beyond [`MAX_RENDERED_BYTES`].
struct BoundedOutput {
    bytes: Vec<u8>,
    exceeded: bool,
}

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_RENDERED_BYTES {
            self.exceeded = true;
            return Err(io::Error::other("the rendered part is too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
