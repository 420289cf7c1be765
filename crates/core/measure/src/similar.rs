//! Finds the name that a misspelled word probably means.

/// Similarity (Jaro-Winkler, 0 to 1) from which on a name is suggested: `ngnix` reaches `nginx`, `apache` does not.
const SIMILAR: f64 = 0.8;

/// Returns the name that is most similar to `word`, if one is similar enough.
pub fn similar<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similarity = |name: &'a str| {
        let lower = name.to_lowercase();
        // In a short word, one wrong letter leaves little that is similar.
        let is_close = word.len() >= 3 && strsim::osa_distance(&word, &lower) == 1;
        let similarity = strsim::jaro_winkler(&word, &lower);
        (
            if is_close {
                similarity.max(SIMILAR)
            } else {
                similarity
            },
            name,
        )
    };
    let all = names.into_iter().map(similarity);
    let best = all.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(similarity, _)| *similarity >= SIMILAR)
        .map(|(_, name)| name)
}

/// Returns the end of an error about an unknown word: the name that it probably means, or else all that are known.
pub fn suggest<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    let names = names.into_iter();
    match similar(word, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let all: Vec<&str> = names.collect();
            match all.as_slice() {
                [] => "there is none".to_owned(),
                all => format!("use one of {}", all.join(", ")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_gets_its_name_and_any_other_word_gets_them_all() {
        let names = ["nginx", "http-daemon", "go-http"];
        for (word, name) in [
            ("ngnix", "nginx"),
            ("http-deamon", "http-daemon"),
            ("NGINX", "nginx"),
            ("gohttp", "go-http"),
            ("ngin", "nginx"),
        ] {
            assert_eq!(suggest(word, names), format!("did you mean `{name}`?"));
        }
        assert_eq!(
            suggest("lighttpd", ["nginx", "caddy"]),
            "use one of nginx, caddy"
        );
        assert_eq!(similar("rnu", ["run", "report"]), Some("run"));
        assert_eq!(suggest("x", []), "there is none");
    }
}
