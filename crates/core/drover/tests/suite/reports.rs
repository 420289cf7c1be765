//! Tests reports, lists and checks.

use std::fs;

use crate::support::{Project, assert_contains, ends_with, json, messages, shown};

const ONE: &str = "[driver]\n[suite]\ndaemons = ['a', 'b']\n";

#[test]
fn the_command_in_a_report_runs_the_plan_where_it_is() {
    let project = Project::new(ONE);
    let plan = fs::read_to_string(project.path("configs/fake/tiny.toml")).unwrap();
    project.file("my plans/mine.toml", &plan);
    let run = r#"run 'my plans/mine.toml' --force --set "driver.x='a b'""#;
    project.call(run, 0);
    let summary = fs::read_to_string(project.suite("tiny/summary.md")).unwrap();
    let (_, command) = summary.split_once("command: `drover ").unwrap();
    let command = command.split('`').next().unwrap();
    assert!(
        command.starts_with("run 'my plans/mine.toml' --daemon a,b "),
        "{command}"
    );
    // A shell gives the program the same words again, so it finds the suite finished.
    let program = project.drover("");
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &format!("\"$0\" {command} --force")])
        .arg(program.get_program())
        .current_dir(project.path(""));
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let again = shell.output().unwrap();
    assert_contains(&messages(&again), &["Nothing to do"]);
}

#[test]
fn a_report_is_rebuilt_from_the_files_as_it_was() {
    let project = Project::new(ONE);
    project.run("", 0);
    let suite = project.suite("tiny");
    let pages = ["report.md", "summary.md", "report.html"].map(|name| suite.join(name));
    let before = pages.clone().map(|page| fs::read_to_string(page).unwrap());
    assert!(before.iter().all(|page| page.len() > 500));
    let links = before[2].split("<a class=\"file\" href=\"").skip(1);
    let links: Vec<&str> = links.filter_map(|link| link.split('"').next()).collect();
    for file in [
        "plan.toml",
        "suite.json",
        "report.md",
        "a/5/1/result.json",
        "b/5/1/result.json",
    ] {
        assert!(links.contains(&file), "{links:?}");
    }
    for file in links {
        assert!(suite.join(file).is_file(), "{file}");
    }
    pages.iter().for_each(|page| fs::remove_file(page).unwrap());
    project.call(&format!("report {}", suite.display()), 0);
    assert_eq!(
        pages.clone().map(|page| fs::read_to_string(page).unwrap()),
        before
    );

    for name in ["terminal", "markdown", "summary", "html", "csv", "json"] {
        let output = project.call(&format!("report {} --format {name}", suite.display()), 0);
        assert!(shown(&output).len() > 50, "{name}");
    }
    let unknown = project.call(&format!("report {} --format pdf", suite.display()), 2);
    assert_contains(&messages(&unknown), &["markdown"]);
}

#[test]
fn a_result_that_cannot_be_read_is_listed_and_blocks_nothing() {
    let project = Project::new(ONE);
    project.run("", 0);
    fs::write(project.suite("tiny/a/5/1/result.json"), "{").unwrap();
    for folder in ["tiny", "tiny/."] {
        let suite = project.suite(folder);
        if folder != "tiny" {
            fs::remove_file(suite.join("suite.json")).unwrap();
        }
        let call = format!("report {} --format markdown", suite.display());
        let output = project.call(&call, 0);
        assert_contains(&shown(&output), &["not a complete result"]);
    }
    // Without any other result there is nothing to report.
    let run = project.suite("tiny/a/5/1");
    let output = project.call(&format!("report {}", run.display()), 2);
    assert_contains(&messages(&output), &["a/5/1/result.json", "not a complete"]);
}

#[test]
fn pages_of_several_folders_are_written_into_none_of_them() {
    let project = Project::new(ONE);
    project.run("", 0);
    let page = project.suite("tiny/report.md");
    let before = fs::read_to_string(&page).unwrap();
    let both = [project.suite("tiny"), project.suite("tiny/b")];
    let both = both.each_ref().map(|path| path.to_str().unwrap());
    let output = project.call(&format!("report {} {}", both[0], both[1]), 2);
    assert_contains(&messages(&output), &["--format"]);
    assert_eq!(fs::read_to_string(&page).unwrap(), before);
}

/// Two runs, which are too few, so that the comparison stays open.
#[test]
fn the_command_that_would_settle_the_rest_has_what_the_call_had() {
    let two = "[driver]\n[suite]\ndaemons = ['a', 'b']\nrepeat = 2\n\
        levels = [{ name = '5', set = {} }, { name = '6', set = {} }]\n";
    let project = Project::new(two);
    let settles = |more: &str, expected: &str| {
        let output = project.run(&format!("{more} --fresh"), 0);
        let shown = shown(&output);
        let words: Vec<&str> = shown.split_whitespace().collect();
        let command = "to settle drover run configs/fake/tiny.toml --daemon a,b --repeat 5";
        let expected = format!("{command}{expected} more ");
        assert!(words.join(" ").contains(&expected), "{expected}: {shown}");
    };
    settles("", "");
    settles("--level 6", " --level 6");
    let other = project.path("other");
    fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    settles("--out other", &format!(" --out {}", other.display()));
}

