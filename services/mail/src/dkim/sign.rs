//! Writes the signature headers of a message.

use super::{
    DkimError, DkimKey,
    canonical::{HeaderField, relaxed_body, relaxed_header, split},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// Signed once more than they occur, so that none can be added.
const OVERSIGNED: [&str; 4] = ["From", "Subject", "Date", "To"];
/// Signed if they occur.
const SIGNED: [&str; 11] = [
    "Cc",
    "Reply-To",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Auto-Submitted",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];
const MAX_COLUMNS: usize = 76;

/// Returns the message with one DKIM-Signature for each key in front of it.
///
/// `at_unix` is the time of the signature, `t=`; with the same time, the same bytes result. Every line of the message
/// must end with CRLF, and each key's domain must be that of From or above it.
pub fn sign(message: &[u8], keys: &[DkimKey], at_unix: i64) -> Result<Vec<u8>, DkimError> {
    let (fields, body) = split(message)?;
    let from = from_domain(&fields)?;
    let body_hash = STANDARD.encode(Sha256::digest(relaxed_body(body)));
    let names = signed_names(&fields);
    let mut signed = Vec::with_capacity(message.len() + keys.len() * 1024);
    for key in keys {
        if from != key.domain() && !from.ends_with(&format!(".{}", key.domain())) {
            return Err(DkimError::NotAligned);
        }
        let unsigned = unsigned_header(key, at_unix, &names, &body_hash);
        let signature = key.sign(&signing_input(&fields, &names, unsigned.as_bytes()))?;
        signed.extend_from_slice(b"DKIM-Signature:");
        signed.extend_from_slice(unsigned.as_bytes());
        signed.extend_from_slice(folded(&STANDARD.encode(signature)).as_bytes());
        signed.extend_from_slice(b"\r\n");
    }
    signed.extend_from_slice(message);
    Ok(signed)
}

/// Returns the names of `h=`, in order. The oversigned ones come last once more.
fn signed_names(fields: &[HeaderField<'_>]) -> Vec<&'static str> {
    let occurrences = |name: &str| fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count();
    let all = OVERSIGNED.iter().chain(&SIGNED);
    let mut names: Vec<&str> = all.flat_map(|name| std::iter::repeat_n(*name, occurrences(name))).collect();
    names.extend(OVERSIGNED);
    names
}

/// Returns what follows `DKIM-Signature:`, up to the empty `b=`.
fn unsigned_header(key: &DkimKey, at_unix: i64, names: &[&str], body_hash: &str) -> String {
    let mut header = format!(" v=1; a={}; c=relaxed/relaxed;\r\n", key.algorithm());
    header += &format!(" d={};\r\n s={}; t={at_unix};\r\n", key.domain(), key.selector());
    let mut line = " h=".to_owned();
    for (position, name) in names.iter().enumerate() {
        let separator = if position + 1 < names.len() { ":" } else { ";" };
        if line.len() + name.len() + 1 > MAX_COLUMNS {
            header += &line;
            header += "\r\n";
            line = " ".to_owned();
        }
        line += name;
        line += separator;
    }
    header + &line + &format!("\r\n bh={body_hash};\r\n b=")
}

/// Returns the signature in lines of at most 76 columns, of which ` b=` takes three.
fn folded(signature: &str) -> String {
    let mut lines = String::with_capacity(signature.len() + 32);
    let mut room = MAX_COLUMNS - " b=".len();
    let mut rest = signature;
    while rest.len() > room {
        let (now, later) = rest.split_at(room);
        lines += now;
        lines += "\r\n ";
        rest = later;
        room = MAX_COLUMNS - 1;
    }
    lines + rest
}

/// Returns the canonical headers: for each name the last occurrence that is not taken yet, nothing if there is none,
/// and the signature's own header without its line break.
pub(super) fn signing_input(fields: &[HeaderField<'_>], names: &[&str], own: &[u8]) -> Vec<u8> {
    let mut input = Vec::new();
    let mut taken = vec![false; fields.len()];
    for name in names {
        let next = (0..fields.len()).rev().find(|at| !taken[*at] && fields[*at].name.eq_ignore_ascii_case(name));
        if let Some(at) = next {
            taken[at] = true;
            input.extend(relaxed_header(fields[at].name, fields[at].value));
            input.extend_from_slice(b"\r\n");
        }
    }
    input.extend(relaxed_header("DKIM-Signature", own));
    input
}

/// Returns the domain of the only From, in lower case.
fn from_domain(fields: &[HeaderField<'_>]) -> Result<String, DkimError> {
    let mut all = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("From"));
    let (Some(from), None) = (all.next(), all.next()) else {
        return Err(DkimError::NoSingleFrom);
    };
    let value = String::from_utf8_lossy(from.value);
    // An address follows the last bracket, or is alone: encoded and quoted names cannot come after it.
    let address = match value.rsplit_once('<') {
        Some((_, bracketed)) => bracketed.split('>').next().unwrap_or_default(),
        None => &value,
    };
    let (_, domain) = address.trim().rsplit_once('@').ok_or(DkimError::NoSingleFrom)?;
    Ok(domain.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    const MESSAGE: &[u8] = b"From: Joe SixPack <joe@football.example.com>\r\n\
        To: Suzie Q <suzie@shopping.example.net>\r\n\
        Subject: Is dinner ready?\r\n\
        Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
        Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\
        \r\n\
        Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";

    fn key() -> DkimKey {
        let seed = STANDARD.decode(SEED).unwrap().try_into().unwrap();
        DkimKey::from_ed25519_seed("football.example.com", "brisbane", &seed).unwrap()
    }

    #[test]
    fn the_signature_of_rfc_8463_is_reproduced() {
        let names = ["from", "to", "subject", "date", "message-id", "from", "subject", "date"];
        let own = b" v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n \
            q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n \
            bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=";
        let (fields, _) = split(MESSAGE).unwrap();
        let input = signing_input(&fields, &names, own);
        let digest: String = Sha256::digest(&input).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "48ce9a2c710ece1710ff156996b836a7f45470e43efe5643074d6e1690ed62e7");
        let signature = STANDARD.encode(key().sign(&input).unwrap());
        let expected = "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==";
        assert_eq!(signature, expected);
        let record = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        assert_eq!(key().public_record(), record);
    }

    #[test]
    fn the_header_is_folded_and_oversigns_what_readers_see() {
        let signed = String::from_utf8(sign(MESSAGE, &[key()], 1_528_637_909).unwrap()).unwrap();
        let header = &signed[..signed.len() - MESSAGE.len()];
        assert!(header.starts_with("DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n"), "{header}");
        assert!(header.split("\r\n").all(|line| line.len() <= 76), "{header}");
        let flat = header.replace("\r\n ", "");
        assert!(flat.contains("h=From:Subject:Date:To:Message-ID:From:Subject:Date:To;"), "{flat}");
        assert!(!flat.contains("l="), "{flat}");
    }

    #[test]
    fn a_key_of_another_domain_is_refused() {
        let seed = [7; 32];
        let of = |domain: &str| DkimKey::from_ed25519_seed(domain, "a", &seed).unwrap();
        assert_eq!(sign(MESSAGE, &[of("ball.example.com")], 0), Err(DkimError::NotAligned));
        assert_eq!(sign(MESSAGE, &[of("other.example")], 0), Err(DkimError::NotAligned));
        assert!(sign(MESSAGE, &[of("example.com")], 0).is_ok());
    }

    #[test]
    fn a_message_with_two_authors_headers_is_refused() {
        let twice = [b"From: a@football.example.com\r\n", MESSAGE].concat();
        assert_eq!(sign(&twice, &[key()], 0), Err(DkimError::NoSingleFrom));
    }
}
