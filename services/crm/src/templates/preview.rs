//! Renders a version with given or sample variables. Nothing is stored or sent.

use super::{StoredTemplate, variable_errors};
use crate::CrmError;
use maud::{DOCTYPE, html};
use onceward_mail::template::{RenderedMail, TemplateWarning};
use serde_json::{Map, Value};

/// Renders the mail, with sample variables unless some are given.
pub(super) fn render(
    template: &StoredTemplate,
    variables: Option<&Map<String, Value>>,
) -> Result<RenderedMail, CrmError> {
    let samples = || template.checked.sample_variables();
    let variables = variables.cloned().unwrap_or_else(samples);
    let resolved = template.checked.resolve(&variables);
    let resolved = resolved.map_err(|problems| CrmError::TemplateInvalid(variable_errors("/variables", &problems)))?;
    template.checked.render(&resolved).map_err(|error| CrmError::invalid("/variables", error))
}

/// Returns the page of a preview. The mail is in a frame without scripts, forms, links or an origin of its own.
pub(super) fn page(template: &StoredTemplate, mail: &RenderedMail) -> String {
    let heading = format!("{}, version {}", template.template_id, template.version);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { "Preview of " (heading) }
                link rel="icon" href="data:,";
                style { (STYLE) }
            }
            body {
                main {
                    h1 { (heading) }
                    p.kind { (template.class.as_str()) " mail, rendered with sample variables" }
                    @if !mail.warnings.is_empty() { (warnings(&mail.warnings)) }
                    h2 { "Subject" }
                    p.subject { (mail.subject) }
                    @if let Some(html) = &mail.html {
                        h2 { "HTML" }
                        iframe sandbox="" title="The HTML part" srcdoc=(html) {}
                    }
                    h2 { "Text" }
                    pre { (mail.text) }
                }
            }
        }
    };
    page.into_string()
}

fn warnings(warnings: &[TemplateWarning]) -> maud::Markup {
    html! {
        ul.warnings {
            @for warning in warnings { li { (warning.part.to_string()) ": " (warning.message) } }
        }
    }
}

const STYLE: &str = "
    body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
    main { max-width: 720px; margin: 0 auto; padding: 16px; }
    h1 { font-size: 22px; margin: 0; }
    h2 { font-size: 15px; margin: 24px 0 8px; }
    .kind { margin: 0; opacity: 0.75; }
    .subject, pre, iframe { box-sizing: border-box; width: 100%; border: 1px solid #8886; border-radius: 6px; margin: 0; padding: 12px; }
    iframe { height: 560px; padding: 0; background: #fff; }
    pre { white-space: pre-wrap; overflow-wrap: anywhere; }
    .warnings { border-left: 4px solid #b26a00; padding: 8px 8px 8px 28px; }
";
