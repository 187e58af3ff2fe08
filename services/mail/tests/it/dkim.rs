//! Signatures, verified by another program with keys from memory.

use crate::support::{mailbox, message};
use mail_auth::{
    AuthenticatedMessage, DkimResult, MessageAuthenticator, Parameters, ResolverCache, Txt,
    common::parse::TxtRecordParser,
    common::verify::DomainKey,
    hickory_resolver::config::{ResolverConfig, ResolverOpts},
};
use onceward_mail::{
    attachment::AttachmentPolicy,
    dkim::{DkimError, DkimKey, sign},
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc, time::Instant};

const RSA: &[u8] = include_bytes!("data/rsa-2048-for-tests.pem");
/// How many generated messages are signed and verified with Ed25519.
const MESSAGES: usize = 10_000;
/// Every so many are signed with RSA too, which takes much longer.
const RSA_EVERY: usize = 20;
const DOMAIN: &str = "loans.example.com";
const AT: i64 = 1_763_460_000;

fn ed25519() -> DkimKey {
    DkimKey::from_ed25519_seed(DOMAIN, "ed", &[42; 32]).unwrap()
}

fn rsa() -> DkimKey {
    DkimKey::from_pkcs8_pem(DOMAIN, "rsa", RSA).unwrap()
}

/// The records that DNS would have.
struct Records(HashMap<Box<str>, Txt>);

impl ResolverCache<Box<str>, Txt> for Records {
    fn get<Q>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get(name).cloned()
    }

    fn remove<Q>(&self, _: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: Txt, _: Instant) {}
}

/// A verifier of another origin than the signer. It asks no network for the keys that it is given.
struct Verifier {
    authenticator: MessageAuthenticator,
    records: Records,
}

impl Verifier {
    fn new(keys: &[&DkimKey]) -> Self {
        let record = |key: &&DkimKey| {
            let parsed = DomainKey::parse(key.public_record().as_bytes()).expect("a valid record");
            (format!("{}.", key.record_name()).into_boxed_str(), Txt::DomainKey(Arc::new(parsed)))
        };
        let offline = ResolverConfig::default();
        let authenticator = MessageAuthenticator::new(offline, ResolverOpts::default()).expect("a resolver");
        Self { authenticator, records: Records(keys.iter().map(record).collect()) }
    }

    /// Returns the result of each signature, in order.
    async fn results(&self, message: &[u8]) -> Vec<DkimResult> {
        let parsed = AuthenticatedMessage::parse(message).expect("a message");
        let parameters = Parameters::from(&parsed).with_txt_cache(&self.records);
        let outputs = self.authenticator.verify_dkim(parameters).await;
        outputs.iter().map(|output| output.result().clone()).collect()
    }
}

/// Returns messages of many kinds: ours with any text, and others with folds, blanks, 8-bit and empty bodies. Every line
/// ends with CRLF, as it does on the wire. No body ends with a line of blanks: verifiers disagree whether that line is
/// empty, and our own bodies have none, because quoted-printable encodes blanks at the ends of lines.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let ours = ("\\PC{0,60}[a-zồ]", "\\PC{0,20}", "(\\PC{0,80}\n?){0,4}x", proptest::bool::ANY, proptest::bool::ANY);
    let ours = ours.prop_map(|(subject, name, text, has_html, has_file)| {
        let mut any = message();
        if let Ok(to) = onceward_mail::address::Mailbox::new(Some(&name), crate::support::address("ann@example.org")) {
            any.to = vec![to, mailbox("Bob", "bob@example.org")];
        }
        any.subject = subject;
        any.html = has_html.then(|| format!("<p>{text}</p>"));
        any.text = text;
        any.is_auto_submitted = has_html;
        any.list_unsubscribe = has_file.then(|| format!("https://example.com/u/{}", "a".repeat(200)));
        if has_file {
            let pdf = b"%PDF-1.7\nstartxref\n0\n%%EOF\n".to_vec();
            any.attachments = vec![AttachmentPolicy::default().check("Bằng.pdf", pdf).unwrap()];
        }
        any.to_bytes().unwrap()
    });
    let others = (
        "[ \t]{0,3}[a-z]{1,20}([ \t]{1,3}(\r\n[ \t]{1,2})?[!-~]{1,20}){0,4}[ \t]{0,2}",
        "(([ \tA-Za-zéồ.=]{0,40}(\r\n){1,3}){0,8}[a-zồ][ \t]{0,3}(\r\n){1,3})?",
    );
    let others = others.prop_map(|(subject, body)| {
        format!(
            "X-Unsigned: a\r\nfrom:  Joe\r\n <joe@Loans.example.com>\r\nSUBJECT:{subject}\r\nTo: a@b.example,\r\n\t c@d.example\r\n\
             Date: Fri, 11 Jul 2003 21:00:37 -0700\r\n\r\n{body}"
        )
        .into_bytes()
    });
    proptest::prop_oneof![ours, others]
}

