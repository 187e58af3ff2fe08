//! Renders objectives as a Prometheus rules file.

use onceward::slo::{Alert, Slo};
use std::fmt::Write;

/// Returns the rules file for `slos`, each with its owner.
pub fn render_rules(slos: &[(&'static str, Slo)]) -> String {
    let mut file = String::from("groups:\n");
    for (owner, slo) in slos {
        write_group(&mut file, owner, slo).expect("a string can be written to");
    }
    file
}

fn write_group(file: &mut String, owner: &str, slo: &Slo) -> std::fmt::Result {
    writeln!(file, "  # {}", slo.objective)?;
    writeln!(file, "  - name: {}", quoted(&format!("{owner}-{}", slo.name)))?;
    writeln!(file, "    rules:")?;
    for recording in &slo.recordings {
        writeln!(file, "      - record: {}", quoted(recording.record))?;
        writeln!(file, "        expr: {}", quoted(&recording.expr))?;
    }
    slo.alerts.iter().try_for_each(|alert| write_alert(file, owner, slo, alert))
}

fn write_alert(file: &mut String, owner: &str, slo: &Slo, alert: &Alert) -> std::fmt::Result {
    let severity = serde_json::to_string(&alert.severity).map_err(|_| std::fmt::Error)?;
    writeln!(file, "      - alert: {}", quoted(alert.alert))?;
    writeln!(file, "        expr: {}", quoted(&alert.expr))?;
    writeln!(file, "        for: {}s", alert.for_s)?;
    writeln!(file, "        labels:")?;
    writeln!(file, "          severity: {severity}")?;
    writeln!(file, "          service: {}", quoted(owner))?;
    writeln!(file, "          slo: {}", quoted(slo.name))?;
    writeln!(file, "        annotations:")?;
    writeln!(file, "          summary: {}", quoted(alert.summary))?;
    writeln!(file, "          runbook: {}", quoted(alert.runbook))
}

/// Returns the text quoted for YAML; a JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
