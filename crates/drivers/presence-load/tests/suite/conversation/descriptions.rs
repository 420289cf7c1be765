//! Each construct of a description, once.

use std::collections::BTreeSet;
use std::io::Write as _;

use super::application::{Application, Script};
use super::{JOIN, call, plan};

/// Runs a conversation, and returns the events that came after the joins, each once.
fn events(conversation: &[&str]) -> BTreeSet<String> {
    let application = Application::start(Script::default());
    let run = call(&application.url(), &plan(conversation), &[]).run();
    assert_eq!(run.result.operations("ok"), 60);
    let received = application.received().into_iter();
    received
        .filter(|event| !event.starts_with("[\"join\""))
        .collect()
}

#[test]
fn values_of_answers_go_into_later_messages_as_text_or_json() {
    let start = r#"start = [
      { emit = "join", data = ["{{room}}", "{{user}}"], ack = true, capture = ["json:/0/token as token"] },
      { emit = "ask", data = [{ a = "x\"y" }], expect = { event = "answer", pointer = "/0/a" }, capture = ["json:/0/a as a"] },
    ]"#;
    let steps = r#"steps = [{ emit = "echo", data = ["{{token}}", "{{token:json}}", "<{{a}}>", true, {}], ack = true, expect = { pointer = "/0", is = "{{token}}" } }]"#;
    let events = events(&[start, steps]);
    let of_load = r#"["echo","7",7,"<x\"y>",true,{}]"#;
    assert!(events.contains(of_load), "{events:?}");
    assert!(events.contains(r#"["ask",{"a":"x\"y"}]"#), "{events:?}");
}

#[test]
fn steps_take_turns_or_are_chosen_by_weight() {
    let application = Application::start(Script::default());
    let count = |weights: [&str; 3]| {
        let steps = weights.map(|weight| {
            format!(r#"{{ emit = "echo", data = ["{weight}"], ack = true{weight} }}"#)
        });
        let steps = format!("steps = [{}]", steps.join(", "));
        let before = application.received().len();
        let run = call(&application.url(), &plan(&[JOIN, &steps]), &[]).run();
        assert_eq!(run.result.operations("ok"), 60, "{}", run.stderr);
        let received = application.received();
        // Without the one of the check.
        let count = |weight: &str| {
            let event = format!(r#"["echo","{weight}"]"#);
            received[before..].iter().filter(|it| **it == event).count() - 1
        };
        weights.map(count)
    };
    assert_eq!(count(["", "", ""]), [62, 62, 62]);
    let [none, one, three] = count([", weight = 0", ", weight = 1", ", weight = 3"]);
    assert_eq!((none, one + three), (0, 60));
    assert!((35..=55).contains(&three), "{three}");
}

#[test]
fn rows_go_into_messages_in_turn() {
    let mut rows = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    write!(rows, "word,n\nhello,1\n\"a \"\"b\"\"\",2\n").unwrap();
    let rows = format!("rows = {:?}", rows.path().to_str().unwrap());
    let steps = r#"steps = [{ emit = "echo", data = ["{{word}}", "{{n:json}}"], ack = true }]"#;
    let events = events(&[&rows, JOIN, steps]);
    let expected = [r#"["echo","hello",1]"#, r#"["echo","a \"b\"",2]"#];
    assert_eq!(events, expected.map(str::to_owned).into());
}

#[test]
fn rows_are_read_while_they_are_sent_and_not_kept() {
    let application = Application::start(Script::default());
    let steps = r#"steps = [{ emit = "echo", data = ["{{n}}"], ack = true }]"#;
    let peak_kb = |count: usize| {
        let mut rows = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let row = format!("1,{}\n", "x".repeat(10_000));
        write!(rows, "n,text\n{}", row.repeat(count)).unwrap();
        let rows = format!("rows = {:?}", rows.path().to_str().unwrap());
        let run = call(&application.url(), &plan(&[&rows, JOIN, steps]), &[]).run();
        assert_eq!(run.result.operations("ok"), 60);
        run.result["usage"]["driver"]["rss_peak_kb"]
            .as_u64()
            .unwrap()
    };
    // 20 KB and 40 MB.
    let [few, many] = [2, 4_000].map(peak_kb);
    assert!(many < few + 10_000, "{few} KiB, {many} KiB");
}

#[test]
fn a_message_that_nothing_answers_is_done_when_it_is_sent() {
    let events = events(&[JOIN, r#"steps = [{ emit = "note" }]"#]);
    assert_eq!(events, ["[\"note\"]".to_owned()].into());
}
