//! The requests of a plan with their settings, and the names that may stand in them.

use std::collections::BTreeMap;

use load::net::url::ServerUrl;
use load::plan::{Group, Invalid, Plan};
use load::schedule::Share;
use measure::spec::{CounterRole, CounterSpec, SeriesRole, SeriesSpec, Spec};
use measure::tally::Series;
use subject::manifest::find_plan;
use traffic::{Capture, Choice, Names, Origin, Replay, Rows, Source, Weights};

use crate::replay;
use crate::requests::Requests;
use crate::roles::checks::Checks;
use crate::settings::Settings;
use crate::settings::planned::{Order, PlannedRequest, in_request};
use crate::spec::SPEC;

mod needs;

pub(crate) use needs::Needs;

/// Maximum number of requests of a plan: each name has a histogram of 264 KiB, twice per worker.
pub(crate) const MOST_REQUESTS: usize = 100;
/// The field of the rows, for messages.
const ROWS: &str = "driver.rows (--rows)";
/// Names of thresholds that are not series.
const RESERVED: [&str; 4] = ["counts", "errors", "lag", "verdict"];

/// The requests of a plan.
#[derive(Debug)]
pub(crate) struct Mix {
    /// The settings of each request: the driver's own if the plan names none.
    pub(crate) requests: Vec<MixRequest>,
    /// The choice among them, for each group.
    pub(crate) choices: Vec<Choice>,
    /// The request before the run.
    pub(crate) setup: Option<MixRequest>,
    /// The names of columns, and of values; names of requests that others are `after` are among the values.
    pub(crate) names: Names,
    pub(crate) rows: Option<Rows>,
    /// The due times of the rows, if they are a log that is replayed.
    pub(crate) replay: Option<Replay>,
}

/// A request of a plan.
#[derive(Debug)]
pub(crate) struct MixRequest {
    pub(crate) settings: Settings,
    /// The values that it takes from its answer: the index of the name, the text of the plan, and the origin.
    pub(crate) captures: Vec<(usize, String, Capture)>,
    /// The index of the name that stands for having sent it, if another request is `after` it.
    pub(crate) sent: Option<usize>,
    /// The index of the name that stands for having sent the request before it.
    pub(crate) after: Option<usize>,
    /// Its series, and its counter of failures; `None` if the plan names no requests.
    pub(crate) named: Option<NamedRequest>,
}

/// The measurements of a request by its name.
#[derive(Debug, Clone)]
pub(crate) struct NamedRequest {
    pub(crate) series: Series,
    pub(crate) failed: String,
}

impl Mix {
    /// Derives the requests of a plan, and opens its rows.
    ///
    /// # Errors
    /// A group that sends nothing, an unknown group, a name that can't be one of a series, or a file that can't be read.
    pub(crate) fn new(plan: &Plan<Settings>) -> Result<Self, Invalid> {
        let settings = &plan.driver;
        let rows = settings.rows.as_deref();
        let rows = rows.map(|path| Rows::open(ROWS, &find_plan(path)));
        let mut rows = rows.transpose()?;
        let log = replay::open(settings)?;
        let replay = log.map(|(log, replay)| {
            rows = Some(log);
            replay
        });
        let columns = rows.iter().flat_map(|rows| rows.columns().to_vec());
        let mut names = Names {
            columns: columns.collect(),
            values: Vec::new(),
        };
        let all = &settings.requests;
        let series = series_of(all)?;
        let mut requests = Vec::new();
        for (index, request) in all.iter().enumerate() {
            let derived = MixRequest::new(settings, request, all, &mut names);
            let mut derived = derived.map_err(|error| at(all, index, error))?;
            derived.named = Some(NamedRequest {
                series: series[request.name.as_str()],
                failed: failed_as(&request.name),
            });
            requests.push(derived);
        }
        if requests.is_empty() {
            requests.push(MixRequest::with_settings(settings.clone()));
        }
        let setup = settings.setup.as_deref().map(|setup| {
            let derived = MixRequest::new(&settings.of_setup(), setup, &[], &mut names);
            derived.map_err(in_request("driver.setup", &setup.name))
        });
        Ok(Self {
            choices: choices(plan)?,
            setup: setup.transpose()?,
            requests,
            names,
            rows,
            replay,
        })
    }

