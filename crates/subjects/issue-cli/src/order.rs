//! The order in which issues are imported: each after those that it depends on.

use std::collections::HashMap;

/// Returns the indices of items so that each stands behind those that it depends on, and otherwise in the given order.
/// Dependencies on other items are left aside. In a circle, which a database refuses, the order is arbitrary.
pub(crate) fn dependencies_first(items: &[(String, Vec<String>)]) -> Vec<usize> {
    let indices: HashMap<&str, usize> = items
        .iter()
        .enumerate()
        .map(|(index, (id, _))| (id.as_str(), index))
        .collect();
    let mut ordered = Vec::with_capacity(items.len());
    let mut is_visited = vec![false; items.len()];
    for root in 0..items.len() {
        // A stack rather than recursion: a chain of dependencies can be long.
        let mut stack = Vec::new();
        if !std::mem::replace(&mut is_visited[root], true) {
            stack.push((root, items[root].1.iter()));
        }
        while let Some((index, left)) = stack.last_mut() {
            let next = left.find_map(|id| {
                let index = *indices.get(id.as_str())?;
                (!is_visited[index]).then_some(index)
            });
            match next {
                Some(next) => {
                    is_visited[next] = true;
                    stack.push((next, items[next].1.iter()));
                }
                None => {
                    ordered.push(*index);
                    stack.pop();
                }
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(items: &[(&str, &[&str])]) -> Vec<usize> {
        let item = |(id, on): &(&str, &[&str])| {
            let on = on.iter().map(|id| (*id).to_owned());
            ((*id).to_owned(), on.collect())
        };
        dependencies_first(&items.iter().map(item).collect::<Vec<_>>())
    }

    #[test]
    fn an_issue_follows_those_it_depends_on() {
        assert_eq!(ordered(&[("a", &[]), ("b", &["a"]), ("c", &[])]), [0, 1, 2]);
        assert_eq!(
            ordered(&[("a", &["c", "b"]), ("b", &["c", "elsewhere"]), ("c", &[])]),
            [2, 1, 0]
        );
        let circle = ordered(&[("a", &["b"]), ("b", &["a"])]);
        assert_eq!(circle, [1, 0]);
    }

    #[test]
    fn a_long_chain_is_ordered() {
        let chain: Vec<_> = (0..100_000)
            .map(|number| (number.to_string(), vec![(number + 1).to_string()]))
            .collect();
        let ordered = dependencies_first(&chain);
        assert!(ordered.into_iter().eq((0..100_000).rev()));
    }
}