#[test]
fn a_summary_holds_a_suite_against_an_earlier_one() {
    let project = Project::new(ONE);
    project.run("", 0);
    let suite = project.suite("tiny");
    let folder = suite.to_str().unwrap();
    let written = fs::read_to_string(suite.join("summary.md")).unwrap();
    assert_contains(&written, &["drover run configs/"]);
    let report = |args: &str| {
        let call = format!("report {folder} {args}");
        project.drover(&call).output().unwrap()
    };
    let against = report(&format!("--base {folder}"));
    ends_with(&against, 0);
    assert_contains(
        &shown(&against),
        &["the daemon of that name in the first suite", "| a@2 |"],
    );
    let page = report(&format!("--format html --base {folder}"));
    ends_with(&page, 0);
    assert_contains(&shown(&page), &["id=\"ratios\""]);
}

#[test]
fn sides_are_suites_results_or_daemons_of_a_suite() {
    let project = Project::new(&ONE.replace("[suite]\n", "[suite]\nrepeat = 3\n"));
    project.run("", 0);
    let suite = project.suite("tiny");
    let path = |below: &str| suite.join(below).to_str().unwrap().to_owned();
    let compare = |sides: [&str; 2], code: i32| {
        let sides = sides.map(|side| format!("{}{side}", path("")));
        let output = project.call(&format!("compare {} {}", sides[0], sides[1]), code);
        (shown(&output), messages(&output))
    };
    // Runs of one suite are pairs, however they are named.
    for sides in [["#a", "#b"], ["#a", ""], ["a", "b"]] {
        let (text, _) = compare(sides, 0);
        assert_contains(
            &text,
            &[
                ", 6 runs of 2 daemons at 1 level",
                "TTFB p50 of b is the same within 3 %",
                "against a",
            ],
        );
    }
    let (text, _) = compare(["a/5/1/result.json", "b/5/2"], 0);
    assert_contains(&text, &["TTFB p50 of b has too few runs"]);
    let (_, problem) = compare(["#a", "#x"], 2);
    assert_contains(&problem, &["tiny has no runs of `x`: use one of a, b"]);
    let (_, problem) = compare(["", ""], 2);
    assert_contains(&problem, &["the sides are the same"]);

    // The same suite at another time is another block.
    let (other, moved) = (project.path("moved/tiny"), project.path("moved"));
    fs::create_dir(&moved).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&suite, &other])
        .status();
    assert!(copied.unwrap().success());
    for file in ["a/5/1", "a/5/2", "a/5/3"].map(|run| other.join(run).join("result.json")) {
        let mut result = json(&file);
        result["started_at"] = "2026-03-01T12:00:00Z".into();
        for side in ["user_s", "system_s"] {
            let used = result["usage"]["driver"][side].as_f64().unwrap();
            result["usage"]["driver"][side] = (used * 1.2).into();
        }
        fs::write(&file, result.to_string()).unwrap();
    }
    let both = [path("").clone() + "#a", format!("{}#a", other.display())];
    let output = project.call(
        &format!("diff {} {} --format markdown", both[0], both[1]),
        0,
    );
    assert_contains(
        &shown(&output),
        &[
            "**excluded:** a@2026-03-01: not comparable with a@2026-01-31: two blocks of runs, between which the driver's own CPU time per operation changed by 20 %",
        ],
    );
    let output = project.call(
        &format!("compare {} {} --fail-on worse", both[0], both[1]),
        3,
    );
    assert_contains(
        &messages(&output),
        &["Nothing was compared by the metric of --fail-on"],
    );
}

#[test]
fn plain_results_make_a_report_too() {
    let project = Project::new(ONE);
    project.run("", 0);
    let one = project.suite("tiny/a");
    project.call(&format!("report {}", one.to_str().unwrap()), 0);
    let page = fs::read_to_string(one.join("report.md")).unwrap();
    assert_contains(&page, &["first_byte"]);
    let file = project.suite("tiny/a/5/1/result.json");
    let other = project.suite("tiny/b");
    let call = format!("analyze {} {}", file.display(), other.display());
    let both = project.call(&call, 0);
    let text = shown(&both);
    assert!(
        text.starts_with("## ") && text.contains("| a |") && text.contains("| b |"),
        "{text}"
    );
    let none = project.call("report daemons", 2);
    assert_contains(&messages(&none), &["result.json"]);
}

