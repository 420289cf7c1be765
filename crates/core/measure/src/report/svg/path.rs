//! SVG path data.

/// Formats a line through integer points, each relative to the previous one, optionally closed to an area. A single
/// point becomes a line of length 0, which round ends draw as a dot.
pub(super) fn relative(points: &[(i64, i64)], close: bool) -> String {
    let Some((first, rest)) = points.split_first() else {
        return String::new();
    };
    let mut path = format!("M{} {}l", first.0, first.1);
    if rest.is_empty() {
        path.push_str("0 0");
    }
    let mut last = *first;
    for (index, point) in rest.iter().enumerate() {
        number(&mut path, point.0 - last.0, index > 0);
        number(&mut path, point.1 - last.1, true);
        last = *point;
    }
    if close {
        path.push('z');
    }
    path
}

/// Appends a number. A minus sign separates numbers as well as a space does.
fn number(path: &mut String, number: i64, is_separated: bool) {
    if is_separated && number >= 0 {
        path.push(' ');
    }
    path.push_str(&number.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_relative_and_parted_by_what_is_shortest() {
        assert_eq!(
            relative(&[(10, 20), (12, 15), (15, 15)], false),
            "M10 20l2-5 3 0"
        );
        assert_eq!(relative(&[(1, 2), (0, 3)], true), "M1 2l-1 1z");
        assert_eq!(relative(&[(1, 2)], false), "M1 2l0 0");
        assert_eq!(relative(&[], true), "");
    }
}