#[tokio::test]
async fn ten_thousand_generated_messages_verify_with_an_independent_verifier() {
    let (ed25519, rsa) = (ed25519(), rsa());
    let verifier = Verifier::new(&[&ed25519, &rsa]);
    let (one, both) = ([ed25519], [self::ed25519(), rsa]);
    let mut runner = TestRunner::deterministic();
    let strategy = any_message();
    for number in 0..MESSAGES {
        let message = strategy.new_tree(&mut runner).expect("a message").current();
        let keys = if number % RSA_EVERY == 0 { &both[..] } else { &one };
        let signed = sign(&message, keys, AT).expect("a signature");
        assert!(signed.ends_with(&message), "the message itself is unchanged");
        let results = verifier.results(&signed).await;
        let passed = results.len() == keys.len() && results.iter().all(|result| *result == DkimResult::Pass);
        assert!(passed, "{results:?}\n{}", String::from_utf8_lossy(&signed));
    }
}

#[tokio::test]
async fn a_changed_message_does_not_verify() {
    let keys = [ed25519(), rsa()];
    let verifier = Verifier::new(&[&keys[0], &keys[1]]);
    let mut original = message();
    original.list_unsubscribe = Some("https://example.com/u/opaque".to_owned());
    let signed = String::from_utf8(sign(&original.to_bytes().unwrap(), &keys, AT).unwrap()).unwrap();
    assert_eq!(verifier.results(signed.as_bytes()).await, [DkimResult::Pass, DkimResult::Pass]);
    // Blanks may change on the way; nothing else that a reader sees may.
    let reflowed = signed.replace("Subject: Your payment", "Subject:  Your\r\n payment ");
    assert_eq!(verifier.results(reflowed.as_bytes()).await, [DkimResult::Pass, DkimResult::Pass]);
    let added = |header: &str| signed.replace("MIME-Version", &format!("{header}\r\nMIME-Version"));
    for changed in [
        signed.replace("Your payment", "Your debt"),
        signed.replace("thank you", "pay now"),
        signed.replace("u/opaque", "u/other"),
        signed.replace("One-Click", "Two-Click"),
        signed.replace("MIME-Version: 1.0", "MIME-Version: 1.1"),
        format!("{signed}More.\r\n"),
        added("From: Evil <evil@example.net>"),
        added("Subject: Evil"),
        added("To: evil@example.net"),
        added("Date: Fri, 11 Jul 2003 21:00:37 -0700"),
    ] {
        assert_ne!(changed, signed);
        let results = verifier.results(changed.as_bytes()).await;
        assert!(results.iter().all(|result| *result != DkimResult::Pass), "{results:?}\n{changed}");
    }
}

#[test]
fn the_same_time_makes_the_same_bytes() {
    let bytes = message().to_bytes().unwrap();
    let keys = [ed25519(), rsa()];
    assert_eq!(sign(&bytes, &keys, AT), sign(&bytes, &keys, AT));
    assert_ne!(sign(&bytes, &keys, AT), sign(&bytes, &keys, AT + 1));
}

#[test]
fn keys_are_read_from_pem_and_never_printed() {
    let rsa = rsa();
    assert!(
        rsa.public_record().starts_with("v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"),
        "{}",
        rsa.public_record()
    );
    assert_eq!(rsa.record_name(), "rsa._domainkey.loans.example.com");
    assert_eq!(format!("{rsa:?}"), "DkimKey { domain: \"loans.example.com\", selector: \"rsa\", .. }");
    let seed_only = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let ed25519 = DkimKey::from_pkcs8_pem("example.com", "brisbane", seed_only.as_bytes()).unwrap();
    assert_eq!(ed25519.public_record(), "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    let error = |domain: &str, selector: &str, pem: &[u8]| DkimKey::from_pkcs8_pem(domain, selector, pem).err();
    assert_eq!(error("example.com", "a", b"no key"), Some(DkimError::NotPkcs8));
    let garbage = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(error("example.com", "a", garbage), Some(DkimError::UnusableKey));
    assert_eq!(error("example.com; x=y", "a", RSA), Some(DkimError::InvalidName));
    assert_eq!(error("example.com", "a b", RSA), Some(DkimError::InvalidName));
    assert_eq!(error("example.com", "", RSA), Some(DkimError::InvalidName));
}
