//! Redaction: removes passwords, authentication header fields, tokens and keys from stored and shown text.
//!
//! Every text that leaves a program passes through this module: results, reports, messages, command lines. A secret is
//! recognized by the name before it, by its position (in a URI, in `user:password`, after an option of a command), or
//! by the first letters that some services give to their tokens. Redacting twice changes nothing.

use std::borrow::Cow;
use std::ops::Range;

use percent_encoding::percent_decode_str;
use serde_json::Value;

mod run_result;

pub use run_result::result;

/// Replacement for a secret.
pub const PLACEHOLDER: &str = "[redacted]";

/// Endings of names that hold a secret, in lower case, without `-`, `_` and `.`.
const SECRET_ENDS: &[&str] = &[
    "accesskey",
    "apikey",
    "authkey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "masterauth",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "requirepass",
    "secret",
    "secretkey",
    "sessionid",
    "signature",
    "token",
];
/// Complete names that hold a secret in the query of a URI. Elsewhere they have many other meanings.
const SECRET_IN_QUERIES: &[&str] = &["auth", "key", "pass", "pwd", "sid", "session", "sig"];
/// Complete names of header fields that hold a secret, in addition to multi-word names with one of [`SECRET_ENDS`].
const SECRET_FIELDS: &[&str] = &["authorization", "cookie", "password", "secret"];
/// Endings of names whose value may be `user:password`, in lower case, without `-`, `_` and `.`.
const PAIR_ENDS: &[&str] = &["auth", "login", "user", "username", "userpass", "userpwd"];
/// The option that names a user in many programs, without its `-`.
const SHORT_USER: &str = "u";
/// First letters of tokens: of GitHub, GitLab, Slack, AWS, OpenAI and others, and of signed JSON (RFC 7519, section
/// 3.1).
const TOKEN_BEGINS: &[&str] = &[
    "AKIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xoxb-",
    "xoxp-",
];
/// Least length of a token that is recognized by its first letters.
const LEAST_TOKEN: usize = 20;
/// Characters that end an unquoted value in a text.
const ENDS_OF_VALUE: &[char] = &['&', ';', ',', '#', ')', ']', '}', '<', '>', '"', '\'', '`'];

/// Returns the text without its secrets.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    let mut found = secrets(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| (range.start, range.end));
    let mut redacted = String::with_capacity(text.len());
    let mut copied = 0;
    for range in found {
        // Secrets may be nested.
        if range.start >= copied {
            redacted.push_str(&text[copied..range.start]);
            redacted.push_str(PLACEHOLDER);
        }
        copied = copied.max(range.end);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

/// Returns a URI without its password. Input that is not a URI loses everything up to its last `@`.
#[must_use]
pub fn uri(typed: &str) -> Cow<'_, str> {
    let redacted = text(typed);
    let is_known = redacted.contains("://");
    match redacted.rsplit_once('@') {
        Some((_, rest)) if !is_known => Cow::Owned(format!("{PLACEHOLDER}@{rest}")),
        _ => redacted,
    }
}

/// Returns a header field, `Name: value`, without its value if that is a secret.
#[must_use]
pub fn field(field: &str) -> Cow<'_, str> {
    match field.split_once(':') {
        Some((name, value)) if is_secret(name) && !value.trim().is_empty() => {
            Cow::Owned(format!("{name}: {PLACEHOLDER}"))
        }
        _ => text(field),
    }
}

/// Returns the words of a command line, joined, without their secrets.
pub fn command(words: &[&str]) -> String {
    text(&self::words(words).join(" ")).into_owned()
}

/// Returns the words of a command line without their secrets.
pub fn words(words: &[&str]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut option = "";
    for word in words {
        let value = of_option(option, word);
        shown.push(value.unwrap_or_else(|| field(word).into_owned()));
        option = word;
    }
    shown
}