#[test]
fn runs_of_different_loads_are_no_repetitions() {
    let project = Project::new(ONE);
    project.run("", 0);
    let file = project.suite("tiny/a/5/1/result.json");
    let mut result = json(&file);
    result["plan"]["driver"] = serde_json::json!({ "path": "/other" });
    result["plan"]["seed"] = 7.into();
    project.file("runs/1/result.json", &fs::read_to_string(&file).unwrap());
    project.file("runs/2/result.json", &result.to_string());
    let report = |folders: &str| {
        let arguments = format!("report --format markdown {folders}");
        let output = project.call(&arguments, 0);
        (shown(&output), messages(&output))
    };
    let (text, note) = report("runs");
    assert_contains(&text, &["at 5-"]);
    assert!(
        note.contains("The runs at level 5 are not repetitions of each other")
            && note.contains("differ in driver.")
            && !note.contains("seed"),
        "{note}"
    );
    let (text, note) = report("runs/1 runs/1");
    assert!(!text.contains("at 5-") && note.is_empty(), "{text}\n{note}");
}

#[test]
fn the_list_names_daemons_drivers_plans_and_suites() {
    let project = Project::new(ONE);
    project.daemon("c", "drover-no-such-tool");
    project.run("", 0);
    let output = project.call("list", 0);
    assert_contains(
        &shown(&output),
        &[
            "Daemon a (fake)",
            "drover-no-such-tool",
            "Drives nothing (fake)",
            "configs/fake/tiny.toml",
            "Which of the scripted daemons is the better one?",
            "2 of 2 runs",
        ],
    );
    let output = project.call("list 'daemon B'", 0);
    assert_eq!(
        shown(&output),
        "daemons\n  b                   Daemon b (fake)\n"
    );
    let output = project.call("list xyz", 2);
    assert_contains(&messages(&output), &["has xyz in its name", "fewer words"]);
}

#[test]
fn broken_manifests_and_plans_are_listed_with_the_reason_beside_the_others() {
    let project = Project::new(ONE);
    project.file(
        "daemons/broken/daemon.toml",
        "about = 'Broken'\nnonsense = 1\n",
    );
    project.file(
        "configs/fake/broken.toml",
        "# Is it broken?\n[timeline]\nmeasure = 1s\n",
    );
    let output = project.call("list", 2);
    assert_contains(
        &shown(&output),
        &[
            "Daemon a (fake)",
            "Daemon b (fake)",
            "broken              cannot be used: ",
            "`nonsense`",
            "configs/fake/tiny.toml",
            "Is it broken?\n      cannot be used: ",
            "configs/fake/broken.toml:",
        ],
    );
    let problem = "the list says why these cannot be used: broken, configs/fake/broken.toml";
    assert_contains(&messages(&output), &[problem]);
    // Words that leave them out leave out the problem.
    project.call("list 'daemon b'", 0);
}

#[test]
fn a_check_is_the_driver_s_own_for_all_daemons_of_its_protocol() {
    let project = Project::new(ONE);
    let all = project.call("check", 4);
    assert_eq!(shown(&all), "checked\n");
    let some = project.drover("check c a").output().unwrap();
    assert_eq!(shown(&some), "checked a,c\n");
    let none = project.call("check nonesuch", 2);
    assert_contains(
        &messages(&none),
        &["there is no daemon `nonesuch`: use one of a, b, c"],
    );
    project.daemon("c", "drover-no-such-tool");
    let lacking = project.call("check c", 1);
    assert_contains(&messages(&lacking), &["drover-no-such-tool"]);
    project.file(
        "daemons/other/daemon.toml",
        "about = 'O'\nserves = ['another']\nrun = ['true']\nready = { line = 'up' }\n",
    );
    let nobody = project.call("check a other", 2);
    assert_contains(&messages(&nobody), &["`other`"]);
}

#[test]
fn a_tool_that_a_service_needs_is_listed_and_found_by_the_doctor() {
    let project = Project::new(ONE);
    project.file(
        "daemons/a/daemon.toml",
        "about = 'Daemon a'\nserves = ['fake']\nrun = ['true', '{redis.port}']\nready = { line = 'up' }\n\
         [services.redis]\nneeds = [['drover-no-such-tool']]\nrun = ['true', '{port}']\nready = { line = 'up' }\n",
    );
    let output = project.call("list", 0);
    assert_contains(
        &shown(&output),
        &[
            "Daemon a (fake; it needs redis)",
            "needs `drover-no-such-tool`",
        ],
    );
    let output = project.call("doctor", 1);
    assert_contains(&shown(&output), &["`a` needs `drover-no-such-tool`"]);
}

#[test]
fn the_doctor_names_what_is_lacking_with_the_command_that_mends_it() {
    let project = Project::new(
        "[driver]\n[suite]\ndaemons = ['a', 'b']\nlevels = [{ name = 'x', set = { 'groups.0.clients' = 9000000 } }]\n",
    );
    project.daemon("b", "drover-no-such-tool");
    let output = project.call("doctor", 1);
    assert_contains(
        &shown(&output),
        &[
            "`b` needs `drover-no-such-tool`",
            "fix: install it (scripts/setup does so on Debian), or choose another daemon",
            "9000100 open files",
            "prlimit",
            "9,000,000 streams need",
        ],
    );
}
