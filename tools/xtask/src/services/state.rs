//! The services' status as a table for people and as JSON for programs.

use super::Status;

/// Renders one line per service.
pub(super) fn to_text(all: &[Status]) -> String {
    let line = |status: &Status| match &status.running {
        Some(running) => {
            format!("{:<12} running   pid {:<8} {}={}\n", status.name, running.pid, status.variable, running.url)
        }
        None => format!("{:<12} stopped\n", status.name),
    };
    all.iter().map(line).collect()
}

/// Renders an array of objects, each with name, running, pid, url and variable.
pub(super) fn to_json(all: &[Status]) -> String {
    let objects: Vec<String> = all.iter().map(object).collect();
    format!("[\n{}\n]\n", objects.join(",\n"))
}

fn object(status: &Status) -> String {
    let (pid, url) = match &status.running {
        Some(running) => (running.pid.to_string(), string(&running.url)),
        None => ("null".to_owned(), "null".to_owned()),
    };
    format!(
        "  {{\"name\": {}, \"running\": {}, \"pid\": {pid}, \"url\": {url}, \"variable\": {}}}",
        string(status.name),
        status.running.is_some(),
        string(status.variable),
    )
}

fn string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if u32::from(control) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::Running;

    #[test]
    fn a_running_and_a_stopped_service_are_valid_json() {
        let running = Some(Running { pid: 7, url: "postgres://u@%2Ft\"/db".to_owned() });
        let all =
            [Status { name: "a", variable: "A_URL", running }, Status { name: "b", variable: "B_URL", running: None }];
        let expected = "[\n  {\"name\": \"a\", \"running\": true, \"pid\": 7, \"url\": \"postgres://u@%2Ft\\\"/db\", \"variable\": \"A_URL\"},\n  \
                        {\"name\": \"b\", \"running\": false, \"pid\": null, \"url\": null, \"variable\": \"B_URL\"}\n]\n";
        assert_eq!(to_json(&all), expected);
    }
}
