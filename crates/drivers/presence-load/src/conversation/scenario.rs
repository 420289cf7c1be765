//! Scenarios: the order in which a user performs the steps of the load.

use load::plan::Invalid;
use traffic::Weights;

use super::{Conversation, in_conversation};
use crate::settings;

/// The index of a step that is drawn, as the first one of a scenario.
const DRAWN: u16 = u16::MAX;

/// The progress of a user through its scenarios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Number of operations so far.
    operations: u32,
    /// The index of the next step, or [`DRAWN`].
    next: u16,
    /// Number of times that the next step is performed again; 0 before the first.
    left: u16,
}

/// A step of a plan, with its field.
pub(super) type Planned<'p> = (String, &'p settings::Step);

/// A scenario of a plan.
pub(super) struct Scenario<'p> {
    weight: u32,
    /// The field of its weight.
    field: String,
    pub(super) steps: Vec<Planned<'p>>,
}

/// The choice of the next scenario.
#[derive(Debug)]
pub(super) struct Choice {
    weights: Weights,
    /// The index of the first step of each scenario.
    first: Vec<u16>,
}

/// Returns the scenarios of a plan.
///
/// # Errors
/// The first field that is invalid, with the remedy.
pub(super) fn scenarios(planned: &settings::Conversation) -> Result<Vec<Scenario<'_>>, Invalid> {
    let plain = fields("steps", &planned.steps);
    let mut scenarios = Vec::new();
    for (index, planned) in planned.scenarios.iter().enumerate() {
        let name = format!("scenarios[{index}]");
        let steps = fields(&format!("{name}.steps"), &planned.steps);
        if steps.is_empty() {
            let problem = "are missing: add what a user sends, or leave the scenario out";
            return Err(Invalid::new(
                in_conversation(&format!("{name}.steps")),
                problem,
            ));
        }
        if let Some((field, _)) = steps.iter().find(|(_, step)| step.weight.is_some()) {
            let problem = format!(
                "is of all steps together: give it to {}",
                in_conversation(&name)
            );
            return Err(Invalid::new(format!("{field}.weight"), problem));
        }
        scenarios.push(Scenario {
            weight: planned.weight.unwrap_or(1),
            field: in_conversation(&format!("{name}.weight")),
            steps,
        });
    }
    match (plain.is_empty(), scenarios.is_empty()) {
        (true, true) => {
            let problem = "are missing: add [[driver.conversation.steps]] with what users send during the load";
            return Err(Invalid::new(in_conversation("steps"), problem));
        }
        (false, false) => {
            let problem =
                "are beside `steps`: leave out one of the two, because `steps` are a scenario";
            return Err(Invalid::new(in_conversation("scenarios"), problem));
        }
        (true, false) => {}
        (false, true) if plain.iter().all(|(_, step)| step.weight.is_none()) => {
            scenarios.push(Scenario {
                weight: 1,
                field: String::new(),
                steps: plain,
            });
        }
        (false, true) => scenarios.extend(plain.into_iter().map(|(field, step)| Scenario {
            weight: step.weight.unwrap_or(1),
            field: format!("{field}.weight"),
            steps: vec![(field, step)],
        })),
    }
    if scenarios.iter().all(|scenario| scenario.weight == 0) {
        let problem = "has a weight of 0, as all others: nothing would be sent; give it a weight of 1 or more";
        return Err(Invalid::new(&scenarios[0].field, problem));
    }
    Ok(scenarios)
}

/// Returns steps with their fields.
pub(super) fn fields<'p>(list: &str, steps: &'p [settings::Step]) -> Vec<Planned<'p>> {
    let numbered = steps.iter().enumerate();
    let named = numbered.map(|(index, step)| (in_conversation(&format!("{list}[{index}]")), step));
    named.collect()
}

impl Choice {
    /// Returns the choice among scenarios, and for each of their steps the index of the next one. A single scenario is
    /// not drawn.
    pub(super) fn new(scenarios: &[Scenario<'_>], seed: u64) -> (Option<Self>, Vec<u16>) {
        let (mut first, mut next) = (Vec::new(), Vec::new());
        for scenario in scenarios {
            first.push(next.len() as u16);
            next.extend((next.len() as u16 + 1..).take(scenario.steps.len() - 1));
            next.push(if scenarios.len() == 1 { 0 } else { DRAWN });
        }
        let weights: Vec<u32> = scenarios.iter().map(|scenario| scenario.weight).collect();
        let choice = (scenarios.len() > 1).then(|| Self {
            weights: Weights::new(&weights, seed),
            first,
        });
        (choice, next)
    }
}

impl Conversation {
    /// Returns the progress of a user before its first operation.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            operations: 0,
            next: self.begin(),
            left: 0,
        }
    }

    fn begin(&self) -> u16 {
        if self.choice.is_some() { DRAWN } else { 0 }
    }

    /// Lets a user begin a new scenario.
    pub(crate) fn begin_again(&self, progress: &mut Progress) {
        (progress.next, progress.left) = (self.begin(), 0);
    }

    /// Takes the index of the next step of a user.
    #[inline]
    pub(crate) fn take_step(&self, user: u32, progress: &mut Progress) -> u16 {
        let number = u64::from(user) << 32 | u64::from(progress.operations);
        progress.operations = progress.operations.wrapping_add(1);
        let index = match &self.choice {
            Some(choice) if progress.next == DRAWN => choice.first[choice.weights.pick(number)],
            _ => progress.next,
        };
        let step = &self.steps[usize::from(index)];
        progress.next = step.next;
        if let Some(repeat) = &step.repeat {
            if progress.left == 0 {
                progress.left = repeat.count(self.seed, number);
            }
            progress.left -= 1;
            if progress.left > 0 {
                progress.next = index;
            }
        }
        index
    }
}
