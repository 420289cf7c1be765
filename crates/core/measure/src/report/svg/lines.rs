//! Lines: fewer points without losing extremes, and SVG path data.

use super::Point;

/// Returns at most `most` of these points, which are sorted from left to right. Each stretch keeps its first, lowest,
/// highest and last point, so no extreme is lost. Short lines are returned unchanged.
pub(super) fn thinned(points: &[Point], most: usize) -> Vec<Point> {
    if points.len() <= most {
        return points.to_vec();
    }
    let stretches = (most / 4).max(1);
    let length = points.len().div_ceil(stretches);
    points.chunks(length).flat_map(extremes).collect()
}

fn extremes(stretch: &[Point]) -> Vec<Point> {
    let by_height = |one: &usize, other: &usize| stretch[*one].1.total_cmp(&stretch[*other].1);
    let indices = || 0..stretch.len();
    let mut kept = vec![
        0,
        indices().min_by(by_height).unwrap_or(0),
        indices().max_by(by_height).unwrap_or(0),
        stretch.len() - 1,
    ];
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| stretch[index]).collect()
}

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
    use proptest::prelude::*;

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

    #[test]
    fn a_single_peak_among_thousands_of_points_is_kept() {
        let mut points: Vec<Point> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        points[7_001].1 = 900.0;
        let thinned = thinned(&points, 1_000);
        assert!(thinned.len() <= 1_000, "{}", thinned.len());
        assert!(thinned.contains(&(7_001.0, 900.0)));
    }

    proptest! {
        #[test]
        fn extremes_and_ends_stay_and_the_limit_holds(heights in proptest::collection::vec(-1e9..1e9_f64, 1..3_000), most in 4..400_usize) {
            let points: Vec<Point> = heights.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
            let thinned = thinned(&points, most);
            prop_assert!(thinned.len() <= most);
            prop_assert!(thinned.is_sorted_by(|one, other| one.0 < other.0));
            let highest = |points: &[Point]| points.iter().map(|point| point.1).fold(f64::MIN, f64::max);
            let lowest = |points: &[Point]| points.iter().map(|point| point.1).fold(f64::MAX, f64::min);
            prop_assert_eq!(highest(&points), highest(&thinned));
            prop_assert_eq!(lowest(&points), lowest(&thinned));
            prop_assert_eq!(points.first(), thinned.first());
            prop_assert_eq!(points.last(), thinned.last());
        }
    }
}