/// Removes secrets from every text in a value, and texts under a key that names a secret.
pub fn value(value: &mut Value) {
    match value {
        Value::String(string) => *string = field(string).into_owned(),
        Value::Array(values) => {
            // The words of a command may be a list.
            let mut option = String::new();
            for entry in values {
                let word = entry.as_str().unwrap_or_default().to_owned();
                match of_option(&option, &word) {
                    Some(redacted) => *entry = Value::String(redacted),
                    None => self::value(entry),
                }
                option = word;
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                let named = entry.as_str().and_then(|string| of_name(key, string));
                match named {
                    Some(redacted) => *entry = Value::String(redacted),
                    None => self::value(entry),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true if a text in the value contains a redacted secret.
pub fn is_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(PLACEHOLDER),
        Value::Array(values) => values.iter().any(is_redacted),
        Value::Object(entries) => entries.values().any(is_redacted),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns true for a name such as `X-Api-Key`, `access_token` or `Cookie`. Letters may be percent-encoded.
pub fn is_secret(name: &str) -> bool {
    let name = normalized(name);
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns a value without the secret that its name says is in it, if there is one.
fn of_name(name: &str, value: &str) -> Option<String> {
    let secret = secret_of_name(name, value).filter(|secret| is_unredacted(value, secret))?;
    Some(format!(
        "{}{PLACEHOLDER}{}",
        &value[..secret.start],
        &value[secret.end..]
    ))
}

/// As [`of_name`], for the word after an option such as `--password` or `-u`.
fn of_option(option: &str, value: &str) -> Option<String> {
    of_name(option_name(option)?, value).filter(|_| !value.starts_with('-'))
}

/// Returns the position of the secret in a value with a name: all of it, or the password of `user:password`.
fn secret_of_name(name: &str, value: &str) -> Option<Range<usize>> {
    if is_secret(name) {
        return Some(0..value.len());
    }
    let name = normalized(name);
    let is_pair = name == SHORT_USER || PAIR_ENDS.iter().any(|end| name.ends_with(end));
    is_pair.then(|| password_of_pair(value)).flatten()
}

/// Returns the position of the password in `user:password`. Numbers are the ids of a user and a group, or a time.
fn password_of_pair(pair: &str) -> Option<Range<usize>> {
    let (user, password) = pair.split_once(':')?;
    let is_number = user.bytes().all(|byte| byte.is_ascii_digit());
    let is_pair = !is_number && !user.contains('/') && !password.starts_with("//");
    is_pair.then_some(user.len() + 1..pair.len())
}

/// Returns the name of an option without its dashes, if it is one.
fn option_name(word: &str) -> Option<&str> {
    let name = word.trim_start_matches('-');
    (name.len() < word.len()).then_some(name)
}

/// Normalizes a name: lower case, percent-decoded, without word separators.
fn normalized(name: &str) -> String {
    let decoded = percent_decode_str(name.trim()).decode_utf8_lossy();
    let letters = decoded.chars();
    let letters = letters.filter(|letter| !matches!(letter, '-' | '_' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the positions of the secrets in a text, in no order. Secrets may be nested.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("://") {
        found.extend(userinfo(text, at));
    }
    found.extend(text.match_indices('@').filter_map(|(at, _)| pair(text, at)));
    found.extend(option_values(text));
    found.extend(tokens(text));
    for (at, mark) in text.char_indices() {
        let value = match mark {
            '=' => assigned_value(text, at),
            ':' => header_value(text, at),
            _ => None,
        };
        // A name inside a secret names nothing.
        let is_within = found
            .iter()
            .any(|secret: &Range<usize>| secret.contains(&at));
        let value = value.filter(|value| !is_within && is_unredacted(text, value));
        found.extend(value);
    }
    found
}

/// Returns true if there is a value and it is not redacted yet. A value may end within its placeholder.
fn is_unredacted(text: &str, value: &Range<usize>) -> bool {
    !value.is_empty() && !text[value.start..].starts_with(PLACEHOLDER)
}

/// Returns true for a character that ends a URI in a text.
fn ends_uri(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '<' | '>')
}

/// Returns the password of the URI whose `://` is at `at`. For an http URI without a password it returns the user,
/// which is a token then.
fn userinfo(text: &str, at: usize) -> Option<Range<usize>> {
    let begin = at + "://".len();
    let rest = &text[begin..];
    let token = &rest[..rest.find(ends_uri).unwrap_or(rest.len())];
    // In a list of URIs, each one ends before the scheme of the next.
    let token = match token.find("://") {
        Some(next) => {
            let before = &token[..next];
            let is_of_scheme =
                |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
            let scheme = before.trim_end_matches(is_of_scheme);
            scheme.trim_end_matches([',', ';', '|'])
        }
        None => token,
    };
    let authority = &token[..token.find(['/', '?', '#']).unwrap_or(token.len())];
    let end = match authority.rfind('@') {
        Some(end) => end,
        // A password may contain an unencoded `/`. The text after the colon is then not a port.
        None => {
            let (_, port) = authority.rsplit_once(':')?;
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
            let is_ipv6 = authority.starts_with('[') && authority.contains(']');
            if is_port || (is_ipv6 && authority.ends_with(']')) {
                return None;
            }
            token.rfind('@')?
        }
    };
    let secret = match token[..end].find(':') {
        Some(colon) => begin + colon + 1..begin + end,
        None => {
            let scheme = text[..at].to_ascii_lowercase();
            let is_http = scheme.ends_with("http") || scheme.ends_with("https");
            is_http.then_some(begin..begin + end)?
        }
    };
    is_unredacted(text, &secret).then_some(secret)
}

/// Returns the password of `user:password@` whose `@` is at `at`, outside of a URI.
fn pair(text: &str, at: usize) -> Option<Range<usize>> {
    let begin = text[..at]
        .char_indices()
        .rfind(|(_, letter)| ends_uri(*letter))
        .map_or(0, |(end, letter)| end + letter.len_utf8());
    let before = &text[begin..at];
    // An image of a container may be named by its digest, and `mailto:` is a scheme.
    let is_other = before.contains("://")
        || before.starts_with("mailto:")
        || text[at..].starts_with("@sha256:");
    let password = password_of_pair(before).filter(|_| !is_other)?;
    let secret = begin + password.start..at;
    is_unredacted(text, &secret).then_some(secret)
}

/// Returns the secrets after options such as `--password` and `-u`, one word each.
fn option_values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut option = None;
    for word in text.split_whitespace() {
        // Both are parts of one text.
        let begin = word.as_ptr().addr() - text.as_ptr().addr();
        let quoted = extent(text, begin, false);
        let whole = if quoted.start > begin {
            quoted
        } else {
            begin..begin + word.len()
        };
        let value = &text[whole.clone()];
        let secret = option
            .and_then(|name| secret_of_name(name, value))
            // `<VALUE>` and `[VALUE]` stand for one in a help text.
            .filter(|_| !value.starts_with(['-', '<', '[']))
            .map(|secret| whole.start + secret.start..whole.start + secret.end);
        found.extend(secret.filter(|secret| is_unredacted(text, secret)));
        option = option_name(word);
    }
    found
}

/// Returns the tokens that are recognized by their first letters.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for begins in TOKEN_BEGINS {
        for (at, _) in text.match_indices(begins) {
            let is_of_token =
                |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            let rest = &text[at..];
            let length = rest
                .find(|letter| !is_of_token(letter))
                .unwrap_or(rest.len());
            if length >= LEAST_TOKEN && !text[..at].ends_with(is_of_token) {
                found.push(at..at + length);
            }
        }
    }
    found
}

/// Returns the value of `name=value` whose `=` is at `at`, if the name means a secret.
fn assigned_value(text: &str, at: usize) -> Option<Range<usize>> {
    let before = text[..at].trim_end_matches([' ', '"']);
    let name = last_word(before);
    let is_in_query = before[..before.len() - name.len()].ends_with(['?', '&']);
    let is_of_query = is_in_query && SECRET_IN_QUERIES.contains(&normalized(name).as_str());
    // `==` is a comparison.
    let begin = at + text[at..].len() - text[at..].trim_start_matches(['=', ' ']).len();
    let value = extent(text, begin, false);
    if is_of_query {
        return Some(value);
    }
    let secret = secret_of_name(name, &text[value.clone()])?;
    Some(value.start + secret.start..value.start + secret.end)
}

/// Returns the value of `Name: value` or `"name": "value"` whose colon is at `at`, if the name means a secret.
fn header_value(text: &str, at: usize) -> Option<Range<usize>> {
    let before = &text[..at];
    let unquoted = before.trim_end_matches('"').trim_end_matches('\\');
    let is_key = unquoted.len() < before.len();
    let name = last_word(unquoted);
    let is_field = name.contains(['-', '_']) && is_secret(name)
        || SECRET_FIELDS.contains(&normalized(name).as_str());
    if !(is_field || is_key && is_secret(name)) {
        return None;
    }
    let rest = &text[at + 1..];
    let begin = at + 1 + rest.len() - rest.trim_start_matches([' ', '\t', '\\']).len();
    // A completely quoted field ends with its quote, any other field with its line.
    let opening = text[..unquoted.len() - name.len()].chars().next_back();
    if let Some(quote @ ('"' | '\'' | '`')) = opening.filter(|_| !is_key) {
        let end = text[begin..]
            .find(quote)
            .map_or(text.len(), |end| begin + end);
        return Some(begin..end);
    }
    Some(extent(text, begin, true))
}

/// Returns the value starting at `begin`: up to the closing quote if quoted, otherwise up to the end of the line or
/// word.
fn extent(text: &str, begin: usize, whole_line: bool) -> Range<usize> {
    let rest = &text[begin..];
    let quote = rest
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        let inner = &rest[1..];
        let mut escaped = false;
        let closing = inner.char_indices().find(|(_, letter)| {
            let closes = *letter == quote && !escaped;
            escaped = *letter == '\\' && !escaped;
            closes
        });
        let end = closing.map_or(inner.len(), |(end, _)| end);
        return begin + 1..begin + 1 + end;
    }
    let is_end = |letter: char| {
        if whole_line {
            matches!(letter, '\n' | '\r')
        } else {
            letter.is_whitespace() || ENDS_OF_VALUE.contains(&letter)
        }
    };
    begin..begin + rest.find(is_end).unwrap_or(rest.len())
}

/// Returns the name at the end of a text.
fn last_word(text: &str) -> &str {
    let is_of_name =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '%');
    &text[text.trim_end_matches(is_of_name).len()..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Checks that exactly the marked parts are redacted, as in `user:«secret»@host`, and only once.
    fn check(marked: &str) {
        let typed = marked.replace(['«', '»'], "");
        let parts = marked.split(['«', '»']).enumerate();
        let shown: String = parts
            .map(|(index, part)| if index % 2 == 0 { part } else { PLACEHOLDER })
            .collect();
        assert_eq!(text(&typed), shown);
        assert_eq!(text(&shown), shown);
    }

    #[test]
    fn the_password_of_a_uri_is_taken_out_and_the_rest_stays() {
        for marked in [
            "amqp://guest:«s3cret»@localhost:5672/",
            "amqp://us%40er:«p%3A%2Fs%40s»@h/v%2fh",
            "amqp://user:«p@ss:w@rd»@host/x",
            "amqp://user:«pa/ss»@host/x",
            "amqp://user:«pa?s#s»@host",
            "amqps://u:«p»@[2001:db8::1]:5671/v",
            "amqp://a:«p1»@h1,amqp://b:«p2»@h2:1/",
            "amqp://a:«p,1»@h1,amqp://b:«p2»@h2",
            "amqp://:«p»@h",
            "https://«gh_token»@example.com/x",
            "URL http://u:«p»@127.0.0.1/: has a user",
            "(`amqp://u:«p»@h`)",
        ] {
            check(marked);
        }
    }

    #[test]
    fn secrets_are_found_by_their_position_and_by_their_first_letters() {
        for marked in [
            "server --user app:«s3cret» --port 80",
            "server -u app:«s,3:cret»",
            "server --basic-auth \"app:«s 3»\" x",
            "server --user=app:«s3cret»",
            "BROKER_USER=app:«s3cret»",
            "server --password «s3cret» x",
            "redis-server --requirepass «s3cret»",
            "dsn app:«p@ss»@tcp(127.0.0.1:3306)/x",
            "proxy «ghp_0123456789abcdefghij», x",
            "a token («eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_»)",
        ] {
            check(marked);
        }
        assert_eq!(
            command(&[
                "server",
                "--token",
                "a b",
                "-u",
                "app:c d",
                "--user",
                "1000:1000"
            ]),
            "server --token [redacted] -u app:[redacted] --user 1000:1000"
        );
    }

    #[test]
    fn text_without_a_secret_stays() {
        for plain in [
            "server --user app --group 1",
            "docker run --user 1000:1000 -u www-data nginx:1.2@sha256:0123",
            "mailto:a@b.c, npm:@scope/pkg, git@example.com:x",
            "usage: --password <PASSWORD> --token [TOKEN]",
            "use --user with --password",
            "--password --port 80",
            "task-0123456789-0123456789, sk-1",
            "amqp://guest@localhost/",
            "amqp://u:@h/",
            "http://127.0.0.1:8080/@scope/pkg",
            "http://[::1]/@x",
            "http://[::1]:80/a:b@c",
            "http://h/a?max_tokens=5&monkey=1",
            "unix:/run/x.sock:/y",
            "at 12:30 a@b.c wrote: token: x",
            "invalid token: `x`",
            "give an Authorization with --header",
            "routing_key = 'a.b'",
            "Content-Type: text/plain",
        ] {
            assert_eq!(text(plain), plain);
        }
    }

    #[test]
    fn input_that_is_not_a_uri_shows_nothing_before_its_host() {
        assert_eq!(uri("user:pass@host:5672"), "[redacted]@host:5672");
        assert_eq!(uri("amqp:/user:pass@host"), "[redacted]@host");
        assert_eq!(uri("amqp://u:p@h"), "amqp://u:[redacted]@h");
        assert_eq!(uri("localhost:5672"), "localhost:5672");
    }

    #[test]
    fn tokens_and_keys_are_taken_out_of_queries_and_assignments() {
        for marked in [
            "/x?token=«abc»&a=1",
            "/x?a=1&api_key=«a%20b»#f",
            "/x?%74oken=«abc»",
            "/x?ACCESS-TOKEN=«abc» d",
            "GET /x?key=«AIza»&sig=«1:» 5 clients",
            "user=a&password=«b»",
            "--set driver.token=«abc»",
            "api_key = \"«a b»\"",
            "header.x-api-key==«abc»",
        ] {
            check(marked);
        }
    }

    #[test]
    fn header_fields_that_authenticate_lose_their_value() {
        for marked in [
            "Authorization: «Bearer a.b.c»",
            "authorization:«Basic dTpw»",
            "Proxy-Authorization: «x»",
            "Cookie: «a=\"b\"; session=c»",
            "Set-Cookie: «a=b»\nVary: x",
            "`Cookie: «a=b»` is refused",
            "headers = [\"X-Api-Key: «k»\"]",
            "{\"password\": \"«a\\\"b»\", \"c\": 1}",
            "{\"token\":\"«a»\"}",
        ] {
            check(marked);
        }
        assert_eq!(field("X-Token: a, b"), "X-Token: [redacted]");
        assert_eq!(field("Token: a"), "Token: [redacted]");
        assert_eq!(field("Accept: a"), "Accept: a");
    }

    #[test]
    fn a_value_is_searched_whole_and_by_its_keys() {
        let mut plan = json!({
            "daemon_env": { "OPENAI_API_KEY": "sk-1", "MODE": "x", "BROKER_USER": "app:p" },
            "words": ["--password", "p", "-u", "app:p", "--port", 80, "--user", "app"],
            "driver": { "headers": ["Cookie: a", "Accept: b"], "path": "/x?token=t", "max_tokens": 5 },
        });
        assert!(!is_redacted(&plan));
        value(&mut plan);
        let redacted = json!({
            "daemon_env": { "OPENAI_API_KEY": "[redacted]", "MODE": "x", "BROKER_USER": "app:[redacted]" },
            "words": ["--password", "[redacted]", "-u", "app:[redacted]", "--port", 80, "--user", "app"],
            "driver": { "headers": ["Cookie: [redacted]", "Accept: b"], "path": "/x?token=[redacted]", "max_tokens": 5 },
        });
        assert_eq!(plan, redacted);
        assert!(is_redacted(&plan));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_password_survives_wherever_its_uri_stands(
            user in "[a-z%0-9]{0,8}", password in "SECRET[a-z0-9%:@!$&*+=.~_-]{0,12}",
            host in "[a-z]{1,8}|\\[::1\\]|10\\.0\\.0\\.1", port in proptest::option::of(1_u16..),
            path in "(/[a-z0-9%]{0,8})?", before in "(|[ (`']|--uri |error: )", count in 1_usize..4,
        ) {
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            let uri = format!("amqp://{user}:{password}@{host}{port}{path}");
            let typed = format!("{before}{}", vec![uri; count].join(","));
            let shown = text(&typed);
            prop_assert!(!shown.contains("SECRET"), "{shown}");
            let whole = format!("amqp://{user}:{PLACEHOLDER}@{host}{port}{path}");
            prop_assert_eq!(shown.matches(&whole).count(), count, "{}", &shown);
        }

        #[test]
        fn no_text_panics_and_a_second_time_changes_nothing(
            wild in ".*",
            pieces in proptest::collection::vec("token|password|--token|-u|Cookie|x-key|http|://|[a-z]{1,3}|[]:/@?=&\"' \\\\,;#%\\[]", 0..16),
        ) {
            for typed in [wild, pieces.concat()] {
                let once = text(&typed).into_owned();
                prop_assert_eq!(text(&once), once.as_str());
                let _ = (field(&typed), uri(&typed));
            }
        }
    }
}
