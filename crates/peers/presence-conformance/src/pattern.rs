//! Variables in the lines of a script, and patterns of JSON and of packets.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::expect::shortened;

/// The variables of a case, by their names without `$`.
pub(crate) type Variables = BTreeMap<String, Value>;

/// Replaces `$name` by a variable, `$name+1` by a number next to it, and `$300x` or `$300(xy)` by 300 times `x` or `xy`.
/// A name without a value stays. A number loses the quotes around its name.
pub(crate) fn fill(line: &str, variables: &Variables) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('$') {
        text += before;
        let (count, unit) = number_at_start(after);
        if let Some(count) = count {
            let (unit, after) = unit_at_start(unit);
            text += &unit.repeat(count);
            rest = after;
            continue;
        }
        let (name, after_name) = name_at_start(after);
        match variables.get(name) {
            None => {
                text.push('$');
                rest = after;
            }
            Some(Value::String(value)) => {
                text += value;
                rest = after_name;
            }
            Some(value) => {
                let (value, after) = neighbour(value, after_name);
                let unquoted = text.strip_suffix('"').zip(after.strip_prefix('"'));
                let (start, end) =
                    unquoted.map_or((text.len(), after), |(it, end)| (it.len(), end));
                text.truncate(start);
                text += &value;
                rest = end;
            }
        }
    }
    text + rest
}

fn number_at_start(text: &str) -> (Option<usize>, &str) {
    let (digits, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    (digits.parse().ok(), rest)
}

fn name_at_start(text: &str) -> (&str, &str) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split_at(text.bytes().take_while(is_part).count())
}

/// Splits off what is repeated: a character, a byte such as `\xff`, or a text in parentheses.
fn unit_at_start(text: &str) -> (&str, &str) {
    if let Some(parts) = text.strip_prefix('(').and_then(|text| text.split_once(')')) {
        return parts;
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.split_at(if text.starts_with("\\x") { 4 } else { first })
}

/// Returns a value as text, changed by the `+1` or `-1` with which `rest` may begin, and the text behind it.
fn neighbour<'a>(value: &Value, rest: &'a str) -> (String, &'a str) {
    for (sign, factor) in [('+', 1), ('-', -1)] {
        let offset = rest.strip_prefix(sign).map(number_at_start);
        if let (Some((Some(offset), after)), Some(number)) = (offset, value.as_i64()) {
            return ((number + factor * offset as i64).to_string(), after);
        }
    }
    (value.to_string(), rest)
}

/// Returns the bytes of a text in which `\x00` stands for the byte 0, and `␞` for the separator of polling.
///
/// # Errors
/// Two hexadecimal digits are missing after `\x`.
pub(crate) fn bytes(text: &str) -> anyhow::Result<Vec<u8>> {
    let text = text.replace('␞', "\u{1e}");
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).with_context(|| format!("\\x{part}"))?;
        bytes.push(u8::from_str_radix(code, 16)?);
        bytes.extend(part[2..].bytes());
    }
    Ok(bytes)
}

/// Asserts that a value fits a pattern. An object may have further fields, unless `is_exact` or it is a `state`. The
/// order of a `snapshot` does not matter. In a pattern, `"?"` takes any value. `"?name"` also keeps it as a variable, and
/// takes the same value in all places. `"?>7"` takes a larger number or a longer text, `"?!=x"` another value, and
/// `"?~7"` a time in ms within a minute. `"$absent"`: the field must not be there.
///
/// # Errors
/// The first part that does not fit.
pub(crate) fn fits(
    pattern: &Value,
    value: &Value,
    is_exact: bool,
    variables: &mut Variables,
) -> anyhow::Result<()> {
    let mut bound = Variables::new();
    part_fits(pattern, Some(value), "", is_exact, &mut bound)
        .map_err(|problem| anyhow::Error::msg(format!("{problem} in {}", shortened(value))))?;
    variables.extend(bound);
    Ok(())
}

fn part_fits(
    pattern: &Value,
    value: Option<&Value>,
    at: &str,
    is_exact: bool,
    bound: &mut Variables,
) -> Result<(), String> {
    let differs = || format!("{at} is not {}", shortened(pattern));
    if *pattern == "$absent" {
        return value.map_or(Ok(()), |_| Err(differs()));
    }
    let value = value.ok_or_else(differs)?;
    let is_right = match (pattern, value) {
        (Value::String(text), value) => match text.strip_prefix('?') {
            Some(placeholder) => is_taken(placeholder, value, bound),
            None => pattern == value,
        },
        (Value::Object(fields), Value::Object(object)) => {
            for (key, field) in fields {
                let is_exact = is_exact || key == "state";
                let at = format!("{at}/{key}");
                part_fits(field, object.get(key), &at, is_exact, bound)?;
            }
            !is_exact || object.keys().all(|key| fields.contains_key(key))
        }
        (Value::Array(parts), Value::Array(items)) if parts.len() == items.len() => {
            let mut left: Vec<&Value> = items.iter().collect();
            for (index, part) in parts.iter().enumerate() {
                let part_at = format!("{at}/{index}");
                let mut fit = |item| {
                    let mut attempt = bound.clone();
                    part_fits(part, Some(item), &part_at, is_exact, &mut attempt)?;
                    *bound = attempt;
                    Ok::<_, String>(())
                };
                let next = if at.ends_with("/snapshot") {
                    left.iter().position(|item| fit(item).is_ok())
                } else {
                    fit(left[0]).map(|()| Some(0))?
                };
                left.remove(next.ok_or_else(differs)?);
            }
            true
        }
        _ => pattern == value,
    };
    is_right.then_some(()).ok_or_else(differs)
}

