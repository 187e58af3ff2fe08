//! Mistakes in templates and variables, as the errors of a problem document.

use onceward::web::problem::FieldError;
use onceward_mail::template::{TemplatePart, TemplateProblem, TemplateSource, VariableProblem};

/// Returns every problem of `source` with the place of its part in the request.
pub(super) fn template_errors(source: &TemplateSource, problems: &[TemplateProblem]) -> Vec<FieldError> {
    problems.iter().map(|problem| FieldError { path: place(source, problem), message: message(problem) }).collect()
}

/// Returns every problem of the variables; `pointer` is where the request contains them, such as `/variables`.
pub(crate) fn variable_errors(pointer: &str, problems: &[VariableProblem]) -> Vec<FieldError> {
    let error = |problem: &VariableProblem| FieldError {
        path: format!("{pointer}{}", json_pointer(&problem.path)),
        message: problem.message.clone(),
    };
    problems.iter().map(error).collect()
}

fn message(problem: &TemplateProblem) -> String {
    match problem.line {
        Some(line) => format!("Line {line}: {}", problem.message),
        None => problem.message.clone(),
    }
}

fn place(source: &TemplateSource, problem: &TemplateProblem) -> String {
    let part = format!("/source/{}", problem.part);
    let is_named = |name: &str| problem.placeholder.as_deref().is_some_and(|named| named == name);
    match problem.part {
        TemplatePart::Variables => match source.variables.iter().position(|variable| is_named(&variable.name)) {
            Some(index) => format!("{part}/{index}"),
            None => part,
        },
        _ => part,
    }
}

/// Converts `payments[2].amount` to `/payments/2/amount`.
fn json_pointer(path: &str) -> String {
    let segments = path.split(['.', '[', ']']).filter(|segment| !segment.is_empty());
    segments.map(|segment| format!("/{segment}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_variables_become_json_pointers() {
        for (path, pointer) in [("", ""), ("loan.id", "/loan/id"), ("payments[2].amount", "/payments/2/amount")] {
            assert_eq!(json_pointer(path), pointer);
        }
    }
}
