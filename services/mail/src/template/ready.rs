//! Templates that come with the product, as a beginning for tenants: lending, admissions, and one for marketing.

use serde::Deserialize;

use super::TemplateSource;
use super::declaration::VariableDeclaration;

/// A template that a tenant may copy.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyTemplate {
    /// The area and the name, for example `lending/payment-received`.
    pub key: &'static str,
    /// The name of its class; see [`crate::class::MailClass`].
    pub class: String,
    /// What to check and save.
    pub source: TemplateSource,
}

/// The form of the files in `data/templates`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateFile {
    class: String,
    subject: String,
    html: Option<String>,
    text: Option<String>,
    #[serde(default)]
    variables: Vec<VariableDeclaration>,
}

macro_rules! files {
    ($($key:literal),+ $(,)?) => {
        &[$(($key, include_str!(concat!("../../data/templates/", $key, ".toml")))),+]
    };
}

const FILES: &[(&str, &str)] = files![
    "lending/welcome",
    "lending/payment-due-reminder",
    "lending/payment-received",
    "lending/payment-failed",
    "lending/statement-ready",
    "lending/payoff-quote",
    "lending/hardship-options",
    "lending/escrow-analysis",
    "admissions/draft-expiring",
    "admissions/application-received",
    "admissions/fee-receipt",
    "admissions/documents-missing",
    "admissions/interview-invitation",
    "admissions/decision-available",
    "marketing/open-day",
];

/// Returns the templates that come with the product. A test checks that every file is readable and has no problem.
pub fn ready_templates() -> Vec<ReadyTemplate> {
    FILES.iter().filter_map(|(key, text)| read(key, text)).collect()
}

fn read(key: &'static str, text: &str) -> Option<ReadyTemplate> {
    let file: TemplateFile = toml::from_str(text).ok()?;
    let source = TemplateSource { subject: file.subject, html: file.html, text: file.text, variables: file.variables };
    Some(ReadyTemplate { key, class: file.class, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_readable() {
        for (key, text) in FILES {
            let file: Result<TemplateFile, _> = toml::from_str(text);
            assert!(file.is_ok(), "{key}: {}", file.err().unwrap());
        }
        assert_eq!(ready_templates().len(), FILES.len());
    }
}
