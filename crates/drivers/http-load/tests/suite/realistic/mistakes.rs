//! Wrong plans and files: each message names the field and the remedy.

use harness_testing::mistakes::{check, refused};

use crate::program::PROGRAM;

const URL: &str = "http://127.0.0.1:1";

/// A plan with one text replaced.
fn plan(text: &str, by: &str) -> String {
    const PLAN: &str = "name = 'mine'\n[timeline]\nmeasure = '10s'\ndrain = '1s'\n[[groups]]\nname = 'users'\nclients = 3\n[driver]\nrows = 'rows.csv'\n[[driver.requests]]\nname = 'one'\npath = '/{{user}}'\n[[driver.requests]]\nname = 'two'\nweight = 2\n";
    assert!(PLAN.contains(text), "{text}");
    PLAN.replace(text, by)
}

#[test]
fn a_wrong_plan_is_refused_with_the_field_and_the_remedy() {
    let two = "name = 'two'\nweight = 2";
    let plans: Vec<(&str, &str, String, Vec<&str>)> = vec![
        (
            "group",
            two,
            format!("{two}\ngroup = 'usres'"),
            vec!["driver.requests[1].group (`two`)", "use one of users"],
        ),
        (
            "name",
            "'two'",
            "'a.b'".to_owned(),
            vec!["driver.requests[1].name", "letters, digits"],
        ),
        (
            "taken",
            "'two'",
            "'response'".to_owned(),
            vec!["driver.requests[1].name", "another name"],
        ),
        (
            "column",
            "{{user}}",
            "{{usr}}".to_owned(),
            vec![
                "driver.requests[0].path (`one`)",
                "`{{usr}}` names nothing",
                "use one of user",
            ],
        ),
        (
            "unused",
            "{{user}}",
            "x".to_owned(),
            vec!["driver.rows (--rows)", "{{user}}", "leave it out"],
        ),
        (
            "method",
            two,
            format!("{two}\nmethod = 'GE T'"),
            vec![
                "driver.requests[1].method (`two`)",
                "not a valid HTTP method",
            ],
        ),
        (
            "status",
            two,
            format!("{two}\nexpect_status = [99]"),
            vec![
                "driver.requests[1].expect_status (`two`)",
                "between 100 and 599",
            ],
        ),
        (
            "capture",
            two,
            format!("{two}\ncapture = ['json:x as y']"),
            vec!["driver.requests[1].capture (`two`)", "begins with /"],
        ),
        (
            "same",
            two,
            format!("{two}\ncapture = ['json:/x as user']"),
            vec!["driver.requests[1].capture (`two`)", "is a column"],
        ),
        (
            "after",
            two,
            format!("{two}\nafter = 'three'"),
            vec!["driver.requests[1].after (`two`)", "no request `three`"],
        ),
        (
            "circle",
            two,
            format!("{two}\npath = '/{{{{a}}}}'\ncapture = ['json:/a as a']"),
            vec!["driver.requests[1].capture (`two`)", "without needs"],
        ),
        (
            "think",
            "[driver]",
            "[driver]\nthink = 'soon'".to_owned(),
            vec!["think", "such as 1s"],
        ),
        (
            "follow",
            "[driver]",
            "[driver]\nfollow = 3\nheaders = ['X-User: {{user}}']".to_owned(),
            vec!["driver.follow (--follow)", "columns in paths only"],
        ),
    ];
    let mut files: Vec<(String, String)> = vec![("rows.csv".to_owned(), "user\nme\n".to_owned())];
    let mut mistakes = Vec::new();
    for (name, text, by, says) in &plans {
        files.push((format!("{name}.toml"), plan(text, by)));
        mistakes.push((format!("{{dir}}/{name}.toml"), says.clone()));
    }
    let login = plan("[driver]", "[driver]\ncookies = true").replace("clients = 3", "rate = 5");
    files.push(("cookies.toml".to_owned(), login));
    mistakes.push((
        "{dir}/cookies.toml".to_owned(),
        vec!["driver.cookies (--cookies)", "give clients"],
    ));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let calls: Vec<[&str; 3]> = mistakes
        .iter()
        .map(|(plan, _)| ["--plan", plan.as_str(), URL])
        .collect();
    let refusals = calls.iter().zip(&mistakes);
    let refusals: Vec<_> = refusals
        .map(|(call, (_, says))| refused(call, says))
        .collect();
    check(PROGRAM, &files, &refusals);
}

#[test]
fn a_wrong_option_or_file_is_refused_with_the_remedy() {
    let path = ["--path", "/{{a}}"];
    let files = [
        ("short.csv", "a,b\n1,2\n3\n"),
        ("empty.csv", "a\n"),
        ("lines.jsonl", "{\"a\":1}\n{\"b\":1}\n"),
        ("good.csv", "a\n1\n"),
    ];
    let call = |more: &[&'static str]| [&path[..], more, &[URL]].concat();
    let (short, empty) = (
        call(&["--rows", "short.csv"]),
        call(&["--rows", "empty.csv"]),
    );
    let (lines, none) = (
        call(&["--rows", "lines.jsonl"]),
        call(&["--rows", "none.csv"]),
    );
    let unknown = call(&[]);
    let order = ["--set", "driver.order=sequential", URL];
    let think = call(&["--rows", "good.csv", "-R", "5", "--think", "1s"]);
    let hyper = call(&["--rows", "good.csv", "--engine", "hyper"]);
    let pipeline = call(&["--rows", "good.csv", "--pipeline", "2", "--think", "1s"]);
    check(
        PROGRAM,
        &files,
        &[
            refused(
                &short,
                &[
                    "driver.rows (--rows) short.csv",
                    "line 3 has 1 fields",
                    "correct it",
                ],
            ),
            refused(&empty, &["--rows) empty.csv", "has no rows"]),
            refused(&lines, &["--rows) lines.jsonl", "line 2 has no `a`"]),
            refused(&none, &["--rows) none.csv", "name a file that can be read"]),
            refused(
                &unknown,
                &["driver.path", "`{{a}}` names nothing", "--rows"],
            ),
            refused(&order, &["driver.order", "there are none: leave it out"]),
            refused(&hyper, &["driver.engine (--engine)", "--engine wire"]),
            refused(&think, &["driver.think (--think)", "leave it out"]),
            refused(
                &pipeline,
                &["driver.think (--think)", "leave out --pipeline"],
            ),
        ],
    );
}
