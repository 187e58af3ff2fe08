//! Every class of advisory locks is listed in one place and is used only by its one owner.

use super::Finding;
use super::source::{SourceTree, TextFile};

const REGISTRY: &str = "platform/db/src/lock_class.rs";
const OWNER: &str = "/// Owner: `";

/// An entry of the registry.
struct Class {
    name: String,
    number: String,
    owner: String,
    line: usize,
}

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let registry = match source.required(REGISTRY, "it lists the classes of advisory locks") {
        Ok(file) => file,
        Err(finding) => return vec![finding],
    };
    let (classes, mut findings) = read(registry);
    let mut used = vec![false; classes.len()];
    let files = source.files.iter().filter(|file| file.path.ends_with(".sql") || file.path.ends_with(".rs"));
    for file in files.filter(|file| file.path != REGISTRY && !file.path.starts_with("tools/xtask/")) {
        for (class, used) in classes.iter().zip(&mut used) {
            *used |= file.text.contains(&format!("lock_class::{}", class.name));
        }
        for (line, number) in uses(file) {
            match classes.iter().position(|class| class.number == number) {
                None => {
                    let what = format!("`{number}` is not a class of advisory locks in {REGISTRY}");
                    findings.push(Finding::new(&file.path, line, what));
                }
                Some(known) if file.is_test() || file.path.starts_with(&format!("{}/", classes[known].owner)) => {
                    used[known] = true;
                }
                Some(known) => {
                    let what = format!(
                        "class {number} belongs to {}; take one of your own, or name it by its constant",
                        classes[known].owner
                    );
                    findings.push(Finding::new(&file.path, line, what));
                }
            }
        }
    }
    let idle = classes.iter().zip(used).filter(|(_, used)| !used);
    findings.extend(idle.map(|(class, _)| Finding::new(REGISTRY, class.line, format!("nothing uses {}", class.name))));
    findings
}

/// Returns the classes, and the findings about the list.
fn read(registry: &TextFile) -> (Vec<Class>, Vec<Finding>) {
    let (mut classes, mut findings): (Vec<Class>, Vec<Finding>) = Default::default();
    let mut owner = None;
    for (line, text) in registry.lines() {
        if let Some(rest) = text.strip_prefix(OWNER) {
            owner = rest.split('`').next().map(str::to_owned);
        }
        let Some((name, value)) = text.strip_prefix("pub const ").and_then(|rest| rest.split_once(": i32 = ")) else {
            continue;
        };
        let number = value.trim_end_matches(';').replace('_', "");
        let Some(owner) = owner.take() else {
            findings.push(Finding::new(REGISTRY, line, format!("say above {name} who owns it: {OWNER}platform/…`.")));
            continue;
        };
        if classes.iter().any(|class| class.number == number) {
            findings.push(Finding::new(REGISTRY, line, format!("{number} is listed twice")));
        }
        classes.push(Class { name: name.to_owned(), number, owner, line });
    }
    (classes, findings)
}

/// Returns the lines that acquire or query a lock by class, with the class as it is written there. Parameters are
/// skipped, because their value comes from Rust.
fn uses(file: &TextFile) -> Vec<(usize, String)> {
    let text = without_comments(&file.text);
    let line_at = |at: usize| text[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for (at, word) in text.match_indices("advisory_") {
        found.extend(first_of_two(&text[at + word.len()..]).map(|class| (line_at(at), class)));
    }
    for (at, word) in text.match_indices("classid") {
        found.extend(compared_with(&text[at + word.len()..]).into_iter().map(|class| (line_at(at), class)));
    }
    found.sort_unstable();
    found
}

/// Returns the text with comment lines emptied, so that line numbers stay the same.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| if is_comment(line) { "\n".to_owned() } else { format!("{line}\n") }).collect()
}

