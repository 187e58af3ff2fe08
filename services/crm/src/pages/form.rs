//! Reads the bodies of requests: the one-click field in both of its encodings, and the form of the preference page.

use onceward_mail::class::MailClass;

/// The field and its value that mail programs send.
const ONE_CLICK: (&str, &str) = ("List-Unsubscribe", "One-Click");
/// A field of our own form: without it, an empty request would unsubscribe from everything.
pub(super) const MARKER: &str = "preferences";
/// The name of the check boxes.
pub(super) const CLASS: &str = "class";
/// The name of the button that unsubscribes from everything.
pub(super) const NONE: &str = "none";
const FIELDS_MAX: usize = 50;
const PARTS_MAX: usize = 20;

/// Returns whether a body contains `List-Unsubscribe=One-Click`, as `application/x-www-form-urlencoded` or as
/// `multipart/form-data`.
pub(super) fn is_one_click(content_type: &str, body: &[u8]) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media_type != "multipart/form-data" {
        let mut fields = form_urlencoded::parse(body).take(FIELDS_MAX);
        return fields.any(|(name, value)| (name.as_ref(), value.as_ref()) == ONE_CLICK);
    }
    let text = String::from_utf8_lossy(body);
    let Some(boundary) = boundary(content_type) else { return false };
    let delimiter = format!("--{boundary}");
    let mut parts = text.split(&delimiter).take(PARTS_MAX).filter_map(|part| part.split_once("\r\n\r\n"));
    parts.any(|(header, value)| is_named(header, ONE_CLICK.0) && value.trim_end() == ONE_CLICK.1)
}

fn boundary(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = parameters.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    Some(value.trim_matches('"').to_owned()).filter(|boundary| !boundary.is_empty())
}

/// Returns whether the header of a part names this field.
fn is_named(header: &str, name: &str) -> bool {
    let disposition = header.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"));
    let mut parameters =
        disposition.unwrap_or_default().split(';').skip(1).filter_map(|one| one.trim().split_once('='));
    parameters.any(|(key, value)| key.eq_ignore_ascii_case("name") && value.trim_matches('"') == name)
}

/// Returns the classes that a recipient wants to receive, or `None` if the body is not our form.
pub(super) fn wanted_classes(body: &[u8]) -> Option<Vec<MailClass>> {
    let fields: Vec<_> = form_urlencoded::parse(body).take(FIELDS_MAX).collect();
    if !fields.iter().any(|(name, _)| name == MARKER) {
        return None;
    }
    if fields.iter().any(|(name, _)| name == NONE) {
        return Some(Vec::new());
    }
    let classes = fields.iter().filter(|(name, _)| name == CLASS).filter_map(|(_, value)| value.parse().ok());
    Some(classes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URLENCODED: &str = "application/x-www-form-urlencoded";

    #[test]
    fn the_one_click_field_is_read_in_both_encodings() {
        assert!(is_one_click(URLENCODED, b"List-Unsubscribe=One-Click"));
        assert!(is_one_click("", b"a=b&List-Unsubscribe=One-Click"));
        assert!(!is_one_click(URLENCODED, b"") && !is_one_click(URLENCODED, b"List-Unsubscribe=no"));
        let body = b"--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n";
        assert!(is_one_click("multipart/form-data; boundary=x", body));
        assert!(is_one_click("Multipart/Form-Data; charset=utf-8; Boundary=\"x\"", body));
        assert!(!is_one_click("multipart/form-data; boundary=y", body) && !is_one_click("multipart/form-data", body));
        assert!(!is_one_click(URLENCODED, body));
    }

    #[test]
    fn only_our_own_form_names_classes() {
        assert_eq!(wanted_classes(b""), None);
        assert_eq!(wanted_classes(b"class=marketing"), None);
        assert_eq!(wanted_classes(b"preferences=1"), Some(Vec::new()));
        assert_eq!(wanted_classes(b"preferences=1&class=marketing&class=x"), Some(vec![MailClass::Marketing]));
        assert_eq!(wanted_classes(b"preferences=1&class=marketing&none=1"), Some(Vec::new()));
    }
}
