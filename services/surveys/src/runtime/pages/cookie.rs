//! The cookies of a browser: the session's token, for the session's own path; and for the link's path, the id of the
//! session started there and the key of the start page that was shown.

use uuid::Uuid;

const SESSION_TOKEN: &str = "respondent";
const STARTED_SESSION: &str = "begun";
const START_KEY: &str = "start";

pub(super) fn session_path(session_id: Uuid) -> String {
    format!("/s/session/{session_id}")
}

/// Returns the cookies of a session started at `link`. If the site is behind TLS, they are never sent without it.
pub(super) fn session_cookies(session_id: Uuid, token: &str, link: &str, hours: u32, secure: bool) -> [String; 2] {
    let seconds = u64::from(hours) * 3600;
    let attributes = format!("Max-Age={seconds}; HttpOnly; SameSite=Lax{}", if secure { "; Secure" } else { "" });
    [
        format!("{SESSION_TOKEN}={token}; Path={}; {attributes}", session_path(session_id)),
        format!("{STARTED_SESSION}={session_id}; Path=/s/{link}; {attributes}"),
    ]
}

/// Returns the cookie of the start page of `link`. Forms of other sites are sent without it.
pub(super) fn start_cookie(key: &str, link: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{START_KEY}={key}; Path=/s/{link}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Returns the key of the start page that was shown in this browser.
pub(super) fn start_key(cookies: &str) -> Option<&str> {
    find(cookies, START_KEY)
}

/// Returns the session's token.
pub(super) fn token(cookies: &str) -> Option<&str> {
    find(cookies, SESSION_TOKEN)
}

/// Returns the session that was started earlier in this browser.
pub(super) fn started_session(cookies: &str) -> Option<Uuid> {
    find(cookies, STARTED_SESSION)?.parse().ok()
}

fn find<'c>(cookies: &'c str, name: &str) -> Option<&'c str> {
    cookies
        .split(';')
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        assert_eq!(token("respondent2=a; respondent=b.c; begun=x"), Some("b.c"));
        assert_eq!(token("xrespondent=a"), None);
        assert_eq!(started_session("begun=no-id"), None);
    }

    #[test]
    fn session_cookies_are_hidden_from_scripts_other_sites_and_other_paths() {
        let id = Uuid::now_v7();
        let [token, started] = session_cookies(id, "t.s", "l.s", 2, true);
        assert_eq!(
            token,
            format!("respondent=t.s; Path=/s/session/{id}; Max-Age=7200; HttpOnly; SameSite=Lax; Secure")
        );
        assert!(started.starts_with(&format!("begun={id}; Path=/s/l.s; ")) && !started.contains("t.s"));
        assert!(!session_cookies(id, "t", "l", 1, false)[0].contains("Secure"));
    }
}
