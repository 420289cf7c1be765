//! Files of operations and of issues.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::Path;

use issue_rpc::{ClientError, MAX_LINE, MAX_OPERATIONS, MAX_RECORDS};
use issue_store::{Imported, Record};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arguments::{Batch, Export, Import};
use crate::commands::Requests;
use crate::failure::Failure;
use crate::order::dependencies_first;
use crate::present;
use crate::session::parse;

/// The records of an answer to an export.
const PAGE_RECORDS: usize = 1_000;
/// The bytes of the records of a request: half of the longest line, for the other fields and for escapes.
const PAGE_BYTES: usize = MAX_LINE / 2;

/// Performs the operations of a file.
pub(crate) fn batch(requests: &mut Requests<'_>, args: &Batch) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let operations: Vec<Value> = if text.trim_start().starts_with('[') {
        serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(format!("{}: {error}", args.file.display())))?
    } else {
        json_lines(&args.file, &text)?
    };
    // A longer request would keep other writers waiting. An atomic one cannot be cut.
    let length = match args.mode.as_str() {
        "atomic" => operations.len().max(1),
        _ => MAX_OPERATIONS,
    };
    let mut all = Results {
        mode: args.mode.clone(),
        kept: 0,
        results: Vec::new(),
    };
    let mut failure = None;
    for operations in operations.chunks(length) {
        let before = all.results.len();
        let with_number = |failure: Failure| match before {
            0 => failure,
            _ => failure.after(&format!(
                "operations are counted from number {}",
                before + 1
            )),
        };
        let sent = json!({"operations": operations, "mode": args.mode});
        let (data, refused) = match requests.session.call_once("batch", sent) {
            Ok(data) => (data, None),
            Err(ClientError::Refused {
                code,
                error,
                data: Some(data),
            }) => (data, Some(with_number(Failure::Refused(code, error)))),
            Err(other) => return Err(with_number(other.into())),
        };
        let part: Results = parse(&data)?;
        all.kept += part.kept;
        all.results.extend(part.results);
        failure = failure.or(refused);
        if failure.is_some() && args.mode != "continue" {
            break;
        }
    }
    let data = serde_json::value::to_raw_value(&all).expect("results are JSON");
    requests.print(&data, results)?;
    failure.map_or(Ok(()), Err)
}

/// The data of a batch's answer.
#[derive(Deserialize, Serialize)]
struct Results {
    mode: String,
    kept: u64,
    results: Vec<Value>,
}

/// Prints the results of a batch, one per line.
fn results(out: &mut dyn Write, data: &RawValue) -> Result<(), Failure> {
    let all: Results = parse(data)?;
    for (index, result) in all.results.iter().enumerate() {
        let id = result["data"]["id"].as_str().unwrap_or_default();
        let text = match result["success"].as_bool() {
            Some(true) => format!("done {id}"),
            _ => {
                let part = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {}", part("code"), part("error"))
            }
        };
        writeln!(out, "{}  {}", index + 1, present::plain(text.trim_end()))?;
    }
    Ok(())
}

/// Writes all issues, one per line.
pub(crate) fn export(requests: &mut Requests<'_>, args: &Export) -> Result<(), Failure> {
    let Some(path) = args.file.as_deref().filter(|path| *path != Path::new("-")) else {
        let number = export_to(requests, None)?;
        requests.out.flush()?;
        present::note(&format!("issue: exported {number} issues"));
        return Ok(());
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let failed =
        |error: io::Error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
    let file = file.map_err(failed)?;
    let mut file = BufWriter::new(file);
    let number = export_to(requests, Some(&mut file))?;
    let file = file
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    present::note(&format!(
        "issue: exported {number} issues to {}",
        path.display()
    ));
    Ok(())
}

/// Writes the records to a file or to the output. Returns their number.
fn export_to(
    requests: &mut Requests<'_>,
    mut file: Option<&mut dyn Write>,
) -> Result<usize, Failure> {
    #[derive(Deserialize)]
    struct RawPage {
        records: Vec<Box<RawValue>>,
        next: Option<i64>,
    }
    let (mut number, mut after) = (0, Some(0));
    while let Some(from) = after {
        let args = json!({"after": from, "limit": PAGE_RECORDS, "events": true});
        let page: RawPage = requests.session.read("export", args)?;
        number += page.records.len();
        for record in &page.records {
            match &mut file {
                Some(file) => writeln!(file, "{record}")?,
                None => writeln!(requests.out, "{record}")?,
            }
        }
        after = page.next;
    }
    Ok(number)
}

/// Reads issues that were exported. They are stored in pages, each whole or not at all, and each issue after those that it
/// depends on.
pub(crate) fn import(requests: &mut Requests<'_>, args: &Import) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let records: Vec<Record> = json_lines(&args.file, &text)?;
    let order = dependencies_first(
        &records
            .iter()
            .map(present::dependencies)
            .collect::<Vec<_>>(),
    );
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut done = 0;
    let mut page = Vec::new();
    let mut bytes = 0;
    let mut total = Imported::default();
    let mut send = |requests: &mut Requests<'_>, page: &mut Vec<&Record>| {
        let sent = json!({"records": page, "on_conflict": args.on_conflict});
        let part: Imported = requests.session.read("import", sent).map_err(|failure| {
            failure.after(&format!(
                "{done} of {} issues were imported before it: correct the file, and import it again with --on-conflict skip",
                records.len()
            ))
        })?;
        total.created += part.created;
        total.skipped += part.skipped;
        total.replaced += part.replaced;
        total.kept.extend(part.kept);
        done += page.len();
        page.clear();
        Ok::<_, Failure>(())
    };
    for index in order {
        let size = lines[index].len();
        if page.len() == MAX_RECORDS || (bytes + size > PAGE_BYTES && !page.is_empty()) {
            send(requests, &mut page)?;
            bytes = 0;
        }
        bytes += size;
        page.push(&records[index]);
    }
    if !page.is_empty() {
        send(requests, &mut page)?;
    }
    if !total.kept.is_empty() {
        let number = total.kept.len();
        present::note(&format!(
            "issue: kept {number} issue{} that changed after the file was written",
            if number == 1 { "" } else { "s" }
        ));
    }
    let data = serde_json::value::to_raw_value(&total).expect("an outcome is JSON");
    requests.print(&data, present::fields)
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
}

/// Parses a file of one JSON object per line; empty lines are left out.
fn json_lines<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<Vec<T>, Failure> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let path = path.display();
            Failure::Usage(format!("{path}, line {}: {error}", index + 1))
        })
    });
    parsed.collect()
}
