//! Older names of options. They are taken, with a note that names the new one.

use std::ffi::OsString;

use super::variables;
use crate::output;

/// Options by their older names, each with the name of today, both without dashes.
pub(super) type Names = [(&'static str, &'static str)];

/// Replaces older names among the words of a command line, and notes them and their variables.
pub(super) fn replace(mut words: Vec<OsString>, names: &Names, program: &str) -> Vec<OsString> {
    for (old, new) in names {
        let [old, new] = [old, new].map(|option| variables::name(program, option));
        if std::env::var_os(&old).is_some() {
            output::note(&format!("note: {old} is called {new} now"));
        }
    }
    let end = words.iter().position(|word| word == "--");
    let end = end.unwrap_or(words.len());
    for word in &mut words[..end] {
        *word = replaced(std::mem::take(word), names);
    }
    words
}

fn replaced(word: OsString, names: &Names) -> OsString {
    let option = word.to_str().and_then(|text| text.strip_prefix("--"));
    let (option, value) = match option.and_then(|option| option.split_once('=')) {
        Some((option, value)) => (Some(option), format!("={value}")),
        None => (option, String::new()),
    };
    let Some((old, new)) = names.iter().find(|(old, _)| Some(*old) == option) else {
        return word;
    };
    output::note(&format!("note: --{old} is called --{new} now"));
    format!("--{new}{value}").into()
}

/// Returns the variable of an option: under its older name, if only this one is set.
pub(super) fn variable(program: &str, option: &str, names: &Names) -> String {
    let is_set = |name: &String| std::env::var_os(name).is_some();
    let name = variables::name(program, option);
    let older = names.iter().find(|(_, new)| *new == option);
    let older = older.map(|(old, _)| variables::name(program, old));
    match older {
        Some(older) if is_set(&older) && !is_set(&name) => older,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_names_are_replaced_where_options_stand() {
        let names = [("hold", "keep-open"), ("pacing", "loop")];
        for (typed, expected) in [
            ("x --hold --pacing closed", "x --keep-open --loop closed"),
            ("x --pacing=open --holds", "x --loop=open --holds"),
            ("x --hold -- --hold", "x --keep-open -- --hold"),
            ("x hold -hold --", "x hold -hold --"),
        ] {
            let typed = typed.split(' ').map(OsString::from).collect();
            let words = replace(typed, &names, "x");
            assert_eq!(words.join(" ".as_ref()), *expected);
        }
    }
}
