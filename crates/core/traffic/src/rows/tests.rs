//! Tests of the readers of rows, on files as people and programs write them.

use super::*;

const FIELD: &str = "driver.rows (--rows)";
const ALONE: Share = Share::ALL;

fn open(name: &str, content: &str, used: &[usize]) -> Result<(tempfile::TempDir, Rows), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let checked = Rows::open(FIELD, &path).and_then(|mut rows| {
        rows.check(FIELD, used)?;
        Ok(rows)
    });
    checked
        .map(|rows| (folder, rows))
        .map_err(|error| error.to_string())
}

/// Returns the fields of this many rows, as a worker gets them.
fn read(rows: &Rows, share: Share, columns: &[usize], count: usize) -> Vec<String> {
    let mut reader = rows.reader(share, columns);
    let mut all = Vec::new();
    for _ in 0..count {
        reader.advance(rows);
        let fields = columns.iter().map(|column| reader.field(*column));
        let fields: Vec<_> = fields.map(String::from_utf8_lossy).collect();
        all.push(fields.join("|"));
    }
    assert_eq!(reader.take_failure(), None);
    all
}

#[test]
fn csv_is_read_with_quotes_line_ends_and_marks_as_programs_write_them() {
    let quoted = "\u{feff}name, note\r\n\"Müller, A.\",\"said \"\"hi\"\"\nthere\"\r\nB,\r\n";
    let (_folder, rows) = open("a.csv", quoted, &[0, 1]).unwrap();
    assert_eq!(
        (rows.columns(), rows.len()),
        (&["name".to_owned(), "note".to_owned()][..], 2)
    );
    let expected = [
        "Müller, A.|said \"hi\"\nthere",
        "B|",
        "Müller, A.|said \"hi\"\nthere",
    ];
    assert_eq!(read(&rows, ALONE, &[0, 1], 3), expected);
    let (_folder, rows) = open("a.csv", "a,b\n1,2\n3,4", &[1]).unwrap();
    assert_eq!(read(&rows, ALONE, &[1], 3), ["2", "4", "2"]);
}

#[test]
fn json_lines_are_read_with_texts_numbers_and_empty_lines() {
    let lines = "\u{feff}{\"a\":\"x y\",\"b\":[1]}\r\n\n{\"b\":2.5,\"a\":\"\\n\"}";
    let (_folder, rows) = open("a.jsonl", lines, &[0, 1]).unwrap();
    assert_eq!(
        read(&rows, ALONE, &[0, 1], 3),
        ["x y|[1]", "\n|2.5", "x y|[1]"]
    );
}

#[test]
fn a_wrong_file_is_named_with_the_line_and_the_remedy() {
    for (name, content, problem) in [
        ("a.csv", "", "is empty"),
        ("a.csv", "a,b\n", "has no rows"),
        ("a.csv", "a,a\n1,2\n", "two columns `a`"),
        ("a.csv", "a,\n1,2\n", "column 2 has no name"),
        ("a.csv", "a,b\n1,2\n3\n", "line 3 has 1 fields"),
        ("a.csv", "a,b\n1,2\n\"3,4\n5,6\n", "line 3 has 1 fields"),
        ("a.jsonl", "", "is empty"),
        ("a.jsonl", "[1]\n", "line 1 is not a JSON object"),
        ("a.jsonl", "{\"a\":1}\n{\"b\":1}\n", "line 2 has no `a`"),
    ] {
        let error = open(name, content, &[0]).unwrap_err();
        assert!(
            error.contains("--rows) /") && error.contains(problem),
            "{content:?}: {error}"
        );
    }
    let error = Rows::open(FIELD, Path::new("/no/such.csv")).unwrap_err();
    assert!(error.to_string().contains("name a file that can be read"));
    let error = Rows::open(FIELD, Path::new("/dev/zero")).unwrap_err();
    assert!(error.to_string().contains("is not a file"));
}

/// Workers share the rows: each has a part of its own, and begins it again at its end.
#[test]
fn every_row_is_used_once_before_one_is_used_again() {
    let rows_of = |count: usize| {
        (0..count)
            .map(|row| format!("{row},x\n"))
            .collect::<String>()
    };
    // More rows than positions that are kept.
    for (count, workers) in [(10, 3), (2 * MOST_POSITIONS + 5, 7), (2, 5)] {
        let (_folder, rows) = open("a.csv", &format!("n,m\n{}", rows_of(count)), &[0]).unwrap();
        assert!(rows.index.positions.len() < MOST_POSITIONS);
        let mut all = Vec::new();
        for index in 0..workers {
            let share = Share { index, of: workers };
            let own = count as u64 * (index + 1) / workers - count as u64 * index / workers;
            let own = own.max(1) as usize;
            let twice = read(&rows, share, &[0], 2 * own);
            assert_eq!(twice[..own], twice[own..]);
            all.extend(twice[..own].iter().map(|row| row.parse::<usize>().unwrap()));
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn a_file_that_shrinks_in_the_run_is_reported() {
    let (folder, rows) = open("a.csv", "a\n1\n2\n3\n", &[0]).unwrap();
    std::fs::write(folder.path().join("a.csv"), "a\n1\n").unwrap();
    let mut reader = rows.reader(ALONE, &[0]);
    (0..3).for_each(|_| reader.advance(&rows));
    let problem = reader.take_failure().unwrap();
    assert!(problem.contains("has changed"), "{problem}");
    assert_eq!(reader.field(0), b"");
}