    /// Builds the requests to a server.
    ///
    /// # Errors
    /// The first invalid setting, by the request that has it.
    pub(crate) fn requests_to(
        &self,
        server: &ServerUrl,
        planned: &[PlannedRequest],
    ) -> Result<Vec<Requests>, Invalid> {
        let each = self.requests.iter().enumerate().map(|(index, request)| {
            let built = Requests::new(&request.settings, server, &self.names);
            built.map_err(|error| at(planned, index, error))
        });
        each.collect()
    }

    /// Builds the request `setup` to a server.
    ///
    /// # Errors
    /// An invalid setting of it, or a value that only a later request captures.
    pub(crate) fn setup_requests(&self, server: &ServerUrl) -> Result<Option<Requests>, Invalid> {
        let Some(setup) = &self.setup else {
            return Ok(None);
        };
        let own = Names {
            values: Vec::new(),
            ..self.names.clone()
        };
        let built = setup.settings.validate_request();
        let built = built.and_then(|()| Requests::new(&setup.settings, server, &own));
        built.map(Some).map_err(in_request("driver.setup", "setup"))
    }

    /// Checks the rows to the end of their file, and counts them.
    ///
    /// # Errors
    /// The first row that is wrong.
    pub(crate) fn check_rows(&mut self, used: &[usize]) -> Result<(), Invalid> {
        match (&mut self.rows, &mut self.replay) {
            (Some(rows), Some(replay)) => replay.check(replay::FIELD, rows, used),
            (Some(rows), None) => rows.check(ROWS, used),
            (None, _) => Ok(()),
        }
    }
}

impl MixRequest {
    /// Derives a request of a plan, and adds the names that it makes known.
    fn new(
        settings: &Settings,
        request: &PlannedRequest,
        all: &[PlannedRequest],
        names: &mut Names,
    ) -> Result<Self, Invalid> {
        let mut derived = Self::with_settings(settings.of_request(request));
        for text in &request.capture {
            let capture = Capture::parse("capture", text)?;
            if names.columns.contains(&capture.name) {
                let problem = format!(
                    "`{}` is a column of the rows: use another name",
                    capture.name
                );
                return Err(Invalid::new("capture", problem));
            }
            let index = index_of(&capture.name, names);
            derived.captures.push((index, text.clone(), capture));
        }
        if let Some(before) = &request.after {
            if !all.iter().any(|other| other.name == *before) {
                let problem = format!("there is no request `{before}`: name one of the plan");
                return Err(Invalid::new("after", problem));
            }
            derived.after = Some(index_of(&sent_as(before), names));
        }
        if all
            .iter()
            .any(|other| other.after.as_ref() == Some(&request.name))
        {
            derived.sent = Some(index_of(&sent_as(&request.name), names));
        }
        Ok(derived)
    }

    fn with_settings(settings: Settings) -> Self {
        Self {
            settings,
            captures: Vec::new(),
            sent: None,
            after: None,
            named: None,
        }
    }

    /// Returns true if the body of its answer is needed.
    pub(crate) fn needs_body(&self) -> bool {
        self.captures
            .iter()
            .any(|(.., capture)| capture.needs_body())
    }

    /// Returns true if a value comes from its answer.
    pub(crate) fn gives(&self, value: usize) -> bool {
        self.sent == Some(value) || self.captures.iter().any(|(index, ..)| *index == value)
    }

    /// Keeps the parts of answers that it takes values from.
    pub(crate) fn capture_by(&self, checks: &mut Checks) {
        for (.., capture) in &self.captures {
            if let Origin::Header(name) = &capture.origin {
                checks.capture_field(name);
            }
        }
        if self.needs_body() {
            checks.capture_body();
        }
    }
}

/// Returns the name that stands for having sent a request. No capture has a name with a colon.
fn sent_as(request: &str) -> String {
    format!("sent:{request}")
}

fn index_of(name: &str, names: &mut Names) -> usize {
    let known = names.values.iter().position(|known| known == name);
    known.unwrap_or_else(|| {
        names.values.push(name.to_owned());
        names.values.len() - 1
    })
}

