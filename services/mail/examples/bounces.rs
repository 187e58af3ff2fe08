//! Measures the reading and the classification of returned mails on a folder of messages with known answers.
//!
//! `cargo run -p onceward-mail --example bounces -- <folder>`, where the folder has `mail/*.eml` and `expected.tsv`
//! with the columns file, recipient, status, reply code and hard. With `--mistakes`, it also prints what was judged
//! wrongly, with `--all` every recipient, and with `--rules=<file>` it uses other rules than the bundled ones. It fails
//! if the line ends of a message change what is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use onceward_mail::bounce::{BounceClassifier, ReturnedMail};

/// What is known about one recipient.
struct Expected {
    file: String,
    position: usize,
    status: String,
    reply_code: String,
    is_hard: bool,
}

#[derive(Default)]
struct Tally {
    right_hard: usize,
    wrong_hard: usize,
    missed_hard: usize,
    right_soft: usize,
    status: (usize, usize),
    reply_code: (usize, usize),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.iter().find(|argument| !argument.starts_with("--")) else {
        eprintln!("Name the folder that has mail/*.eml and expected.tsv.");
        return ExitCode::FAILURE;
    };
    let detail =
        arguments.iter().find(|argument| ["--all", "--mistakes"].contains(&argument.as_str())).map(String::as_str);
    let rules = arguments.iter().find_map(|argument| argument.strip_prefix("--rules="));
    match run(Path::new(folder), detail, rules) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("The folder cannot be read: {error}.");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, detail: Option<&str>, rules: Option<&str>) -> std::io::Result<bool> {
    let mails = read_mails(&folder.join("mail"))?;
    let expected = read_expected(&std::fs::read_to_string(folder.join("expected.tsv"))?);
    let classifier = match rules {
        None => BounceClassifier::bundled(),
        Some(file) => {
            let rules = std::fs::read_to_string(file)?;
            BounceClassifier::from_toml(&rules).map_err(std::io::Error::other)?
        }
    };
    let mut tally = Tally::default();
    let mut by_group: BTreeMap<bool, Tally> = BTreeMap::new();
    for known in &expected {
        let Some(raw) = mails.get(&known.file) else { continue };
        let mail = ReturnedMail::read(raw);
        judge(&mail, known, &classifier, &mut tally, detail);
        judge(&mail, known, &classifier, by_group.entry(is_first_half(&known.file)).or_default(), None);
    }
    println!("{} messages, {} recipients", mails.len(), expected.len());
    report("all", &tally);
    for (is_first, tally) in &by_group {
        report(if *is_first { "first half of the systems" } else { "second half of the systems" }, tally);
    }
    let different = mails.iter().filter(|(_, raw)| !is_independent_of_line_ends(raw)).map(|(name, _)| name);
    let different: Vec<&String> = different.collect();
    println!("line ends LF, CRLF and CR: {} messages differ {different:?}", different.len());
    Ok(different.is_empty())
}

/// Divides the messages by the system that wrote them, so that rules found on one half can be tested on the other.
fn is_first_half(file: &str) -> bool {
    let system = file.rsplit_once('-').map_or(file, |(system, _)| system);
    system.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte))) % 2 == 0
}

fn read_mails(folder: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut mails = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            mails.insert(name.to_owned(), std::fs::read(&path)?);
        }
    }
    Ok(mails)
}

fn read_expected(table: &str) -> Vec<Expected> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, position, status, reply_code, hard] = columns.as_slice() else { return None };
        Some(Expected {
            file: (*file).to_owned(),
            position: position.parse().ok()?,
            status: (*status).to_owned(),
            reply_code: (*reply_code).to_owned(),
            is_hard: *hard == "true",
        })
    });
    rows.collect()
}

fn judge(
    mail: &ReturnedMail,
    known: &Expected,
    classifier: &BounceClassifier,
    tally: &mut Tally,
    detail: Option<&str>,
) {
    let recipient = mail.recipients.iter().find(|recipient| recipient.position == known.position);
    let verdict = recipient.map(|recipient| classifier.classify(recipient));
    let is_hard = verdict.as_ref().is_some_and(|verdict| verdict.is_hard);
    match (is_hard, known.is_hard) {
        (true, true) => tally.right_hard += 1,
        (true, false) => tally.wrong_hard += 1,
        (false, true) => tally.missed_hard += 1,
        (false, false) => tally.right_soft += 1,
    }
    let status = recipient.and_then(|recipient| recipient.status.clone()).unwrap_or_default();
    let reply_code =
        recipient.and_then(|recipient| recipient.reply_code).map(|code| code.to_string()).unwrap_or_default();
    // The third number of 9xx is an invention of the table's author for failures without a code.
    if !known.status.is_empty() && !known.status.contains(".0.9") {
        tally.status.0 += usize::from(status == known.status);
        tally.status.1 += 1;
    }
    if !known.reply_code.is_empty() {
        tally.reply_code.0 += usize::from(reply_code == known.reply_code);
        tally.reply_code.1 += 1;
    }
    if detail == Some("--all") || (detail == Some("--mistakes") && is_hard != known.is_hard) {
        let class = verdict.map(|verdict| verdict.class).unwrap_or_default();
        let said = recipient.map(|recipient| recipient.diagnostic.as_str()).unwrap_or_default();
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect();
        let (file, position, kind) = (&known.file, known.position, mail.kind);
        let hard = if known.is_hard { "HARD" } else { "soft" };
        println!(
            "{file} {position} {kind:?} expected {hard} {} {} found {class} {status} {reply_code} {:?} | {said}",
            known.status,
            known.reply_code,
            recipient.and_then(|recipient| recipient.address.as_deref()).unwrap_or("-")
        );
    }
}

fn report(name: &str, tally: &Tally) {
    let share = |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    println!(
        "{name}: hard precision {:.3} ({} wrong), recall {:.3} ({} missed of {}), status {:.3}, reply code {:.3}",
        share(tally.right_hard, tally.right_hard + tally.wrong_hard),
        tally.wrong_hard,
        share(tally.right_hard, tally.right_hard + tally.missed_hard),
        tally.missed_hard,
        tally.right_hard + tally.missed_hard,
        share(tally.status.0, tally.status.1),
        share(tally.reply_code.0, tally.reply_code.1),
    );
}

fn is_independent_of_line_ends(raw: &[u8]) -> bool {
    let mut lf = Vec::with_capacity(raw.len());
    for (at, byte) in raw.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && raw[at - 1] == b'\r' => {}
            b'\r' => lf.push(b'\n'),
            other => lf.push(*other),
        }
    }
    let with = |end: &[u8]| lf.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(end);
    let expected = ReturnedMail::read(raw);
    [with(b"\n"), with(b"\r\n"), with(b"\r")].iter().all(|variant| ReturnedMail::read(variant) == expected)
}
