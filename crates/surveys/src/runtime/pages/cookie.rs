//! What a browser keeps: the session's token, for the session's own path, and at the link which session it began there.

use uuid::Uuid;

const TOKEN: &str = "respondent";
const BEGUN: &str = "begun";

pub(super) fn session_path(session_id: Uuid) -> String {
    format!("/s/session/{session_id}")
}

/// The cookies of a session that was begun at `link`. Those for a site behind TLS are never sent without it.
pub(super) fn of(session_id: Uuid, token: &str, link: &str, hours: u32, secure: bool) -> [String; 2] {
    let seconds = u64::from(hours) * 3600;
    let rest = format!("Max-Age={seconds}; HttpOnly; SameSite=Lax{}", if secure { "; Secure" } else { "" });
    [
        format!("{TOKEN}={token}; Path={}; {rest}", session_path(session_id)),
        format!("{BEGUN}={session_id}; Path=/s/{link}; {rest}"),
    ]
}

/// The session's token.
pub(super) fn token(cookies: &str) -> Option<&str> {
    find(cookies, TOKEN)
}

/// The session that was begun here before.
pub(super) fn begun(cookies: &str) -> Option<Uuid> {
    find(cookies, BEGUN)?.parse().ok()
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
        assert_eq!(begun("begun=no-id"), None);
    }

    #[test]
    fn a_session_is_kept_from_scripts_from_other_sites_and_from_other_paths() {
        let id = Uuid::now_v7();
        let [token, begun] = of(id, "t.s", "l.s", 2, true);
        assert_eq!(
            token,
            format!("respondent=t.s; Path=/s/session/{id}; Max-Age=7200; HttpOnly; SameSite=Lax; Secure")
        );
        assert!(begun.starts_with(&format!("begun={id}; Path=/s/l.s; ")) && !begun.contains("t.s"));
        assert!(!of(id, "t", "l", 1, false)[0].contains("Secure"));
    }
}
