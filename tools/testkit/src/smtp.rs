//! A real SMTP server that only one test uses.

use crate::{PATIENCE, Scratch, eventually};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

/// The receiver, whose head explains how the recipient's local part decides what happens to a mail.
const SCRIPT: &str = include_str!("../smtp/server.py");

/// What an [`SmtpServer`] offers. By default it takes every mail, unencrypted and from everybody.
#[derive(Clone, Debug)]
pub struct SmtpServerOptions(Value);

/// A mail that an [`SmtpServer`] has received.
#[derive(Clone, Debug)]
pub struct ReceivedMail {
    /// The sender of the envelope.
    pub mail_from: String,
    /// The recipients of the envelope.
    pub rcpt_to: Vec<String>,
    /// The parameters of MAIL.
    pub mail_options: Vec<String>,
    /// Whether it came over TLS.
    pub is_encrypted: bool,
    /// The account of the sender.
    pub user: Option<String>,
    /// The sender's port, by which connections can be told apart.
    pub peer_port: u64,
    /// The message, without the final dot and with single leading dots.
    pub content: Vec<u8>,
}

/// An SMTP server on a loopback port; dropping it ends the process. It also ends with the test's process.
pub struct SmtpServer {
    port: u16,
    child: Child,
    scratch: Scratch,
}

impl Default for SmtpServerOptions {
    fn default() -> Self {
        Self(json!({}))
    }
}

impl SmtpServerOptions {
    /// Demands STARTTLS with this certificate and key, both in PEM.
    pub fn with_starttls(self, certificate_pem: &str, key_pem: &str) -> Self {
        self.with("certificate", certificate_pem.into()).with("key", key_pem.into())
    }

    /// Speaks TLS from the first byte.
    pub fn with_implicit_tls(self, certificate_pem: &str, key_pem: &str) -> Self {
        self.with_starttls(certificate_pem, key_pem).with("implicit_tls", true.into())
    }

    /// Demands this account.
    pub fn with_account(self, user: &str, password: &str) -> Self {
        self.with("user", user.into()).with("password", password.into())
    }

    /// Does not offer this mechanism of AUTH.
    pub fn without_auth(self, mechanism: &str) -> Self {
        self.with("without_auth", json!([mechanism]))
    }

    /// Does not offer SMTPUTF8.
    pub fn without_smtputf8(self) -> Self {
        self.with("smtputf8", false.into())
    }

    /// Does not offer PIPELINING.
    pub fn without_pipelining(self) -> Self {
        self.with("pipelining", false.into())
    }

    /// Declares a size limit.
    pub fn with_max_bytes(self, max: u64) -> Self {
        self.with("max_bytes", max.into())
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.0[name] = value;
        self
    }
}

impl SmtpServer {
    /// Starts a server that takes every mail.
    pub fn start() -> Self {
        Self::start_with(SmtpServerOptions::default())
    }

    /// Starts a server with these options, and waits until it listens.
    pub fn start_with(options: SmtpServerOptions) -> Self {
        let scratch = Scratch::new();
        let script = scratch.join("server.py");
        fs::write(&script, SCRIPT).expect("the temp folder is writable");
        let mut child = Command::new(python())
            .arg(&script)
            .arg(on_disk(options, &scratch).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tests need Python; `cargo xtask install` installs it");
        let stdout = child.stdout.take().expect("the output is piped");
        // The line is read on a thread, because reading has no timeout of its own.
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(PATIENCE).expect("the SMTP server starts");
        let port = line.trim().parse().expect("the SMTP server prints its port; its errors are above");
        Self { port, child, scratch }
    }

    /// Returns its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the mails received so far, in their order.
    pub fn received(&self) -> Vec<ReceivedMail> {
        let entries = fs::read_dir(mails(&self.scratch)).expect("our own folder");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("our own folder").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().map(|path| read_mail(path)).collect()
    }

    /// Waits until `count` mails have arrived, and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<ReceivedMail> {
        let poll = || async { Some(self.received()).filter(|mails| mails.len() >= count) };
        eventually(&format!("{count} mails arrive"), poll).await
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mails(scratch: &Scratch) -> PathBuf {
    scratch.join("mails")
}

/// Returns the options as the script reads them: with a folder, and with certificates in files.
fn on_disk(SmtpServerOptions(mut options): SmtpServerOptions, scratch: &Scratch) -> Value {
    fs::create_dir_all(mails(scratch)).expect("the temp folder is writable");
    options["folder"] = mails(scratch).display().to_string().into();
    for name in ["certificate", "key"] {
        if let Some(pem) = options[name].as_str() {
            let path = scratch.join(&format!("{name}.pem"));
            fs::write(&path, pem).expect("the temp folder is writable");
            options[name] = path.display().to_string().into();
        } else if let Some(fields) = options.as_object_mut() {
            fields.remove(name);
        }
    }
    options
}

fn read_mail(path: &Path) -> ReceivedMail {
    let about: Value = serde_json::from_slice(&fs::read(path).expect("a stored envelope")).expect("JSON");
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    ReceivedMail {
        mail_from: about["mail_from"].as_str().unwrap_or_default().to_owned(),
        rcpt_to: texts(&about["rcpt_to"]),
        mail_options: texts(&about["mail_options"]),
        is_encrypted: about["is_encrypted"].as_bool().unwrap_or_default(),
        user: about["user"].as_str().map(str::to_owned),
        peer_port: about["peer_port"].as_u64().unwrap_or_default(),
        content: fs::read(path.with_extension("eml")).expect("a stored mail"),
    }
}

/// Returns the Python that `cargo xtask install` has prepared in the build folder, which the test's program is in.
fn python() -> PathBuf {
    let program = std::env::current_exe().expect("the path of the test's program");
    let in_folder = |folder: &Path| folder.join("services/python/bin/python");
    let found = program.ancestors().map(in_folder).find(|python| python.is_file());
    found.expect("tests need aiosmtpd in target/services/python; `cargo xtask install` installs it")
}