/// Returns the classes that a `classid` is compared with: one, or those of a list.
fn compared_with(rest: &str) -> Vec<String> {
    let rest = rest.trim_start_matches(is_space);
    let classes: Vec<&str> = if let Some(class) = rest.strip_prefix('=') {
        let class = class.trim_start_matches(is_space);
        vec![class.split(|letter: char| letter.is_whitespace() || "\"';),".contains(letter)).next().unwrap_or_default()]
    } else if let Some(list) = rest.get(..2).filter(|word| word.eq_ignore_ascii_case("in")).map(|_| &rest[2..]) {
        let list = list.trim_start_matches(is_space).strip_prefix('(').and_then(|list| list.split_once(')'));
        list.map(|(classes, _)| classes.split(',').collect()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let classes = classes.iter().map(|class| class.trim_matches(is_space));
    classes.filter(|class| !class.is_empty() && !is_parameter(class)).map(str::to_owned).collect()
}

/// Returns whether the character separates words. A line of a Rust string may end in a backslash.
fn is_space(letter: char) -> bool {
    letter.is_whitespace() || letter == '\\'
}

/// Returns the first argument of a lock function that is called with two.
fn first_of_two(call: &str) -> Option<String> {
    let (function, arguments) = call.split_once('(')?;
    if !function.contains("lock") || function.contains(|letter: char| !letter.is_ascii_lowercase() && letter != '_') {
        return None;
    }
    let mut depth = 0;
    for (at, letter) in arguments.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return None,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                let class = arguments[..at].trim_matches(is_space);
                return (!is_parameter(class)).then(|| class.to_owned());
            }
            _ => {}
        }
    }
    None
}

fn is_parameter(class: &str) -> bool {
    class.starts_with('$') || class.starts_with('{')
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("--") || line.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "/// Owner: `platform/a`. Lanes.\npub const LANE: i32 = 19_012;\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let user = ("platform/a/migrations/0.sql", "SELECT pg_advisory_xact_lock(19012, 1);");
        let all = check(&SourceTree::of(&[(REGISTRY, LIST), user, (path, text)]));
        all.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_class_that_is_not_listed_is_found() {
        for lock in
            ["pg_advisory_lock(7, 1)", "x AND pg_try_advisory_xact_lock_shared(hashtext('a'), f(1, 2))", "classid = 7"]
        {
            let found = found("platform/a/src/store.rs", &format!("const Q: &str = \"SELECT {lock}\";"));
            assert!(found.len() == 1 && found[0].contains("is not a class"), "{lock}: {found:?}");
        }
    }

    #[test]
    fn a_class_is_found_however_its_statement_is_written() {
        for lock in [
            "pg_advisory_lock(\n    7,\n    1)",
            "pg_advisory_lock( \\\n    7, 1)",
            "classid=7",
            "l.classid\n  = 7",
            "classid IN (7)",
            "classid in ($1, 7)",
        ] {
            let found = found("platform/a/src/store.rs", &format!("const Q: &str = \"SELECT {lock}\";"));
            assert!(found.len() == 1 && found[0].contains("`7` is not a class"), "{lock}: {found:?}");
        }
        for lock in ["classid = $1", "classid IN ($1, $2)", "classid = {class}", "classid IN (19012)", "classid"] {
            assert_eq!(found("platform/a/src/store.rs", &format!("\"SELECT {lock}\"")), [""; 0], "{lock}");
        }
        let all =
            check(&SourceTree::of(&[(REGISTRY, LIST), ("platform/a/src/a.rs", "//!\n\npg_advisory_lock(\n7, 1)")]));
        assert_eq!(all[0].line, 3);
    }

    #[test]
    fn a_class_has_one_owner_and_others_name_its_constant() {
        let lock = "SELECT pg_advisory_xact_lock(19012, 1);";
        assert!(found("platform/b/migrations/0.sql", lock)[0].contains("belongs to platform/a"));
        assert_eq!(found("platform/b/tests/it/locks.rs", lock), [""; 0]);
        assert_eq!(found("platform/b/src/store.rs", "SELECT pg_advisory_xact_lock($1, 1)"), [""; 0]);
    }

    #[test]
    fn locks_without_a_class_and_comments_are_ignored() {
        for line in [
            "SELECT pg_advisory_lock(hashtextextended('a', 0));",
            "-- pg_advisory_lock(7, 1)",
            "readiness.advisory(\"a\", 7)",
        ] {
            assert_eq!(found("platform/b/migrations/0.sql", line), [""; 0], "{line}");
        }
    }

    #[test]
    fn the_list_itself_is_checked() {
        let list =
            format!("{LIST}pub const NOBODYS: i32 = 1;\n/// Owner: `platform/a`.\npub const TWICE: i32 = 19_012;\n");
        let all = check(&SourceTree::of(&[(REGISTRY, &list)]));
        let what: Vec<&str> = all.iter().map(|finding| finding.what.as_str()).collect();
        assert!(what.iter().any(|what| what.contains("say above NOBODYS")), "{what:?}");
        assert!(what.contains(&"19012 is listed twice") && what.contains(&"nothing uses LANE"), "{what:?}");
    }
}
