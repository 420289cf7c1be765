//! The values that requests need from the answers to others: the request that gives each, in each group.

use load::plan::{Group, Invalid, Plan};
use traffic::Source;

use super::{Mix, at};
use crate::requests::Requests;
use crate::settings::Settings;
use crate::settings::planned::PlannedRequest;

/// The needs of all requests.
#[derive(Debug)]
pub(crate) struct Needs {
    /// The values that each request needs and that are not there before the run.
    of: Vec<Vec<usize>>,
    /// The first request of each group that gives a value.
    givers: Vec<Vec<Option<u16>>>,
}

impl Needs {
    /// Finds the needs of the requests of a plan.
    ///
    /// # Errors
    /// A value that no request of the same group gives, or that is needed for itself.
    pub(crate) fn new(
        plan: &Plan<Settings>,
        mix: &Mix,
        requests: &[Requests],
    ) -> Result<Self, Invalid> {
        let planned = &plan.driver.requests;
        let is_given = |value: &usize| mix.setup.as_ref().is_some_and(|setup| setup.gives(*value));
        let of = requests.iter().zip(&mix.requests).map(|(requests, own)| {
            let values = requests.sources().filter_map(|source| match source {
                Source::Value(value) => Some(value),
                Source::Column(_) => None,
            });
            let mut needs: Vec<usize> = values.filter(|value| !is_given(value)).collect();
            needs.extend(own.after);
            needs.dedup();
            needs
        });
        let giver = |group: &Group, value: usize| {
            let gives = |(index, planned): (usize, &PlannedRequest)| {
                is_of(planned, group) && mix.requests[index].gives(value)
            };
            let giver = planned.iter().enumerate().position(gives);
            giver.map(|index| index as u16)
        };
        let values = 0..mix.names.values.len();
        let givers = plan.groups.iter().map(|group| {
            let values = values.clone();
            values.map(|value| giver(group, value)).collect()
        });
        let needs = Self {
            of: of.collect(),
            givers: givers.collect(),
        };
        for (index, group) in plan.groups.iter().enumerate() {
            let own = planned.iter().enumerate();
            for (request, _) in own.filter(|(_, planned)| is_of(planned, group)) {
                needs.check(mix, index, request, &mut Vec::new()).map_err(
                    |(request, problem)| {
                        let field =
                            Invalid::new("capture", format!("{problem} (group `{}`)", group.name));
                        at(planned, request, field)
                    },
                )?;
            }
        }
        Ok(needs)
    }

    /// Checks that a request can get what it needs; `chain` are the requests that need it.
    fn check(
        &self,
        mix: &Mix,
        group: usize,
        request: usize,
        chain: &mut Vec<usize>,
    ) -> Result<(), (usize, String)> {
        if chain.contains(&request) {
            let problem = "it needs a value that is captured only by a request that needs one of its own: let a request without needs capture it";
            return Err((request, problem.to_owned()));
        }
        chain.push(request);
        for value in &self.of[request] {
            let Some(giver) = self.givers[group][*value] else {
                let name = &mix.names.values[*value];
                let problem = match name.split_once(':') {
                    Some((_, before)) => format!(
                        "the request `{before}` before it is of another group: let all groups send it"
                    ),
                    None => format!(
                        "it needs `{name}`, which no request of its group captures: add it to one, or to driver.setup"
                    ),
                };
                return Err((request, problem));
            };
            self.check(mix, group, usize::from(giver), chain)?;
        }
        chain.pop();
        Ok(())
    }

    /// Returns true if no request needs anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.iter().all(Vec::is_empty)
    }

    /// Returns the values that a request needs.
    pub(crate) fn of_request(&self, request: u16) -> &[usize] {
        &self.of[usize::from(request)]
    }

    /// Returns the request of a group that gives a value.
    pub(crate) fn giver(&self, group: u16, value: usize) -> Option<u16> {
        self.givers[usize::from(group)][value]
    }

    /// Returns the request of any group that gives a value.
    pub(crate) fn any_giver(&self, value: usize) -> Option<u16> {
        self.givers.iter().find_map(|givers| givers[value])
    }
}

/// Returns true if the clients of a group send a request.
fn is_of(request: &PlannedRequest, group: &Group) -> bool {
    request
        .group
        .as_ref()
        .is_none_or(|name| *name == group.name)
}
