//! The order in which users perform the steps of the load, and what their messages have.

use super::application::{Application, Script};
use super::{call, plan_of};

#[test]
fn a_user_draws_a_scenario_by_weight_and_performs_its_steps_in_their_order() {
    let application = Application::start(Script::default());
    let conversation = r#"scenarios = [
      { weight = 3, steps = [{ emit = "echo", data = ["a"], ack = true, repeat = "uniform:2:4" }, { emit = "echo", data = ["b"], ack = true, think = "1ms" }] },
      { steps = [{ emit = "echo", data = ["c"], ack = true, repeat = 2 }] },
    ]"#;
    let groups = "groups = [{ name = \"users\", clients = 1 }]";
    let think = "think = \"0s\"";
    let plan = plan_of(groups, &[think, conversation]);
    let run = call(
        &application.url(),
        &plan,
        &["--rooms", "1", "--users-per-room", "1"],
    )
    .run();
    assert!(run.result.operations("ok") > 40, "{}", run.stderr);
    let received = application.received();
    // The check has sent three.
    let order: String = received[3..]
        .iter()
        .filter_map(|event| event.chars().rev().nth(2))
        .collect();
    let scenarios: Vec<&str> = order
        .split_inclusive("b")
        .flat_map(|part| part.split_inclusive("cc"))
        .collect();
    let (last, whole) = scenarios.split_last().unwrap();
    let count = |of: &[&str]| whole.iter().filter(|it| of.contains(it)).count();
    let kinds = ["aab", "aaab", "aaaab"].map(|kind| count(&[kind]));
    assert!(kinds.iter().all(|count| *count > 0), "{order}");
    let (first, second) = (kinds.iter().sum::<usize>(), count(&["cc"]));
    assert_eq!(first + second, whole.len(), "{order}");
    assert!(first > second && second > 0, "{order}");
    assert!("aaaab".contains(last) || "cc".contains(last), "{order}");
}

#[test]
fn a_step_has_a_think_time_of_its_own() {
    let application = Application::start(Script::default());
    let steps = r#"steps = [{ emit = "echo", ack = true, think = "100ms" }]"#;
    let groups = "groups = [{ name = \"users\", clients = 6 }]";
    let plan = plan_of(groups, &["think = \"0s\"", steps]);
    let run = call(&application.url(), &plan, &[]).run();
    let ok = run.result.operations("ok");
    assert!((6..=30).contains(&ok), "{ok}");
}

#[test]
fn each_user_has_a_row_of_its_own_and_keeps_it_when_it_comes_back() {
    let mut rows = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::io::Write::write_all(&mut rows, b"token\na\nb\nc\nd\n").unwrap();
    let rows = format!("rows = {:?}", rows.path().to_str().unwrap());
    let application = Application::start(Script::default());
    let start = r#"start = [{ emit = "echo", data = ["{{user}} {{user.token}}"], ack = true }]"#;
    let steps = r#"steps = [{ emit = "note" }]"#;
    let groups = "groups = [{ name = \"messages\", rate = 20.0 }]";
    let plan = plan_of(groups, &[&rows, start, steps]);
    let run = call(&application.url(), &plan, &["--churn", "40"]).run();
    assert!(run.result.count("joins") > 6, "{}", run.stderr);
    let mut received = application.received();
    received.retain(|event| event.starts_with("[\"echo\""));
    received.sort();
    received.dedup();
    // The first row follows the last.
    let users = ["1-1 a", "1-2 b", "1-3 c", "2-1 d", "2-2 a", "2-3 b"];
    let expected = users.map(|user| format!(r#"["echo","user-{user}"]"#));
    assert_eq!(received, expected);
}
