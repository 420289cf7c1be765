//! Wrong plans and files: each message names the field and the remedy.

use harness_testing::mistakes::check;

use crate::program::PROGRAM;

/// A plan with one text replaced.
fn plan(text: &str, by: &str) -> String {
    const PLAN: &str = "name = 'mine'\n[timeline]\nmeasure = '10s'\ndrain = '1s'\n[[groups]]\nname = 'users'\nclients = 3\n[driver]\nrows = 'rows.csv'\n[[driver.requests]]\nname = 'one'\npath = '/{{user}}'\n[[driver.requests]]\nname = 'two'\nweight = 2\n";
    assert!(PLAN.contains(text), "{text}");
    PLAN.replace(text, by)
}

#[test]
fn a_wrong_plan_is_refused_with_the_field_and_the_remedy() {
    let plans = r"
        weight = 2 -> group = 'usres' => driver.requests[1].group (`two`) … use one of users
        'two' -> 'a.b' => driver.requests[1].name … letters, digits
        'two' -> 'response' => driver.requests[1].name … another name
        {{user}} -> {{usr}} => driver.requests[0].path (`one`) … `{{usr}}` names nothing … use one of user
        {{user}} -> x => driver.rows (--rows) … {{user}} … leave it out
        weight = 2 -> method = 'GE T' => driver.requests[1].method (`two`) … not a valid HTTP method
        weight = 2 -> expect_status = [99] => driver.requests[1].expect_status (`two`) … between 100 and 599
        weight = 2 -> capture = ['json:x as y'] => driver.requests[1].capture (`two`) … begins with /
        weight = 2 -> capture = ['json:/x as user'] => driver.requests[1].capture (`two`) … is a column
        weight = 2 -> after = 'three' => driver.requests[1].after (`two`) … no request `three`
        weight = 2 -> path = '/{{a}}'\ncapture = ['json:/a as a'] => driver.requests[1].capture (`two`) … without needs
        [driver] -> [driver]\nthink = 'soon' => think … such as 1s
        [driver] -> [driver]\nfollow = 3\nheaders = ['X-User: {{user}}'] => driver.follow (--follow) … columns in paths only
        clients = 3\n[driver] -> rate = 5\n[driver]\ncookies = true => driver.cookies (--cookies) … give clients
    ";
    for line in plans.trim().lines() {
        let (change, says) = line.split_once(" => ").unwrap();
        let change = change.replace(r"\n", "\n");
        let (text, by) = change.trim().split_once(" -> ").unwrap();
        let plan = plan(text, by);
        let files = [("rows.csv", "user\nme\n"), ("p.toml", &plan)];
        check(
            PROGRAM,
            &files,
            &format!("--plan {{dir}}/p.toml {{url}} => {says}"),
        );
    }
}

#[test]
fn a_wrong_option_or_file_is_refused_with_the_remedy() {
    let files = [
        ("short.csv", "a,b\n1,2\n3\n"),
        ("empty.csv", "a\n"),
        ("lines.jsonl", "{\"a\":1}\n{\"b\":1}\n"),
        ("good.csv", "a\n1\n"),
    ];
    check(
        PROGRAM,
        &files,
        "
            --path /{{a}} --rows short.csv {url} => driver.rows (--rows) short.csv … line 3 has 1 fields … correct it
            --path /{{a}} --rows empty.csv {url} => --rows) empty.csv … has no rows
            --path /{{a}} --rows lines.jsonl {url} => --rows) lines.jsonl … line 2 has no `a`
            --path /{{a}} --rows none.csv {url} => --rows) none.csv … name a file that can be read
            --path /{{a}} {url} => driver.path … `{{a}}` names nothing … --rows
            --path /{{a}} --rows good.csv --engine hyper {url} => driver.engine (--engine) … --engine wire
            --path /{{a}} --rows good.csv -R 5 --think 1s {url} => driver.think (--think) … leave it out
            --path /{{a}} --rows good.csv --pipeline 2 --think 1s {url} => driver.think (--think) … leave out --pipeline
            --set driver.order=sequential {url} => driver.order … there are none: leave it out
        ",
    );
}