/// Returns true if a placeholder takes a value, which is kept.
fn is_taken(placeholder: &str, value: &Value, bound: &mut Variables) -> bool {
    let (name, condition) = name_at_start(placeholder);
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let number = value.as_u64().unwrap_or(text.len() as u64);
    let other = |sign: char| condition.strip_prefix(sign)?.parse::<u64>().ok();
    let is_right = match (other('>'), other('~')) {
        (Some(least), _) => number > least,
        (_, Some(time)) => number.abs_diff(time) < 60_000,
        _ => condition.strip_prefix("!=") != Some(&text),
    };
    let is_same = name.is_empty() || {
        let kept = bound.entry(name.to_owned());
        kept.or_insert_with(|| value.clone()) == value
    };
    is_right && is_same
}

/// Asserts that a packet fits one of several patterns with ` or ` between them: its text up to its JSON, and a pattern
/// of the JSON, which is compared as [`fits`] does. `…` stands for any end.
///
/// # Errors
/// The packet does not fit.
pub(crate) fn packet_fits(
    patterns: &str,
    packet: &str,
    is_exact: bool,
    variables: &mut Variables,
) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for pattern in patterns.split(" or ") {
        outcome = one_fits(pattern, packet, is_exact, variables);
        if outcome.is_ok() {
            return outcome;
        }
    }
    outcome.with_context(|| format!("expected {patterns}, got {packet:.400}"))
}

fn one_fits(
    pattern: &str,
    packet: &str,
    is_exact: bool,
    variables: &mut Variables,
) -> anyhow::Result<()> {
    if let Some(start) = pattern.strip_suffix('…') {
        ensure!(packet.starts_with(start), "another packet");
        return Ok(());
    }
    let (start, json) = pattern.split_at(pattern.find(['{', '[']).unwrap_or(pattern.len()));
    match (packet.strip_prefix(start), json) {
        (Some(""), "") => Ok(()),
        (Some(rest), json) if !json.is_empty() => {
            let value = serde_json::from_str(rest).context("its JSON")?;
            fits(&serde_json::from_str(json)?, &value, is_exact, variables)
        }
        _ => bail!("another packet"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_have_variables_numbers_next_to_them_and_repetitions() {
        let variables = Variables::from([
            ("room".to_owned(), json!("r-1")),
            ("epoch".to_owned(), json!(7)),
        ]);
        for (line, expected) in [
            (
                r#"{"roomId":"$room ","epoch":"$epoch"}"#,
                r#"{"roomId":"r-1 ","epoch":7}"#,
            ),
            ("$epoch+1 $epoch-1 $new $room-2", "8 6 $new r-1-2"),
            ("a$3€b $2\\xff $2(xy)", "a€€€b \\xff\\xff xyxy"),
        ] {
            assert_eq!(fill(line, &variables), expected);
        }
        assert_eq!(bytes("a\\xff␞b").unwrap(), b"a\xff\x1eb");
        assert!(bytes("\\xzz").is_err() && bytes("\\x1").is_err());
    }

    #[test]
    fn a_pattern_takes_further_fields_but_not_in_a_state() {
        let value =
            json!({"ok": true, "seq": 3, "state": {"a": 1}, "snapshot": [{"id": 1}, {"id": 2}]});
        let mut variables = Variables::new();
        let mut is_fit = |pattern| fits(&pattern, &value, false, &mut variables).is_ok();
        assert!(is_fit(
            json!({"seq": "?seq>2", "code": "$absent", "state": {"a": 1}})
        ));
        assert!(is_fit(
            json!({"snapshot": [{"id": "?last!=1"}, {"id": "?first"}]})
        ));
        for wrong in [
            json!({"state": {}}),
            json!({"seq": "$absent"}),
            json!({"code": "?"}),
            json!({"seq": "?>3"}),
            json!({"seq": "?!=3"}),
            json!({"snapshot": [{"id": 2}, {"id": 2}]}),
            json!({"snapshot": [{"id": 1}]}),
            json!({"seq": "?same", "ok": "?same"}),
        ] {
            assert!(!is_fit(wrong.clone()), "{wrong}");
        }
        assert!(fits(&json!({"ok": true}), &value, true, &mut variables).is_err());
        assert_eq!(
            (&variables["seq"], &variables["first"]),
            (&json!(3), &json!(1))
        );
    }

    #[test]
    fn a_packet_fits_one_of_its_patterns() {
        let mut variables = Variables::new();
        let mut is_fit =
            |patterns, packet| packet_fits(patterns, packet, false, &mut variables).is_ok();
        assert!(is_fit(
            "437[{\"ok\":true}] or end…",
            "437[{\"ok\":true,\"seq\":1}]"
        ));
        assert!(is_fit("40{} or end…", "end 1000") && is_fit("3probe", "3probe"));
        assert!(!is_fit("40{}", "44{}") && !is_fit("3probe", "3prabe") && !is_fit("3", "3probe"));
    }
}
