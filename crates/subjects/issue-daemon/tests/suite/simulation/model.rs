//! The contents that the database must have, as far as answers have said.

use std::collections::BTreeMap;

use issue_rpc::{Answer, BatchOperation, Code, Read, Write, WriteRequest};
use issue_store::{Filter, Reader};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::Value;

/// The knowledge about an issue.
#[derive(Debug, Default)]
struct Known {
    /// The value of its notes, if it exists.
    notes: Option<String>,
    /// Values that failed with the disk, and may be there after a loss of power. None is the value of its creation.
    possible: Vec<String>,
}

/// All issues that clients have tried to create.
#[derive(Debug, Default)]
pub(crate) struct Model {
    issues: BTreeMap<String, Known>,
    /// The ids of issues that were created with a key.
    keyed: BTreeMap<String, String>,
    /// The ids of each client's issues, for requests.
    own: BTreeMap<String, Vec<String>>,
}

impl Model {
    /// Returns the id of an issue of a client, or one that nobody has.
    pub(crate) fn any_issue(&self, client: usize, random: &mut StdRng) -> String {
        let own = self.own.get(&format!("c{client}"));
        match own {
            Some(own) => own[random.random_range(0..own.len())].clone(),
            None => "nobody".to_owned(),
        }
    }

    /// Notes what the writer has answered to a request. Returns true if the request was repeated.
    pub(crate) fn committed(&mut self, request: &WriteRequest, answer: &Answer) -> bool {
        let line: Value = serde_json::from_str(&answer.line(None)).unwrap();
        if let Some(key) = &request.header.idempotency_key {
            return self.committed_with_key(&key.text, answer.code(), &line);
        }
        match &request.write {
            Write::Create(new) => {
                self.created(new.id.as_deref().unwrap_or_default(), answer.code())
            }
            Write::Update(args) => {
                let notes = args.patch.notes.clone().unwrap();
                self.updated(&args.id, notes, answer.code());
            }
            Write::Batch(batch) => {
                let ids = batch.operations.iter().map(|operation| match operation {
                    Ok(BatchOperation::Write(Write::Create(new))) => new.id.clone().unwrap(),
                    other => unreachable!("{other:?}"),
                });
                let ids: Vec<String> = ids.collect();
                self.batch(&ids, answer.code(), &line);
            }
            other => unreachable!("{other:?}"),
        }
        false
    }

    fn committed_with_key(&mut self, key: &str, code: Option<Code>, line: &Value) -> bool {
        if code.is_some() {
            return false;
        }
        let id = line["data"]["id"].as_str().unwrap().to_owned();
        self.created(&id, None);
        match self.keyed.insert(key.to_owned(), id.clone()) {
            Some(before) => {
                assert_eq!(before, id, "{key} was done twice");
                true
            }
            None => false,
        }
    }

    fn created(&mut self, id: &str, code: Option<Code>) {
        match code {
            None => {
                let known = self.issues.entry(id.to_owned()).or_default();
                known.notes.get_or_insert_default();
                let owner = id.split('-').next().unwrap().to_owned();
                self.own.entry(owner).or_default().push(id.to_owned());
            }
            Some(Code::Internal) => {
                let known = self.issues.entry(id.to_owned()).or_default();
                known.possible.push(String::new());
            }
            Some(_) => {
                self.issues.entry(id.to_owned()).or_default();
            }
        }
    }

    fn updated(&mut self, id: &str, notes: String, code: Option<Code>) {
        let known = self.issues.entry(id.to_owned()).or_default();
        match code {
            None => {
                assert!(
                    known.notes.is_some(),
                    "{id} was changed, and does not exist"
                );
                known.notes = Some(notes);
                known.possible.clear();
            }
            Some(Code::NotFound) => {
                assert!(known.notes.is_none(), "{id} exists, and was not found")
            }
            Some(Code::Internal) => known.possible.push(notes),
            Some(_) => {}
        }
    }

    fn batch(&mut self, ids: &[String], code: Option<Code>, line: &Value) {
        let results = line["data"]["results"].as_array();
        let is_atomic = line["data"]["mode"] == "atomic";
        for (index, id) in ids.iter().enumerate() {
            let result = results.and_then(|results| results.get(index));
            let is_kept = result.is_some_and(|result| result["success"] == true);
            match (code, is_kept) {
                (None, true) => self.created(id, None),
                // A part has failed, and not with the disk: the results say what was kept.
                (Some(Code::Validation), true) if !is_atomic => self.created(id, None),
                (Some(Code::Internal), _) => self.created(id, Some(Code::Internal)),
                _ => self.created(id, Some(Code::Validation)),
            }
        }
    }

    /// Compares what a reader has found with what must or may be there.
    pub(crate) fn compare(&self, read: &Read, answer: &Value) {
        let Read::Show(id) = read else {
            unreachable!("{read:?}")
        };
        let notes = (answer["success"] == true)
            .then(|| answer["data"]["notes"].as_str().unwrap_or_default());
        let Some(known) = self.issues.get(id) else {
            // It was sent and is not committed, so that nobody may see it.
            assert_eq!(notes, None, "{id} was not committed");
            return;
        };
        // Before a loss of power, a failed write must not be visible.
        assert_eq!(notes, known.notes.as_deref(), "{id}: {known:?}");
    }

    /// Compares the whole database after a loss of power, and adopts what has become certain. Returns the number of
    /// failed writes that are there.
    pub(crate) fn compare_all(&mut self, reader: &Reader) -> u64 {
        let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
        for issue in reader.list(&Filter::default()).unwrap().issues {
            found.insert(issue.id, (issue.title, issue.notes));
        }
        let mut surfaced = 0;
        for (id, known) in &mut self.issues {
            let notes = found.remove(id).map(|(_, notes)| notes);
            if notes == known.notes {
                known.possible.clear();
                continue;
            }
            let is_possible = notes
                .as_ref()
                .is_some_and(|notes| known.possible.contains(notes));
            assert!(is_possible, "{id} has the notes {notes:?}: {known:?}");
            surfaced += 1;
            known.notes = notes;
            known.possible.clear();
        }
        // The rest was created with keys, whose answers were lost.
        let mut keys: Vec<&String> = found.values().map(|(title, _)| title).collect();
        keys.sort_unstable();
        let mut unique = keys.clone();
        unique.dedup();
        assert_eq!(keys, unique, "a request with a key was done twice");
        for (id, (key, notes)) in &found {
            assert!(
                !self.keyed.contains_key(key),
                "{key} was done twice: {id} too"
            );
            assert!(
                key.starts_with('k') && notes.is_empty(),
                "nobody created {id}"
            );
            surfaced += 1;
            self.keyed.insert(key.clone(), id.clone());
            self.issues.insert(
                id.clone(),
                Known {
                    notes: Some(notes.clone()),
                    possible: Vec::new(),
                },
            );
        }
        surfaced
    }
}