/// Returns the columns that requests use.
pub(crate) fn columns_of<'r>(requests: impl IntoIterator<Item = &'r Requests>) -> Vec<usize> {
    let sources = requests.into_iter().flat_map(Requests::sources);
    let mut columns: Vec<usize> = sources
        .filter_map(|source| match source {
            Source::Column(column) => Some(column),
            Source::Value(_) => None,
        })
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Names the request in an error about one of its settings.
pub(crate) fn at(planned: &[PlannedRequest], index: usize, error: Invalid) -> Invalid {
    match planned.get(index) {
        Some(request) => in_request(&format!("driver.requests[{index}]"), &request.name)(error),
        None => error,
    }
}

/// Returns the choice of each group.
fn choices(plan: &Plan<Settings>) -> Result<Vec<Choice>, Invalid> {
    let requests = &plan.driver.requests;
    for (index, request) in requests.iter().enumerate() {
        let is_known = |name: &String| plan.groups.iter().any(|group| group.name == *name);
        if let Some(group) = request.group.as_ref().filter(|name| !is_known(name)) {
            let known: Vec<&str> = plan
                .groups
                .iter()
                .map(|group| group.name.as_str())
                .collect();
            let problem = format!(
                "there is no group `{group}`: use one of {}",
                known.join(", ")
            );
            return Err(at(requests, index, Invalid::new("group", problem)));
        }
    }
    let is_in_turn = plan.driver.order == Order::Sequential;
    if is_in_turn && requests.is_empty() {
        let problem = "is the order of [[driver.requests]], and there are none: leave it out";
        return Err(Invalid::new("driver.order", problem));
    }
    let strides = plan.schedules(Share::ALL);
    let choice = |(index, group): (usize, &Group)| {
        let weight = |request: &PlannedRequest| match &request.group {
            Some(name) if *name != group.name => 0,
            _ => request.weight,
        };
        let weights: Vec<u32> = requests.iter().map(weight).collect();
        if requests.is_empty() {
            return Ok(Choice::ByWeight(Weights::new(&[1], 0)));
        }
        if weights.iter().all(|weight| *weight == 0) {
            let problem = format!(
                "no request of the group `{}` has a weight above 0: add one, or leave the group out",
                group.name
            );
            return Err(Invalid::new("driver.requests", problem));
        }
        if is_in_turn {
            return Ok(Choice::in_turn(&weights, strides[index].stride()));
        }
        let seed = plan.seed.wrapping_add(index as u64);
        Ok(Choice::ByWeight(Weights::new(&weights, seed)))
    };
    plan.groups.iter().enumerate().map(choice).collect()
}

/// Returns the series of each name: several requests may share one.
fn series_of(requests: &[PlannedRequest]) -> Result<BTreeMap<&str, Series>, Invalid> {
    if requests.len() > MOST_REQUESTS {
        let problem = format!(
            "{} are more than {MOST_REQUESTS}: leave some out",
            requests.len()
        );
        return Err(Invalid::new("driver.requests", problem));
    }
    let mut series = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        let name = request.name.as_str();
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_own = SPEC.series.iter().any(|own| own.name == name);
        let problem = if name.is_empty() || !name.bytes().all(is_of_name) {
            format!(
                "`{name}` is not a name: use letters, digits, _ and -, because thresholds use it (NAME.p99)"
            )
        } else if is_own || RESERVED.contains(&name) {
            format!("`{name}` has a meaning in thresholds: use another name")
        } else {
            let next = Series(SPEC.series.len() + series.len());
            series.entry(name).or_insert(next);
            continue;
        };
        return Err(Invalid::new(
            format!("driver.requests[{index}].name"),
            problem,
        ));
    }
    Ok(series)
}

fn failed_as(name: &str) -> String {
    format!("failed_{name}")
}

/// The protocol of daemons that answer with event streams.
pub(crate) const EVENTS: &str = "events";

/// Returns the specification of a plan's runs: the driver's own, with a series and a counter for each name of a request,
/// and the protocol of the plan.
pub(crate) fn spec(plan: &Plan<Settings>) -> &'static Spec {
    let Ok(named) = series_of(&plan.driver.requests) else {
        return &SPEC;
    };
    if named.is_empty() && !plan.driver.events {
        return &SPEC;
    }
    let mut names: Vec<(&str, Series)> = named.into_iter().collect();
    names.sort_unstable_by_key(|(_, series)| series.0);
    let mut spec = SPEC.clone();
    if plan.driver.events {
        spec.protocol = EVENTS.into();
    }
    for (name, _) in names {
        let label = name.to_owned();
        spec.series.to_mut().push(SeriesSpec {
            name: label.clone().into(),
            label: label.into(),
            ..SeriesSpec::new("", SeriesRole::Detail)
        });
        let failed = failed_as(name);
        spec.counters.to_mut().push(CounterSpec {
            name: failed.clone().into(),
            label: failed.into(),
            ..CounterSpec::new("", "", CounterRole::Detail)
        });
    }
    // Tallies name their series for as long as the program runs, and a program has one run.
    Box::leak(Box::new(spec))
}
