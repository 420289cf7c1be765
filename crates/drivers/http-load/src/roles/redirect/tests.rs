//! Tests of redirect targets.

use http::uri::PathAndQuery;
use proptest::prelude::*;

use super::*;

fn hop(target: &str) -> RedirectTarget {
    RedirectTarget::first(target).unwrap()
}

fn from(target: &str, location: &[u8]) -> Result<String, RedirectError> {
    let next = hop(target).next(302, Some(location), 1)?;
    Ok(next.target().to_owned())
}

#[test]
fn a_location_is_resolved_against_what_was_asked_for() {
    // RFC 3986 §5.4.1, except targets of another origin, and §5.4.2.
    for (location, target) in [
        ("g", "/b/c/g"),
        ("./g", "/b/c/g"),
        ("g/", "/b/c/g/"),
        ("/g", "/g"),
        ("?y", "/b/c/d;p?y"),
        ("g?y", "/b/c/g?y"),
        ("#s", "/b/c/d;p?q"),
        ("g?y#s", "/b/c/g?y"),
        (";x", "/b/c/;x"),
        (".", "/b/c/"),
        ("..", "/b/"),
        ("../g", "/b/g"),
        ("../../../g", "/g"),
        ("g;x=1/../y", "/b/c/y"),
        ("//a", "/"),
        ("//a:80/g", "/g"),
        ("http://A:80/g", "/g"),
        ("HTTP://a?x", "/?x"),
        (" \t/g \r\n", "/g"),
        ("/é\"", "/%C3%A9%22"),
    ] {
        let found = from("http://a/b/c/d;p?q", location.as_bytes());
        assert_eq!(found.as_deref(), Ok(target), "{location}");
    }
}

#[test]
fn another_scheme_host_or_port_is_elsewhere() {
    for location in [
        "https://a/",
        "http://b/",
        "http://a:81/",
        "//b/x",
        "//a.b/",
        "ftp://a/",
        "mailto:x@a",
        "javascript:0",
    ] {
        let found = from("http://a/", location.as_bytes());
        assert_eq!(found, Err(RedirectError::Elsewhere), "{location}");
    }
    let found = from("https://[::1]:8443/x", b"https://[0:0::1]:8443/y");
    assert_eq!(found.as_deref(), Ok("/y"));
    assert_eq!(from("https://a/x", b"//a:443/y").as_deref(), Ok("/y"));
    assert_eq!(
        from("https://a/x", b"//a:80/y"),
        Err(RedirectError::Elsewhere)
    );
}

#[test]
fn a_missing_or_malformed_location_is_refused() {
    let first = hop("http://a/x");
    assert_eq!(
        first.next(302, None, 1),
        Err(RedirectError::WithoutLocation)
    );
    let long = "x".repeat(MAX_TARGET);
    for location in [
        &b""[..],
        b" ",
        b"/a b",
        b"/a\r\n b",
        b"/\xff",
        b"http://[1/",
        b"http://a:99999/",
        b"//",
        long.as_bytes(),
    ] {
        let found = first.next(302, Some(location), 1);
        let shown = String::from_utf8_lossy(&location[..location.len().min(20)]);
        assert_eq!(found, Err(RedirectError::WithoutLocation), "{shown}");
    }
    let fits = &long[1..];
    assert_eq!(from("http://a/x", fits.as_bytes()), Ok(format!("/{fits}")));
}

#[test]
fn as_many_are_followed_as_may_be() {
    let mut now = hop("http://a/0");
    for _ in 0..3 {
        now = now.next(302, Some(b"/x"), 3).unwrap();
    }
    assert_eq!(now.next(302, Some(b"/x"), 3), Err(RedirectError::TooMany));
    // Redirects that could not be followed anyway keep their own error.
    assert_eq!(now.next(302, None, 3), Err(RedirectError::WithoutLocation));
    assert_eq!(
        now.next(302, Some(b"//b"), 3),
        Err(RedirectError::Elsewhere)
    );
}

#[test]
fn the_method_becomes_get_or_stays_and_never_comes_back() {
    for (status, bare, method) in [
        (301, true, "GET"),
        (302, true, "GET"),
        (303, true, "GET"),
        (307, false, "PUT"),
        (308, false, "PUT"),
    ] {
        let next = hop("http://a/").next(status, Some(b"/x"), 9).unwrap();
        assert_eq!((next.bare, next.method("PUT")), (bare, method), "{status}");
        assert_eq!(next.method("HEAD"), "HEAD", "{status}");
        let later = next.next(307, Some(b"/y"), 9).unwrap();
        assert_eq!((later.bare, later.method("PUT")), (bare, method));
    }
    let statuses: Vec<u16> = (0..1000).filter(|status| is_redirect(*status)).collect();
    assert_eq!(statuses, [301, 302, 303, 307, 308]);
}

#[test]
fn fields_about_the_content_are_told_apart() {
    for name in ["Content-Type", "content-md5", "Digest", "LAST-MODIFIED"] {
        assert!(is_of_content(name), "{name}");
    }
    for name in ["Accept", "Host", "Contents", "X-Content-Type"] {
        assert!(!is_of_content(name), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Both engines send the target unchanged, so it must fit into a request line and be accepted by hyper.
    #[test]
    fn the_target_after_a_redirect_is_always_a_path(
        location in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "(http:|//a|/|\\\\|\\?|#|\\.\\.|%|[ -~]|\\PC){0,12}".prop_map(String::into_bytes),
        ],
    ) {
        if let Ok(next) = hop("http://a/b/c?d").next(302, Some(&location), 1) {
            let target = next.target();
            prop_assert!(target.starts_with('/') && target.bytes().all(|byte| (b'!'..=b'~').contains(&byte)));
            let taken = PathAndQuery::try_from(target).unwrap();
            prop_assert_eq!(taken.as_str(), target);
        }
    }
}
