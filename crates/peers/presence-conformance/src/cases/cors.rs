//! CORS: the pages of other origins that may use the server (Fetch standard, 3.2).

use super::*;
use crate::http::Response;
use crate::setup::ORIGIN;

/// An origin that no setup allows by name.
const OTHER: &str = "https://other.example";

pub(super) fn cases(case: Begin<'_>) {
    by_default(case);
    one_origin(case);
    all_origins(case);
}

/// Sends a handshake of a page of this origin.
fn handshake(server: &Server, origin: &str) -> anyhow::Result<Response> {
    let headers = [("Origin", origin)];
    http::request_with(server, "GET", &server.target(POLLING), &headers, b"")?.response()
}

/// Asks which requests a page of this origin may send.
fn preflight(server: &Server, origin: &str) -> anyhow::Result<Response> {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type"),
    ];
    http::request_with(server, "OPTIONS", &server.target(POLLING), &headers, b"")?.response()
}

/// Asserts that the page of an origin may read a response.
fn is_allowed(response: &Response, origin: &str) -> anyhow::Result<()> {
    let allowed = response.header("access-control-allow-origin");
    ensure!(
        allowed == Some("*") || allowed == Some(origin),
        "Access-Control-Allow-Origin is {allowed:?}"
    );
    Ok(())
}

/// Asserts that the page of an origin may not read a response.
fn is_denied(response: &Response, origin: &str) -> anyhow::Result<()> {
    match is_allowed(response, origin) {
        Ok(()) => bail!("a page of {origin} may read the response"),
        Err(_) => Ok(()),
    }
}

/// Asserts that a preflight allows a POST with a content type.
fn allows_post(response: &Response) -> anyhow::Result<()> {
    response.has_status(&[200, 204])?;
    for (header, word) in [
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-headers", "content-type"),
    ] {
        let value = response.header(header).unwrap_or_default();
        let has_word = value
            .split(',')
            .any(|found| found.trim().eq_ignore_ascii_case(word));
        ensure!(has_word, "{header} is {value:?}, without {word}");
    }
    Ok(())
}

fn by_default(case: Begin<'_>) {
    case("Fetch, CORS: by default a page of another origin may read no response")
        .check(|server| is_denied(&handshake(server, OTHER)?, OTHER));
    case("Fetch, CORS: by default a preflight allows no other origin")
        .check_robust(|server| is_denied(&preflight(server, OTHER)?, OTHER));
}

fn one_origin(case: Begin<'_>) {
    case("Fetch, CORS: a page of the allowed origin may open a session, post and poll")
        .on(Setup::CorsOrigin)
        .check(|server| {
            let opened = handshake(server, ORIGIN)?;
            is_allowed(&opened, ORIGIN)?;
            let sid = Handshake::parse(opened.ok()?)?.sid;
            let target = server.target(&format!("{POLLING}&sid={sid}"));
            for (method, body) in [("POST", "40"), ("GET", "")] {
                let headers = [("Origin", ORIGIN)];
                let response =
                    http::request_with(server, method, &target, &headers, body.as_bytes())?
                        .response()?;
                response.ok()?;
                is_allowed(&response, ORIGIN)?;
            }
            Ok(())
        });
    case("Fetch, CORS: a page of the allowed origin may read an error")
        .on(Setup::CorsOrigin)
        .check(|server| {
            let target = server.target(&format!("{POLLING}&sid=zzzzzzzzzzzzzzzzzzzz"));
            let headers = [("Origin", ORIGIN)];
            let response = http::request_with(server, "GET", &target, &headers, b"")?;
            let response = response.response()?;
            response.has_status(&[400])?;
            is_allowed(&response, ORIGIN)
        });
    case("Fetch, CORS: a response for one origin is not cached for another")
        .on(Setup::CorsOrigin)
        .check(|server| {
            let response = handshake(server, ORIGIN)?;
            let vary = response.header("vary").unwrap_or_default();
            let has_origin = vary
                .split(',')
                .any(|found| found.trim().eq_ignore_ascii_case("origin"));
            ensure!(has_origin, "Vary is {vary:?}");
            Ok(())
        });
    case("Fetch, CORS: a preflight allows a POST with a content type")
        .on(Setup::CorsOrigin)
        .check(|server| {
            let response = preflight(server, ORIGIN)?;
            is_allowed(&response, ORIGIN)?;
            allows_post(&response)
        });
    case("Fetch, CORS: a page of another origin may read no response")
        .on(Setup::CorsOrigin)
        .check_robust(|server| {
            is_denied(&handshake(server, OTHER)?, OTHER)?;
            is_denied(&preflight(server, OTHER)?, OTHER)
        });
    case("Fetch, CORS: an origin that begins or ends as the allowed one is another")
        .on(Setup::CorsOrigin)
        .check(|server| {
            for other in [
                "https://app.example.org",
                "https://an.app.example",
                "http://app.example",
                "https://app.example:8443",
                "null",
            ] {
                is_denied(&handshake(server, other)?, other)?;
            }
            Ok(())
        });
    case("Fetch, CORS: a request without an origin is served")
        .on(Setup::CorsOrigin)
        .check(|server| Polling::open(server).map(drop));
}

fn all_origins(case: Begin<'_>) {
    case("Fetch, CORS: with * pages of all origins may read responses")
        .on(Setup::CorsAny)
        .check(|server| {
            for origin in [ORIGIN, OTHER, "null"] {
                let response = handshake(server, origin)?;
                response.ok()?;
                is_allowed(&response, origin)?;
            }
            Ok(())
        });
    case("Fetch, CORS: with * a preflight allows a POST of any origin")
        .on(Setup::CorsAny)
        .check(|server| {
            let response = preflight(server, OTHER)?;
            is_allowed(&response, OTHER)?;
            allows_post(&response)
        });
}
