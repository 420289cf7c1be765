//! Expands the `{names}` that a manifest may use in its commands, addresses and environment.
//!
//! A name with a dot, such as `{redis.port}`, belongs to a service.
//!
//! `${name}` belongs to a shell and is left alone. `{{name}}` stands for a literal `{name}`. Anything else in braces,
//! such as JSON, is literal.

/// The time at which a text is expanded: sockets, ports and the scratch directory exist only for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Build,
    Run,
}

const ALWAYS: [&str; 4] = ["build", "target", "root", "dir"];
const RUN_ONLY: [&str; 3] = ["socket", "scratch", "listen"];
pub(super) const MOST_PORTS: usize = 9;

/// Returns the index of a port's name: `port` is 0, `port2` is 1, and so on.
pub(crate) fn port_index(name: &str) -> Option<usize> {
    let number = name.strip_prefix("port")?;
    if number.is_empty() {
        return Some(0);
    }
    number
        .parse()
        .ok()
        .filter(|number| (2..=MOST_PORTS).contains(number) && !name.contains('+'))
        .map(|number| number - 1)
}

/// Checks that `name` is known in this phase, in which services may have names `of_services`. The error says what to
/// write instead.
pub(crate) fn check(name: &str, phase: Phase, of_services: &[String]) -> Result<(), String> {
    let of_run = RUN_ONLY.contains(&name)
        || port_index(name).is_some()
        || of_services.iter().any(|known| known == name);
    if ALWAYS.contains(&name) || (of_run && phase == Phase::Run) {
        return Ok(());
    }
    if of_run {
        return Err(format!(
            "{{{name}}} exists only once it runs: use it in `run`, `env`, `ready`, `url` or `metrics`"
        ));
    }
    let services: Vec<String> = of_services.iter().map(|of| format!("{{{of}}}")).collect();
    let services = match services.as_slice() {
        [] => String::new(),
        services => format!(", of its services {}", services.join(", ")),
    };
    Err(format!(
        "known placeholders are {{program}}, {{build}}, {{target}}, {{root}}, {{dir}} and, for a run, {{socket}}, {{scratch}}, {{listen}}, \
         {{port}}, {{port2}} … {{port9}}{services}; write {{{{name}}}} for a literal {{name}}"
    ))
}

/// Returns true for a text that can be a name without a dot.
pub(crate) fn is_identifier(text: &str) -> bool {
    identifier(text) == Some(text)
}

/// Returns the names that occur in a text.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Replaces names by values. A name without a value stays as it is.
pub(crate) fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    pieces(text)
        .map(|piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Name(name) => value(name).unwrap_or_else(|| format!("{{{name}}}")),
        })
        .collect()
}

#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut after_dollar = false;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = next_piece(rest, after_dollar);
        after_dollar = rest[..length].ends_with('$');
        rest = &rest[length..];
        Some(piece)
    })
}

/// Returns the first piece of a non-empty text, and the number of its bytes.
fn next_piece(rest: &str, after_dollar: bool) -> (Piece<'_>, usize) {
    let Some(inner) = rest.strip_prefix('{') else {
        let length = rest.find('{').unwrap_or(rest.len());
        return (Piece::Text(&rest[..length]), length);
    };
    if let Some(name) = inner.strip_prefix('{').and_then(name_at_begin)
        && inner[1 + name.len()..].starts_with("}}")
    {
        return (Piece::Text(&rest[1..name.len() + 3]), name.len() + 4);
    }
    match name_at_begin(inner) {
        Some(name) if inner[name.len()..].starts_with('}') && !after_dollar => {
            (Piece::Name(name), name.len() + 2)
        }
        _ => (Piece::Text(&rest[..1]), 1),
    }
}

/// Returns the name at the begin of a text: an identifier, or two with a dot between them.
fn name_at_begin(text: &str) -> Option<&str> {
    let first = identifier(text)?;
    let second = text[first.len()..].strip_prefix('.').and_then(identifier);
    let length = second.map_or(first.len(), |second| first.len() + 1 + second.len());
    Some(&text[..length])
}

fn identifier(text: &str) -> Option<&str> {
    let length = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text[..length]
        .starts_with(|c: char| c.is_ascii_alphabetic())
        .then(|| &text[..length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn upper(text: &str) -> String {
        expand(text, |name| Some(name.to_uppercase()))
    }

    #[test]
    fn names_are_replaced_and_everything_else_stays() {
        assert_eq!(upper("{a}/b-{c}"), "A/b-C");
        assert_eq!(upper(r#"{"prompt":{"a":1}}{x}"#), r#"{"prompt":{"a":1}}X"#);
        assert_eq!(upper("echo ${HOME} {a}"), "echo ${HOME} A");
        assert_eq!(upper("awk {{print}} {a}"), "awk {print} A");
        assert_eq!(upper("{ {a {}"), "{ {a {}");
        assert_eq!(
            upper("{a.b}{{a.b}}{a.}{.b}{a.b.c}"),
            "A.B{a.b}{a.}{.b}{a.b.c}"
        );
    }

    #[test]
    fn ports_count_from_one_and_end_at_nine() {
        let indices: Vec<_> = [
            "port", "port2", "port9", "port1", "port10", "port+2", "portx",
        ]
        .map(port_index)
        .into();
        assert_eq!(indices, [Some(0), Some(1), Some(8), None, None, None, None]);
    }

    proptest! {
        #[test]
        fn any_text_without_braces_is_unchanged_and_no_text_panics(text in "[^{}]*", wild in ".*") {
            prop_assert_eq!(upper(&text), text);
            upper(&wild);
        }
    }
}
